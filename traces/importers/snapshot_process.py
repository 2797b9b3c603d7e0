"""The process that unpickles a CUDA memory snapshot: what it moves on standard output.

``python -m rematsim.traces.importers.snapshot_process``. A pickle can end the process that loads
it or keep it busy for ever (a key is hashed, however deep it is), so ``memory_snapshot.py`` starts
this one. Its unpickler makes plain containers only, in memory that is limited.
"""

from __future__ import annotations

import pickle
import sys
from io import BytesIO
from typing import Any, NoReturn

import msgspec
import numpy as np

from ...errors import TraceError
from ..limiting import memory_limited
from ..memory_events import ALLOC, FREE, MAP, SEGMENT_ALLOC, SEGMENT_FREE, UNMAP
from ..wording import reason, show
from .memory_snapshot import Answer, History

MEMORY_FACTOR = 24  # of a pickle, unpacked into objects
MEMORY_BASE = 256 << 20
MAX_BYTES = 2**53
MAX_ADDRESS = 2**62

ACTIONS = {
    "alloc": ALLOC,
    "segment_alloc": SEGMENT_ALLOC,
    "segment_free": SEGMENT_FREE,
    "segment_map": MAP,
    "segment_unmap": UNMAP,
}
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the second in older builds
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


def main() -> None:
    """Answer."""
    data = sys.stdin.buffer.read()
    with memory_limited(MEMORY_FACTOR * len(data) + MEMORY_BASE):
        answer = answer_to(data)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


def answer_to(data: bytes) -> Answer:
    """Read a snapshot; say what is wrong if it is none."""
    try:
        snapshot = _load(data)
        return Answer(histories=_histories(snapshot, len(data)), settings=_settings(snapshot))
    except TraceError as error:
        return Answer(fault=str(error))
    except MemoryError:
        return Answer(fault="no memory snapshot: it unpacks to far more than one of its size")


def _load(data: bytes) -> dict[str, Any]:
    """Unpickle."""
    try:
        snapshot = _Unpickler(BytesIO(data)).load()
    except _FAILURES as error:
        raise TraceError(f"no memory snapshot, or damaged ({reason(error)})") from None
    if not isinstance(snapshot, dict) or "device_traces" not in snapshot:
        raise TraceError("no memory snapshot: a pickle without device_traces")
    return snapshot


def _histories(snapshot: dict[str, Any], size: int) -> dict[int, History]:
    """Take what matters of each device that has a history."""
    traces = _list(snapshot["device_traces"], "device_traces")
    events = {k: history for k, history in enumerate(traces) if history}
    n_events = sum(len(_list(history, "a device's trace")) for history in events.values())
    if n_events > size:
        raise TraceError(f"{n_events:,} events in {size:,} bytes: one is given twice")
    found = {}
    for device, history in events.items():
        is_completed = _is_completed(history)
        rows = _moved(history, is_completed)
        allocated, reserved = _final(snapshot, device, is_completed)
        segments, held = _layout(snapshot, device, is_completed)
        streams = len({event.get("stream") for event in history if event.get("action") == "alloc"})
        found[device] = History(rows.tobytes(), allocated, reserved, segments, held, streams)
    return found


def _settings(snapshot: dict[str, Any]) -> str:
    """Give the allocator's settings as they were spelled; nothing if it does not say."""
    settings = snapshot.get("allocator_settings")
    given = [settings.get(key) for key in SETTINGS] if isinstance(settings, dict) else []
    return next((text for text in given if isinstance(text, str) and text), "")


def _list(value: Any, what: str) -> list[Any]:
    """Give a list."""
    if not isinstance(value, list):
        raise TraceError(f"{what} is {show(value)}: a snapshot has a list there")
    return value


def _is_completed(history: list[Any]) -> bool:
    """Say whether a history tells when frees complete."""
    return any(
        isinstance(event, dict) and event.get("action") == "free_completed" for event in history
    )


def _moved(history: list[Any], is_completed: bool) -> Any:
    """Give time in ns, kind, address and bytes of each event that moves any.

    Notes
    -----
    A free is counted when it completes; in a history that has no completions, when it is asked for.
    """
    kinds = ACTIONS | {"free_completed" if is_completed else "free_requested": FREE}
    rows = []
    for event in history:
        if not isinstance(event, dict):
            raise TraceError(f"event {show(event)} is no dictionary")
        action = event.get("action")
        kind = kinds.get(action) if isinstance(action, str) else None
        if kind is not None:
            size, time = _count(event, "size"), _count(event, "time_us")
            rows.append((time * 1000, kind, _address(event.get("addr")), size))
    return np.array(rows, np.int64).reshape(-1, 4)


def _address(value: Any) -> int:
    """Give an address, or -1 for what is none."""
    return value if isinstance(value, int) and 0 <= value < MAX_ADDRESS else -1


def _count(event: dict[str, Any], key: str) -> int:
    """Give a number of an event; 0 if it has none."""
    value = event.get(key, 0)
    if not isinstance(value, int) or not 0 <= value <= MAX_BYTES:
        raise TraceError(f"{key} {show(value)} of an event is not from 0 to 2^53")
    return value


def _final(
    snapshot: dict[str, Any], device: int, is_completed: bool
) -> tuple[int | None, int | None]:
    """Add up what the segments of a device hold at the end; None: they do not say.

    Notes
    -----
    Events have the bytes that were asked for, so those are added up, and not what the allocator
    rounded them to (builds that say only that aside). They include blocks whose free was asked for
    and has not completed, which are left out where frees count when asked for.
    """
    if snapshot.get("segments") is None:
        return None, None
    mine = _segments(snapshot, device)
    totals = (_total(mine, key) for key in ("requested_size", "active_size", "allocated_size"))
    held = next((total for total in totals if total is not None), None)
    if held is not None and not is_completed:
        held -= _total([block for s in mine for block in _awaiting_free(s)], "requested_size") or 0
    return held, _total(mine, "total_size")


def _segments(snapshot: dict[str, Any], device: int) -> list[dict[str, Any]]:
    """Give the segments of a device."""
    return [
        segment
        for segment in _list(snapshot.get("segments") or [], "segments")
        if isinstance(segment, dict) and segment.get("device") == device
    ]


def _layout(snapshot: dict[str, Any], device: int, is_completed: bool) -> tuple[bytes, bytes]:
    """Give address and bytes of each segment, and of each block that is held, at the end.

    Notes
    -----
    Blocks of older builds have no address: they lie one behind the other.
    """
    used = {"active_allocated", *(AWAITING_FREE if is_completed else ())}
    segments, held = [], []
    for segment in _segments(snapshot, device):
        start = _address(segment.get("address"))
        segments.append((start, _count(segment, "total_size")))
        for block in _blocks(segment):
            start, size = _address(block.get("address", start)), _count(block, "size")
            if block.get("state") in used:
                held.append((start, size))
            start += size
    return np.array(segments, np.int64).tobytes(), np.array(held, np.int64).tobytes()


def _total(parts: list[dict[str, Any]], key: str) -> int | None:
    """Add up sizes; None: one of them is missing, or is none, or the sum is."""
    sizes = [part.get(key) for part in parts]
    if not all(isinstance(size, int) and 0 <= size <= MAX_BYTES for size in sizes):
        return None
    total: int = sum(sizes)  # type: ignore[arg-type]
    return total if total <= MAX_BYTES else None


def _awaiting_free(segment: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the blocks of a segment whose free was asked for and has not completed."""
    return [block for block in _blocks(segment) if block.get("state") in AWAITING_FREE]


def _blocks(segment: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the blocks of a segment."""
    blocks = segment.get("blocks")
    return [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []


if __name__ == "__main__":
    main()
