"""Starts are the best that simpler planners have, and those keep their time limits."""

from __future__ import annotations

import time

import pytest
from random_traces import random_trace
from rematsim.heuristics.static import get
from rematsim.heuristics.static.clock import NO_LIMIT, Clock
from rematsim.heuristics.static.starting import FIRST, TRIVIAL, best_start
from rematsim.planning import plan_trace
from rematsim.static_graph import evaluate, least_budget, naive_peak_bytes, naive_schedule
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

SWEEPING = ("chen-greedy", "chen-sqrt", "every-kth", "knapsack", "kusumoto", "revolve", "treewidth")


def test_a_start_is_no_dearer_than_any_trivial_plan_or_given_one() -> None:
    graph = workload(load_trace("bundled:unet")).graph
    for part in (0.3, 0.7):
        least, most = least_budget(graph)[0], naive_peak_bytes(graph)
        budget = int(least + part * (most - least))
        start = best_start(graph, budget, [], NO_LIMIT)
        costs = [
            found.predicted.cost
            for found in (get(method).plan(graph, budget) for method in (*FIRST, *TRIVIAL))
            if found.predicted is not None
        ]
        assert start.schedule is not None and start.first_seconds is not None
        assert evaluate(graph, start.schedule).peak_bytes <= budget
        assert start.cost == min(costs)


def test_without_time_the_best_start_is_one_that_was_given() -> None:
    graph = workload(load_trace("bundled:unet")).graph
    start = best_start(graph, naive_peak_bytes(graph), [naive_schedule(graph)], Clock(0.0))
    assert start.cost == graph.base_cost


@pytest.mark.parametrize("method", SWEEPING)
def test_time_limits_reach_into_a_planners_choices(method: str) -> None:
    """Half a second is kept on 1,285 nodes, but for what an interpreter takes on a busy machine."""
    graph = workload(load_trace("bundled:gpt")).graph
    budget = int(0.6 * naive_peak_bytes(graph))
    started = time.perf_counter()
    get(method).plan(graph, budget, time_limit=0.5)
    assert time.perf_counter() - started < 0.5 + 5


def test_a_limit_that_is_long_enough_changes_nothing() -> None:
    """What is tried first, to have something, gives way to what is cheaper."""
    for seed in range(8):
        graph = workload(random_trace(seed, events=40), cached=False).graph
        budget = (least_budget(graph)[0] + naive_peak_bytes(graph)) // 2
        for method in ("chen-greedy", "every-kth", "knapsack", "revolve"):
            with_limit, without = (
                get(method).plan(graph, budget, time_limit=limit) for limit in (60.0, None)
            )
            assert with_limit.predicted == without.predicted
            assert with_limit.details == without.details


@pytest.mark.parametrize("method", ["annealing", "large-neighborhood"])
def test_searches_say_when_they_had_their_first_plan(method: str) -> None:
    """All is within the limit, the online runs that they start from included."""
    planned = plan_trace("bundled:unet", method, 0.6, time_limit=3.0)
    first = planned.found.details["first_plan_seconds"]
    assert planned.row.status == "ok" and 0 < first <= (planned.row.solve_seconds or 0)
    assert (planned.row.solve_seconds or 9) < 3.0 + 3
