"""Computing on demand: plans that are within the budget, near the least one too, and soon there."""

from __future__ import annotations

import pytest
from brute_force import cheapest
from planner_graphs import linear
from random_traces import random_trace
from rematsim.heuristics.static import get, on_demand
from rematsim.heuristics.static.registry import OPTIMAL
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

# bundled trace -> a part of the way from the least budget to the naive peak at which it has a plan
TIGHT = {"treelstm": 0.1, "gpt": 0.05, "densenet": 0.1, "lstm": 0.1, "resnet32": 0.07, "unet": 0.02}


@pytest.mark.parametrize("name", TIGHT)
def test_there_is_a_plan_near_the_least_budget(name: str) -> None:
    graph = workload(load_trace(f"bundled:{name}")).graph
    least, most = least_budget(graph)[0], naive_peak_bytes(graph)
    found = get("on-demand").plan(graph, int(least + TIGHT[name] * (most - least)))
    assert found.predicted is not None


def test_a_chain_has_a_plan_at_the_least_budget_that_has_one() -> None:
    for n in range(2, 9):
        graph = linear(n)
        fitting = next(
            b for b in range(1, 99) if b >= least_budget(graph)[0] and cheapest(graph, b)
        )
        assert get("on-demand").plan(graph, fitting).predicted is not None


def test_nothing_is_computed_twice_where_there_is_room() -> None:
    for seed in range(6):
        graph = workload(random_trace(seed, events=40)).graph
        assert get("on-demand").plan(graph, naive_peak_bytes(graph)).status == OPTIMAL
        assert get("on-demand").plan(graph, None).status == OPTIMAL


def test_what_is_tried_where_nothing_fits_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tries together have so many computations, whatever the time limit."""
    graph = workload(load_trace("bundled:unet")).graph
    monkeypatch.setattr(on_demand, "MOST_WORK", 5 * graph.n_nodes * graph.n_values)
    found = get("on-demand").plan(graph, least_budget(graph)[0])
    count = f"{5 * graph.n_nodes:,}"
    assert (found.status, found.schedule) == ("no_plan", None)
    assert found.message == f"none of its plans was found in {count} computations"
