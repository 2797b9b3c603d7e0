"""Kernels: the event log while a run goes on: rows that kernels append and Python empties.

What the columns mean, and how they look to a reader, is in ``result.py``.
"""

from __future__ import annotations

from .jit import shared_kernel
from .opcodes import EVICT
from .state import State

NOTHING = -1


@shared_kernel
def log(state: State, action: int, storage: int, size_bytes: int, cause_call: int) -> None:
    """Append a row for something that takes no time; memory is as it is now."""
    if not state.run[0].logs_events:
        return
    row = state.events[state.run[0].events]
    state.run[0].events += 1
    row.start_ns = row.end_ns = state.next_free[0] - 1
    row.action, row.call, row.tensor = action, NOTHING, NOTHING
    row.storage, row.bytes, row.cause_call = storage, size_bytes, cause_call
    row.score = state.run[0].score if action == EVICT else float("nan")
    row.memory_after_bytes = state.memory[0].used_bytes


@shared_kernel
def log_result(state: State, action: int, call: int, tensor: int, where: tuple[int, int]) -> None:
    """Append a row for a result that was placed, or dropped again: ``where`` is storage, bytes.

    The caller sets the times and the memory afterwards, for it alone knows them.
    """
    log(state, action, where[0], where[1], NOTHING)
    row = state.events[state.run[0].events - 1]
    row.call, row.tensor = call, tensor
