"""The static graph: how calls, views, constants and outputs appear in it; schedules on it."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import networkx as nx
import numpy as np
import pytest
from random_schedules import judge, random_schedule
from random_traces import random_trace
from rematsim.errors import InputError, PlanError
from rematsim.lowering import compile_trace
from rematsim.opcodes import TAG_COLLECTIVE
from rematsim.static_graph import (
    COMPUTE,
    FREE,
    Schedule,
    StaticGraph,
    evaluate,
    free_after_last_use,
    least_budget,
    naive_peak_bytes,
    naive_schedule,
    static_graph,
)
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace


def graph_of(trace: Trace) -> StaticGraph:
    return static_graph(compile_trace(trace), trace)


def reads(graph: StaticGraph) -> list[list[int]]:
    return [graph.reads_of(node).tolist() for node in range(graph.n_nodes)]


def two_results() -> TraceBuilder:
    """A call gives a result that only the next call reads, and one that is an output.

    w is a constant of 100 bytes; a = f(w), 10 bytes, 5 ns; (b, c) = g(a), 20 and 7 bytes, 3 ns;
    d = h(b), 4 bytes, 2 ns; e = i(a, d), 1 byte, 1 ns. At the end c and e are held.
    """
    builder = TraceBuilder("two results")
    builder.constant("w", 100)
    builder.call("f", ["w"], [("a", 10, -1)], 5)
    builder.call("g", ["a"], [("b", 20, -1), ("c", 7, -1)], 3)
    builder.call("h", ["b"], [("d", 4, -1)], 2)
    builder.call("i", ["a", "d"], [("e", 1, -1)], 1)
    for name in "wabd":
        builder.release(name)
    return builder


def test_each_result_is_a_value_of_its_own() -> None:
    graph = graph_of(two_results().build())
    assert graph.cost.tolist() == [5, 3, 2, 1, 0]
    assert graph.size.tolist() == [10, 20, 7, 4, 1]
    assert graph.producer.tolist() == [0, 1, 1, 2, 3]
    assert graph.value_pointer.tolist() == [0, 1, 3, 4, 5, 5]
    assert reads(graph) == [[], [0], [1], [0, 3], [2, 4]]
    assert (graph.fixed_bytes, graph.base_cost) == (100, 11)
    assert graph.operator == ("f", "g", "h", "i", "")
    assert graph.call.tolist() == [1, 2, 3, 4, -1]


def test_the_naive_schedule_frees_each_value_after_its_last_reader() -> None:
    """By hand: 110, 137, then b goes with d made (141), then 121 + 1 = 122.

    ====  ==========================  ===  =======
    node  resident with its results        freed
    ====  ==========================  ===  =======
    f     w a                         110
    g     w a b c                     137
    h     w a b c d                   141  b
    i     w a c d e                   122  a d
    ====  ==========================  ===  =======
    """
    graph = graph_of(two_results().build())
    schedule = naive_schedule(graph)
    expected = [(0, 0), (0, 1), (0, 2), (1, 1), (0, 3), (1, 0), (1, 3), (0, 4)]
    assert list(zip(schedule.action.tolist(), schedule.target.tolist(), strict=True)) == expected
    assert evaluate(graph, schedule) == (11, 141)
    assert naive_peak_bytes(graph) == 141


def test_results_that_are_resident_are_there_twice_while_their_call_runs_again() -> None:
    """By hand: g again while c is there: w a c + b c = 100 + 10 + 7 + 27 = 144, then one c goes."""
    graph = graph_of(two_results().build())
    again = Schedule.of(
        [(COMPUTE, 0), (COMPUTE, 1), (FREE, 1), (COMPUTE, 1), (COMPUTE, 2), (FREE, 1),
         (COMPUTE, 3), (COMPUTE, 4)]
    )  # fmt: skip
    assert evaluate(graph, again) == (14, 144)


def test_an_output_may_be_dropped_and_made_again_before_the_end() -> None:
    graph = graph_of(two_results().build())
    again = Schedule.of(
        [(COMPUTE, 0), (COMPUTE, 1), (FREE, 2), (COMPUTE, 2), (FREE, 1), (COMPUTE, 3), (FREE, 3),
         (COMPUTE, 1), (FREE, 1), (FREE, 0), (COMPUTE, 4)]
    )  # fmt: skip
    assert evaluate(graph, again) == (14, 138)


def test_least_budget_is_what_the_most_demanding_node_reads_and_makes() -> None:
    """g: w a b c = 137; at i only w a d e; the last node w c e."""
    assert least_budget(graph_of(two_results().build())) == (137, 1)


def test_workspace_counts_while_its_node_runs() -> None:
    builder = TraceBuilder("workspace")
    builder.call("f", [], [("a", 3, -1)], 1, workspace_bytes=50)
    builder.call("g", ["a"], [("b", 4, -1)], 1)
    graph = graph_of(builder.build())
    assert graph.workspace.tolist() == [50, 0, 0]
    assert naive_peak_bytes(graph) == 53


def test_a_view_is_part_of_the_node_that_it_shows() -> None:
    """Its cost is added to that node's; where it is made first, its storage is there anyway."""
    builder = TraceBuilder("view")
    builder.call("f", [], [("a", 8, -1)], 5)
    builder.call("view", ["a"], [("v", 0, 0)], 2)
    builder.call("g", ["v"], [("b", 1, -1)], 3)
    graph = graph_of(builder.build())
    assert graph.cost.tolist() == [7, 3, 0]
    assert reads(graph)[:2] == [[], [0]]
    assert graph.view_call.tolist() == [1] and graph.view_node.tolist() == [0]
    assert not graph.is_mark.any()


def test_where_nothing_else_holds_what_a_view_shows_a_mark_does() -> None:
    """The view of a is made after c and before d, and neither has anything to do with a."""
    builder = TraceBuilder("mark")
    for name, size in (("a", 8), ("c", 4)):
        builder.call("f", [], [(name, size, -1)], 5)
    builder.call("view", ["a"], [("v", 0, 0)], 2)
    builder.call("f", ["c"], [("d", 1, -1)], 5)
    builder.call("g", ["v"], [("b", 1, -1)], 3)
    for name in "acvd":
        builder.release(name)
    graph = graph_of(builder.build())
    assert graph.is_mark.tolist() == [False, False, True, False, False, False]
    assert graph.cost.tolist() == [7, 5, 0, 5, 3, 0]
    assert reads(graph) == [[], [], [0], [1], [0], [3]]


def test_a_storage_whose_view_is_entangled_is_computed_once() -> None:
    """A call that gives a view of a and a result of its own cannot be folded into a's node."""
    builder = TraceBuilder("entangled")
    builder.call("f", [], [("a", 8, -1)], 5)
    builder.call("g", ["a"], [("v", 0, 0), ("b", 2, -1)], 1)
    builder.call("h", ["v", "b"], [("c", 1, -1)], 1)
    graph = graph_of(builder.build())
    assert graph.recomputable.tolist() == [False, True, True, True]
    with pytest.raises(PlanError, match="action 3: compute node 0: it can be computed only once"):
        evaluate(graph, Schedule.of([(0, 0), (0, 1), (1, 0), (0, 0)]))


def test_collective_calls_are_computed_once() -> None:
    builder = TraceBuilder("collective")
    builder.call("f", [], [("a", 8, -1)], 5, tags=TAG_COLLECTIVE)
    assert graph_of(builder.build()).recomputable.tolist() == [False, True]


def test_views_of_constants_are_nodes_without_values() -> None:
    builder = TraceBuilder("constant view")
    builder.constant("w", 16)
    builder.call("t", ["w"], [("v", 0, 0)], 2)
    builder.call("f", ["v"], [("a", 8, -1)], 5)
    graph = graph_of(builder.build())
    assert graph.cost.tolist() == [2, 5, 0]
    assert graph.value_pointer.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("rebinding", ["listed", "storage"])
def test_a_mutation_is_a_node_with_new_values(rebinding: str) -> None:
    builder = TraceBuilder("mutation", rebinding=rebinding)
    builder.call("f", [], [("a", 8, -1)], 5)
    builder.call("add_", ["a"], [], 2, mutates=[0])
    graph = graph_of(builder.build())
    assert reads(graph) == [[], [0], [1]]
    assert graph.size.tolist() == [8, 8]


def test_nodes_of_the_backward_pass_are_known_by_the_mark() -> None:
    builder = two_results()
    builder.backward()
    builder.call("b", ["e"], [("g", 1, -1)], 1)
    assert graph_of(builder.build()).backward.tolist() == [False] * 4 + [True] * 2


def test_updates_in_place_have_no_static_graph() -> None:
    builder = TraceBuilder("in place")
    builder.call("f", [], [("a", 8, -1)], 5)
    builder.call("add_", ["a"], [], 2, mutates=[0])
    with pytest.raises(InputError, match="planners use 'copy'"):
        static_graph(compile_trace(builder.build(), "inplace"))


def test_a_trace_of_constants_has_an_empty_graph() -> None:
    builder = TraceBuilder("constants")
    builder.constant("w", 5)
    graph = graph_of(builder.build())
    assert graph.n_nodes == graph.n_values == 0
    assert evaluate(graph, naive_schedule(graph)) == (0, 5)
    assert least_budget(graph) == (5, -1)


def test_arrays_are_read_only_and_a_graph_can_be_sent() -> None:
    graph = graph_of(two_results().build())
    with pytest.raises(ValueError, match="read-only"):
        graph.cost[0] = 1
    evaluate(graph, naive_schedule(graph))
    again = pickle.loads(pickle.dumps(graph))
    assert evaluate(again, naive_schedule(again)) == (11, 141)


def test_readers_are_the_reads_turned_around() -> None:
    graph = graph_of(random_trace(5))
    for value in range(graph.n_values):
        expected = [v for v in range(graph.n_nodes) if value in graph.reads_of(v).tolist()]
        assert graph.readers(value).tolist() == expected
        assert graph.last_reader[value] == max([*expected, int(graph.producer[value])])


def test_networkx_sees_the_same_graph() -> None:
    graph = graph_of(two_results().build())
    found: Any = graph.to_networkx()
    assert nx.is_directed_acyclic_graph(found)
    assert sorted(found.edges(data="size")) == [
        (0, 1, 10), (0, 3, 10), (1, 2, 20), (1, 4, 7), (2, 3, 4), (3, 4, 1)
    ]  # fmt: skip
    assert found.nodes[1]["size"] == 27 and found.graph["fixed_bytes"] == 100


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([(0, 1)], "action 0: compute node 1: node 0 comes before it and has not been computed"),
        ([(0, 0), (1, 0), (0, 1)], r"action 2: compute node 1: it reads value 0 \(of node 0\)"),
        ([(0, 0), (1, 1)], "action 1: free value 1: it is not resident"),
        ([(0, 0), (2, 1)], "action 1: action 1: 2 is neither"),
        ([(0, 5)], "action 0: compute node 5: the graph has 5 nodes and 5 values"),
        ([(1, -1)], "action 0: free value -1: the graph has 5 nodes and 5 values"),
        ([(0, 0)], "it ends before node 1 of 5 is computed"),
        ([], "it ends before node 0 of 5 is computed"),
    ],
)
def test_the_first_illegal_action_is_named(actions: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        evaluate(graph_of(two_results().build()), Schedule.of(actions))


@pytest.mark.parametrize("seed", range(12))
def test_evaluation_is_what_sets_and_sums_give(seed: int) -> None:
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2], tags=seed % 3 == 0)
    graph = graph_of(trace)
    assert graph.base_cost == trace.compute_ns
    schedules = [random_schedule(graph, k, drops) for k, drops in enumerate((0.1, 0.3, 0.6))]
    for schedule in [naive_schedule(graph), *schedules]:
        assert evaluate(graph, schedule) == judge(graph, schedule)


@pytest.mark.parametrize("seed", range(12))
def test_freeing_after_the_last_use_takes_least_for_an_order(seed: int) -> None:
    """The order of computations of a random schedule costs the same with it, and no more memory."""
    graph = graph_of(random_trace(seed))
    schedule = random_schedule(graph, seed)
    order = schedule.order
    tight = free_after_last_use(graph, order)
    assert evaluate(graph, tight).cost == evaluate(graph, schedule).cost
    assert evaluate(graph, tight).peak_bytes <= evaluate(graph, schedule).peak_bytes
    naive = free_after_last_use(graph, range(graph.n_nodes))
    assert evaluate(graph, naive) == evaluate(graph, naive_schedule(graph))
    assert sorted(zip(*naive, strict=True)) == sorted(zip(*naive_schedule(graph), strict=True))


def test_no_schedule_needs_less_than_the_most_demanding_node() -> None:
    """All orders of up to eight computations of a small graph, each freed as early as can be."""
    graph = graph_of(two_results().build())
    need, _ = least_budget(graph)
    peaks = []
    for inside in itertools.product(range(4), repeat=3):
        order = [0, 1, *inside[:1], 2, *inside[1:2], 3, *inside[2:], 4]
        try:
            peaks.append(evaluate(graph, free_after_last_use(graph, order)).peak_bytes)
        except PlanError:
            continue
    assert len(peaks) > 20
    assert min(peaks) >= need
    assert np.unique(peaks).size > 1
