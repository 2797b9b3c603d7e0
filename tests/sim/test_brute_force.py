"""The exhaustive search that planners are held against, itself against known optima."""

from __future__ import annotations

import pytest
from brute_force import cheapest
from planner_graphs import linear
from random_schedules import random_schedule
from random_traces import random_trace
from rematsim.static_graph import (
    evaluate,
    least_budget,
    naive_peak_bytes,
    static_graph,
)
from rematsim.traces.builder import TraceBuilder
from rematsim.workload import workload

# linear(n), all nodes of one byte and one unit of time: (n, budget) -> least cost. Checkmate's toy
# family: 2 n + 1 nodes, edges from each to the next and from i to 2 n - i.
LINEAR = {
    (2, 3): 6, (2, 4): 5, (3, 3): 10, (3, 4): 8, (3, 5): 7, (4, 3): 15, (4, 4): 11, (4, 5): 10,
    (4, 6): 9, (5, 3): 21, (5, 4): 14, (5, 5): 13,
}  # fmt: skip


@pytest.mark.parametrize(("n", "budget"), LINEAR)
def test_linear_graphs_have_the_known_optima(n: int, budget: int) -> None:
    graph = linear(n)
    assert cheapest(graph, budget) == LINEAR[n, budget]
    assert cheapest(graph, 2) is None
    assert least_budget(graph)[0] == 3


def test_two_results_one_short_lived_and_one_an_output() -> None:
    """a = f() 10 bytes, 5 ns; (b, c) = g(a) 20 and 7 bytes, 3 ns; d = h(b) 4 bytes, 2 ns; e = i(a).

    i reads d too. c and e are outputs. g needs 37 bytes, less is not enough. All kept, h needs 41:
    a b c d. With 38 to 40 c goes before h, and g runs again at the end, 3 ns: a e b c are 38. With
    37 that is too much: a goes before h instead, and f runs again for i, 5 ns.
    """
    builder = TraceBuilder("two results")
    builder.call("f", [], [("a", 10, -1)], 5)
    builder.call("g", ["a"], [("b", 20, -1), ("c", 7, -1)], 3)
    builder.call("h", ["b"], [("d", 4, -1)], 2)
    builder.call("i", ["a", "d"], [("e", 1, -1)], 1)
    for name in "abd":
        builder.release(name)
    graph = static_graph(workload(builder.build(), cached=False).program)
    assert naive_peak_bytes(graph) == 41
    assert [cheapest(graph, budget) for budget in (36, 37, 38, 40, 41)] == [
        None, 16, 14, 14, 11
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_no_schedule_is_cheaper_at_its_peak(seed: int) -> None:
    graph = workload(random_trace(seed, events=12), cached=False).graph
    if graph.n_values > 11:
        pytest.skip("too large for an exhaustive search")
    for drops in (0.2, 0.5):
        found = evaluate(graph, random_schedule(graph, seed, drops))
        best = cheapest(graph, found.peak_bytes)
        assert best is not None and graph.base_cost <= best <= found.cost
    assert cheapest(graph, naive_peak_bytes(graph)) == graph.base_cost
    assert cheapest(graph, least_budget(graph)[0] - 1) is None
