"""Kineto (Chrome) traces of the PyTorch profiler: when operators ran, kernels, memory events.

Such a trace names no tensors, so that none can be replayed alone: it goes with the execution trace
of the same run, or is a memory curve (``curves.py``). It is read as a stream; only numbers are
kept, so that a file of a gigabyte takes a few hundred megabytes at most.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Container
from typing import IO, TYPE_CHECKING, Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ..wording import reason
from .json_stream import ElementStream
from .reader import Request

if TYPE_CHECKING:
    from ..contents import Content
    from ..curves import Curve
    from ..memory_events import MemoryEvents

FORMAT = "Kineto trace"
IS_COMPANION = True

OPERATORS = frozenset(["cpu_op", "operator"])
LAUNCHES = frozenset(["cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime"])
DEVICE_WORK = frozenset(
    ["kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "gpu_user_annotation_kernel"]
)
MEMORY = "[memory]"
CPU = 0  # the type of device of memory events
MAX_TIME_US = 9e15  # in ns, more do not fit into 64 bits
MAX_COUNT = 2**62
MAX_BYTES = 2**53  # of an event
MAX_NAMES = 1 << 16  # of threads, and of operators that are wanted

_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)

Int64 = NDArray[np.int64]


def recognizes(head: bytes) -> bool:
    """Say whether it is an object with trace events, or with what Kineto writes before them."""
    if not head.lstrip().startswith(b"{"):
        return False
    is_kineto = b'"schemaVersion"' in head and b'"deviceProperties"' in head
    return is_kineto or b'"traceEvents"' in head


def read(request: Request) -> NoReturn:
    """Refuse: alone it makes no trace.

    Raises
    ------
    TraceError
        Always.
    """
    rule = "it names no tensors, so no trace can be made of it alone"
    hint = "give it beside the execution trace of the same run, or use compare-memory"
    raise TraceError(f"a Kineto trace: {rule}; {hint}", request.where)


class _Args(msgspec.Struct):
    correlation: int | None = None
    record: int | None = msgspec.field(default=None, name="Record function id")
    index: int | None = msgspec.field(default=None, name="Ev Idx")
    bytes: int | None = msgspec.field(default=None, name="Bytes")
    address: int | None = msgspec.field(default=None, name="Addr")
    device_type: int | None = msgspec.field(default=None, name="Device Type")
    device: int | None = msgspec.field(default=None, name="Device Id")
    allocated: int | None = msgspec.field(default=None, name="Total Allocated")
    reserved: int | None = msgspec.field(default=None, name="Total Reserved")


class _Event(msgspec.Struct):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    tid: int | str | None = None
    ts: float | None = None
    dur: float | None = None
    args: _Args | None = None


_DECODER = msgspec.json.Decoder(list[_Event])


class Columns:
    """Rows of integers, kept as arrays.

    Parameters
    ----------
    names : str
        Of the columns, apart by blanks.
    """

    def __init__(self, names: str) -> None:
        self.names = names.split()
        self._rows = array("q")

    def append(self, *row: int) -> None:
        """Add a row."""
        self._rows.extend(row)

    def __len__(self) -> int:
        """Count rows."""
        return len(self._rows) // len(self.names)

    def arrays(self) -> dict[str, Int64]:
        """Give each column, as a view of the rows."""
        table = np.frombuffer(self._rows, np.int64).reshape(-1, len(self.names))
        return {name: table[:, k] for k, name in enumerate(self.names)}


class Profile:
    """What is kept of a Kineto trace.

    Parameters
    ----------
    where : str
        The file, for messages.

    Attributes
    ----------
    operators : Columns
        Name (position in ``names``), thread, start and duration in ns, record-function id and
        event index (-1: none).
    launches, work : Columns
        Correlation, thread and start; correlation and duration of kernels and copies.
    memory : Columns
        Thread, start, address, bytes (negative: freed), device type, device, total allocated,
        total reserved (-1: none).
    names, threads : dict of str to int
    n_events : int
    device : str
        Name of the first GPU, or empty.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.names: dict[str, int] = {}
        self.threads: dict[str, int] = {}
        self.operators = Columns("name thread start_ns duration_ns record index")
        self.launches = Columns("correlation thread start_ns")
        self.work = Columns("correlation duration_ns")
        self.memory = Columns("thread start_ns address bytes device_type device allocated reserved")
        self.n_events = 0
        self.device = ""

    def take(self, event: _Event, wanted: Container[str]) -> None:
        """Keep what matters of an event."""
        args = event.args or _NO_ARGS
        if event.name == MEMORY:
            self._take_memory(event, args)
            return
        kind = (event.cat or "").lower()
        if kind in OPERATORS:
            name = event.name or ""
            if name in wanted:
                self.operators.append(
                    _number(self.names, name),
                    self._thread(event),
                    _ns(event.ts),
                    _ns(event.dur),
                    _count(args.record),
                    _count(args.index),
                )
        elif args.correlation is not None and kind in LAUNCHES:
            self.launches.append(args.correlation, self._thread(event), _ns(event.ts))
        elif args.correlation is not None and kind in DEVICE_WORK:
            self.work.append(args.correlation, _ns(event.dur))

    def _take_memory(self, event: _Event, args: _Args) -> None:
        if args.bytes is None:
            return
        if abs(args.bytes) > MAX_BYTES:
            raise ValueError(f"an event of {args.bytes} bytes")
        self.memory.append(
            self._thread(event),
            _ns(event.ts),
            _count(args.address),
            args.bytes,
            _count(args.device_type),
            _count(args.device),
            _count(args.allocated),
            _count(args.reserved),
        )

    def _thread(self, event: _Event) -> int:
        return _number(self.threads, str(event.tid))


_NO_ARGS = _Args()


def _number(numbers: dict[str, int], name: str) -> int:
    """Give the number of a name."""
    found = numbers.get(name)
    if found is None:
        if len(numbers) >= MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES:,} threads or operators of different names")
        found = numbers[sys.intern(name)] = len(numbers)
    return found


def _ns(us: float | None) -> int:
    """Give microseconds as nanoseconds."""
    if us is None:
        return 0
    if not -MAX_TIME_US < us < MAX_TIME_US:
        raise ValueError(f"a time of {us} us")
    return round(us * 1000)


def _count(value: int | None) -> int:
    """Give a count, or -1; addresses may have all 64 bits."""
    if value is None:
        return -1
    return value if -1 <= value < MAX_COUNT else value % MAX_COUNT


def read_profile(file: IO[bytes], where: str, wanted: Container[str]) -> Profile:
    """Read a Kineto trace as a stream.

    Parameters
    ----------
    file : IO of bytes
    where : str
        How messages call it.
    wanted : container of str
        Names of the operators that matter; others are passed over.

    Returns
    -------
    Profile

    Raises
    ------
    TraceError
        It is cut off, or an event is not what the profiler writes.
    """
    stream = ElementStream(file, "traceEvents", where)
    profile = Profile(where)
    for block in stream.blocks():
        try:
            events = _DECODER.decode(block)
            for event in events:
                profile.take(event, wanted)
        except (*_FAILURES, ValueError) as error:
            what = (
                f"one of the events after the first {profile.n_events:,} is none of the profiler's"
            )
            raise TraceError(f"{what} ({reason(error)})", where) from None
        profile.n_events += len(events)
    profile.device = _device(stream.rest)
    return profile


def _device(rest: dict[str, Any]) -> str:
    """Name the first GPU."""
    properties = rest.get("deviceProperties")
    if isinstance(properties, list) and properties and isinstance(properties[0], dict):
        return str(properties[0].get("name", ""))
    return ""


def read_curve(content: Content, device: str | None) -> Curve:
    """Read the memory curve of one device.

    Parameters
    ----------
    content : Content
    device : str or None
        As in ``load_curve``.

    Returns
    -------
    Curve
        Relative where the events have no totals (builds of 2021).

    Raises
    ------
    TraceError
        It is cut off, or has no memory events.
    """
    from ..curves import Curve, running_bytes

    chosen, events = _memory_of(content, device)
    time = events["start_ns"] - events["start_ns"][0]
    first = int(events["bytes"][0])
    totals, reserved = events["allocated"], events["reserved"]
    is_relative = not _has_totals(events)
    if is_relative:
        sums = running_bytes(events["bytes"], content.where)
        totals = sums - min(int(sums.min()), 0)
    return Curve(
        content.name,
        content.where,
        FORMAT,
        chosen,
        time,
        totals,
        int(totals[0]) - first,
        reserved if (reserved > 0).all() else None,
        is_relative,
    )


def read_events(content: Content, device: str | None) -> MemoryEvents:
    """Read the allocator's events on one device.

    Parameters
    ----------
    content : Content
    device : str or None
        As in ``load_curve``.

    Returns
    -------
    MemoryEvents
        In bytes of blocks.

    Raises
    ------
    TraceError
        It is cut off, has no memory events, or they have no addresses (builds of 2021).
    """
    from ..curves import running_bytes
    from ..memory_events import ALLOC, FREE, MemoryEvents

    chosen, events = _memory_of(content, device)
    if (events["address"] < 0).any():
        hint = "builds of 2021 write none"
        raise TraceError(f"a memory event without an address: {hint}", content.where)
    changes, reserved = events["bytes"], events["reserved"]
    sums = running_bytes(changes, content.where)
    found = MemoryEvents(
        content.name,
        content.where,
        FORMAT,
        chosen,
        np.where(changes > 0, ALLOC, FREE),
        events["address"],
        np.abs(changes),
        events["allocated"] if _has_totals(events) else sums,
        reserved if (reserved > 0).all() else None,
    )
    return found.without_empty()


def _has_totals(events: dict[str, Int64]) -> bool:
    """Say whether events tell what is allocated after them."""
    totals = events["allocated"]
    return bool((totals >= 0).all() and totals.any())


def _memory_of(content: Content, device: str | None) -> tuple[str, dict[str, Int64]]:
    """Choose a device, and give its memory events in order of time."""
    from ..curves import bytes_moved, choose_device

    profile = read_profile(content.open(), content.where, frozenset())
    events = profile.memory.arrays()
    kinds, numbers = events["device_type"], events["device"]
    sizes: dict[str, int] = {}
    for kind, number in set(zip(kinds.tolist(), numbers.tolist(), strict=True)):
        mine = (kinds == kind) & (numbers == number) & (events["bytes"] > 0)
        name = _device_name(kind, number)
        sizes[name] = sizes.get(name, 0) + bytes_moved(events["bytes"][mine])
    chosen = choose_device(dict(sorted(sizes.items())), device, content.where)
    names = [_device_name(*pair) for pair in zip(kinds.tolist(), numbers.tolist(), strict=True)]
    rows = np.flatnonzero(np.array(names) == chosen)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    return chosen, {name: column[rows] for name, column in events.items()}


def _device_name(kind: int, number: int) -> str:
    """Name a device as PyTorch does: type 0 is the CPU, others are accelerators."""
    return "cpu" if kind == CPU else f"cuda:{max(number, 0)}"
