"""POET's integer program: Checkmate's where nothing can move; nothing lost where moving is free."""

from __future__ import annotations

import math

import pytest
from planner_graphs import LINEAR, linear, linear_trace
from rematsim.heuristics.static.poet_program import Copies, poet_plan
from rematsim.heuristics.static.registry import INFEASIBLE, OPTIMAL
from rematsim.heuristics.static.stage_problem import stage_problem
from rematsim.planning import plan_trace


def bound_of(
    n: int, budget: int, copy: float | None, weight: float = 1.0, most: float = math.inf
) -> float:
    """Give the program's optimum, the first computations included; infinity if there is none."""
    graph = linear(n)
    problem = stage_problem(graph, budget, None)
    times = [copy] * graph.n_values
    copies = Copies(times, times, weight, [0.0] * graph.n_values, most)
    found = poet_plan(problem, copies, lambda _: None, None)
    if found["status"] == INFEASIBLE:
        return math.inf
    assert found["status"] == OPTIMAL
    return graph.base_cost + round(found["bound"], 6)


@pytest.mark.parametrize(("n", "budget"), LINEAR)
def test_where_nothing_can_move_it_is_checkmate(n: int, budget: int) -> None:
    """The known optima: with the published solver's rule for what is freed they would be less."""
    assert bound_of(n, budget, None) == LINEAR[n, budget]
    assert bound_of(n, budget, 1.0, weight=100) == LINEAR[n, budget]
    row = plan_trace(linear_trace(n), "poet", budget, link="link(d2h=0,h2d=inf)").row
    assert (row.planner_status, row.slowdown, row.bound_slowdown) == (
        OPTIMAL,
        *[LINEAR[n, budget] / (2 * n + 1)] * 2,
    )


@pytest.mark.parametrize(("n", "budget"), LINEAR)
def test_copies_cost_their_time_and_what_is_cheaper_is_done(n: int, budget: int) -> None:
    free, cheap, dear = (bound_of(n, budget, copy) for copy in (0.0, 0.5, 2.0))
    assert free == 2 * n + 1 <= cheap <= dear <= LINEAR[n, budget]


def test_a_limit_of_time_excludes_what_costs_less_by_weight() -> None:
    """Copies weigh nothing and take 3 each way: within 2 units more there is but recomputation."""
    assert bound_of(3, 4, 3.0, weight=0.0) == 7
    assert bound_of(3, 4, 3.0, weight=0.0, most=2) == LINEAR[3, 4]
    assert bound_of(3, 4, 3.0, weight=0.0, most=0.5) == math.inf


@pytest.mark.parametrize("budget", [4, 5])
def test_what_it_finds_is_overlapped(budget: int) -> None:
    """The plan takes no longer than the program says, with the copies beside compute."""
    trace = linear_trace(4)
    link = "link(d2h=1GB/s,h2d=1GB/s,latency=0)"
    planned = plan_trace(trace, "poet", budget, link=link)
    row, own = planned.row, linear(4).base_cost
    assert row.status == "ok" and row.slowdown is not None
    assert row.slowdown == row.predicted_slowdown
    assert row.slowdown * own <= own + planned.found.details["program_bound"] + 1e-6


def test_large_graphs_are_solved_as_groups() -> None:
    planned = plan_trace("bundled:unet", "poet", 0.8, link="h100-pcie5", time_limit=20)
    assert planned.row.status == "ok" and planned.found.details["groups"] <= 42
