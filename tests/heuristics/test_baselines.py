"""Planners that move data lose to none of the simple ones, at any rate and budget."""

from __future__ import annotations

import pytest
from random_traces import random_trace
from rematsim.heuristics.static import baselines
from rematsim.heuristics.static.baselines import SIMPLE, ask, best_of
from rematsim.heuristics.static.clock import Clock
from rematsim.heuristics.static.registry import Planner, get
from rematsim.links import find_link
from rematsim.planning import plan_trace
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

QUICK, SOLVING = ("capuchin", "pofo"), ("poet", "joint(runs=2,trips=1)")
RATES = ("10MB/s", "500MB/s", "20GB/s")


def check(
    trace: Trace,
    rate: str,
    budget: int | float,
    methods: tuple[str, ...] = QUICK,
    seconds: float | None = None,
) -> None:
    """Hold planners that move data against the simple ones: by prediction, and by execution."""
    link = f"link(d2h={rate},h2d={rate},latency=1us)"
    rows = {
        method: plan_trace(trace, method, budget, link=link, time_limit=seconds).row
        for method in (*SIMPLE, *methods)
    }
    for name in methods:
        for simple in SIMPLE:
            if rows[simple].predicted_slowdown is None:
                continue
            assert rows[name].predicted_slowdown is not None, (name, simple)
            assert rows[name].predicted_slowdown <= rows[simple].predicted_slowdown, (name, simple)
            assert rows[name].slowdown <= rows[simple].slowdown, (name, simple)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", ["synthetic:chain:20", "synthetic:transformer:2"])
def test_on_models(name: str, rate: str) -> None:
    trace = load_trace(name)
    graph = workload(trace).graph
    least, most = least_budget(graph)[0], naive_peak_bytes(graph)
    for budget in ((3 * least + most) // 4, (least + most) // 2):
        check(trace, rate, budget)


@pytest.mark.parametrize("rate", RATES)
def test_what_solvers_find_is_no_worse(rate: str) -> None:
    check(load_trace("synthetic:chain:6"), rate, 0.7, SOLVING, seconds=20)


@pytest.mark.parametrize("seed", range(6))
def test_on_random_traces(seed: int) -> None:
    check(random_trace(seed, events=24), RATES[seed % 3], 0.8)


@pytest.mark.parametrize("rate", ["100MB/s", "1GB/s"])
def test_on_a_bundled_trace(rate: str) -> None:
    """Capuchin's own plans lose to rotor's by far on slow links."""
    check(load_trace("bundled:unet"), rate, 0.5)


@pytest.mark.parametrize("method", [*QUICK, *SOLVING])
def test_each_simple_planner_is_asked_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by who takes the plans of others that want the same."""
    asked: list[str] = []

    def noted(name: str) -> Planner:
        asked.append(name)
        return get(name)

    monkeypatch.setattr(baselines, "get", noted)
    graph = workload(load_trace("synthetic:chain:6")).graph
    link = find_link("link(d2h=500MB/s,h2d=500MB/s,latency=0)")
    first = get(method).plan(graph, 5, time_limit=20, link=link)
    assert first.schedule is not None and first.message == ""
    assert [asked.count(name) for name in SIMPLE] == [1] * len(SIMPLE)


def test_who_had_too_little_time_is_named() -> None:
    graph = workload(load_trace("synthetic:chain:6")).graph
    found, late = ask(SIMPLE, graph, 5, None, Clock(0))
    assert (found, late) == ([], list(SIMPLE))
    start = ask(["on-demand"], graph, 5, None, Clock()).found
    assert best_of(start, Clock(), "", ["rotor", "min-cut"]).message == (
        "too little time for rotor, min-cut"
    )
