"""Memory curves from CUDA memory snapshots (``torch.cuda.memory._dump_snapshot``).

A snapshot is a pickle of plain containers. It is loaded in a process of its own
(``snapshot_process.py``), where nothing in it can run; what comes back is plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ..curves import Curve, bytes_moved, choose_device, refusing, running_bytes
from ..memory_events import ALLOCATED_SIGNS, RESERVED_SIGNS, MemoryEvents
from .apart import ask

if TYPE_CHECKING:
    from ..contents import Content

FORMAT = "CUDA memory snapshot"
read = refusing("a CUDA memory snapshot")

MAX_SNAPSHOT_BYTES = 512 << 20
SECONDS, SECONDS_PER_BYTE = 20, 1e-6  # for a process to start, and to read; real ones need a tenth
Int64 = NDArray[np.int64]
_CHILD = f"{__package__}.snapshot_process"


class History(msgspec.Struct):
    """What the other process says of a device.

    Attributes
    ----------
    rows : bytes
        Of 64-bit integers: time in ns, kind, address and bytes, of each event that moves any.
    allocated, reserved : int or None
        At the end, as the segments say.
    segments, held : bytes
        Of 64-bit integers: address and bytes of each segment, and of each block that is held, at
        the end.
    n_streams : int
        On which there were allocations.
    """

    rows: bytes
    allocated: int | None
    reserved: int | None
    segments: bytes
    held: bytes
    n_streams: int


class Answer(msgspec.Struct):
    """What the other process says, or what is wrong.

    Attributes
    ----------
    histories : dict of int to History
        By the number of their device.
    settings : str
        Of the allocator, as they were spelled.
    fault : str
    """

    histories: dict[int, History] = {}
    settings: str = ""
    fault: str = ""


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
    found = _read(content, device)
    rows, history, where = found.rows, found.history, content.where
    allocations, reservations = (
        running_bytes(signs[rows[:, 1]] * rows[:, 3], where)
        for signs in (ALLOCATED_SIGNS, RESERVED_SIGNS)
    )
    time = rows[:, 0] if (rows[:, 0] > 0).all() else np.arange(len(rows))
    base = _base(allocations, history.allocated)
    return Curve(
        content.name,
        where,
        FORMAT,
        found.device,
        np.maximum.accumulate(time - time[0]),
        allocations + base,
        base,
        reservations + _base(reservations, history.reserved),
        history.allocated is None,
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
        In bytes that were asked for.

    Raises
    ------
    TraceError
        It is no snapshot, has no history, or an event has no address.
    """
    found = _read(content, device)
    kinds, addresses, sizes = found.rows[:, 1], found.rows[:, 2], found.rows[:, 3]
    if (addresses < 0).any():
        raise TraceError("an event without an address: no events can be replayed", content.where)
    allocated, reserved = (
        running_bytes(signs[kinds] * sizes, content.where)
        for signs in (ALLOCATED_SIGNS, RESERVED_SIGNS)
    )
    history = found.history
    events = MemoryEvents(
        content.name,
        content.where,
        FORMAT,
        found.device,
        kinds,
        addresses,
        sizes,
        allocated + _base(allocated, history.allocated),
        reserved + _base(reserved, history.reserved),
        counts_blocks=False,
        segments=_pairs(history.segments),
        held=_pairs(history.held),
        settings=found.settings,
        n_streams=history.n_streams,
    )
    return events.without_empty()


class _Found(NamedTuple):
    """What a snapshot says of one device."""

    device: str
    rows: Int64
    history: History
    settings: str


def _read(content: Content, device: str | None) -> _Found:
    """Read a snapshot, and choose a device."""
    where = content.where
    data = content.bytes()
    if len(data) > MAX_SNAPSHOT_BYTES:
        hint = "record fewer entries (max_entries)"
        raise TraceError(f"larger than {MAX_SNAPSHOT_BYTES:,} bytes: {hint}", where)
    answer = _ask(data, where)
    if answer.fault:
        raise TraceError(answer.fault, where)
    histories = {f"cuda:{k}": history for k, history in answer.histories.items() if history.rows}
    rows = {
        name: np.frombuffer(history.rows, np.int64).reshape(-1, 4)
        for name, history in histories.items()
    }
    moved = {
        name: bytes_moved(ALLOCATED_SIGNS[table[:, 1]] * table[:, 3])
        for name, table in rows.items()
    }
    chosen = choose_device(moved, device, where)
    return _Found(chosen, rows[chosen], histories[chosen], answer.settings)


def _pairs(data: bytes) -> Int64:
    return np.frombuffer(data, np.int64).reshape(-1, 2)


def _ask(data: bytes, where: str) -> Answer:
    """Have another process load the pickle."""
    written = ask(_CHILD, data, where, SECONDS + SECONDS_PER_BYTE * len(data))
    return msgspec.msgpack.decode(written, type=Answer)


def _base(sums: np.ndarray, at_end: int | None) -> int:
    """Give what was there before the first event; where nobody says it, the least possible."""
    return -int(sums.min(initial=0)) if at_end is None else at_end - int(sums[-1])
