"""Binomial checkpointing: known numbers of runs, and chains that reach them."""

from __future__ import annotations

import functools

import pytest
from planner_graphs import linear, reference_graph
from rematsim.heuristics.static import get
from rematsim.heuristics.static.revolve import binomial_splits, revolve_kept
from rematsim.heuristics.static.segments import Segments
from rematsim.heuristics.static.stages import schedule_of
from rematsim.static_graph import evaluate

# Steps, slots -> runs of a step in all.
RUNS = {
    (5, 1): 15, (5, 2): 11, (5, 3): 10, (5, 4): 9, (10, 1): 55, (10, 2): 30, (10, 3): 25,
    (10, 4): 24, (10, 5): 23, (10, 9): 19, (20, 1): 210, (20, 2): 85, (20, 3): 65, (20, 4): 59,
    (20, 5): 53, (20, 9): 49, (56, 1): 1596, (56, 2): 396, (56, 3): 266, (56, 4): 224,
    (56, 5): 196, (56, 9): 158, (100, 1): 5050, (100, 2): 945, (100, 3): 590, (100, 4): 474,
    (100, 5): 416, (100, 9): 334,
}  # fmt: skip


def forward_runs(n_steps: int, slots: int) -> int:
    """Count the runs of a step: once each to differentiate it, and those that lead up to it."""
    splits = binomial_splits(n_steps, slots)
    return n_steps + sum(split.middle - split.first for split in splits)


@functools.cache
def least_runs(n: int, slots: int) -> int:
    """Give the fewest advances, by the recurrence over where to cut."""
    if n == 1:
        return 0
    if slots == 1:
        return n * (n - 1) // 2
    return min(i + least_runs(i, slots) + least_runs(n - i, slots - 1) for i in range(1, n))


@pytest.mark.parametrize(("n", "slots"), RUNS)
def test_runs_are_as_many_as_known(n: int, slots: int) -> None:
    assert forward_runs(n, slots) == RUNS[n, slots]


def test_no_cut_is_better_than_the_binomial_one() -> None:
    for n in range(1, 41):
        for slots in range(1, n + 1):
            assert forward_runs(n, slots) == n + least_runs(n, slots), (n, slots)


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_no_more_slots_are_held_at_once_than_there_are(slots: int) -> None:
    """A cut's slot is held until the steps behind it are reversed; the input has one too."""
    for end in range(30, 0, -1):  # while the step before is reversed
        held = {
            s.middle for s in binomial_splits(30, slots) if s.is_held and s.end >= end > s.middle
        }
        assert len(held) <= slots - 1


@pytest.mark.parametrize(("n", "slots"), [(10, 2), (10, 3), (10, 5), (20, 3), (20, 5)])
def test_a_chain_takes_the_known_runs_and_little_more_than_the_slots(n: int, slots: int) -> None:
    """linear(n): forward runs, the loss and n gradients; besides the slots, what is worked on."""
    graph = linear(n)
    kept = revolve_kept(Segments(graph), list(range(n)), slots)
    cost, peak = evaluate(graph, schedule_of(graph, kept))
    assert cost <= RUNS[n, slots] + n + 1
    assert peak <= slots + 3


def test_the_number_of_slots_follows_the_budget() -> None:
    graph = linear(20)
    costs = []
    for budget in range(4, 23):
        found = get("revolve").plan(graph, budget).predicted
        assert found is not None and found.peak_bytes <= budget
        costs.append(found.cost)
    assert costs == sorted(costs, reverse=True) and costs[-1] == graph.base_cost


@pytest.mark.parametrize("name", ["vgg16_b256", "unet_b32"])
def test_between_articulation_points_it_reaches_less_memory_than_sqrt(name: str) -> None:
    graph = reference_graph(name)
    sqrt = get("chen-sqrt(points=articulation)").plan(graph).predicted
    assert sqrt is not None
    found = get("revolve(points=articulation)").plan(graph, sqrt.peak_bytes)
    assert found.predicted is not None
    assert found.predicted.peak_bytes <= sqrt.peak_bytes
