"""Memory curves: how many bytes an allocator held over time, as profiles recorded it.

A curve is no trace: it says nothing of operators. A replay is held against it
(``rematsim compare-memory``). The formats are told apart by content, each read by a module of
``importers/``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..errors import TraceError
from .wording import show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .contents import Content
    from .importers.reader import Request

    Int64 = NDArray[np.int64]

MAX_MOVED = 2**62  # bytes of all events together: any sum of some of them fits into 64 bits

# Modules with FORMAT, recognizes(head) and read_curve(content, where, device).
READERS = ("memory_snapshot", "kineto", "memory_timeline")


@dataclass(frozen=True, eq=False)
class Curve:
    """Bytes that an allocator held.

    Attributes
    ----------
    name, source, format : str
        The file's stem, the file, what it is.
    device : str
        Whose memory: ``cuda:0``, ``cpu``.
    time_ns : ndarray of int64
        Ascending, from 0; the number of the event where the profile has no times.
    allocated_bytes : ndarray of int64
        From each time on.
    start_bytes : int
        Before the first event.
    reserved_bytes : ndarray of int64 or None
        What the allocator had taken from the device.
    is_relative : bool
        Whether bytes count from what was held when the profile began, which it does not say.
    """

    name: str
    source: str
    format: str
    device: str
    time_ns: Int64
    allocated_bytes: Int64
    start_bytes: int = 0
    reserved_bytes: Int64 | None = None
    is_relative: bool = False


def load_curve(path: str | os.PathLike[str], *, device: str | None = None) -> Curve:
    """Read the memory curve of a profile.

    Parameters
    ----------
    path : str or path
        A CUDA memory snapshot (.pickle), a Kineto trace made with ``profile_memory``, or a memory
        timeline (.json); plain or packed, ``x.zip::NAME`` for one of a zip, ``-`` for standard
        input.
    device : str, optional
        Whose memory (``cuda:1``, ``cpu``); by default the one that holds most.

    Returns
    -------
    Curve

    Raises
    ------
    TraceError
        It is none of these, is damaged, or has no memory events of the device.
    """
    from .loading import open_content

    content = open_content(path)
    reader = reader_of(content)
    if reader is None:
        known = "a CUDA memory snapshot, a Kineto trace or a memory timeline"
        raise TraceError(f"no memory curve in it: it is not {known}", content.where)
    curve: Curve = reader.read_curve(content, device)
    return curve


def reader_of(content: Content) -> Any:
    """Find the module that reads a profile; None: it is none."""
    head = content.head
    readers = (import_module(f".importers.{name}", __package__) for name in READERS)
    return next((reader for reader in readers if reader.recognizes(head)), None)


def choose_device(sizes: dict[str, int], device: str | None, where: str) -> str:
    """Choose whose memory is meant: the one asked for, or the one that holds most.

    Parameters
    ----------
    sizes : dict of str to int
        Bytes allocated on each device that there are events of.
    device : str or None
    where : str
        The file, for messages.

    Raises
    ------
    TraceError
        There are no events of it, or of any.
    """
    if not sizes:
        hint = "record it with profile_memory, or with a memory history"
        raise TraceError(f"no memory events in it: {hint}", where)
    if device is None:
        gpus = {name: size for name, size in sizes.items() if name != "cpu"}
        return max((gpus or sizes).items(), key=lambda item: item[1])[0]
    if device not in sizes:
        there = ", ".join(sizes)
        raise TraceError(f"no memory events of {show(device)}; there are of {there}", where)
    return device


def bytes_moved(changes: Int64) -> int:
    """Count the bytes that events move, taken or freed: nearly, but never beyond 64 bits."""
    return int(np.abs(changes.astype(np.float64)).sum())


def running_bytes(changes: Int64, where: str) -> Int64:
    """Add up what events take (and free, negative): the bytes held after each.

    Raises
    ------
    TraceError
        They move more than 64 bits hold.
    """
    if bytes_moved(changes) > MAX_MOVED:
        raise TraceError("its events move more than 2^62 bytes: no machine does", where)
    return np.cumsum(changes)


def refusing(what: str) -> Callable[[Request], NoReturn]:
    """Give the ``read`` of a reader whose files hold curves: it makes no trace and says so."""

    def read(request: Request) -> NoReturn:
        hint = "use compare-memory to hold a replay against it"
        rule = "it names no operators, so no trace can be made of it"
        raise TraceError(f"{what}: {rule}; {hint}", request.where)

    return read
