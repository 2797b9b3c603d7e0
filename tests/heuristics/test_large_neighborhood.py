"""Large neighborhoods: never dearer than the start, and parts are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import cheapest
from random_traces import random_trace
from rematsim.heuristics.static import get, large_neighborhood
from rematsim.heuristics.static.clock import Clock
from rematsim.heuristics.static.large_neighborhood import Gaps
from rematsim.heuristics.static.part_program import improve
from rematsim.heuristics.static.parts import Layout
from rematsim.heuristics.static.solving import NOT_INSTALLED, Ended
from rematsim.static_graph import (
    StaticGraph,
    evaluate,
    free_after_last_use,
    least_budget,
    naive_peak_bytes,
)
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

pytest.importorskip("ortools")


def small_graph(seed: int) -> StaticGraph:
    return workload(random_trace(seed, events=30, tags=True), cached=False).graph


def order_of(graph: StaticGraph, budget: int) -> list[int]:
    found = get("on-demand").plan(graph, budget).schedule
    if found is None:
        return []
    return found.order.tolist()


def test_what_a_part_finds_fits_and_costs_what_it_says() -> None:
    """Whatever is free: the order has the known repeats' cost less what is saved, and fits."""
    better = 0
    for seed in range(40):
        graph = small_graph(seed)
        budget = (2 * least_budget(graph)[0] + naive_peak_bytes(graph)) // 3
        order = order_of(graph, budget)
        cost = int(graph.cost[order].sum())
        free = set(np.flatnonzero(graph.recomputable).tolist())
        layout = Layout(graph, order, free)
        assert sorted(layout.order(layout.known)) == sorted(order)
        answer = improve(layout.part(budget), 5.0, lambda _: None, None)
        assert answer["is_proven"]
        if answer["events"] is not None:
            found = evaluate(graph, free_after_last_use(graph, layout.order(answer["events"])))
            assert found.peak_bytes <= budget and found.cost < cost
            better += 1
    assert better > 3


def test_a_part_of_all_nodes_has_the_optimum_mostly() -> None:
    """Against an exhaustive search, from the greedy plan."""
    tried = met = 0
    for seed in range(60):
        graph = workload(random_trace(seed, events=14), cached=False).graph
        if graph.n_values > 8 or graph.n_nodes > 12:
            continue
        budget = naive_peak_bytes(graph) - 1
        best = cheapest(graph, budget) if budget >= least_budget(graph)[0] else None
        found = get("large-neighborhood(rounds=20)").plan(graph, budget)
        assert found.predicted is None or (best is not None and best <= found.predicted.cost)
        tried += best is not None
        met += found.predicted is not None and found.predicted.cost == best
    assert tried > 8 and met > 0.8 * tried


def test_it_is_never_dearer_than_its_start_and_the_seed_decides() -> None:
    graph = workload(load_trace("bundled:unet")).graph
    budget = int(0.6 * naive_peak_bytes(graph))
    start = get("on-demand").plan(graph, budget).schedule
    assert start is not None
    costs = []
    for seed in (1, 1, 2):
        search = large_neighborhood._Parts(graph, budget, start, seed)
        search.go(4, Clock(None))
        assert evaluate(graph, search.schedule).peak_bytes <= budget
        costs.append(search.cost)
    assert costs[0] == costs[1] and max(costs) < evaluate(graph, start).cost


def test_gaps_are_between_uses() -> None:
    """What is repeated was made before; what is kept is not used in between."""
    graph = workload(load_trace("bundled:unet")).graph
    order = order_of(graph, int(0.6 * naive_peak_bytes(graph)))
    gaps = Gaps(graph, order)
    assert len(gaps.repeated) == len(order) - graph.n_nodes
    for first, last, node in gaps.repeated.tolist():
        assert first < last and order[last] == node
    for first, last, node in gaps.kept.tolist():
        read = {
            graph.producer[v] for at in range(first + 1, last) for v in graph.reads_of(order[at])
        }
        assert last > first + 1
        assert node not in read or len(graph.values(node)) > 1


def test_without_its_solver_it_gives_the_start_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Ended(NOT_INSTALLED, message="ortools is not installed")
    monkeypatch.setattr(large_neighborhood, "solve", lambda *_, **__: missing)
    graph = workload(load_trace("bundled:unet")).graph
    found = get("large-neighborhood(rounds=1)").plan(graph, int(0.6 * naive_peak_bytes(graph)))
    assert found.status == "feasible" and found.message == "ortools is not installed"
