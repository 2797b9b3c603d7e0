"""Kernels: equivalence classes of evicted storages, the union-find approximation of neighborhoods.

docs/semantics.md, 4: classes merge when a storage is evicted and never split; each carries a
running cost. A storage that is evicted again gets a fresh node; worn-out nodes are swept up.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .program import Program
from .state import BANISHED, EVICTED, State

NO_NODE = -1
NO_FLOOR = -(1 << 62)


@kernel
def find(state: State, node: int) -> int:
    """Give the root of a node's class, and let every node on the way point at it."""
    classes = state.classes
    root = node
    hops = 0
    while classes[root].parent != root:
        root = classes[root].parent
        hops += 1
    state.run[0].metadata_accesses += hops
    while hops > 1:
        above = classes[node].parent
        classes[node].parent = root
        node = above
        hops -= 1
    return root


@shared_kernel
def join(state: State, s: int, cost_ns: int) -> None:
    """Put a storage into a fresh class of that cost."""
    run = state.run[0]
    if run.class_end == len(state.classes):
        _sweep(state)
    node = run.class_end
    run.class_end += 1
    row = state.classes[node]
    row.parent, row.members, row.cost_ns, row.mark = node, 1, cost_ns, 0
    state.holds[s].class_node = node


@shared_kernel
def merge_neighbors(program: Program, state: State, s: int) -> None:
    """Merge the classes of the evicted direct neighbors into that of a storage."""
    hold = state.holds[s]
    first = program.storages[s].first_parent_edge
    for i in range(first, first + hold.parent_edges):
        _merge(state, hold.class_node, program.parent_edges[i])
    first = program.storages[s].first_child_edge
    for i in range(first, first + hold.child_edges):
        _merge(state, hold.class_node, program.child_edges[i])


@shared_kernel
def _merge(state: State, own: int, neighbor: int) -> None:
    if state.storages[neighbor].residence != EVICTED:
        return
    root, other = find(state, own), find(state, state.holds[neighbor].class_node)
    if root != other:
        state.classes[other].parent = root
        state.classes[root].cost_ns += state.classes[other].cost_ns
        state.classes[root].members += state.classes[other].members


@shared_kernel
def part(state: State, s: int) -> bool:
    """Take a storage out of its class; the class is not split. Say whether others are left in it.

    ``lost_ns`` adds up what classes lose, so that an older look-up less what was lost since is a
    lower bound, except next to a storage whose class others keep: its neighbors must look anew.
    """
    run = state.run[0]
    row = state.classes[find(state, state.holds[s].class_node)]
    cost_ns = state.storages[s].cost_ns
    row.members -= 1
    state.holds[s].class_node = NO_NODE
    if row.members == 0:
        run.lost_ns += max(row.cost_ns, 0)
    else:
        run.lost_ns += cost_ns
    row.cost_ns -= cost_ns
    if row.members > 0 and row.cost_ns < 0:  # it became dearer while it was evicted
        run.class_floor_ns = NO_FLOOR
    return row.members > 0


@shared_kernel
def look_up(program: Program, state: State, s: int) -> None:
    """Sum the running costs of the distinct classes next to a storage into its ``class_ns``."""
    state.run[0].stamp += 1
    row, hold = state.storages[s], state.holds[s]
    total = 0
    if hold.evicted_neighbors > 0 or state.run[0].upkeep == 0:
        first = program.storages[s].first_parent_edge
        for i in range(first, first + hold.parent_edges):
            total += _fresh_cost(state, program.parent_edges[i])
        first = program.storages[s].first_child_edge
        for i in range(first, first + hold.child_edges):
            total += _fresh_cost(state, program.child_edges[i])
    row.class_ns = total + state.run[0].lost_ns


@kernel
def _fresh_cost(state: State, neighbor: int) -> int:
    """Cost of an evicted neighbor's class; 0 if this look-up has counted the class."""
    residence = state.storages[neighbor].residence
    if residence < BANISHED:
        state.run[0].metadata_accesses += 1
    if residence != EVICTED:
        return 0
    row = state.classes[find(state, state.holds[neighbor].class_node)]
    if row.mark == state.run[0].stamp:
        return 0
    row.mark = state.run[0].stamp
    return row.cost_ns


@shared_kernel
def look_up_call(program: Program, state: State, s: int) -> None:
    """Sum up what a storage's own call reads and makes that is evicted, for ``run.call_ns``.

    Each counts with the cost of its class, its own if that is more (Coop's authors' code); two of
    one class count twice.
    """
    c = program.tensors[program.storages[s].root].call
    call = program.calls[c]
    total = 0
    for i in range(call.first_source, call.end_source):
        total += _cost_with_class(state, program.sources[i])
    for t in range(call.first_result, call.end_result):
        other = program.tensors[t].storage
        if other != s and program.storages[other].root == t:
            total += _cost_with_class(state, other)
    state.run[0].call_ns = total


@kernel
def _cost_with_class(state: State, s: int) -> int:
    """Give the cost of an evicted storage's class, or its own; 0 if it is not evicted."""
    state.run[0].metadata_accesses += 1
    if state.storages[s].residence != EVICTED:
        return 0
    row = state.classes[find(state, state.holds[s].class_node)]
    return max(row.cost_ns, state.storages[s].cost_ns)


@shared_kernel
def _sweep(state: State) -> None:
    """Renumber the forest when it is full: one node a class, which all its members share."""
    run = state.run[0]
    for node in range(run.class_end):
        state.classes[node].mark = NO_NODE  # for now: the new number of the class with this root
    end = 0
    for s in range(len(state.holds)):
        hold = state.holds[s]
        if hold.class_node != NO_NODE:
            row = state.classes[find(state, hold.class_node)]
            if row.mark == NO_NODE:
                row.mark = end
                state.mark[end], state.up[end] = row.cost_ns, row.members  # lent by the walks
                end += 1
            hold.class_node = row.mark
    for node in range(end):
        row = state.classes[node]
        row.parent, row.members, row.cost_ns, row.mark = node, state.up[node], state.mark[node], 0
        state.mark[node] = 0
    run.class_end = end
