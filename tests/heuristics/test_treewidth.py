"""Division by tree decompositions: little memory, orders that are legal, budgets."""

from __future__ import annotations

import pytest
from planner_graphs import linear, reference_graph
from random_traces import random_trace
from rematsim.heuristics.static import get
from rematsim.heuristics.static.registry import NO_PLAN, OPTIMAL
from rematsim.heuristics.static.stages import links_of
from rematsim.heuristics.static.treewidth import Part, divide, legal_order, schedule_by_parts
from rematsim.static_graph import StaticGraph, evaluate, naive_peak_bytes
from rematsim.workload import workload

# linear(n): n -> computations and peak that a plain form of the method reaches without a budget.
KNOWN = {4: (13, 6), 8: (27, 8), 16: (48, 11), 32: (117, 13), 64: (260, 16), 128: (610, 20)}


def divided(graph: StaticGraph) -> Part:
    _, reads, producer = links_of(graph)
    return divide([{producer[value] for value in read} for read in reads])


def depth(part: Part) -> int:
    return 1 + max(map(depth, part.parts), default=0)


@pytest.mark.parametrize("n", KNOWN)
def test_a_chain_takes_little_memory_and_few_computations(n: int) -> None:
    graph = linear(n)
    schedule = schedule_by_parts(graph, divided(graph), 0)
    assert schedule is not None
    found, (cost, peak) = evaluate(graph, schedule), KNOWN[n]
    assert found.cost <= cost and found.peak_bytes <= peak


@pytest.mark.parametrize("seed", range(6))
def test_parts_hold_each_node_once_and_are_not_deep(seed: int) -> None:
    graph = workload(random_trace(seed, events=60)).graph
    whole, found = divided(graph), []
    todo = [whole]
    while todo:
        part = todo.pop()
        found += part.bag
        todo += part.parts
    assert sorted(found) == list(range(graph.n_nodes))
    assert depth(whole) <= 2 * graph.n_nodes.bit_length() + 1
    for size in (0, graph.fixed_bytes, 1 << 60):
        schedule = schedule_by_parts(graph, whole, size)
        assert schedule is not None and evaluate(graph, schedule).cost >= graph.base_cost


def test_first_computations_are_put_in_order() -> None:
    assert legal_order(linear(2), [1, 0, 1, 3, 1]) == [0, 1, 0, 1, 2, 3, 1, 4]


def test_budgets_choose_the_size_of_parts() -> None:
    graph = linear(32)
    peak = naive_peak_bytes(graph)
    assert get("treewidth").plan(graph, peak).status == OPTIMAL
    costs = []
    for budget in (9, 12, 16, 24, peak):
        found = get("treewidth").plan(graph, budget).predicted
        assert found is not None and found.peak_bytes <= budget
        costs.append(found.cost)
    assert costs == sorted(costs, reverse=True)
    found = get("treewidth").plan(graph, 4)
    assert found.status == NO_PLAN and found.message.startswith("none of its plans fits: the small")


@pytest.mark.parametrize("name", ["vgg16_b256", "unet_b32"])
def test_on_graphs_of_the_literature_it_saves_memory(name: str) -> None:
    graph = reference_graph(name)
    found = get("treewidth").plan(graph, int(0.95 * naive_peak_bytes(graph)))
    assert found.predicted is not None
