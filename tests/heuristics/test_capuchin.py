"""Capuchin's plan: what is hidden is swapped, and the rest computed again by memory per second."""

from __future__ import annotations

import pytest
from rematsim.heuristics.static.transfer_gaps import Gap, Moving
from rematsim.links import Link
from rematsim.planning import plan_trace
from rematsim.static_graph import naive_peak_bytes, naive_schedule
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload


def two_branches(slow: int) -> Trace:
    """Two values of 8 bytes read at the end; one takes 2 ns to make, the other ``slow``.

    Memory lacks in the middle, 10 ns after the use before and 10 ns before the use after that.
    """
    builder = TraceBuilder("two")
    builder.constant("x", 1)
    builder.call("fast", ["x"], [("a", 8, -1)], 2)
    builder.call("slow", ["x"], [("b", 8, -1)], slow)
    builder.call("use", ["a", "b"], [("c", 2, -1)], 10)
    builder.call("wait", ["c"], [("e", 2, -1)], 10)
    builder.call("more", ["e"], [("d", 9, -1)], 10)
    builder.backward()
    builder.call("back", ["d"], [("g", 2, -1)], 10)
    builder.call("later", ["g"], [("k", 2, -1)], 10)
    builder.call("end", ["k", "a", "b"], [("h", 1, -1)], 10)
    for name in "abcdegk":
        builder.release(name)
    return builder.build()


def test_without_a_link_most_bytes_a_second_go_first() -> None:
    """It drops the value that is quick to make, whichever came first."""
    for slow in (1, 30):
        trace = two_branches(slow)
        peak = naive_peak_bytes(workload(trace).graph)
        planned = plan_trace(trace, "capuchin", peak - 1)
        assert planned.row.status == "ok"
        assert planned.row.remat_ns == min(2, slow)


def test_what_is_hidden_is_swapped_and_nothing_is_computed_again() -> None:
    """A copy takes 8 ns each way, and there is time for one before and after memory lacks."""
    trace = two_branches(30)
    peak = naive_peak_bytes(workload(trace).graph)
    link = "link(d2h=1GB/s,h2d=1GB/s,latency=0)"
    row = plan_trace(trace, "capuchin", peak - 1, link=link).row
    assert (row.status, row.remat_ns, row.stall_ns, row.offloaded_bytes) == ("ok", 0, 0, 8)


def test_what_is_not_hidden_is_computed_again_where_that_is_cheaper() -> None:
    """At a tenth of the rate a copy takes 80 ns, and the value 2."""
    trace = two_branches(30)
    peak = naive_peak_bytes(workload(trace).graph)
    link = "link(d2h=100MB/s,h2d=100MB/s,latency=0)"
    row = plan_trace(trace, "capuchin", peak - 1, link=link).row
    assert (row.status, row.remat_ns, row.offloaded_bytes) == ("ok", 2, 0)


def test_copies_hide_each_other_only_one_after_another() -> None:
    """Of two values with room for one copy between their uses, each is hidden, both are not."""
    graph = workload(load_trace("synthetic:chain:6")).graph
    naive = naive_schedule(graph)
    most = naive_peak_bytes(graph)
    gap = Gap(0, 1, 1, 9)
    time = int(Moving(graph, naive, most, Link(None, None, 0)).time_away(gap))
    link = Link(10**9 * 3 // time, 10**9 * 3 // time, 0)  # a byte takes a third
    moving = Moving(graph, naive, most, link)
    assert moving.hides([gap]) and not moving.hides([gap, gap._replace(value=1)])
    assert moving.hides([gap, Gap(1, 1, 1, 12)])


@pytest.mark.parametrize("rate", ["100MB/s", "inf"])
@pytest.mark.parametrize("name", ["bundled:resnet32", "synthetic:transformer:4"])
def test_it_never_loses_to_offloading_alone(name: str, rate: str) -> None:
    trace, link = load_trace(name), f"link(d2h={rate},h2d={rate},latency=0)"
    alone, both = (
        plan_trace(trace, method, 0.3, link=link).row.predicted_slowdown
        for method in ("offload-all", "capuchin")
    )
    assert alone is not None and both is not None and both <= alone
