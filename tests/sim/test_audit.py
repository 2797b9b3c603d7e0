"""The auditor accepts what the reference simulator does and names each thing tampered with."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
import pytest
from random_traces import random_trace, scaled
from rematsim.audit import FINDINGS, Verdict, audit
from rematsim.inspection import enlarged
from rematsim.opcodes import ACTIONS
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.bundled import bundled_traces
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace

Rows = list[dict[str, Any]]


def result_of(
    trace: Trace, heuristic: str, budget: int | None, deallocation: str = "eager"
) -> tuple[dict[str, Any], Rows]:
    """Run the reference simulator; give the row and the event rows of its result."""
    row = oracle.replay(trace, heuristic, budget, deallocation)
    events = row.pop("events")
    row |= {"method": heuristic, "budget_bytes": budget, "deallocation": deallocation}
    return row | {"slowdown_limit": 2.0, "mutation": "copy", "memory": "counter"}, events


def verdict_on(trace: Trace, row: dict[str, Any], events: Rows) -> Verdict:
    """Audit a row and event rows."""
    columns: dict[str, Any] = {
        name: np.array([event[name] for event in events]) for name in events[0] if name != "action"
    }
    columns["action"] = np.array([ACTIONS.index(event["action"]) for event in events])
    return audit(trace, SimpleNamespace(row=row, events=columns))  # type: ignore[arg-type]


def two_sources() -> Trace:
    """Make a trace in which one of two storages has to go: 30 bytes fit, and a needs both."""
    builder = TraceBuilder("two sources")
    builder.constant("x", 0)
    builder.call("f", ["x"], [("a", 10, -1)], 8)
    builder.call("g", ["x"], [("b", 10, -1)], 2)
    builder.call("h", ["x"], [("c", 10, -1)], 1)
    builder.call("i", ["c"], [("d", 10, -1)], 1)
    builder.call("j", ["a", "b"], [("e", 5, -1)], 1)
    for name in "abcd":
        builder.release(name)
    return builder.build()


@pytest.fixture
def run() -> tuple[Trace, dict[str, Any], Rows]:
    """Give the trace of two sources, and its run with 30 bytes."""
    trace = two_sources()
    return trace, *result_of(trace, "h_DTR_local", 30)


def row_number(events: Rows, action: str, nth: int = 0) -> int:
    """Find an event row by its action."""
    return [i for i, event in enumerate(events) if event["action"] == action][nth]


def test_an_honest_log_is_good(run: tuple[Trace, dict[str, Any], Rows]) -> None:
    """Nothing contradicts, and a good verdict is true.

    b scores 2 / (10 * 1), a 8 / (10 * 3): b goes for d; then a, b are read, c and d go for b.
    """
    trace, row, events = run
    assert verdict_on(trace, row, events) == Verdict("GOOD")
    assert verdict_on(trace, row, events)
    victims = [event["storage"] for event in events if event["action"] == "evict"]
    assert victims[0] == 2
    assert row["status"] == "ok"


@pytest.mark.parametrize(
    ("action", "column", "value", "finding"),
    [
        ("compute", "bytes", 11, "BYTES_MISMATCH"),
        ("compute", "memory_after_bytes", 9, "BYTES_MISMATCH"),
        ("recompute", "end_ns", 0, "CLOCK_MISMATCH"),
        ("recompute", "start_ns", 0, "CLOCK_MISMATCH"),
        ("compute", "storage", 7, "WRONG_STORAGE"),
        ("evict", "cause_call", 0, "WRONG_CAUSE"),
        ("evict", "score", 0.125, "SCORE_MISMATCH"),
        ("evict", "storage", 4, "NOT_MATERIAL"),
        ("evict", "storage", 3, "LOCKED_BUT_EVICTED"),
        ("evict", "storage", 0, "LOCKED_BUT_EVICTED"),
        ("evict", "bytes", 9, "BYTES_MISMATCH"),
        ("deallocate", "memory_after_bytes", 1, "BYTES_MISMATCH"),
    ],
)
def test_a_changed_entry_is_named(
    run: tuple[Trace, dict[str, Any], Rows], action: str, column: str, value: float, finding: str
) -> None:
    """The first row that was changed is the one that is found."""
    trace, row, events = run
    number = row_number(events, action, 0 if action != "compute" else 1)
    events[number][column] = value
    verdict = verdict_on(trace, row, events)
    assert (verdict.finding, verdict.row) == (finding, number)
    assert f"event {number} ({action}" in verdict.message


def test_a_victim_that_is_not_the_lowest_is_named(
    run: tuple[Trace, dict[str, Any], Rows],
) -> None:
    """The other storage's true score does not make it the right victim."""
    trace, row, events = run
    number = row_number(events, "evict")
    events[number]["storage"] = 1
    events[number]["score"] = 8 / (10.0 * 11.0)
    verdict = verdict_on(trace, row, events)
    assert verdict.finding in ("SCORE_MISMATCH", "NOT_THE_MINIMUM")
    true_score = float(verdict.message.split("its score is ")[1].split(",")[0])
    events[number]["score"] = true_score
    assert verdict_on(trace, row, events).finding == "NOT_THE_MINIMUM"


def test_a_missing_row_is_named(run: tuple[Trace, dict[str, Any], Rows]) -> None:
    """Without its eviction a result does not fit; without its recomputation a parent is missing."""
    trace, row, events = run
    evict = row_number(events, "evict")
    without = events[:evict] + events[evict + 1 :]
    assert verdict_on(trace, row, without).finding == "OVER_BUDGET"
    again = row_number(events, "recompute")
    reader = next(i for i, event in enumerate(events) if event["call"] == 4)
    without = events[:again] + events[reader:]
    assert verdict_on(trace, row, without).finding == "PARENT_NOT_DEFINED"
    assert verdict_on(trace, row, events[:-1]).finding == "LOG_ENDS_EARLY"


def test_a_row_too_many_is_named(run: tuple[Trace, dict[str, Any], Rows]) -> None:
    """A second eviction frees what nobody asked for; a release that has not happened frees."""
    trace, row, events = run
    evict = row_number(events, "evict")
    more = dict(events[evict], storage=1)
    twice = [*events[: evict + 1], more, *events[evict + 1 :]]
    assert verdict_on(trace, row, twice).finding == "NEEDLESS_EVICTION"
    freed = dict(more, action="deallocate")
    early = [*events[:evict], freed, *events[evict:]]
    assert verdict_on(trace, row, early).finding == "STILL_NEEDED"
    assert verdict_on(trace, row, [*events, events[-1]]).finding == "UNEXPECTED_ACTION"


@pytest.mark.parametrize(
    "column", ["model_ns", "remat_ns", "clock", "peak_bytes", "evictions", "evict_sha"]
)
def test_a_wrong_figure_is_named(run: tuple[Trace, dict[str, Any], Rows], column: str) -> None:
    """The row's figures are what the log adds up to."""
    trace, row, events = run
    row[column] = "0" if column == "evict_sha" else row[column] + 1
    verdict = verdict_on(trace, row, events)
    assert (verdict.finding, verdict.row) == ("COUNT_MISMATCH", -1)
    assert column in verdict.message


def test_a_wrong_status_is_named(run: tuple[Trace, dict[str, Any], Rows]) -> None:
    """A run whose log reaches the end did end well."""
    trace, row, events = run
    row["status"] = "thrashed"
    assert verdict_on(trace, row, events).finding == "STATUS_MISMATCH"


def test_unknown_scores_are_not_judged(run: tuple[Trace, dict[str, Any], Rows]) -> None:
    """Of a heuristic without a definition here, any victim that is free will do."""
    trace, row, events = run
    row["method"] = "mine"
    events[row_number(events, "evict")]["score"] = 123.0
    assert verdict_on(trace, row, events)


def test_a_run_without_its_log_cannot_be_audited() -> None:
    """The event log is what an audit reads."""
    with pytest.raises(ValueError, match="event_log=True"):
        audit(two_sources(), SimpleNamespace(row={}, events=None))  # type: ignore[arg-type]


@pytest.mark.parametrize("deallocation", ["ignore", "eager", "banish"])
@pytest.mark.parametrize("heuristic", ["h_DTR", "h_DTR_eq", "h_LRU", "h_abl_one_size"])
def test_the_reference_simulator_is_good(heuristic: str, deallocation: str) -> None:
    """Two independent readings of the contract agree, to the last row, on random traces."""
    for seed in range(3):
        trace = random_trace(seed, mutations=seed == 1)
        budget = oracle.unlimited_peak(trace) * 9 // 10
        verdict = verdict_on(trace, *result_of(trace, heuristic, budget, deallocation))
        assert verdict, f"seed {seed}: {verdict.message}"


def test_every_finding_is_explained() -> None:
    """Messages are for people, findings for programs: both have a table."""
    assert all(FINDINGS.values())


@pytest.mark.parametrize("deallocation", ["eager", "banish"])
@pytest.mark.parametrize("name", sorted({*bundled_traces()} - {"llama_7b"}))
def test_runs_of_real_traces_are_good(name: str, deallocation: str) -> None:
    """The engine's runs of the traces that ship with the project are audited to the last row.

    All but the longest: an audit is slow on purpose.
    """
    trace = load_trace(f"bundled:{name}")
    result = simulate(trace, "h_DTR_eq", "0.8x", deallocation=deallocation, event_log=True)
    assert result.row["pressure_evictions"] > 0
    verdict = audit(trace, result)
    assert verdict, verdict.message


@pytest.mark.parametrize("partition", ["class", "density", "none"])
@pytest.mark.parametrize("window", ["true", "false"])
@pytest.mark.parametrize("mutation", ["copy", "inplace"])
def test_runs_of_coop_are_derived_with_the_side_of_each_call(
    partition: str, window: str, mutation: str
) -> None:
    """Also where no window is large enough, which ends a run although something may go.

    And with a small area, in which there is no window for a large request.
    """
    ended = set()
    for seed, budget, drop in itertools.product(range(3), (0.4, 0.7), ("true", "false")):
        trace = enlarged(random_trace(seed, events=60))
        method = f"Coop(window={window},partition={partition},drop={drop})"
        memory = f"arena(small_area={20 * 1024 * (seed % 2)})"
        run = simulate(trace, method, budget, memory=memory, mutation=mutation, event_log=True)
        ended.add(run.status)
        verdict = audit(trace, run)
        assert verdict, verdict.message
    assert "ok" in ended


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "max_split_size_mb:20",
        "expandable_segments:True",
        "garbage_collection_threshold:0.5,roundup_power2_divisions:4",
    ],
)
def test_runs_of_coop_in_segments_are_derived(settings: str) -> None:
    """Windows lie in one segment; where there is none, one storage goes."""
    went = 0
    for seed, budget in itertools.product(range(3), (0.7, 1.05)):
        trace = scaled(enlarged(random_trace(seed, events=60)), 700)
        run = simulate(
            trace, ("Coop", "Coop(drop=true)")[seed % 2], budget, memory=f"caching({settings})",
            event_log=True,
        )  # fmt: skip
        verdict = audit(trace, run)
        assert verdict, verdict.message
        went += run.pressure_evictions
    assert went


def test_a_retry_that_was_not_is_found() -> None:
    """A window goes at once: how often room was sought is derived from the bytes it makes free."""
    trace = enlarged(random_trace(1, events=60))
    run = simulate(trace, "Coop", 0.7, memory="arena", event_log=True)
    assert run.retries
    verdict = audit(trace, dataclasses.replace(run, retries=run.retries + 1))
    assert verdict.finding == "COUNT_MISMATCH" and "retries" in verdict.message
