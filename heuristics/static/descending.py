"""Schedules that fit, by little and little: the budget is lowered step by step from the naive peak.

At each step the sequence reached is repaired until it fits, and then annealed for a short while,
which makes it cheaper and leaves what the next repair can use. To repair the naive order for the
whole budget at once costs more, and soon finds nothing. The kernels are those of ``sequences.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...jit import Entry, entry
from ...randomness import seeded
from ...schedules import GraphArrays
from ...sequences import LONGEST_CHAIN, SEARCH_FIELDS, Sequences, anneal, make_fit
from ...static_graph import Schedule, StaticGraph, free_after_last_use, naive_peak_bytes
from .clock import NO_LIMIT, Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_REPEATS = 40  # of a node, on average
NO_COST = np.iinfo(np.int64).max
FIRST_PART, LEAST_PART = 1 / 4, 1 / 256  # of the way down, for a step; halved where it is too long
NOISES = 3  # tries of a step, each with more chance in what is repaired
REPAIRS, CHUNK = 256, 16  # of one try; between two looks at the clock
# Changes to anneal with at each step; fewer for large graphs, as each takes longer.
MOST_CHANGES, LEAST_CHANGES, ALL_CHANGES = 1000, 50, 500_000
HOT, COLD = 0.2, 0.01  # temperature: of the mean cost of a repeat, and at the end of that


@functools.cache
def annealer() -> Entry:
    """Get `sequences.anneal`: (graph, search, steps)."""
    return entry(anneal, (GraphArrays, Sequences))


@functools.cache
def fitter() -> Entry:
    """Get `sequences.make_fit`: (graph, search, repairs)."""
    return entry(make_fit, (GraphArrays, Sequences))


def new_search(graph: StaticGraph, budget: int, seed: int, order: Sequence[int] = ()) -> Sequences:
    """Make a search that has reached a start, if there is one."""
    n_nodes, codes = graph.n_nodes, _codes(graph, order)
    capacity = max(MOST_REPEATS * n_nodes, 2 * len(codes)) + LONGEST_CHAIN
    sequences = {name: np.zeros(capacity, np.int32) for name in ("order", "trial", "best")}
    run = np.zeros(1, SEARCH_FIELDS)
    run["random"], run["fixed"], run["budget"] = seeded(seed), graph.fixed_bytes, budget
    run["best_cost"] = run["cost"] = NO_COST
    if len(codes):
        for name in ("order", "best"):
            sequences[name][: len(codes)] = codes
        run["length"] = run["best_length"] = len(codes)
        run["cost"] = run["best_cost"] = int(graph.cost[list(order)].sum())
    return Sequences(
        **sequences,
        producer=np.array(graph.producer),
        next_use=np.zeros(graph.n_values, np.int32),
        chain=np.zeros(LONGEST_CHAIN, np.int32),
        in_chain=np.zeros(n_nodes, np.uint8),
        run=run.view(np.recarray),
    )


def _codes(graph: StaticGraph, order: Sequence[int]) -> NDArray[np.int32]:
    """Mark the repeats in an order of nodes."""
    codes, fresh = [], 0
    for node in order:
        codes.append(node if node == fresh else node + graph.n_nodes)
        fresh += node == fresh
    return np.array(codes, np.int32)


def best_of(graph: StaticGraph, search: Sequences) -> Schedule:
    """Give the best sequence of a search as a schedule."""
    codes = search.best[: search.run[0].best_length]
    return free_after_last_use(graph, codes % graph.n_nodes)


def descend(
    graph: StaticGraph, budget: int, *, seed: int = 0, clock: Clock = NO_LIMIT
) -> Schedule | None:
    """Lower the budget from the naive peak until it is this one.

    Parameters
    ----------
    graph, budget, seed
        As for planners; the naive schedule takes more than the budget.
    clock : Clock
        Until when to try.

    Returns
    -------
    Schedule or None
        None where a step of the way cannot be taken, or the time is up before.
    """
    way = naive_peak_bytes(graph) - budget
    search, below, part = new_search(graph, budget, seed), 0, FIRST_PART
    reached, cost = np.arange(graph.n_nodes, dtype=np.int32), graph.base_cost
    while below < way:
        if clock.is_over:
            return None
        goal = min(way, below + max(1, int(part * way)))
        search.run[0].budget = budget + way - goal
        if not _fits(graph, search, reached, cost, clock):
            part /= 2
            if part < LEAST_PART:
                return None
            continue
        _cool(graph, search, clock)
        here = search.run[0]
        reached, cost = search.best[: here.best_length].copy(), int(here.best_cost)
        below = goal
    return best_of(graph, search)


def _fits(
    graph: StaticGraph, search: Sequences, reached: NDArray[np.int32], cost: int, clock: Clock
) -> bool:
    """Repair what has been reached until it fits."""
    here = search.run[0]
    for noise in range(NOISES):
        here.noise, here.cost, here.best_cost = noise, NO_COST, NO_COST
        here.trial_length, here.trial_cost = len(reached), cost
        search.trial[: len(reached)] = reached
        for _ in range(0, REPAIRS, CHUNK):
            answer = fitter().function(graph.arrays, search, CHUNK)
            if answer == 1:
                return True
            if answer or clock.is_over:
                break
    return False


def _cool(graph: StaticGraph, search: Sequences, clock: Clock) -> None:
    """Anneal for a short while."""
    here = search.run[0]
    repeats = int(here.best_length) - graph.n_nodes
    if repeats <= 0:
        return
    changes = min(MOST_CHANGES, max(LEAST_CHANGES, ALL_CHANGES // graph.n_nodes))
    here.temperature = HOT * (int(here.best_cost) - graph.base_cost) / repeats
    here.last_temperature = here.temperature * COLD
    here.cooling = COLD ** (1 / changes)
    for _ in range(0, changes, CHUNK):
        annealer().function(graph.arrays, search, CHUNK)
        if clock.is_over:
            return
