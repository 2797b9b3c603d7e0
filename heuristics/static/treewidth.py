"""treewidth: divide the graph by small separators, and compute each part anew for what it gives.

A tree decomposition is cut again and again at a bag in the middle. To compute a bag, each part
beside it is asked for what the bag reads of it, and forgets all else. That takes little memory, and
many computations; so parts up to a size are computed as they stand, and the size is chosen by the
budget. What this gives is an order of computations. Where it would compute a node before an older
one has been computed at all, the older one is put before it.

References
----------
Kumar et al., NeurIPS 2019 (from its abstract: the steps and the use of a budget are our own).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from ...static_graph import Schedule, StaticGraph, evaluate, free_after_last_use
from .clock import NO_LIMIT, Clock, left_at_once
from .registry import FEASIBLE, LATE, TIME_LIMIT, PlannerResult, planner, without_plan
from .stages import links_of, made_bytes

STEPS = 24  # sizes of parts tried, in equal ratios
MOST_COMPUTATIONS_A_NODE = 100
SECONDS_A_NODE = 4e-4  # about what the decomposition takes, which asks no clock


class TooLongError(Exception):
    """More computations than are of use, or than there is time for; never leaves this module."""


@dataclass
class Part:
    """A bag, and the parts into which its removal divides the rest; ``nodes`` are all of them."""

    bag: list[int]
    parts: list[Part]
    nodes: frozenset[int]


def divide(reads: list[set[int]], clock: Clock = NO_LIMIT) -> Part:
    """Divide a graph, given by what each node reads, by a tree decomposition (least degree).

    Raises
    ------
    TooLongError
        The time is up.
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(len(reads)))
    graph.add_edges_from((u, v) for v, read in enumerate(reads) for u in read)
    tree: nx.Graph | None = None
    with left_at_once():
        _, tree = nx.algorithms.approximation.treewidth_min_degree(graph)
    if tree is None:
        raise TooLongError
    return _divided(tree, set(tree), set(), clock)


def _divided(tree: nx.Graph, bags: set[frozenset[int]], done: set[int], clock: Clock) -> Part:
    """Divide what lies in some bags, connected in the tree, apart from nodes that are done."""
    if clock.is_over:
        raise TooLongError
    middle = _middle(tree, bags, done)
    bag = sorted(middle - done)
    gone = done | middle
    rest = tree.subgraph(bags - {middle})
    parts = [_divided(tree, set(found), gone, clock) for found in nx.connected_components(rest)
             if any(nodes - gone for nodes in found)]  # fmt: skip
    parts.sort(key=lambda part: min(part.nodes))
    return Part(bag, parts, frozenset(bag).union(*(part.nodes for part in parts)))


def _middle(tree: nx.Graph, bags: set[frozenset[int]], done: set[int]) -> frozenset[int]:
    """Find the bag beside which no part has more than half of the nodes, or nearly."""
    root = min(bags, key=sorted)
    order = list(nx.bfs_predecessors(tree.subgraph(bags), root))
    seen, below = set(done), {}
    for bag in [root, *(bag for bag, _ in order)]:
        below[bag] = len(bag - seen)
        seen |= bag
    largest = dict.fromkeys(below, 0)
    for bag, above in reversed(order):
        below[above] += below[bag]
        largest[above] = max(largest[above], below[bag])
    total = below[root]
    return min(below, key=lambda bag: (max(largest[bag], total - below[bag]), sorted(bag)))


class Order:
    """Writes the order of computations for one size of parts that are computed as they stand."""

    def __init__(
        self, reads: list[set[int]], made: list[int], as_it_is_bytes: int, clock: Clock
    ) -> None:
        self.reads = reads
        self.made = made
        self.as_it_is_bytes = as_it_is_bytes
        self.clock = clock
        self.order: list[int] = []

    def solve(self, part: Part, wanted: Iterable[int]) -> None:
        """Compute some nodes of a part; what lies above it is there."""
        if len(self.order) > MOST_COMPUTATIONS_A_NODE * len(self.reads):
            raise TooLongError
        if self.clock.is_over:
            raise TooLongError
        wanted = set(wanted)
        needed = self._needed(part, wanted)
        if sum(self.made[node] for node in needed) <= self.as_it_is_bytes:
            self.order += sorted(needed)
            return
        for node in part.bag:
            if node in needed:
                for smaller in part.parts:
                    if read := self.reads[node] & smaller.nodes:
                        self.solve(smaller, read)
                self.order.append(node)
        for smaller in part.parts:
            if left := wanted & smaller.nodes:
                self.solve(smaller, left)

    def _needed(self, part: Part, wanted: set[int]) -> set[int]:
        """Give what of a part the wanted nodes depend on, they included."""
        needed, todo = set(wanted), list(wanted)
        while todo:
            new = (self.reads[todo.pop()] & part.nodes) - needed
            needed |= new
            todo += new
        return needed


def legal_order(graph: StaticGraph, order: Iterable[int]) -> list[int]:
    """Put first computations in the graph's order, and leave out those that must not be again."""
    found: list[int] = []
    computed = 0
    for node in order:
        if node >= computed:
            found += range(computed, node + 1)
            computed = node + 1
        elif graph.recomputable[node]:
            found.append(node)
    return [*found, *range(computed, graph.n_nodes)]


def schedule_by_parts(
    graph: StaticGraph, whole: Part, as_it_is_bytes: int, clock: Clock = NO_LIMIT
) -> Schedule | None:
    """Write the schedule for one size of parts; None if it would be, or take, too long."""
    _, reads, producer = links_of(graph)
    sources = [{producer[value] for value in read} for read in reads]
    order = Order(sources, made_bytes(graph), as_it_is_bytes, clock)
    read_by_some = set().union(*sources)
    try:
        order.solve(whole, (v for v in range(graph.n_nodes) if v not in read_by_some))
    except TooLongError:
        return None
    return free_after_last_use(graph, legal_order(graph, order.order))


@planner("treewidth", reference="Kumar et al., NeurIPS 2019")
def treewidth(
    graph: StaticGraph, budget: int | None, *, time_limit: float | None = None, **_: Any
) -> PlannerResult:
    """Divide by a tree decomposition; the largest parts that fit are computed as they stand."""
    clock = Clock(time_limit)
    if not graph.n_nodes:
        return PlannerResult(FEASIBLE, free_after_last_use(graph, ()))
    links = links_of(graph)
    late = PlannerResult(TIME_LIMIT, message=LATE)
    if clock.left is not None and clock.left < SECONDS_A_NODE * graph.n_nodes:
        return late
    try:
        whole = divide([{links.producer[value] for value in read} for read in links.reads], clock)
    except TooLongError:
        return late
    total = sum(made_bytes(graph))
    sizes = np.geomspace(max(total, 1), max(total, 1) / 1e4, STEPS).astype(np.int64).tolist()
    best: tuple[int, int, Schedule] | None = None
    least: int | None = None
    for size in [*sizes, 0]:
        if clock.is_over:
            break
        schedule = schedule_by_parts(graph, whole, size, clock)
        if schedule is None:
            continue
        cost, peak = evaluate(graph, schedule)
        least = peak if least is None else min(least, peak)
        if (budget is None or peak <= budget) and (best is None or (cost, peak) < best[:2]):
            best = cost, peak, schedule
    if best is not None:
        return PlannerResult(FEASIBLE, best[2])
    known = "none was short enough" if least is None else f"the smallest takes {least:,} bytes"
    return without_plan(clock, f"none of its plans fits: {known}")
