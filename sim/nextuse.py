"""Kernels: when a storage is used next, known from the trace, or learned from the step before.

Distances are the model's own compute between now and the next call that reads the storage, ns.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .program import Program
from .state import State

NOTHING_KNOWN = -1.0
INFINITY = float("inf")


@kernel
def next_use_from(program: Program, s: int, call: int) -> int:
    """Find the first call from a given one on that reads a storage, or -1 (binary search)."""
    low, end = program.storages[s].first_use, program.storages[s + 1].first_use
    high = end
    while low < high:
        middle = (low + high) // 2
        if program.uses[middle] < call:
            low = middle + 1
        else:
            high = middle
    return program.uses[low] if low < end else -1


@kernel
def ns_between(program: Program, call: int, later: int) -> int:
    """Give the model's own compute from a call to a later one."""
    return program.call_start_ns[later] - program.call_start_ns[call]


@shared_kernel
def look_ahead(program: Program, state: State, s: int) -> None:
    """Note when the trace uses a storage next: infinity if never, else from the current call on."""
    now = state.run[0].current_call
    use = next_use_from(program, s, now)
    distance = INFINITY
    if use >= 0:
        distance = float(ns_between(program, now, use))
    state.run[0].next_use_ns = distance


@shared_kernel
def look_back(program: Program, state: State, s: int) -> None:
    """Note when the storage's counterpart of the step before was used next, seen from here.

    Only what has happened is read: a use after the current call does not count, and a counterpart
    not used since then is taken to be a whole step away.
    """
    now = state.run[0].current_call
    state.run[0].next_use_ns = NOTHING_KNOWN
    twin = program.counterparts[s]
    if twin < 0 or now >= len(program.calls) or program.calls[now].previous < 0:
        return
    then = program.calls[now].previous
    use = next_use_from(program, twin, then)
    if use < 0 or use > now:
        use = now
    state.run[0].next_use_ns = float(ns_between(program, then, use))
