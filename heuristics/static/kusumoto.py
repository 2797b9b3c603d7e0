"""kusumoto: cut the forward pass by a chain of lower sets, and save what crosses the cuts.

A lower set holds with each node all that it depends on. Between two of the chain lies a block,
which is computed again, as far as it is not saved, when it is differentiated. A dynamic program
finds the chain with the least to compute again within a budget, by a formula for the peak that is
an estimate; so several budgets are tried in it, and the plans judged as all are.

References
----------
Kusumoto et al., NeurIPS 2019: canonical strategies; exact over all lower sets, approximate over
those of one node and its ancestors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...static_graph import StaticGraph
from ..parameters import OneOf
from .clock import NO_LIMIT, Clock
from .registry import NO_PLAN, PlannerResult, planner
from .saving import kept_of_saved
from .segments import NO_BACKWARD, forward_nodes
from .stages import Kept, links_of, made_bytes, members
from .sweeping import cheapest

FAMILIES = ("approximate", "exact")
MOST_SETS = 2000  # of the exact method
MOST_ANCESTRIES = 150  # of the approximate one
BUDGETS = 12  # tried in the formula


class Forward(NamedTuple):
    """A forward pass: of node i what it reads and who reads it, as sets of bits; bytes, time."""

    before: list[int]
    after: list[int]
    size: list[int]
    cost: list[int]


class Cut(NamedTuple):
    """A lower set, its border (what is read outside), and sums over it."""

    nodes: int
    border: int
    size: int
    cost: int
    beyond: int  # bytes of what is differentiated next: its readers, and what else these read


def _sum(amounts: Sequence[int], nodes: int) -> int:
    return sum(amounts[node] for node in members(nodes))


def _union(links: Sequence[int], nodes: int) -> int:
    found = 0
    for node in members(nodes):
        found |= links[node]
    return found


def cut_at(forward: Forward, nodes: int) -> Cut:
    """Describe a lower set."""
    border = sum(1 << i for i in members(nodes) if forward.after[i] & ~nodes)
    readers = _union(forward.after, nodes) & ~nodes
    others = _union(forward.before, readers) & ~nodes
    beyond = _sum(forward.size, readers) + _sum(forward.size, others)
    return Cut(nodes, border, _sum(forward.size, nodes), _sum(forward.cost, nodes), beyond)


def lower_sets(forward: Forward, family: str) -> list[int] | None:
    """Give the lower sets, smaller ones first, the empty and the full one among them.

    None if there are more than the exact method can take.
    """
    n = len(forward.size)
    full = (1 << n) - 1
    found = {0, full}
    if family == "approximate":
        ancestry: list[int] = []
        for node in range(n):
            ancestry.append(1 << node | _union(ancestry, forward.before[node]))
        places = np.unique(np.linspace(0, n - 1, min(n, MOST_ANCESTRIES)).astype(int))
        found.update(ancestry[place] for place in places.tolist())
    else:
        todo = [0]
        while todo:
            nodes = todo.pop()
            for node in members(full & ~nodes):
                larger = nodes | 1 << node
                if not forward.before[node] & ~nodes and larger not in found:
                    found.add(larger)
                    todo.append(larger)
            if len(found) > MOST_SETS:
                return None
    return sorted(found, key=lambda nodes: (nodes.bit_count(), nodes))


def cheapest_chain(
    forward: Forward, cuts: Sequence[Cut], budget: int, clock: Clock = NO_LIMIT
) -> tuple[int, list[Cut]] | None:
    """Give the least to compute again, the last block included, and the chain of lower sets.

    None if there is none, or the time is up.

    Per lower set the pairs of time to compute again and bytes saved are kept of which none is
    better in both.
    """
    State = tuple[int, int, int, int]  # time, bytes saved, and where from: cut, place
    fronts: list[list[State]] = [[] for _ in cuts]
    fronts[0] = [(0, 0, -1, -1)]
    for j, cut in enumerate(cuts[1:], 1):
        if clock.is_over:
            return None
        found: list[State] = []
        for i, smaller in enumerate(cuts[:j]):
            if smaller.nodes & ~cut.nodes or not fronts[i]:
                continue
            fresh = cut.border & ~smaller.nodes
            room = budget - 2 * (cut.size - smaller.size) - cut.beyond
            again = cut.cost - smaller.cost - _sum(forward.cost, fresh)
            saved = _sum(forward.size, fresh)
            found += [
                (t + again, m + saved, i, at)
                for at, (t, m, _, _) in enumerate(fronts[i])
                if m <= room
            ]
        least: int | None = None
        for state in sorted(found):
            if least is None or state[1] < least:
                fronts[j].append(state)
                least = state[1]
    if not fronts[-1]:
        return None
    chain, (j, at) = [], (len(cuts) - 1, 0)
    while j > 0:
        chain.append(cuts[j])
        _, _, j, at = fronts[j][at]
    return fronts[-1][0][0], chain[::-1]


class LowerSets:
    """The forward pass of a graph, and its plans by budgets in the formula."""

    def __init__(self, graph: StaticGraph) -> None:
        self.graph = graph
        self.nodes = forward_nodes(graph)
        place = {node: i for i, node in enumerate(self.nodes)}
        made = made_bytes(graph)
        _, reads, producer = links_of(graph)
        before, after = [0] * len(self.nodes), [0] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            for value in reads[node]:
                if producer[value] in place:
                    before[i] |= 1 << place[producer[value]]
                    after[place[producer[value]]] |= 1 << i
        self.forward = Forward(
            before, after, [made[v] for v in self.nodes], graph.cost[self.nodes].tolist()
        )

    def borders(self, cuts: Sequence[Cut], clock: Clock) -> list[tuple[int, ...]]:
        """Give the nodes that are saved for budgets from the whole pass' bytes downwards."""
        full = 2 * cuts[-1].size + 1
        found = []
        for budget in np.geomspace(full, max(full // 50, 1), BUDGETS).astype(np.int64).tolist():
            best = cheapest_chain(self.forward, cuts, budget, clock)
            if best is None:
                break
            saved = 0
            for cut in best[1]:
                saved |= cut.border
            found.append(tuple(self.nodes[i] for i in members(saved)))
        return found

    def kept(self, border: Sequence[int]) -> Kept:
        """Keep what crosses the cuts."""
        made = links_of(self.graph).made
        return kept_of_saved(self.graph, {value for node in border for value in made[node]})


@planner("kusumoto", reference="Kusumoto et al., NeurIPS 2019", allowed={"family": OneOf(FAMILIES)})
def kusumoto(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    family: str = "approximate",
    **_: Any,
) -> PlannerResult:
    """Save what crosses the best chain of lower sets of the forward pass; the cheapest that fits.

    ``family=exact`` takes all lower sets, of which there may be too many.
    """
    clock = Clock(time_limit)
    found = LowerSets(graph)
    if not found.nodes:
        return NO_BACKWARD
    sets = lower_sets(found.forward, family)
    if sets is None:
        return PlannerResult(NO_PLAN, message=f"the graph has over {MOST_SETS:,} lower sets")
    cuts = [cut_at(found.forward, nodes) for nodes in sets]
    borders = found.borders(cuts, clock.part(0.7))
    return cheapest(graph, budget, [*borders, ()], found.kept, clock=clock)
