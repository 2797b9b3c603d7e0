"""The fastest plan of a tiny graph that keeps, recomputes and offloads, by trying all there are.

Tried are all orders of computations, first ones in the order of the graph and none in vain, all
sets of values that are away between two uses, all places between calls where they leave and come,
and all turns of those at one place. What is not wanted again goes at once, and host copies do when
they have been brought back. Every plan is followed to its end; for graphs of half a dozen nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import NamedTuple

from rematsim.heuristics.static.placing_copies import Trip, judged
from rematsim.heuristics.static.stages import read_again
from rematsim.heuristics.static.transfer_gaps import Moving
from rematsim.links import Link
from rematsim.static_graph import Schedule, StaticGraph, free_after_last_use


class Limits(NamedTuple):
    """How often a node may run and a value come back."""

    runs: int = 2
    trips: int = 1


def fastest(
    graph: StaticGraph, link: Link, budget: int, limits: Limits
) -> tuple[int, Schedule] | None:
    """Give the least time of a plan within a budget, and such a plan; None if there is none."""
    best: tuple[int, Schedule] | None = None
    orders = sorted(_orders(graph, limits.runs), key=lambda order: int(graph.cost[order].sum()))
    for order in orders:
        if best is not None and graph.cost[order].sum() >= best[0]:
            break
        moving = Moving(graph, free_after_last_use(graph, order), budget, link)
        for trips in _trips(moving, limits.trips):
            found = judged(moving, trips)
            if found is not None and (best is None or found.cost < best[0]):
                best = found.cost, found.schedule
    return best


def _orders(graph: StaticGraph, most: int) -> Iterator[list[int]]:
    """Give all orders in which nothing runs again in vain."""

    def longer(order: list[int], fresh: int) -> Iterator[list[int]]:
        if fresh == graph.n_nodes:
            if read_again(graph, order) == order:
                yield order
            return
        for node in range(fresh + 1):
            again = node < fresh and graph.recomputable[node] and order.count(node) < most
            if node == fresh or again:
                yield from longer([*order, node], fresh + (node == fresh))

    for order in longer([], 0):
        made: set[int] = set()
        is_legal = True
        for node in order:
            is_legal &= made.issuperset(graph.reads_of(node).tolist())
            made.update(graph.values(node))
        if is_legal:
            yield order


def _trips(moving: Moving, most: int) -> Iterator[list[Trip]]:
    """Give all that can be away, when, and in which turns."""
    gaps = [gap for life in moving.lives for gap in moving.gaps_of(*life) if gap.size]
    for number in range(len(gaps) + 1):
        for away in combinations(gaps, number):
            values = [gap.value for gap in away]
            if not moving.fits(away) or any(values.count(value) > most for value in values):
                continue
            places = [combinations_with_replacement(range(g.last + 1, g.next + 1), 2) for g in away]
            for chosen in product(*places):
                trips = [Trip(gap, *place) for gap, place in zip(away, chosen, strict=True)]
                yield from (list(turns) for turns in permutations(trips))
