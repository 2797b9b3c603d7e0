"""What holds for every planner, whatever it finds: on small traces, graphs and random ones."""

from __future__ import annotations

from typing import Any

import pytest
from random_traces import random_trace
from rematsim.audit import audit
from rematsim.bounds import lower_bound
from rematsim.execution import execute
from rematsim.heuristics.static import get, names
from rematsim.heuristics.static.registry import (
    ANY_SCHEDULE,
    INFEASIBLE,
    LATE,
    NOT_APPLICABLE,
    OPTIMAL,
    OPTIMAL_FOR_CV,
    STATUSES,
    TIME_LIMIT,
)
from rematsim.links import find_link
from rematsim.planning import plan_trace
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

SECONDS = 10.0
TRACES = ("synthetic:chain:6", "synthetic:random:3", "random 4", "random 7")


def trace_of(name: str) -> Trace:
    kind, _, seed = name.partition(" ")
    return random_trace(int(seed), events=24) if kind == "random" else load_trace(name)


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("method", names())
def test_every_plan_is_what_it_says(method: str, name: str) -> None:
    """It is executed as it was predicted, within the budget, and the auditor accepts it."""
    trace = trace_of(name)
    graph = workload(trace).graph
    least, most = least_budget(graph)[0], naive_peak_bytes(graph)
    for budget in sorted({least, (least + most) // 2, most}):
        planned = plan_trace(trace, method, budget, time_limit=SECONDS, event_log=True)
        row, found = planned.row, planned.found
        assert found.status in STATUSES or found.status.startswith(OPTIMAL_FOR_CV)
        assert (row.kind, row.planner_status) == ("static", found.status)
        if planned.plan is None:
            assert row.status in ("no_plan", "infeasible")
            assert row.message and row.slowdown is None
            continue
        assert (row.status, row.message) == ("ok", "")
        assert row.peak_bytes == row.predicted_peak_bytes <= budget
        assert row.slowdown is not None and row.predicted_slowdown is not None
        assert row.slowdown <= row.predicted_slowdown
        assert len(graph.view_call) or row.slowdown == row.predicted_slowdown
        assert row.bound_slowdown is not None and row.slowdown is not None
        assert row.gap == row.slowdown / row.bound_slowdown - 1, "of what was executed"
        assert 1 <= row.bound_slowdown <= row.slowdown * (1 + 1e-9)
        every_run = lower_bound(workload(trace).program, budget)
        assert row.bound_slowdown * graph.base_cost >= every_run * (1 - 1e-9)
        assert audit(trace, row), audit(trace, row).message
        again = execute(trace, planned.plan, budget)
        assert (again.evict_sha, again.clock) == (row.evict_sha, row.clock)


@pytest.mark.parametrize("method", names())
def test_below_the_largest_call_every_planner_says_infeasible(method: str) -> None:
    trace = load_trace("synthetic:chain:6")
    least, _ = least_budget(workload(trace).graph)
    row = plan_trace(trace, method, least - 1, time_limit=SECONDS).row
    assert (row.status, row.planner_status) == ("infeasible", INFEASIBLE)
    assert f"is below {least:,}, what the largest single call needs" in row.message


@pytest.mark.parametrize("method", names())
def test_nothing_is_told_of_what_there_was_no_time_for(method: str) -> None:
    """With no time at all there is a plan, or a word that the time was up.

    Unless none is needed: by keep-all, or by those that find no module paths in the trace.
    """
    graph = workload(load_trace("synthetic:chain:30")).graph
    link = find_link("link(d2h=100MB/s,h2d=100MB/s)")
    found = get(method).plan(graph, 20, time_limit=1e-9, link=link)
    if found.schedule is None and method != "keep-all" and found.status != NOT_APPLICABLE:
        assert (found.status, found.message) == (TIME_LIMIT, LATE)


@pytest.mark.parametrize("method", names())
def test_planners_change_nothing_that_they_are_given(method: str) -> None:
    """The graph is read-only, and the same request gives the same plan."""
    trace = trace_of("random 4")
    budget = naive_peak_bytes(workload(trace).graph)
    first, second = (plan_trace(trace, method, budget, time_limit=SECONDS) for _ in range(2))
    assert first.plan == second.plan
    assert first.found.status == second.found.status


def test_keep_all_is_optimal_where_it_fits() -> None:
    trace = load_trace("synthetic:chain:6")
    peak = naive_peak_bytes(workload(trace).graph)
    row = plan_trace(trace, "keep-all", peak).row
    assert (row.planner_status, row.slowdown, row.gap) == (OPTIMAL, 1.0, 0.0)
    planned = plan_trace(trace, "keep-all", peak - 1)
    assert (planned.row.status, planned.row.planner_status) == ("no_plan", "no_plan")
    assert planned.row.bound_slowdown is not None and planned.row.bound_slowdown > 1
    assert planned.found.bound_scope == ANY_SCHEDULE
    assert planned.row.message == f"its plan takes {peak:,} bytes, the budget is {peak - 1:,}"


def test_every_planner_says_where_it_comes_from() -> None:
    for name in names():
        found: Any = get(name)
        assert found.summary and found.reference, name
