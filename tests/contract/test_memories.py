"""Every online heuristic, and a plan of every planner, in both kinds of memory with addresses.

Each runs to its end where something has to go, and the auditor derives every address.
"""

from __future__ import annotations

import dataclasses
import functools

import pytest
from random_traces import scaled
from rematsim import execute, heuristics, simulate
from rematsim.audit import audit
from rematsim.heuristics.static import names
from rematsim.plan import OFFLOAD, Plan
from rematsim.planning import plan_trace
from rematsim.result import RunResult
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

MIB = 1 << 20
MEMORIES = ("arena", "caching")
BLOCKS = ("every-kth", "m-of-n")  # need modules that are numbered
SECONDS = 5.0
MOVERS = ("offload-all", "pofo", "capuchin", "poet")
FAST = "link(d2h=10TB/s,h2d=10TB/s,latency=0)"


@functools.cache
def transformer() -> Trace:
    """Of so many MiB that it takes segments of the caching allocator."""
    return scaled(load_trace("synthetic:transformer:2"), MIB)


@functools.cache
def chain() -> Trace:
    return scaled(load_trace("synthetic:chain:8"), 3 * MIB)


def audited(trace: Trace, run: RunResult) -> RunResult:
    verdict = audit(trace, run)
    assert verdict, verdict.message
    return run


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", heuristics.names())
def test_every_heuristic_ends_in_a_memory_with_addresses(name: str, memory: str) -> None:
    """At 0.7 or 0.8 of what it reserves without a budget, where it has to evict."""
    peak = simulate(transformer(), "h_LRU", memory=memory).reserved_peak_bytes
    assert peak is not None
    ended = []
    for fraction in (0.7, 0.8):
        run = simulate(
            transformer(), name, int(fraction * peak), memory=memory, slowdown_limit=20.0,
            event_log=True,
        )  # fmt: skip
        audited(transformer(), run)
        assert run.reserved_peak_bytes is not None and run.reserved_peak_bytes <= 0.8 * peak
        ended.append(run.status == "ok" and run.pressure_evictions > 0)
    assert any(ended)


@functools.cache
def planned(method: str) -> tuple[Trace, Plan, int]:
    """Plan for half way between the least budget and the peak, or else for the peak."""
    trace = load_trace("bundled:unet") if method in BLOCKS else chain()
    graph = workload(trace).graph
    least, most = least_budget(graph)[0], naive_peak_bytes(graph)
    for budget in ((least + most) // 2, most, 2 * most):
        plan = plan_trace(trace, method, budget, time_limit=SECONDS).plan
        if plan is not None:
            return trace, plan, budget
    raise AssertionError(f"{method}: no plan of {trace.name}")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("method", names())
def test_a_plan_of_every_planner_ends_in_a_memory_with_addresses(method: str, memory: str) -> None:
    """It fits when bytes are counted; with addresses it does in at most twice as many."""
    trace, plan, budget = planned(method)
    assert execute(trace, plan, budget).status == "ok"
    for times in (1.0, 1.25, 1.5, 2.0):
        run = execute(trace, plan, int(times * budget), memory=memory, event_log=True)
        if audited(trace, run).status == "ok":
            assert run.reserved_peak_bytes is not None
            assert run.peak_bytes <= run.reserved_peak_bytes <= times * budget
            return
        assert run.status == "oom" and run.largest_hole_bytes is not None
    pytest.fail(f"out of memory in {2 * budget:,} bytes")


@functools.cache
def slow_chain() -> Trace:
    """Of calls that take long enough for copies to be worth while: 1 us, a copy 0.3."""
    return dataclasses.replace(chain(), call_time_ns=1000 * chain().call_time_ns)


@functools.cache
def moved(method: str) -> tuple[Plan, int]:
    """Plan for half way between the least budget and the peak, with copies that hide."""
    graph = workload(slow_chain()).graph
    budget = (least_budget(graph)[0] + naive_peak_bytes(graph)) // 2
    plan = plan_trace(slow_chain(), method, budget, link=FAST, time_limit=SECONDS).plan
    assert plan is not None and (plan.action == OFFLOAD).any(), method
    return plan, budget


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("method", MOVERS)
def test_a_plan_that_moves_data_ends_in_a_memory_with_addresses(method: str, memory: str) -> None:
    """With the copies that it has where bytes are counted."""
    plan, budget = moved(method)
    counted = execute(slow_chain(), plan, budget, link=FAST)
    assert counted.status == "ok"
    for times in (1.0, 1.25, 1.5, 2.0):
        run = execute(
            slow_chain(), plan, int(times * budget), link=FAST, memory=memory, event_log=True,
            live_sets=True,
        )  # fmt: skip
        if audited(slow_chain(), run).status == "ok":
            assert run.reserved_peak_bytes is not None
            assert run.peak_bytes <= run.reserved_peak_bytes <= times * budget
            assert run.offloaded_bytes == counted.offloaded_bytes
            assert run.prefetched_bytes == counted.prefetched_bytes
            return
        assert run.status in ("oom", "refused")
    pytest.fail(f"no room in {2 * budget:,} bytes")
