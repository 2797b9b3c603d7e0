"""joint: as fast as the fastest of all plans of tiny graphs; its bound, and whom it loses to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from brute_force_moves import Limits, fastest
from planner_graphs import LINEAR, linear
from random_traces import random_trace
from rematsim.audit import audit
from rematsim.heuristics.static.joint import joint_problem
from rematsim.heuristics.static.joint_program import Timed, _Program, joint_plan
from rematsim.heuristics.static.joint_relaxation import relaxed_plan
from rematsim.heuristics.static.registry import FEASIBLE, OPTIMAL, OPTIMAL_FOR_CV
from rematsim.links import NO_WAY, Link, find_link
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD
from rematsim.planning import plan_trace
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

pytest.importorskip("ortools")

SECONDS = 30.0
LIMITED = "joint(runs=2,trips=1)"
OTHERS = ("offload-all", "capuchin", "pofo", "poet")


def tiny(seed: int, n: int = 2) -> tuple[Trace, str]:
    """Make n forward and n + 1 backward nodes of random times and sizes; and a link."""
    draw = random.Random(seed)
    builder = TraceBuilder(f"tiny {seed}")
    for node in range(2 * n + 1):
        reads = [r for r in (2 * n - node, node - 1) if 0 <= r < node]
        size, time = draw.randint(1, 4), draw.randint(1, 6)
        phase = PHASE_FORWARD if node < n else PHASE_BACKWARD
        names = [f"x{r}" for r in sorted(set(reads))]
        builder.call("f", names, [(f"x{node}", size, -1)], time, phase=phase)
    for node in range(2 * n + 1):
        builder.release(f"x{node}")
    rate = draw.choice(["500MB/s", "1GB/s", "2GB/s", "4GB/s"])
    latency, duplex = draw.choice(["0", "1ns"]), draw.choice(["full", "half"])
    return builder.build(), f"link(d2h={rate},h2d={rate},latency={latency},duplex={duplex})"


@pytest.mark.parametrize("seed", range(8))
def test_no_plan_of_a_tiny_graph_is_faster(seed: int) -> None:
    """Of all there are, at every budget; it is proven, and nobody else is faster.

    Nor is a plan faster than those in which the order between first runs does not matter.
    """
    trace, link = tiny(seed)
    graph = workload(trace, cached=False).graph
    found = find_link(link)
    assert found is not None
    for budget in range(least_budget(graph)[0], naive_peak_bytes(graph)):
        best = fastest(graph, found, budget, Limits())
        row = plan_trace(trace, LIMITED, budget, link=link, time_limit=SECONDS).row
        assert best is not None and row.slowdown is not None
        relaxed = relaxed_plan(joint_problem(graph, budget, found, (None, 2, 1), 0), print, None)
        assert graph.base_cost <= relaxed["bound"] <= best[0]
        assert row.slowdown == row.predicted_slowdown == best[0] / graph.base_cost
        assert row.planner_status in (OPTIMAL, f"{OPTIMAL_FOR_CV}2")
        assert row.bound_slowdown == row.slowdown
        others = [plan_trace(trace, m, budget, link=link, time_limit=SECONDS).row for m in OTHERS]
        times = [other.slowdown for other in others if other.slowdown is not None]
        assert row.slowdown <= min(times)


@pytest.mark.parametrize(
    ("at_first", "sizes", "times", "budget", "link", "least"),
    [
        (1, (2, 2, 2, 1, 1), (1, 1, 2, 3), 6, "link(d2h=1GB/s,h2d=1GB/s,latency=3ns)", 16),
        (2, (3, 1, 2, 3, 1), (1, 2, 6, 5), 7, "link(d2h=300MB/s,h2d=500MB/s,latency=0)", 22),
    ],
    ids=str,
)
def test_what_the_next_node_alone_reads_may_go_too(
    at_first: int, sizes: Sequence[int], times: Sequence[int], budget: int, link: str, least: int
) -> None:
    """The last result leaves while another output is made again, for which there was no room.

    The least times are of an exhaustive search over states, with copies at any time.
    """
    made = [(f"x{i}", size, -1) for i, size in enumerate(sizes)]
    first, second, workspace = made[:at_first], made[at_first:3], at_first - 1
    builder = TraceBuilder("two outputs")
    builder.call("f", [], first, times[0], workspace_bytes=workspace)
    builder.call("f", [x[0] for x in first], second, times[1], workspace_bytes=workspace)
    builder.call("f", ["x2"], [made[3]], times[2])
    builder.call("f", ["x1", "x3"], [made[4]], times[3], workspace_bytes=1)
    for name in ("x0", "x1", "x3"):
        builder.release(name)
    row = plan_trace(builder.build(), "joint", budget, link=link, time_limit=SECONDS).row
    assert row.slowdown == row.bound_slowdown == least / sum(times)
    assert row.planner_status == f"{OPTIMAL_FOR_CV}3"


def test_a_node_may_run_twice_before_the_next_and_nothing_runs_after_the_last() -> None:
    """A limit of runs is one of runs, not of stages; what a solver adds at the end is left out."""
    from ortools.sat.python import cp_model

    link = find_link("link(d2h=1GB/s,h2d=1GB/s,latency=0)")
    assert link is not None
    problem = joint_problem(linear(2), 3, link, (None, 5, 1), 0)
    assert problem.runs == [5, 5, 5, 5, 1]
    program = _Program(cp_model, problem)
    at = {start.index: 10 * run for (_, run), start in program.start.items()}
    timed = program.timed(lambda variable: at.get(variable.index, 1))
    assert timed.runs == [(0, node) for node in range(5)]


def test_what_goes_again_may_have_its_copy_on_the_host_yet() -> None:
    """So it is copied there once, though it comes back twice; a second would take 2 ns more."""
    builder = TraceBuilder("again")
    builder.call("f", [], [("kept", 1, -1), ("a", 1, -1)], 6, workspace_bytes=1)
    builder.call("f", ["a"], [("b", 1, -1)], 3, workspace_bytes=1)
    builder.call("f", ["kept"], [("c", 3, -1)], 5)
    builder.call("f", ["c"], [("d", 1, -1), ("e", 1, -1)], 1, workspace_bytes=1)
    for name in "abd":
        builder.release(name)
    link = "link(d2h=2GB/s,h2d=inf,latency=1ns,host=4)"
    row = plan_trace(builder.build(), "joint", 6, link=link, time_limit=SECONDS).row
    assert (row.offloaded_bytes, row.prefetched_bytes) == (1, 2)
    assert row.slowdown == row.bound_slowdown == 16 / 15


@pytest.mark.parametrize("link", [NO_WAY, Link(10**9, 10**9, 10**6)], ids=str)
@pytest.mark.parametrize(("n", "budget"), [(2, 3), (3, 3), (3, 4), (4, 4), (4, 5)])
def test_what_is_not_done_hinders_nothing(n: int, budget: int, link: Link) -> None:
    """Runs that are none, and copies longer than any plan: the fastest plan is still a solution.

    It takes as long as a plan may, and is the optimum that is known without a host, less the time
    of the last call, which here takes none.
    """
    graph, least = linear(n), LINEAR[n, budget] - 1
    graph = replace(graph, cost=np.append(graph.cost[:-1], 0), base_cost=graph.base_cost - 1)
    problem = joint_problem(graph, budget, link, (least + 1, n + 1, 1), 0)
    found = joint_plan(problem, Timed([], [], []), lambda _: None, SECONDS)
    assert found["status"] == OPTIMAL
    assert problem.nanoseconds(found["bound"]) == least


@pytest.mark.parametrize(
    ("layers", "rate", "budget"), [(2, "10GB/s", 0.7), (1, "200GB/s", 0.8)], ids=str
)
def test_on_a_transformer_it_never_loses_and_its_bound_holds(
    layers: int, rate: str, budget: float
) -> None:
    """Links that hide little and much."""
    trace, link = load_trace(f"synthetic:transformer:{layers}"), f"link(d2h={rate},h2d={rate})"
    row = plan_trace(trace, "joint", budget, link=link, time_limit=5).row
    assert row.status == "ok" and row.slowdown is not None and row.bound_slowdown is not None
    assert 1 <= row.bound_slowdown <= row.slowdown
    for method in ("capuchin", "pofo"):  # which lose to none of the simple ones
        other = plan_trace(trace, method, budget, link=link).row.predicted_slowdown
        assert other is None or row.predicted_slowdown <= other


@pytest.mark.parametrize("seed", range(6))
def test_what_is_predicted_happens_and_no_bound_is_above_it(seed: int) -> None:
    """On random traces, whose views take time that a run may spare."""
    trace = random_trace(seed, events=24)
    for link in ("link(d2h=1GB/s,h2d=2GB/s,latency=1ns)", "link(d2h=3GB/s,h2d=3GB/s,host=20)"):
        planned = plan_trace(trace, "joint", 0.8, link=link, time_limit=5, event_log=True)
        row = planned.row
        if planned.plan is None:
            assert row.status in ("infeasible", "no_plan")
            continue
        assert row.status == "ok" and row.slowdown is not None and row.bound_slowdown is not None
        assert row.bound_slowdown <= row.slowdown
        assert audit(trace, row), audit(trace, row).message
        assert row.slowdown == row.predicted_slowdown
        assert planned.found.predicted is not None
        assert row.peak_bytes == planned.found.predicted.peak_bytes


def test_more_runs_and_returns_never_cost_time() -> None:
    """And with one run and no return, nothing is done twice: there is no plan of its own.

    A plan of others that does more than is allowed is not called the best, and nothing bounds it.
    """
    trace, link = tiny(9)
    graph = workload(trace, cached=False).graph
    budget = (least_budget(graph)[0] + naive_peak_bytes(graph)) // 2
    bounds = [
        plan_trace(trace, f"joint(runs={runs},trips={trips})", budget, link=link).row
        for runs, trips in ((1, 0), (1, 1), (2, 1), (3, 2))
    ]
    times = [row.slowdown for row in bounds]
    assert times == sorted(times, reverse=True)
    proven = [(row.planner_status, row.bound_slowdown) for row in bounds]
    assert proven == [
        *[(FEASIBLE, 1.0)] * 2,
        (f"{OPTIMAL_FOR_CV}2", times[2]),
        (f"{OPTIMAL_FOR_CV}3", times[3]),
    ]


def test_larger_graphs_are_planned_as_groups_and_nothing_is_proven() -> None:
    row = plan_trace("synthetic:chain:80", "joint", 0.4, link="h100-pcie5", time_limit=5).row
    assert row.status == "ok" and row.bound_slowdown == 1.0
