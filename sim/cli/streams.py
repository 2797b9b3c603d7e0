"""The standard streams, where somebody has closed them or taken them away."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}  # their descriptors are 0, 1 and 2


def open_streams() -> None:
    """Put the null device where a standard stream was closed before the start."""
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 (for good)


@contextmanager
def streams_kept() -> Iterator[None]:
    """Have the standard streams behind the block that were there before it, and open."""
    before = {name: getattr(sys, name) for name in _MODES}
    try:
        yield
    finally:
        for descriptor, (name, stream) in enumerate(before.items()):
            is_closed = getattr(stream, "closed", False)
            setattr(sys, name, _reopened(descriptor, _MODES[name]) if is_closed else stream)


def _reopened(descriptor: int, mode: str) -> IO[str]:
    """Open a standard stream again; where its descriptor is closed, too, the null device."""
    try:
        return open(descriptor, mode, errors="backslashreplace", closefd=False)  # noqa: SIM115, PTH123
    except OSError:
        return open(os.devnull, mode)  # noqa: SIM115, PTH123 (for good)
