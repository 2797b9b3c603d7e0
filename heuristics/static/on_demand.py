"""on-demand: each node in its turn, and what is missing for it before, depth first.

The plan for when little memory is left: it nearly always ends, and at the least budget computes
much. What goes where room is needed is chosen as online heuristics do, but knowing what is read
when; see ``ondemand.py``.
"""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import numpy as np

from ...jit import Entry, entry
from ...ondemand import DEMAND_FIELDS, FINISHED, GOES_ON, Demand, take_turns
from ...schedules import GraphArrays
from ...static_graph import (
    Schedule,
    StaticGraph,
    evaluate,
    free_after_last_use,
    naive_peak_bytes,
    naive_schedule,
)
from .clock import Clock
from .registry import FEASIBLE, PlannerResult, planner, without_plan

MOST_COMPUTATIONS_A_NODE = 100  # in one try
# In all tries: computations times values, among which each looks for room; about half a minute.
MOST_WORK, LEAST_A_NODE = 10**10, 4
CHUNK = 256  # computations between two looks at the clock
BACKWARD, OUTPUTS, NOTHING = range(3)  # what is held until it is read last


@planner("on-demand", reference="as Kirisame et al., ICLR 2021, but knowing what comes")
def on_demand(
    graph: StaticGraph, budget: int | None, *, time_limit: float | None = None, **_: Any
) -> PlannerResult:
    """Compute each node in its turn, and before it depth first what is missing for it."""
    clock = Clock(time_limit)
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    most = max(MOST_WORK // max(graph.n_values, 1), LEAST_A_NODE * graph.n_nodes)
    left = most
    best: tuple[int, Schedule] | None = None
    for held, takes_oldest in product((BACKWARD, OUTPUTS, NOTHING), (True, False)):
        if left <= 0 or (best is not None and held != BACKWARD):
            break
        is_whole, order = _order(graph, budget, held, takes_oldest, left, clock)
        left -= len(order)
        if not is_whole:
            continue
        schedule = free_after_last_use(graph, order)
        cost = evaluate(graph, schedule).cost
        if best is None or cost < best[0]:
            best = cost, schedule
    if best is not None:
        return PlannerResult(FEASIBLE, best[1])
    message = "what waits for what is missing does not fit"
    if left <= 0:
        message = f"none of its plans was found in {most:,} computations"
    return without_plan(clock, message)


def _order(
    graph: StaticGraph, budget: int, held: int, takes_oldest: bool, most: int, clock: Clock
) -> tuple[bool, Any]:
    """Give the nodes computed, at most so many, and whether these are a plan.

    They are none where it cannot be done so, or takes too long.
    """
    run = np.zeros(1, DEMAND_FIELDS)
    run["used"], run["budget"], run["takes_oldest"] = graph.fixed_bytes, budget, takes_oldest
    demand = Demand(
        order=np.zeros(min(MOST_COMPUTATIONS_A_NODE * graph.n_nodes, most), np.int32),
        stack=np.zeros(graph.n_nodes + 1, np.int32),
        producer=np.array(graph.producer, np.int32),
        reader_pointer=np.array(graph.reader_pointer, np.int32),
        readers=np.array(graph.readers_of_values, np.int32),
        place=np.array(graph.reader_pointer[:-1], np.int32),
        held_until=_held_until(graph, held),
        waited_for=np.zeros(graph.n_values, np.int32),
        is_there=np.zeros(graph.n_values, np.uint8),
        price=np.zeros(graph.n_values),
        is_dead=graph.backward[graph.producer].astype(np.uint8),
        run=run.view(np.recarray),
    )
    answer = GOES_ON
    while answer == GOES_ON and not clock.is_over:
        answer = _take_turns().function(graph.arrays, demand, CHUNK)
    return answer == FINISHED, demand.order[: int(run["length"][0])]


def _held_until(graph: StaticGraph, held: int) -> Any:
    """Give the last turn in which each value must not go; what runs once is held on and on."""
    until = np.full(graph.n_values, -1, np.int32)
    last = np.array(graph.last_reader, np.int32)
    if held == BACKWARD:
        is_late = graph.backward[graph.producer]
        until[is_late] = last[is_late]
    if held != NOTHING and graph.has_outputs:
        until[graph.reads_of(graph.n_nodes - 1)] = graph.n_nodes
    once = np.flatnonzero(~graph.recomputable[graph.producer])
    for value in once.tolist():
        made = [other for reader in graph.readers(value).tolist() for other in graph.values(reader)]
        until[value] = max([last[value], *last[made]])
    return until


@functools.cache
def _take_turns() -> Entry:
    return entry(take_turns, (GraphArrays, Demand))
