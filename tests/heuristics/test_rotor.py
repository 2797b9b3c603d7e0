"""Rotor: its chains have the times known for them, and its plans on graphs are what they seem."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from rematsim.audit import audit
from rematsim.heuristics.static import get
from rematsim.heuristics.static.rotor import _falling
from rematsim.heuristics.static.rotor_chain import (
    AGAIN,
    BACKWARD,
    FORWARD,
    FORWARD_ALL,
    Chain,
    RotorTable,
)
from rematsim.heuristics.static.stages import read_again
from rematsim.planning import plan_trace
from rematsim.simulation import simulate
from rematsim.static_graph import evaluate, naive_peak_bytes
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

HETEROGENEOUS = Chain([4, 1, 3, 2], [8, 2, 6, 4], [2, 3, 1, 2, 1], [5, 4, 3, 3], [2, 3, 1, 2, 1])
TIMES = {12: math.inf, 13: 39, 14: 38, 15: 35, 16: 34, 17: 31, 18: 31, 19: 31, 20: 30, 21: 30}
MIXED = {2: math.inf, 3: 54, 4: 26, 5: 19, 6: 17}  # forward runs of ten stages, by memory
REVOLVE = {1: 55, 2: 30, 3: 25, 4: 24, 5: 23, 6: 22, 7: 21}  # likewise, by slots


def uniform(n: int, record: int) -> Chain:
    """Stages of one unit of time and size each; no gradients; backward steps cost nothing."""
    return Chain([1] * n, [0] * n, [1] * (n + 1), [record] * n, [0] * (n + 1))


@pytest.mark.parametrize("memory", TIMES)
def test_a_heterogeneous_chain_has_the_known_times(memory: int) -> None:
    assert RotorTable(HETEROGENEOUS, 21, 21).time(memory) == TIMES[memory]


@pytest.mark.parametrize("memory", MIXED)
def test_records_as_small_as_outputs_give_mixed_checkpointing(memory: int) -> None:
    assert RotorTable(uniform(10, 1), 12, 12).time(memory) == MIXED[memory]


@pytest.mark.parametrize("slots", REVOLVE)
def test_huge_records_give_revolve(slots: int) -> None:
    """Only one is there at a time; the rest of memory holds inputs, the first of them included."""
    table = RotorTable(uniform(10, 1000), 1020, 1020)
    assert table.time(1000 + slots + 1) == REVOLVE[slots]


@pytest.mark.parametrize("seed", range(12))
def test_a_schedule_takes_the_time_that_the_table_says(seed: int) -> None:
    """Every stage is differentiated once, from the last to the first, after all of it was kept."""
    draw = random.Random(seed)
    n = draw.randint(1, 9)
    sizes = [draw.randint(1, 4) for _ in range(n + 1)]
    times = [[draw.randint(1, 9) for _ in range(n)] for _ in range(2)]
    chain = Chain(*times, sizes, [size + draw.randint(0, 4) for size in sizes[1:]], sizes)
    table = RotorTable(chain, 60, 60)
    previous = math.inf
    for memory in range(61):
        steps, time = table.steps(memory), table.time(memory)
        assert time <= previous and bool(steps) == math.isfinite(time)
        previous = time
        if steps:
            spent = {FORWARD: chain.forward, FORWARD_ALL: chain.forward, BACKWARD: chain.backward}
            assert sum(spent[what][stage] for what, stage in steps) == time
            order = [stage for what, stage in steps if what == BACKWARD]
            assert order == list(range(n))[::-1]
    assert previous == sum(map(sum, times))


def test_numbers_are_made_to_fall_with_the_least_change() -> None:
    assert _falling([5, 5, 3, 5, 4, 0, 2, 2, 1, 5]) == [5, 5, 4, 4, 4, 2, 2, 2, 1, 1]
    assert _falling([3]) == [3] and _falling([1, 2]) in ([1, 1], [2, 2])


def test_what_is_not_read_again_is_not_computed_again() -> None:
    graph = workload(load_trace("synthetic:chain:6")).graph
    nodes = list(range(graph.n_nodes))
    assert read_again(graph, [*nodes[:3], 0, 0, *nodes[3:]]) == [*nodes[:3], 0, *nodes[3:]]
    assert read_again(graph, [*nodes, 0, 1]) == nodes


def test_it_beats_online_heuristics_on_a_chain_of_blocks() -> None:
    trace = load_trace("bundled:resnet32")
    planned = plan_trace(trace, "rotor", 0.4, event_log=True)
    online = simulate(trace, "h_DTR_eq", 0.4, slowdown_limit=None)
    assert planned.row.status == "ok" and audit(trace, planned.row)
    assert planned.row.slowdown is not None and online.slowdown is not None
    assert planned.row.slowdown < online.slowdown


def test_finer_slots_and_more_points_are_never_needed_for_a_legal_plan() -> None:
    graph = workload(load_trace("bundled:unet")).graph
    budget = int(0.9 * naive_peak_bytes(graph))
    for method in ("rotor", "rotor(slots=40)", "rotor(points=linear)"):
        found = get(method).plan(graph, budget)
        assert found.schedule is None or evaluate(graph, found.schedule).peak_bytes <= budget
    assert get("rotor").plan(graph, budget).schedule is not None


def test_a_lighter_record_is_taken_where_that_is_cheaper() -> None:
    """Two stages in 7 units: with 2 of the first's 4 left out, 1 unit of time buys what 3 did."""
    chain = Chain([3, 1], [1, 1], [0, 1, 1], [4, 2], [0, 1, 1], lighter=[[(2, 1)], []])
    whole = RotorTable(replace(chain, lighter=()), 7, 7)
    lighter = RotorTable(chain, 7, 7)
    assert lighter.time(7) == 6 + 1 < whole.time(7)
    steps = lighter.steps(7)
    assert steps == [
        (FORWARD_ALL, 0),
        (FORWARD_ALL, 1),
        (BACKWARD, 1),
        (AGAIN[0], 0),
        (BACKWARD, 0),
    ]


@pytest.mark.parametrize("fraction", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("name", ["resnet32", "gpt"])
def test_lighter_records_are_never_dearer(name: str, fraction: float) -> None:
    work = workload(load_trace(f"bundled:{name}"))
    budget = int(fraction * work.unlimited_peak_bytes)
    found, published = (
        get(method).plan(work.graph, budget).predicted
        for method in ("rotor", "rotor(records=false)")
    )
    assert found is not None and published is not None and found.cost <= published.cost
