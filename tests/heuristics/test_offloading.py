"""Planners that move data: what they predict is what the engine does, within the budget."""

from __future__ import annotations

import pytest
from random_traces import random_trace
from random_transfers import random_link
from rematsim.audit import audit
from rematsim.execution import execute
from rematsim.planning import plan_trace
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

FREE_OF_CHARGE = "link(d2h=inf,h2d=inf,latency=0)"


# Planner, random traces, budgets: as many as its time allows.
ON_RANDOM_TRACES = {
    "offload-all": (30, (0.95, 0.85, 0.7)),
    "capuchin": (12, (0.9, 0.7)),
    "pofo": (12, (0.9, 0.7)),
}


@pytest.mark.parametrize(
    ("method", "seed"),
    [(method, seed) for method, (count, _) in ON_RANDOM_TRACES.items() for seed in range(count)],
)
def test_the_prediction_is_what_happens_on_random_traces(method: str, seed: int) -> None:
    """Time and peak to the last digit, wherever views are made; the run is audited."""
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2])
    link = random_link(seed) if method != "capuchin" or seed % 3 else "none"
    for budget in ON_RANDOM_TRACES[method][1]:
        planned = plan_trace(trace, method, budget, link=link, event_log=True)
        row = planned.row
        if planned.plan is None:
            assert row.status in ("infeasible", "no_plan")
            continue
        assert row.budget_bytes is not None and row.peak_bytes <= row.budget_bytes
        assert audit(trace, row), audit(trace, row).message
        if link != "none":
            assert row.predicted_slowdown == row.slowdown
        assert row.predicted_peak_bytes == row.peak_bytes


def test_a_call_does_not_wait_for_what_its_views_alone_read() -> None:
    """They do, after it; what else it does meanwhile is predicted so."""
    trace = random_trace(528, events=60, rebinding="storage")
    row = plan_trace(trace, "offload-all", 0.5, link="link(d2h=1GB/s,h2d=3GB/s,latency=2ns)").row
    assert row.offloaded_bytes and row.predicted_slowdown == row.slowdown


@pytest.mark.parametrize("name", ["synthetic:chain:40", "synthetic:transformer:4", "bundled:gpt"])
@pytest.mark.parametrize("link", ["h100-pcie5", "link(d2h=2GB/s,h2d=1GB/s,duplex=half)"])
def test_the_prediction_is_what_happens_on_models(name: str, link: str) -> None:
    row = plan_trace(load_trace(name), "offload-all", 0.5, link=link).row
    assert (row.status, row.remat_ns) == ("ok", 0)
    assert row.predicted_slowdown == pytest.approx(row.slowdown, rel=1e-12)
    assert row.predicted_peak_bytes == row.peak_bytes


@pytest.mark.parametrize("method", ["offload-all", "capuchin", "pofo"])
@pytest.mark.parametrize("name", ["synthetic:chain:40", "synthetic:transformer:2", "bundled:unet"])
def test_a_link_without_limits_costs_nothing(name: str, method: str) -> None:
    """At every budget in which the largest call fits: no copy takes time."""
    trace = load_trace(name)
    graph = workload(trace).graph
    least, most = least_budget(graph)[0], naive_peak_bytes(graph)
    for budget in (least, (3 * least + most) // 4, (least + most) // 2):
        row = plan_trace(trace, method, budget, link=FREE_OF_CHARGE).row
        assert (row.status, row.slowdown) == ("ok", 1.0)


def test_without_a_link_nothing_is_offloaded() -> None:
    """No link, or no way: there is no plan, unless everything fits."""
    trace = load_trace("synthetic:chain:12")
    for link in ("none", "link(d2h=0,h2d=1GB/s)", "link(d2h=1GB/s,h2d=0)"):
        row = plan_trace(trace, "offload-all", 0.6, link=link).row
        assert (row.status, row.planner_status) == ("no_plan", "not_applicable")
        assert plan_trace(trace, "offload-all", 1.0, link=link).row.slowdown == 1.0


def test_host_memory_bounds_what_is_away() -> None:
    """With less of it, less is offloaded, or there is no plan."""
    trace = load_trace("synthetic:chain:40")
    whole = plan_trace(trace, "offload-all", 0.5, link=FREE_OF_CHARGE).row
    assert whole.host_peak_bytes is not None
    tight = f"link(d2h=inf,h2d=inf,latency=0,host={whole.host_peak_bytes // 4})"
    row = plan_trace(trace, "offload-all", 0.5, link=tight).row
    assert row.status == "no_plan"
    row = plan_trace(trace, "offload-all", 0.9, link=tight).row
    assert row.status == "ok" and (row.host_peak_bytes or 0) <= whole.host_peak_bytes // 4


def test_a_plan_of_transfers_is_refused_without_a_link() -> None:
    trace = load_trace("synthetic:chain:40")
    plan = plan_trace(trace, "offload-all", 0.5, link=FREE_OF_CHARGE).plan
    assert plan is not None
    result = execute(trace, plan, 0.5)
    assert result.status == "refused" and "no link to the host is given" in result.message


def test_too_little_host_memory_is_said() -> None:
    """What is missing is room on the host, not on the device."""
    link = "link(d2h=inf,h2d=inf,host=0)"
    row = plan_trace("synthetic:chain:8", "offload-all", 0.6, link=link).row
    assert (row.status, row.message) == (
        "no_plan",
        "what is used between goes over the budget, however much is away in 0 bytes of host memory",
    )
