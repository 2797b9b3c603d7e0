"""The buffers of a run: what its event log says of when each storage was in memory.

Time is the place in the log, as that is the order of allocations. What was computed, or brought
from the host, is a buffer from its row to that which drops it; what comes again is another one.
An update in place goes on with its operand's buffer. Workspaces are not in the log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .buffers import Buffers
from .errors import InputError
from .opcodes import (
    BANISH_STORAGE,
    COMPUTE,
    DEALLOCATE,
    DROP_DUPLICATE,
    EVICT,
    OFFLOAD,
    PREFETCH,
    RECOMPUTE,
    TAKE_OVER,
)
from .result import RunResult

ROUNDING = 512  # bytes: that to which allocators on a GPU round sizes
_DROPS = (EVICT, DEALLOCATE, BANISH_STORAGE, OFFLOAD)


class _Row(NamedTuple):
    at: int
    action: int
    storage: int
    size: int


def buffers_of_run(run: RunResult, rounding: int = ROUNDING) -> Buffers:
    """Give what a run had in memory, and when.

    Parameters
    ----------
    run : RunResult
        With its event log.
    rounding : int
        What sizes and addresses are rounded to.

    Returns
    -------
    Buffers
        Named by storage, with ``#2`` and so on where one came back.

    Raises
    ------
    InputError
        If the run has no event log, or nothing was ever in memory.
    """
    events, storages = run.logged()
    names = storages["name"].tolist()
    spans = _Spans(len(events["action"]))
    size = events["bytes"]
    kept = np.flatnonzero(size > 0)
    columns = (kept, *(events[name][kept] for name in ("action", "storage", "bytes")))
    for row in zip(*(column.tolist() for column in columns), strict=True):
        spans.take(_Row(*row))
    if not spans.storage:
        raise InputError("run: nothing was ever in memory in it")
    return Buffers.of(spans.lower, spans.upper, spans.size, ids=_ids(spans.storage, names)).rounded(
        rounding
    )


class _Spans:
    """The lifetimes so far; what nothing drops lives to the end."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.storage: list[int] = []
        self.lower: list[int] = []
        self.upper: list[int] = []
        self.size: list[int] = []
        self._living: dict[int, list[int]] = {}  # by storage, the last copy last
        self._taken: list[int] = []  # buffers that the next result goes on with

    def take(self, row: _Row) -> None:
        """Follow one row of the log."""
        if row.action in (COMPUTE, RECOMPUTE, PREFETCH):
            self._living.setdefault(row.storage, []).append(self._placed(row))
            return
        living = self._living.get(row.storage, [])
        if not living:
            return
        if row.action == TAKE_OVER:
            self._taken.append(living.pop())
        elif row.action == DROP_DUPLICATE or row.action in _DROPS:
            self.upper[living.pop()] = row.at

    def _placed(self, row: _Row) -> int:
        """Give the buffer of a result: a new one, or that which it was handed."""
        while self._taken:
            buffer = self._taken.pop()
            if self.size[buffer] == row.size:
                return buffer
            self.upper[buffer] = row.at
        self.storage.append(row.storage)
        self.lower.append(row.at)
        self.upper.append(self.end)
        self.size.append(row.size)
        return len(self.size) - 1


def _ids(storages: list[int], names: list[str]) -> list[str]:
    """Name each buffer by its storage, and number those of one storage from the second on."""
    seen: dict[int, int] = {}
    ids = []
    for storage in storages:
        seen[storage] = seen.get(storage, 0) + 1
        count = f"#{seen[storage]}" if seen[storage] > 1 else ""
        ids.append(f"{names[storage]}{count}")
    return ids
