"""Stages: what is kept, what has to be computed for it, and the schedules that follow."""

from __future__ import annotations

import random

import pytest
from random_traces import random_trace
from rematsim.heuristics.static.stages import (
    Kept,
    checkpointed,
    cost_of,
    count_of,
    members,
    minimal_computations,
    nothing_kept,
    schedule_of,
    span,
    stage_schedule,
    tight_schedule,
    trim,
)
from rematsim.static_graph import StaticGraph, evaluate, naive_peak_bytes
from rematsim.workload import workload

SEEDS = range(12)


def random_graph(seed: int) -> StaticGraph:
    return workload(random_trace(seed, events=40)).graph


def random_kept(graph: StaticGraph, seed: int) -> Kept:
    """Keep each value in random stages after its producer's."""
    draw = random.Random(seed)
    kept = nothing_kept(graph)
    for value, producer in enumerate(graph.producer.tolist()):
        later = span(producer + 1, graph.n_nodes)
        kept[value] |= draw.getrandbits(graph.n_nodes) & draw.getrandbits(graph.n_nodes) & later
    return kept


def minimal_by_rows(graph: StaticGraph, kept: Kept) -> list[list[int]]:
    """Work out the computations stage by stage, on a table of booleans."""
    n, producer = graph.n_nodes, graph.producer.tolist()
    there = [[bool(kept[x] >> t & 1) for x in range(graph.n_values)] for t in range(n)]
    rows = []
    for t in range(n):
        run = [v == t for v in range(n)]
        if t + 1 < n:
            for x, p in enumerate(producer):
                run[p] |= there[t + 1][x] and not there[t][x]
        for v in reversed(range(t + 1)):
            for x in graph.reads_of(v).tolist() if run[v] else ():
                run[producer[x]] |= not there[t][x]
        rows.append([v for v in range(n) if run[v]])
    return rows


def test_a_set_of_stages_is_an_int() -> None:
    assert members(span(2, 5) | 1) == [0, 2, 3, 4]
    assert span(3, 3) == span(4, 3) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_computed_is_that_of_the_rule_stage_by_stage(seed: int) -> None:
    graph = random_graph(seed)
    kept = random_kept(graph, seed)
    computed = minimal_computations(graph, kept)
    rows = minimal_by_rows(graph, kept)
    assert computed == [
        sum(1 << t for t, row in enumerate(rows) if node in row) for node in range(graph.n_nodes)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_trimming_never_costs_more_nor_takes_more(seed: int) -> None:
    """As said stage by stage, trimmed, and trimmed with each value freed after its last use."""
    graph = random_graph(seed)
    kept = random_kept(graph, seed)
    computed = minimal_computations(graph, kept)
    plain = evaluate(graph, stage_schedule(graph, kept))
    less, fewer = trim(graph, kept)
    trimmed = evaluate(graph, stage_schedule(graph, less))
    tight = evaluate(graph, tight_schedule(graph, fewer))
    assert plain.cost == cost_of(graph, computed)
    assert tight.cost == trimmed.cost == cost_of(graph, fewer) <= plain.cost
    assert tight.peak_bytes <= trimmed.peak_bytes <= plain.peak_bytes
    assert all(a & ~b == 0 for a, b in zip(less, kept, strict=True))
    assert trim(graph, less) == (less, fewer)
    assert evaluate(graph, schedule_of(graph, kept)) == tight


@pytest.mark.parametrize("seed", SEEDS)
def test_with_everything_kept_nothing_is_computed_again(seed: int) -> None:
    graph = random_graph(seed)
    kept = checkpointed(graph, range(graph.n_nodes))
    assert count_of(minimal_computations(graph, kept)) == graph.n_nodes
    found = evaluate(graph, schedule_of(graph, kept))
    assert found == (graph.base_cost, naive_peak_bytes(graph))
    assert evaluate(graph, schedule_of(graph, kept, is_trimmed=False)).cost == graph.base_cost
