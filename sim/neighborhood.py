"""Kernels: the evicted neighborhoods of resident storages, ancestors and descendants summed apart.

Evictions only make neighborhoods grow, so an old sum is a lower bound: nothing is done for them.
When a storage returns, the sums that it may be part of are lowered. `choose` makes exact only the
sums that could win. `reach` is the plain walk of docs/semantics.md, 4, the oracle of the rest.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .program import Program
from .state import (
    BANISHED,
    EVICTED,
    NEEDS_ANCESTORS,
    NEEDS_DESCENDANTS,
    PINNED,
    REVIVED,
    State,
)

UP, DOWN = 0, 1


@shared_kernel
def reach(program: Program, state: State, s: int, direction: int) -> tuple[int, int, int]:
    """Walk from a storage through evicted ones only, upwards or downwards.

    Returns
    -------
    count, frontier_count, cost_ns : int
        How many evicted storages ``up`` or ``down`` holds from its front, how many resident
        ones at the edge from its back, and the summed cost of the evicted, ns.
    """
    run = state.run[0]
    run.stamp += 1
    stamp = run.stamp
    queue = state.up if direction == UP else state.down
    last = len(queue) - 1
    count = frontier = head = total = accesses = 0
    state.mark[s] = stamp
    node = s
    while True:
        if direction == UP:
            first = program.storages[node].first_parent_edge
            end = first + state.holds[node].parent_edges
            edges = program.parent_edges
        else:
            first = program.storages[node].first_child_edge
            end = first + state.holds[node].child_edges
            edges = program.child_edges
        for i in range(first, end):
            n = edges[i]
            row = state.storages[n]
            if row.residence >= BANISHED:
                continue
            accesses += 1
            if row.residence == PINNED or state.mark[n] == stamp:
                continue
            state.mark[n] = stamp
            if row.residence == EVICTED:
                queue[count] = n
                count += 1
                total += row.cost_ns
            else:
                queue[last - frontier] = n
                frontier += 1
        if head == count:
            run.metadata_accesses += accesses
            return count, frontier, total
        node = queue[head]
        head += 1


@shared_kernel
def reach_set(program: Program, state: State, s: int) -> None:
    """Walk both ways and sum the neighborhood as a set, with its latest access."""
    up, _, cost_ns = reach(program, state, s, UP)
    stamp = state.run[0].stamp
    last_access = state.storages[s].last_access
    for i in range(up):
        last_access = max(last_access, state.storages[state.up[i]].last_access)
    down, _, _ = reach(program, state, s, DOWN)
    for i in range(up):
        state.mark[state.up[i]] = stamp
    for i in range(down):
        n = state.down[i]
        if state.mark[n] != stamp:
            cost_ns += state.storages[n].cost_ns
            last_access = max(last_access, state.storages[n].last_access)
    state.run[0].set_ns = cost_ns
    state.run[0].set_last_access = last_access


@shared_kernel
def make_exact(program: Program, state: State, s: int, needs: int) -> None:
    """Walk where a sum of this storage is only a bound."""
    row = state.storages[s]
    growth = state.run[0].growth
    if row.residence == REVIVED:  # the walks of those that return do not meet it
        row.ancestors_at = row.descendants_at = -1
    if needs & NEEDS_ANCESTORS and row.ancestors_at != growth:
        row.ancestor_ns = reach(program, state, s, UP)[2]
        row.ancestors_at = growth
        state.run[0].walked_at = growth
    if needs & NEEDS_DESCENDANTS and row.descendants_at != growth:
        row.descendant_ns = reach(program, state, s, DOWN)[2]
        row.descendants_at = growth
        state.run[0].walked_at = growth


@kernel
def note_eviction(state: State, s: int) -> None:
    """Count that neighborhoods have grown: every sum is a lower bound now."""
    state.run[0].growth += 1
    state.holds[s].evicted_at = state.run[0].growth


@kernel
def note_creation(state: State, s: int) -> None:
    """Let a storage not computed yet join neighborhoods with the next choice, if one comes."""
    state.holds[s].evicted_at = state.run[0].growth + 1


@kernel
def note_choice(state: State) -> None:
    """Count growth once for the call being issued, before the first walk that can meet it."""
    run = state.run[0]
    if run.looked_at_call != run.current_call:
        run.looked_at_call = run.current_call
        run.growth += 1


@shared_kernel
def note_return(program: Program, state: State, s: int, is_ignored: bool) -> None:
    """Lower the sums that a storage leaves, now that it is resident (or banished).

    It can only be part of sums that were walked since it was evicted. What lies beyond it may be
    reached another way: then the sum becomes a bound.
    """
    own, upkeep = state.storages[s], state.run[0].upkeep
    evicted_at = state.holds[s].evicted_at
    own.ancestor_ns = own.descendant_ns = 0
    own.ancestors_at = own.descendants_at = -1
    if is_ignored or evicted_at > state.run[0].walked_at:
        return
    note_choice(state)
    _, up_frontier, up_ns = reach(program, state, s, UP)
    _, down_frontier, down_ns = reach(program, state, s, DOWN)
    last = len(state.mark)
    if upkeep & NEEDS_ANCESTORS:
        for i in range(down_frontier):
            row = state.storages[state.down[last - i]]
            if abs(row.ancestors_at) >= evicted_at:
                row.ancestor_ns = max(row.ancestor_ns - own.cost_ns - up_ns, 0)
                row.ancestors_at = row.ancestors_at if up_ns == 0 else -abs(row.ancestors_at)
    if upkeep & NEEDS_DESCENDANTS:
        for i in range(up_frontier):
            row = state.storages[state.up[last - i]]
            if abs(row.descendants_at) >= evicted_at:
                row.descendant_ns = max(row.descendant_ns - own.cost_ns - down_ns, 0)
                row.descendants_at = (
                    row.descendants_at if down_ns == 0 else -abs(row.descendants_at)
                )
    own.ancestor_ns, own.ancestors_at = up_ns, state.run[0].growth
    own.descendant_ns, own.descendants_at = down_ns, state.run[0].growth
    state.run[0].walked_at = state.run[0].growth
