"""annealing: random changes of the best sequence of computations known, fewer bad ones in time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...sequences import Sequences
from ...static_graph import Schedule, StaticGraph, naive_peak_bytes, naive_schedule
from ..parameters import Whole
from .clock import Clock
from .descending import annealer, best_of, fitter, new_search
from .registry import FEASIBLE, PlannerResult, planner, without_plan
from .starting import best_start

FIRST_STEPS, CHUNK_SECONDS = 16, 0.1
# Of the time: for the search, a tenth is for what comes after; of that, for what is started from.
SEARCH_SHARE, START_SHARE = 0.9, 0.17
ROUNDS, MOST_STEPS = 4, 1_000_000
# Where the temperature begins, of the mean cost of a repeat; where it ends, of where it begins.
HOT, COLD = 0.5, 0.01
REPAIRS_PER_NODE, GREEDY_TRIES = 8, 8


@planner(
    "annealing",
    reference="FastSA, Imanishi et al., NeurIPS 2023: the idea; moves are ours",
    allowed={"steps": Whole(0, 10**9)},
    uses_starts=True,
    is_random=True,
)
def annealing(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    seed: int = 0,
    steps: int = 0,
) -> PlannerResult:
    """Improve the best start, a trivial or a greedy plan by annealing what is computed when.

    Parameters
    ----------
    graph, budget, starts, time_limit, seed
        As for every planner.
    steps : int
        Changes to try; 0: by the size of the graph.

    Notes
    -----
    The plan is never dearer than the best start that fits. With a time limit that ends it early,
    what it finds hangs on the machine's speed.
    """
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit).part(SEARCH_SHARE)
    known = best_start(graph, budget, starts, clock.part(START_SHARE))
    best = known.schedule
    search = new_search(graph, budget, seed, () if best is None else best.order.tolist())
    found = _greedy(graph, search, clock)
    if best is None and not found:
        return without_plan(clock, "no plan fits")
    _improve(graph, search, clock, steps or min(20_000 + 1000 * graph.n_nodes, MOST_STEPS))
    known.offer(best_of(graph, search))
    return PlannerResult(
        FEASIBLE, known.schedule, details={"first_plan_seconds": known.first_seconds}
    )


def _greedy(graph: StaticGraph, search: Sequences, clock: Clock) -> bool:
    """Make the naive order fit, and go on from there if it is cheaper than the start.

    Where there is no start, it is tried again with more chance in what is repaired.
    """
    here, start = search.run[0], search.order.copy()
    length, cost = int(here.length), int(here.cost)
    for noise in range(1 if length else GREEDY_TRIES):
        here.noise, here.trial_length, here.trial_cost = noise, graph.n_nodes, graph.base_cost
        search.trial[: graph.n_nodes] = np.arange(graph.n_nodes)
        for _ in range(REPAIRS_PER_NODE * graph.n_nodes // FIRST_STEPS + 1):
            answer = fitter().function(graph.arrays, search, FIRST_STEPS)
            if answer or clock.is_over:
                break
        if answer == 1:
            if here.cost > cost:
                search.order[:] = start
                here.length, here.cost = length, cost
            return True
    return False


def _improve(graph: StaticGraph, search: Sequences, clock: Clock, steps: int) -> None:
    """Anneal several times, each from the best so far and less hot than the time before."""
    here = search.run[0]
    for number in range(ROUNDS):
        repeats = int(here.best_length) - graph.n_nodes
        if repeats <= 0 or clock.is_over:
            return  # nothing is computed twice any more
        if number:
            search.order[:] = search.best
            here.length, here.cost = here.best_length, here.best_cost
        mean = (int(here.best_cost) - graph.base_cost) / repeats
        here.temperature = HOT * mean / 2**number
        here.last_temperature = here.temperature * COLD
        _cool_down(graph, search, max(1, steps // ROUNDS), clock.part(1 / (ROUNDS - number)))


def _cool_down(graph: StaticGraph, search: Sequences, steps: int, clock: Clock) -> None:
    """Anneal once, in chunks of time, as many steps as there is time for."""
    here = search.run[0]
    here.cooling = COLD ** (1 / steps)
    chunk, done = FIRST_STEPS, 0
    while done < steps:
        lap = Clock()
        asked = min(chunk, steps - done)
        taken = annealer().function(graph.arrays, search, asked)
        done += asked
        if taken < asked or clock.is_over:
            return
        spent, left = lap.spent, clock.left
        if spent < CHUNK_SECONDS:
            chunk *= 2
        elif left is not None and (steps - done) * spent / asked > left:  # time for fewer
            steps = done + 1 + int(left * asked / spent)
            here.cooling = (here.last_temperature / here.temperature) ** (1 / (steps - done))
