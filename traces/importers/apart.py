"""Libraries that may end their process, or never end, on what is damaged or hostile: run apart.

A module beside this one is started as a process: a file on standard input, an answer on standard
output. Whatever becomes of that process, this one says in words what was wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys

from ...errors import TraceError
from ..wording import reason


def ask(module: str, data: bytes, where: str, seconds: float) -> bytes:
    """Have another process read a file.

    Parameters
    ----------
    module : str
        Full name of the module that is run.
    data : bytes
        The file.
    where : str
        How messages call it.
    seconds : float
        How long it may take.

    Returns
    -------
    bytes
        What the module wrote.

    Raises
    ------
    TraceError
        It ended early, or took too long.
    """
    path = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module],  # -P: no module from the working folder
            input=data,
            capture_output=True,
            env=os.environ | {"PYTHONPATH": path},
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        rule = f"reading it takes more than {seconds:.0f} seconds: it is damaged or too large"
        raise TraceError(rule, where) from None
    except OSError as error:
        raise TraceError(f"no process to read it can be started ({reason(error)})", where) from None
    if done.returncode:
        rule = f"the process that reads it ended with {done.returncode}"
        raise TraceError(f"{rule}: it is damaged or too large", where)
    return done.stdout
