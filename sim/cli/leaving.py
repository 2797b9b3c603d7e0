"""How the process ends, also where a script that was ended early has left threads behind."""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn

GRACE_SECONDS = 5.0

_is_urgent = threading.Event()


def do_not_wait() -> None:
    """Say that threads and processes which are left may wait for ever: a script was ended early."""
    _is_urgent.set()


def leave(code: int) -> NoReturn:
    """End the process; threads and processes that hold it up get some seconds, if it is urgent."""
    if _is_urgent.is_set():
        last = threading.Timer(GRACE_SECONDS, _end_now, (code,))
        last.daemon = True
        last.start()
    sys.exit(code)


def _end_now(code: int) -> NoReturn:
    """End without waiting for anybody."""
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
