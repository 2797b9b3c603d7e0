"""The cheapest schedule of a small static graph within a budget, by exhaustive search.

Dijkstra over what is resident and how many nodes have been computed: every schedule whose first
computations are in order, with no limit on recomputations. For graphs of a dozen values.
"""

from __future__ import annotations

import heapq
from itertools import count

from rematsim.static_graph import StaticGraph

State = tuple[int, frozenset[int]]


def cheapest(graph: StaticGraph, budget: int) -> int | None:
    """Give the least cost of a schedule within a budget; None if there is none."""
    start: State = (0, frozenset())
    best = {start: 0}
    order = count()
    queue = [(0, next(order), start)]
    while queue:
        cost, _, state = heapq.heappop(queue)
        if cost > best[state]:
            continue
        if state[0] == graph.n_nodes:
            return cost
        for step, after in _steps(graph, budget, state):
            if cost + step < best.get(after, cost + step + 1):
                best[after] = cost + step
                heapq.heappush(queue, (cost + step, next(order), after))
    return None


def _steps(graph: StaticGraph, budget: int, state: State) -> list[tuple[int, State]]:
    """Give what can be done next, with its cost: compute a node, or free a value."""
    fresh, resident = state
    used = graph.fixed_bytes + sum(int(graph.size[v]) for v in resident)
    steps = [(0, (fresh, resident - {value})) for value in resident]
    for node in range(min(fresh + 1, graph.n_nodes)):
        made = list(graph.values(node))
        need = used + sum(int(graph.size[v]) for v in made) + int(graph.workspace[node])
        may_run = node == fresh or graph.recomputable[node]
        if may_run and need <= budget and resident.issuperset(graph.reads_of(node).tolist()):
            after = (fresh + (node == fresh), resident | frozenset(made))
            steps.append((int(graph.cost[node]), after))
    return steps
