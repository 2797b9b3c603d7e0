"""Stages with what is held counted by itself: against the published program, and narrowed."""

from __future__ import annotations

from typing import Any

import pytest
from planner_graphs import linear, reference_graph
from random_traces import random_trace
from rematsim.heuristics.static import get
from rematsim.heuristics.static.held_program import HeldProgram
from rematsim.heuristics.static.held_solving import SOLVERS, held, narrowed
from rematsim.heuristics.static.integer_solving import integer, relaxed
from rematsim.heuristics.static.registry import FEASIBLE, INFEASIBLE, OPTIMAL
from rematsim.heuristics.static.stage_problem import StageProblem, stage_problem
from rematsim.static_graph import StaticGraph, least_budget, naive_peak_bytes
from rematsim.workload import workload


def graphs() -> list[tuple[StaticGraph, int]]:
    """Random graphs with calls of several results, each with a budget that is tight."""
    found = []
    for seed in range(40):
        graph = workload(random_trace(seed, events=20), cached=False).graph
        least, naive = least_budget(graph)[0], naive_peak_bytes(graph)
        if graph.n_nodes > 4 and least < naive:
            found.append((graph, (2 * least + naive) // 3))
    return [*found[:10], (linear(6), 4), (linear(5), 3)]


def tell(_: Any) -> None:
    """Take what a solver finds on its way."""


def extra(problem: StageProblem, runs: list[tuple[int, int]]) -> int:
    return sum(problem.cost[node] for stage, node in runs if stage > node)


@pytest.mark.parametrize("solver", SOLVERS)
def test_it_has_the_optima_of_the_published_program(solver: str) -> None:
    for graph, budget in graphs():
        problem = stage_problem(graph, budget, None)
        published = integer(problem, "tight", tell, 60)
        found = held(problem, solver, 0, tell, 60)
        assert found["status"] == published["status"]
        if found["status"] == OPTIMAL:
            assert found["bound"] == extra(problem, found["runs"]) == round(published["bound"])


def test_its_relaxation_is_never_further_from_the_optimum() -> None:
    for graph, budget in graphs():
        problem = stage_problem(graph, budget, None)
        published = relaxed(problem, "tight", [1.0], tell, 60)
        found = narrowed(problem, 1.0, tell, 60)
        if found["status"] != INFEASIBLE:
            assert found["bound"] >= published["bound"] - 1e-4


def test_narrowing_leaves_every_best_schedule_and_no_better_one() -> None:
    for graph, budget in graphs():
        best = held(stage_problem(graph, budget, None), "highs", 0, tell, 60)
        if best["status"] != OPTIMAL:
            continue
        for most, status in ((best["bound"], OPTIMAL), (best["bound"] - 1, INFEASIBLE)):
            unit = stage_problem(graph, budget, None).cost_unit
            problem = stage_problem(graph, budget, graph.base_cost + most * unit)
            left = narrowed(problem, 1.0, tell, 60)
            assert left["status"] in (FEASIBLE, INFEASIBLE)
            if left["status"] == FEASIBLE:
                found = held(left["problem"], "highs", 0, tell, 60)
                assert found["status"] == status and found["bound"] <= best["bound"]
            else:
                assert status == INFEASIBLE


def test_what_nothing_can_change_is_no_variable() -> None:
    """With one computation of each node, all that is left is whether it fits."""
    problem = stage_problem(linear(6), 8, linear(6).base_cost)
    assert HeldProgram(problem).n_columns == 1


@pytest.mark.parametrize(("budget", "cost"), [(13_160_000_000, 15805), (15_000_000_000, 15755)])
def test_a_reference_graph_is_proven_with_no_limit_on_computations(budget: int, cost: int) -> None:
    graph = reference_graph("vgg16_b256_train")
    for method in ("checkmate", "optimal"):
        found = get(method).plan(graph, budget, time_limit=60)
        assert found.predicted is not None
        assert (found.status, found.predicted.cost) == (OPTIMAL, cost)
