"""Starts are the best that simpler planners have, and those keep their time limits."""

from __future__ import annotations

import time

import pytest
from planner_graphs import GRAPHS, linear
from random_traces import random_trace
from rematsim.heuristics.static import get
from rematsim.heuristics.static.clock import NO_LIMIT, Clock
from rematsim.heuristics.static.descending import descend
from rematsim.heuristics.static.starting import TRIVIAL, best_start
from rematsim.planning import plan_trace
from rematsim.static_graph import evaluate, least_budget, naive_peak_bytes, naive_schedule
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

LAYERED = GRAPHS / "random_layered_n500.json"
SWEEPING = ("chen-greedy", "chen-sqrt", "every-kth", "knapsack", "kusumoto", "revolve", "treewidth")


def test_a_start_is_no_dearer_than_any_trivial_plan_or_given_one() -> None:
    graph = workload(load_trace("bundled:unet")).graph
    for part in (0.3, 0.7):
        least, most = least_budget(graph)[0], naive_peak_bytes(graph)
        budget = int(least + part * (most - least))
        start = best_start(graph, budget, [], NO_LIMIT)
        costs = [
            found.predicted.cost
            for found in (get(method).plan(graph, budget) for method in TRIVIAL)
            if found.predicted is not None
        ]
        assert start.schedule is not None and start.first_seconds is not None
        assert evaluate(graph, start.schedule).peak_bytes <= budget
        assert (start.cost or 0) <= min(costs)


@pytest.mark.parametrize("part", [0.9, 0.5])
def test_a_descent_gives_a_plan_that_fits_and_the_same_again(part: float) -> None:
    graph = workload(load_trace("bundled:unet")).graph
    budget = int(part * naive_peak_bytes(graph))
    first, again = descend(graph, budget), descend(graph, budget)
    assert first is not None and again is not None
    cost, peak_bytes = evaluate(graph, first)
    assert peak_bytes <= budget and cost > graph.base_cost
    assert first.order.tolist() == again.order.tolist()


def test_a_descent_ends_where_it_comes_to_nothing_or_its_time_is_up() -> None:
    graph = linear(8)
    assert descend(graph, least_budget(graph)[0] - 1) is None
    assert descend(graph, 5, clock=Clock(0.0)) is None


@pytest.mark.skipif(not LAYERED.exists(), reason=f"there is no {LAYERED}")
def test_where_no_simple_planner_has_a_plan_a_descent_has_one() -> None:
    """All online runs thrash on it, and the naive order cannot be repaired at once."""
    graph = workload(load_trace(LAYERED)).graph
    budget = int(0.8 * naive_peak_bytes(graph))
    assert get("on-demand").plan(graph, budget).schedule is None
    found = descend(graph, budget)
    assert found is not None and evaluate(graph, found).cost < 1.05 * graph.base_cost


@pytest.mark.skipif(not LAYERED.exists(), reason=f"there is no {LAYERED}")
def test_a_descent_that_comes_to_nothing_is_not_the_last() -> None:
    """With a byte more than above the first one leads nowhere, and there is no other start."""
    graph = workload(load_trace(LAYERED)).graph
    budget = int(0.8 * naive_peak_bytes(graph)) + 1
    assert descend(graph, budget) is None
    start = best_start(graph, budget, [], NO_LIMIT)
    assert start.cost is not None and start.cost < 1.05 * graph.base_cost


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
