"""Kernels: the pool, resident storages that nothing holds, in the order in which they entered.

An array with holes, so that entering and leaving cost O(1) and a scan reads forward in order.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .state import RESIDENT, REVIVED, State

HOLE = -1


@kernel
def enter(state: State, s: int) -> None:
    """Put a storage at the end of the pool, if it is resident and nothing locks it."""
    row = state.storages[s]
    if row.residence not in (RESIDENT, REVIVED) or state.holds[s].locks > 0 or row.pool_slot >= 0:
        return
    run = state.run[0]
    if run.pool_end == len(state.pool):
        _close_holes(state)
    row.pool_slot = run.pool_end
    state.pool[run.pool_end] = s
    run.pool_end += 1
    run.pool_count += 1


@kernel
def leave(state: State, s: int) -> None:
    """Take a storage out of the pool, if it is in."""
    row = state.storages[s]
    if row.pool_slot < 0:
        return
    run = state.run[0]
    state.pool[row.pool_slot] = HOLE
    row.pool_slot = -1
    run.pool_count -= 1
    if run.pool_end > 2 * run.pool_count + 32:
        _close_holes(state)


@kernel
def tidy(state: State) -> None:
    """Close the holes before a scan, if they are many: a scan stumbles over each."""
    run = state.run[0]
    if run.pool_end > run.pool_count + run.pool_count // 8 + 16:
        _close_holes(state)


@shared_kernel
def _close_holes(state: State) -> None:
    run = state.run[0]
    end, passed_over = 0, 0
    for i in range(run.pool_end):
        s = state.pool[i]
        if s != HOLE:
            state.pool[end] = s
            state.storages[s].pool_slot = end
            end += 1
            passed_over += i < state.link[0].passed_over
    run.pool_end, state.link[0].passed_over = end, passed_over
