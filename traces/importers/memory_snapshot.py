"""Memory curves from CUDA memory snapshots (``torch.cuda.memory._dump_snapshot``).

A snapshot is a pickle of plain containers. It is loaded in a process of its own
(``snapshot_process.py``), where nothing in it can run; what comes back is plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ...errors import TraceError
from ..curves import Curve, bytes_moved, choose_device, refusing, running_bytes
from .apart import ask

if TYPE_CHECKING:
    from ..contents import Content

FORMAT = "CUDA memory snapshot"
read = refusing("a CUDA memory snapshot")

MAX_SNAPSHOT_BYTES = 512 << 20
SECONDS, SECONDS_PER_BYTE = 20, 1e-6  # for a process to start, and to read; real ones need a tenth
_CHILD = f"{__package__}.snapshot_process"


class History(msgspec.Struct):
    """What the other process says of a device.

    Attributes
    ----------
    rows : bytes
        Of 64-bit integers: time in ns, bytes allocated and reserved, of each event that moves any.
    allocated, reserved : int or None
        At the end, as the segments say.
    """

    rows: bytes
    allocated: int | None
    reserved: int | None


class Answer(msgspec.Struct):
    """What the other process says: histories by the number of their device, or what is wrong."""

    histories: dict[int, History] = {}
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
    where = content.where
    data = content.bytes()
    if len(data) > MAX_SNAPSHOT_BYTES:
        hint = "record fewer entries (max_entries)"
        raise TraceError(f"larger than {MAX_SNAPSHOT_BYTES:,} bytes: {hint}", where)
    answer = _ask(data, where)
    if answer.fault:
        raise TraceError(answer.fault, where)
    histories = {f"cuda:{k}": history for k, history in answer.histories.items() if history.rows}
    moved = {
        name: np.frombuffer(history.rows, np.int64).reshape(-1, 3)
        for name, history in histories.items()
    }
    chosen = choose_device(
        {name: bytes_moved(rows[:, 1]) for name, rows in moved.items()}, device, where
    )
    rows, history = moved[chosen], histories[chosen]
    allocations, reservations = (running_bytes(rows[:, k], where) for k in (1, 2))
    time = rows[:, 0] if (rows[:, 0] > 0).all() else np.arange(len(rows))
    base = _base(allocations, history.allocated)
    return Curve(
        content.name,
        where,
        FORMAT,
        chosen,
        np.maximum.accumulate(time - time[0]),
        allocations + base,
        base,
        reservations + _base(reservations, history.reserved),
        history.allocated is None,
    )


def _ask(data: bytes, where: str) -> Answer:
    """Have another process load the pickle."""
    written = ask(_CHILD, data, where, SECONDS + SECONDS_PER_BYTE * len(data))
    return msgspec.msgpack.decode(written, type=Answer)


def _base(sums: np.ndarray, at_end: int | None) -> int:
    """Give what was there before the first event; where nobody says it, the least possible."""
    return -int(sums.min(initial=0)) if at_end is None else at_end - int(sums[-1])
