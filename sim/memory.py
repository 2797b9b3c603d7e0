"""Kernels: the memory model behind a narrow face: does a call fit, place it, free what it made.

The counter, which is inlined here, counts bytes, as the DTR paper does: any call fits while the sum
stays within the budget. Bytes are counted whatever the model. A model with addresses is an entry
point of its own, whose address stands in ``memory.serve``, and is asked besides; ``serving.py`` has
its contract.
"""

from __future__ import annotations

from .jit import call_at, kernel
from .program import Program
from .state import State

# What a model with addresses is asked: REQUESTS * subject + request.
BEGIN, FIT, SETTLE, LET_PASS, DROP, ASK, GIVE_BACK, LARGEST_HOLE, REQUESTS = range(9)


@kernel
def fits(program: Program, state: State, c: int, result_bytes: int) -> bool:
    """Say whether a call's results, so many bytes, and its workspace find room.

    A model with addresses keeps the places for a call that fits: it has to be run next.
    """
    memory = state.memory[0]
    if memory.serve != 0:
        return call_at(memory.serve, program, state, REQUESTS * c + FIT) != 0
    workspace = program.calls[c].workspace_bytes
    return memory.used_bytes + result_bytes + workspace <= memory.budget_bytes


@kernel
def place(program: Program, state: State, c: int, result_bytes: int, second_bytes: int) -> None:
    """Put a call's results into memory; the peak counts its workspace and second copies, too."""
    memory = state.memory[0]
    memory.used_bytes += result_bytes
    workspace = program.calls[c].workspace_bytes
    memory.peak_bytes = max(memory.peak_bytes, memory.used_bytes + workspace)
    memory.used_bytes -= second_bytes
    if memory.serve != 0:
        call_at(memory.serve, program, state, REQUESTS * c + SETTLE)


@kernel
def free(program: Program, state: State, s: int) -> None:
    """Give back the bytes of a storage."""
    memory = state.memory[0]
    memory.used_bytes -= state.storages[s].size_bytes
    if memory.serve != 0:
        call_at(memory.serve, program, state, REQUESTS * s + DROP)
