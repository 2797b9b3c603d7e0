"""Evicted neighborhoods: the sums of evicted ancestors and descendants of resident storages.  [kernels]

A sum is kept exact where that is cheap, else as a lower bound with a flag; `choose` makes exact
only those that could win. `reach` is the plain walk of replay-semantics 4, the oracle of the rest.
"""

from __future__ import annotations

from .jit import kernel
from .program import Program
from .state import (
    BANISHED,
    EVICTED,
    NEEDS_ANCESTORS,
    NEEDS_DESCENDANTS,
    PINNED,
    State,
)

UP, DOWN = 0, 1


@kernel
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
            if row.residence == BANISHED:
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


@kernel
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


@kernel
def make_exact(program: Program, state: State, s: int, needs: int) -> None:
    """Walk where a sum of this storage is only a bound."""
    row = state.storages[s]
    if needs & NEEDS_ANCESTORS and not row.has_ancestors:
        row.ancestor_ns = reach(program, state, s, UP)[2]
        row.has_ancestors = 1
    if needs & NEEDS_DESCENDANTS and not row.has_descendants:
        row.descendant_ns = reach(program, state, s, DOWN)[2]
        row.has_descendants = 1


@kernel
def _gain(value: int, is_exact: int, cost_ns: int, beyond_ns: int) -> tuple[int, int]:
    """Sum after a storage and what lies beyond it joined a set: exact if they cannot overlap."""
    if beyond_ns == 0 or (value == 0 and is_exact):
        return value + cost_ns + beyond_ns, is_exact
    return max(value + cost_ns, cost_ns + beyond_ns), 0


@kernel
def _lose(value: int, is_exact: int, cost_ns: int, beyond_ns: int) -> tuple[int, int]:
    """Sum after a storage left a set; what lies beyond it may still be reached otherwise."""
    if beyond_ns == 0:
        return max(value - cost_ns, 0), is_exact
    return max(value - cost_ns - beyond_ns, 0), 0


@kernel
def note_eviction(program: Program, state: State, s: int) -> None:
    """Keep the sums when a storage has just been evicted."""
    upkeep = state.run[0].upkeep
    cost_ns = state.storages[s].cost_ns
    _, up_frontier, up_ns = reach(program, state, s, UP)
    _, down_frontier, down_ns = reach(program, state, s, DOWN)
    last = len(state.mark)
    if upkeep & NEEDS_ANCESTORS:
        for i in range(down_frontier):
            row = state.storages[state.down[last - i]]
            row.ancestor_ns, row.has_ancestors = _gain(
                row.ancestor_ns, row.has_ancestors, cost_ns, up_ns
            )
    if upkeep & NEEDS_DESCENDANTS:
        for i in range(up_frontier):
            row = state.storages[state.up[last - i]]
            row.descendant_ns, row.has_descendants = _gain(
                row.descendant_ns, row.has_descendants, cost_ns, down_ns
            )


@kernel
def note_return(program: Program, state: State, s: int) -> None:
    """Keep the sums when a storage is no longer evicted: made resident, or banished."""
    upkeep = state.run[0].upkeep
    own = state.storages[s]
    _, up_frontier, up_ns = reach(program, state, s, UP)
    _, down_frontier, down_ns = reach(program, state, s, DOWN)
    last = len(state.mark)
    if upkeep & NEEDS_ANCESTORS:
        for i in range(down_frontier):
            row = state.storages[state.down[last - i]]
            row.ancestor_ns, row.has_ancestors = _lose(
                row.ancestor_ns, row.has_ancestors, own.cost_ns, up_ns
            )
    if upkeep & NEEDS_DESCENDANTS:
        for i in range(up_frontier):
            row = state.storages[state.up[last - i]]
            row.descendant_ns, row.has_descendants = _lose(
                row.descendant_ns, row.has_descendants, own.cost_ns, down_ns
            )
    own.ancestor_ns, own.has_ancestors = up_ns, 1
    own.descendant_ns, own.has_descendants = down_ns, 1


@kernel
def note_growth(program: Program, state: State, s: int, cost_ns: int) -> None:
    """Keep the sums when an evicted storage has just become dearer (a view of it was issued)."""
    _, up_frontier, _ = reach(program, state, s, UP)
    _, down_frontier, _ = reach(program, state, s, DOWN)
    last = len(state.mark)
    for i in range(down_frontier):
        state.storages[state.down[last - i]].ancestor_ns += cost_ns
    for i in range(up_frontier):
        state.storages[state.up[last - i]].descendant_ns += cost_ns


@kernel
def note_edge(program: Program, state: State, parent: int, child: int) -> None:
    """Mark sums as bounds when an edge between two old storages has just been created."""
    last = len(state.mark)
    if state.storages[parent].residence == EVICTED:
        state.storages[child].has_ancestors = 0
        _, frontier, _ = reach(program, state, child, DOWN)
        if state.storages[child].residence == EVICTED:
            for i in range(frontier):
                state.storages[state.down[last - i]].has_ancestors = 0
    if state.storages[child].residence == EVICTED:
        state.storages[parent].has_descendants = 0
        _, frontier, _ = reach(program, state, parent, UP)
        if state.storages[parent].residence == EVICTED:
            for i in range(frontier):
                state.storages[state.up[last - i]].has_descendants = 0
