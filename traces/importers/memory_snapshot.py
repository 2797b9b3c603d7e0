"""Memory curves from CUDA memory snapshots (``torch.cuda.memory._dump_snapshot``).

A snapshot is a pickle of plain containers. It is loaded by an unpickler that refuses every global,
so that nothing in it can run, and in memory that is limited where the system can limit it.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...errors import TraceError
from ..curves import Curve, choose_device, refusing
from ..limiting import memory_limited
from ..wording import reason, show

if TYPE_CHECKING:
    from ..contents import Content

FORMAT = "CUDA memory snapshot"
read = refusing("a CUDA memory snapshot")

MAX_SNAPSHOT_BYTES = 512 << 20
MEMORY_FACTOR = 24  # of a pickle, unpacked into objects
MEMORY_BASE = 256 << 20
MAX_BYTES = 2**53

ALLOCATIONS = {"alloc": 1}
SEGMENTS = {"segment_alloc": 1, "segment_free": -1, "segment_map": 1, "segment_unmap": -1}
AWAITING_FREE = ("active_awaiting_free", "active_pending_free")  # the second in older builds

# What unpickling raises on what is damaged or hostile.
_FAILURES = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError,
    ImportError, OverflowError, RecursionError, MemoryError, UnicodeError, SystemError,
)  # fmt: skip


class _Unpickler(pickle.Unpickler):
    """An unpickler that makes plain containers and nothing else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse: a snapshot names no class or function."""
        raise pickle.UnpicklingError(
            f"it names {show(f'{module}.{name}')}, and a snapshot is plain containers: refused"
        )

    def persistent_load(self, identifier: Any) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError("it refers to objects outside: refused")


def recognizes(head: bytes) -> bool:
    """Say whether it is a pickle: of protocol 2 to 5, which say so."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def read_curve(content: Content, device: str | None) -> Curve:
    """Read the curve of one device.

    Parameters
    ----------
    content : Content
    device : str or None
        As in ``load_curve``.

    Returns
    -------
    Curve
        Of bytes allocated and reserved; at its end stands what the snapshot's segments say.

    Raises
    ------
    TraceError
        It is no snapshot, or has no history.
    """
    where = content.where
    data = content.bytes()
    if len(data) > MAX_SNAPSHOT_BYTES:
        hint = "record fewer entries (max_entries)"
        raise TraceError(f"larger than {MAX_SNAPSHOT_BYTES:,} bytes: {hint}", where)
    snapshot = _load(data, where)
    traces = _list(snapshot.get("device_traces"), "device_traces", where)
    histories = {f"cuda:{k}": history for k, history in enumerate(traces) if history}
    n_events = sum(len(_list(h, "a device's trace", where)) for h in histories.values())
    if n_events > len(data):
        raise TraceError(f"{n_events:,} events in {len(data):,} bytes: one is given twice", where)
    moved = {name: _moved(history, where) for name, history in histories.items()}
    moved = {name: rows for name, rows in moved.items() if len(rows)}
    chosen = choose_device(
        {name: int(np.abs(rows[:, 1]).sum()) for name, rows in moved.items()}, device, where
    )
    rows = moved[chosen]
    is_completed = _is_completed(histories[chosen])
    allocated, reserved = _final(snapshot, int(chosen[5:]), is_completed, where)
    allocations, reservations = np.cumsum(rows[:, 1]), np.cumsum(rows[:, 2])
    time = rows[:, 0] if (rows[:, 0] > 0).all() else np.arange(len(rows))
    is_relative = allocated is None
    base = (
        -int(allocations.min(initial=0)) if allocated is None else allocated - int(allocations[-1])
    )
    floor = (
        -int(reservations.min(initial=0)) if reserved is None else reserved - int(reservations[-1])
    )
    return Curve(
        content.name,
        where,
        FORMAT,
        chosen,
        np.maximum.accumulate(time - time[0]),
        allocations + base,
        base,
        reservations + floor,
        is_relative,
    )


def _load(data: bytes, where: str) -> dict[str, Any]:
    """Unpickle."""
    try:
        with memory_limited(MEMORY_FACTOR * len(data) + MEMORY_BASE):
            snapshot = _Unpickler(BytesIO(data)).load()
    except _FAILURES as error:
        raise TraceError(f"no memory snapshot, or damaged ({reason(error)})", where) from None
    if not isinstance(snapshot, dict) or "device_traces" not in snapshot:
        raise TraceError("no memory snapshot: a pickle without device_traces", where)
    return snapshot


def _list(value: Any, what: str, where: str) -> list[Any]:
    """Give a list."""
    if not isinstance(value, list):
        raise TraceError(f"{what} is {show(value)}: a snapshot has a list there", where)
    return value


def _is_completed(history: list[Any]) -> bool:
    """Say whether a history tells when frees complete."""
    return any(
        isinstance(event, dict) and event.get("action") == "free_completed" for event in history
    )


def _moved(history: list[Any], where: str) -> Any:
    """Give time in ns, and bytes allocated and reserved, of each event that moves any.

    Notes
    -----
    A free is counted when it completes; in a history that has no completions, when it is asked for.
    """
    freed = "free_completed" if _is_completed(history) else "free_requested"
    signs = ALLOCATIONS | {freed: -1}
    rows = []
    for event in history:
        if not isinstance(event, dict):
            raise TraceError(f"event {show(event)} is no dictionary", where)
        action, size, time = event.get("action"), event.get("size", 0), event.get("time_us", 0)
        if not isinstance(action, str) or (action not in signs and action not in SEGMENTS):
            continue
        if not isinstance(size, int) or not 0 <= size <= MAX_BYTES:
            raise TraceError(f"size {show(size)} of an event is not from 0 to 2^53", where)
        if not isinstance(time, int) or not 0 <= time <= MAX_BYTES:
            raise TraceError(f"time_us {show(time)} of an event is not from 0 to 2^53", where)
        rows.append((time * 1000, signs.get(action, 0) * size, SEGMENTS.get(action, 0) * size))
    return np.array(rows, np.int64).reshape(-1, 3)


def _final(
    snapshot: dict[str, Any], device: int, is_completed: bool, where: str
) -> tuple[int | None, int | None]:
    """Add up what the segments of a device hold at the end; None: they do not say.

    Notes
    -----
    Events have the bytes that were asked for, so those are added up, and not what the allocator
    rounded them to (builds that say only that aside). They include blocks whose free was asked for
    and has not completed, which are left out where frees count when asked for.
    """
    segments = snapshot.get("segments")
    if segments is None:
        return None, None
    mine = [
        segment
        for segment in _list(segments, "segments", where)
        if isinstance(segment, dict) and segment.get("device") == device
    ]
    totals = (_total(mine, key) for key in ("requested_size", "active_size", "allocated_size"))
    held = next((total for total in totals if total is not None), None)
    if held is not None and not is_completed:
        held -= _total([block for s in mine for block in _awaiting_free(s)], "requested_size") or 0
    return held, _total(mine, "total_size")


def _total(parts: list[dict[str, Any]], key: str) -> int | None:
    """Add up sizes; None: one of them is missing, or is none."""
    sizes = [part.get(key) for part in parts]
    if not all(isinstance(size, int) and 0 <= size <= MAX_BYTES for size in sizes):
        return None
    return sum(sizes)  # type: ignore[arg-type]


def _awaiting_free(segment: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the blocks of a segment whose free was asked for and has not completed."""
    blocks = segment.get("blocks")
    if not isinstance(blocks, list):
        return []
    return [b for b in blocks if isinstance(b, dict) and b.get("state") in AWAITING_FREE]
