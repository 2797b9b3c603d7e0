"""Memory curves from the profiler's memory timelines (``export_memory_timeline``, JSON).

Two forms: times with bytes by category, and (``.raw.json.gz``) single events. The HTML form holds
a picture and is not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ...errors import TraceError
from ..curves import Curve, refusing, running_bytes
from ..wording import reason

if TYPE_CHECKING:
    from ..contents import Content

FORMAT = "memory timeline"
read = refusing("a memory timeline")

# Actions of raw events, as torch.profiler._memory_profiler numbers them.
PREEXISTING, CREATE, INCREMENT_VERSION, DESTROY = 1, 2, 3, 4
SIGNS = {PREEXISTING: 1, CREATE: 1, DESTROY: -1}  # what is destroyed has negative bytes, too
MAX_BYTES = 2**53
MAX_TIMELINE_BYTES = 256 << 20

_BEGIN = re.compile(rb"\s*\[\s*\[\s*-?\d")
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def recognizes(head: bytes) -> bool:
    """Say whether it begins with lists of numbers in a list."""
    return bool(_BEGIN.match(head))


def read_curve(content: Content, device: str | None) -> Curve:
    """Read the curve; a timeline is of one device, and does not say of which.

    Raises
    ------
    TraceError
        It is no timeline.
    """
    data = content.bytes()
    if len(data) > MAX_TIMELINE_BYTES:
        raise TraceError(f"larger than {MAX_TIMELINE_BYTES:,} bytes", content.where)
    try:
        rows = _by_category(data)
        if rows is None:
            rows = _raw(data, content.where)
    except _FAILURES as error:
        raise TraceError(f"no memory timeline ({reason(error)})", content.where) from None
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"no memory timeline: {error}", content.where) from None
    time, allocated, start = rows
    if not len(time):
        raise TraceError("a memory timeline without events", content.where)
    time = np.maximum.accumulate(time - time[0])
    return Curve(content.name, content.where, FORMAT, device or "unknown", time, allocated, start)


def _by_category(data: bytes) -> tuple[Any, Any, int] | None:
    """Read times and bytes by category; None if it is the other form."""
    try:
        times, sizes = msgspec.json.decode(data, type=tuple[list[int], list[list[int]]])
    except msgspec.ValidationError:
        return None
    if len(times) != len(sizes):
        raise ValueError(f"{len(times):,} times and {len(sizes):,} sizes")
    totals = [sum(row) for row in sizes]
    _check(times, totals, 2**62 // 1000)
    return np.array(times, np.int64) * 1000, np.array(totals, np.int64), sum(totals[:1])


def _raw(data: bytes, where: str) -> tuple[Any, Any, int]:
    """Read events: time in ns, action, bytes, category."""
    events = msgspec.json.decode(data, type=list[tuple[int, int, int, int]])
    _check([event[0] for event in events], [abs(event[2]) for event in events], 2**62)
    events.sort(key=lambda event: event[0])
    changes = [SIGNS.get(action, 0) * abs(size) for _, action, size, _ in events]
    time = np.array([max(event[0], 0) for event in events], np.int64)
    is_before = np.array([event[0] < 0 for event in events], bool)
    first = time[~is_before].min(initial=2**62)
    sums = running_bytes(np.array(changes, np.int64), where)
    n_before = int(is_before.sum())
    kept = slice(max(n_before - 1, 0), None)
    start = int(sums[n_before - 1]) if n_before else 0
    return np.where(is_before, first, time)[kept], sums[kept], start


def _check(times: list[int], sizes: list[int], latest: int) -> None:
    """Refuse what does not fit into 64 bits."""
    if not all(-1 <= time <= latest for time in times):
        raise ValueError("a time that is none")
    if not all(0 <= size <= MAX_BYTES for size in sizes):
        raise ValueError("a size that is not from 0 to 2^53")
