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
from .snapshot_segments import (
    AWAITING_FREE,
    HELD,
    MAX_BYTES,
    Segment,
    address_of,
    count_of,
    list_of,
    read_segments,
)

MEMORY_FACTOR = 24  # of a pickle, unpacked into objects
MEMORY_BASE = 256 << 20

ACTIONS = {
    "alloc": ALLOC,
    "segment_alloc": SEGMENT_ALLOC,
    "segment_free": SEGMENT_FREE,
    "segment_map": MAP,
    "segment_unmap": UNMAP,
}
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the second in older builds

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
    traces = list_of(snapshot["device_traces"], "device_traces")
    events = {k: history for k, history in enumerate(traces) if history}
    n_events = sum(len(list_of(history, "a device's trace")) for history in events.values())
    if n_events > size:
        raise TraceError(f"{n_events:,} events in {size:,} bytes: one is given twice")
    found = {}
    for device, history in events.items():
        is_completed = _is_completed(history)
        rows = _moved(history, is_completed)
        segments = read_segments(snapshot.get("segments") or [], device)
        is_told = snapshot.get("segments") is not None
        allocated, reserved = _final(segments, is_completed) if is_told else (None, None)
        places, held = _layout(segments, is_completed)
        streams = len({event.get("stream") for event in history if event.get("action") == "alloc"})
        found[device] = History(rows.tobytes(), allocated, reserved, places, held, streams)
    return found


def _settings(snapshot: dict[str, Any]) -> str:
    """Give the allocator's settings as they were spelled; nothing if it does not say."""
    settings = snapshot.get("allocator_settings") or {}
    if not isinstance(settings, dict):
        raise TraceError(
            f"allocator_settings is {show(settings)}: a snapshot has a dictionary there"
        )
    given = [settings.get(key) or "" for key in SETTINGS]
    for key, text in zip(SETTINGS, given, strict=True):
        if not isinstance(text, str):
            raise TraceError(f"{key} of allocator_settings is {show(text)}: it is a text")
    return next(filter(None, given), "")


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
            size, time = count_of(event, "size", "an event"), count_of(event, "time_us", "an event")
            rows.append((time * 1000, kind, address_of(event.get("addr")), size))
    return np.array(rows, np.int64).reshape(-1, 4)


def _final(segments: list[Segment], is_completed: bool) -> tuple[int | None, int]:
    """Add up what the segments of a device hold at the end, None: they do not say; and all bytes.

    Notes
    -----
    Events have the bytes that were asked for, so those are added up, and not what the allocator
    rounded them to (builds that say only that aside). They include blocks whose free was asked for
    and has not completed, which are left out where frees count when asked for.
    """
    total = sum(segment.size for segment in segments)
    if total > MAX_BYTES:
        raise TraceError(f"segments: {total:,} bytes in all: at most 2^53")
    totals = (_total(segments, key) for key in ("requested_size", "active_size", "allocated_size"))
    held = next((total for total in totals if total is not None), None)
    if held is not None and not is_completed:
        blocks = (block for segment in segments for block in segment.blocks)
        held -= sum(block.requested for block in blocks if block.state in AWAITING_FREE)
    return held, total


def _total(segments: list[Segment], key: str) -> int | None:
    """Add up sizes; None: one of them is missing."""
    sizes = [segment.sizes.get(key) for segment in segments]
    return sum(size for size in sizes if size is not None) if None not in sizes else None


def _layout(segments: list[Segment], is_completed: bool) -> tuple[bytes, bytes]:
    """Give address and bytes of each segment, and of each block that is held, at the end."""
    used = {HELD, *(AWAITING_FREE if is_completed else ())}
    places = [(segment.address, segment.size) for segment in segments]
    blocks = (block for segment in segments for block in segment.blocks)
    held = [(block.address, block.size) for block in blocks if block.state in used]
    return np.array(places, np.int64).tobytes(), np.array(held, np.int64).tobytes()


if __name__ == "__main__":
    main()
