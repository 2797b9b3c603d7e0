"""Kernels: the event log while a run goes on: rows that kernels append and Python empties.

What the columns mean, and how they look to a reader, is in ``result.py``.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .opcodes import DISCARD, EVICT, PIN
from .program import Program
from .state import State

NOTHING = -1
COMMA, ZERO = 44, 48  # ASCII


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
    row.host_after_bytes = state.link[0].host_bytes
    row.instruction = state.run[0].instruction
    if state.memory[0].serve != 0:
        is_nowhere = size_bytes == 0 or action in (PIN, DISCARD)
        row.address = NOTHING if is_nowhere else state.places[storage].address
        row.reserved_after_bytes = state.space[0].reserved_bytes


@shared_kernel
def log_result(state: State, action: int, call: int, tensor: int, where: tuple[int, int]) -> None:
    """Append a row for a result that was placed, or dropped again: ``where`` is storage, bytes.

    The caller sets the times and the memory afterwards, for it alone knows them.
    """
    log(state, action, where[0], where[1], NOTHING)
    row = state.events[state.run[0].events - 1]
    row.call, row.tensor = call, tensor


@kernel
def count_eviction(program: Program, state: State, s: int, action: int) -> None:
    """Count a storage that goes, and record it for the digest of evictions."""
    run = state.run[0]
    run.evictions += 1
    run.pressure_evictions += action == EVICT
    state.recorded[run.recorded] = program.storages[s].root
    run.recorded += 1


def render(program: Program, state: State, _: int) -> int:
    """Write the tensors in ``recorded`` in decimal into ``text``, a comma before each."""
    text, end = state.text, 0
    for i in range(state.run[0].recorded):
        text[end] = COMMA
        end += 1
        value = state.recorded[i]
        digits = 1
        bound = 10
        while value >= bound:
            digits += 1
            bound *= 10
        for place in range(digits - 1, -1, -1):
            text[end + place] = ZERO + value % 10
            value //= 10
        end += digits
    return end
