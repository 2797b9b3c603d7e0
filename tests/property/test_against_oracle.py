"""Random traces through the engine, the reference simulator and the auditor: all three agree.

The engine's row and every row of its event log are compared with a simulator that was written
from the contract alone; the auditor re-derives the log by itself.
"""

from __future__ import annotations

import math
from typing import Any

import oracle
import pytest
from random_traces import random_trace
from rematsim.audit import audit
from rematsim.opcodes import ACTIONS, DEALLOCATIONS
from rematsim.simulation import simulate
from rematsim.traces.random_dag import random_dag
from rematsim.traces.trace import Trace

FIGURES = (
    *oracle.REFERENCE_FIGURES,
    "pressure_evictions",
    "rematerializations",
    "evaluations",
    "metadata_accesses",
)
KINDS = (
    {"mutations": False},
    {"rebinding": "listed"},
    {"rebinding": "storage"},
    {"rebinding": "listed", "tags": True, "returns": True},
    {"rebinding": "storage", "tags": True, "returns": True},
)
LIMITS = (2.0, None, 1.25)


def same(one: Any, other: Any) -> bool:
    """Compare two entries; two NaN are the same."""
    both_nan = isinstance(one, float) and isinstance(other, float) and one != one and other != other
    return both_nan or one == other


def first_difference(expected: list[dict[str, Any]], events: Any) -> str:
    """Compare event rows; describe the first that differs, if any does."""
    columns = {name: events[name].tolist() for name in expected[0]}
    columns["action"] = [ACTIONS[code] for code in columns["action"]]
    for number, row in enumerate(expected):
        if number == len(columns["action"]):
            return f"event {number}: {row} is missing"
        found = {name: columns[name][number] for name in row}
        if not all(same(row[name], found[name]) for name in row):
            return f"event {number}: expected {row}, got {found}"
    return "" if len(expected) == len(columns["action"]) else f"more than {len(expected)} events"


def compare(trace: Trace, heuristic: str, budget: int, options: dict[str, Any]) -> str:
    """Run all three; describe the first disagreement, if there is one."""
    expected = oracle.replay(trace, heuristic, budget, **options)
    result = simulate(trace, heuristic, budget, event_log=True, count_accesses=True, **options)
    difference = first_difference(expected["events"], result.events)
    for figure in FIGURES:
        if expected[figure] != result.row[figure]:
            difference += f" {figure}: expected {expected[figure]}, got {result.row[figure]}"
    return difference or audit(trace, result).message


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("heuristic", sorted(oracle.SCORES))
def test_engine_oracle_and_auditor_agree(heuristic: str, kind: int) -> None:
    """Every figure, every event, under every policy, with mutation copied and in place."""
    number = sorted(oracle.SCORES).index(heuristic)
    trace = random_trace(1000 * kind + number, **KINDS[kind])  # type: ignore[arg-type]
    for turn, deallocation in enumerate(DEALLOCATIONS):
        mutation = ("copy", "inplace")[(number + kind + turn) % 2]
        peak = oracle.unlimited_peak(trace, mutation)
        options = {
            "deallocation": deallocation,
            "slowdown_limit": LIMITS[(number + turn) % 3],
            "mutation": mutation,
        }
        for tenths in (7, 9):
            difference = compare(trace, heuristic, peak * tenths // 10, options)
            assert not difference, f"{trace.name}, {options}, {tenths}/10: {difference}"


@pytest.mark.parametrize("heuristic", ["h_DTR", "h_DTR_eq", "h_MSPS", "h_abl_estar"])
def test_they_agree_on_longer_traces(heuristic: str) -> None:
    """Bounds and caches have more time to go stale: 400 events, half of the memory."""
    trace = random_trace(77, events=400)
    peak = oracle.unlimited_peak(trace)
    options = {"deallocation": "eager", "slowdown_limit": None, "mutation": "copy"}
    for tenths in (6, 8):
        assert not compare(trace, heuristic, peak * tenths // 10, options)


@pytest.mark.parametrize("seed", [6, 23, 31])
def test_all_three_agree_on_what_is_taken_over(seed: int) -> None:
    """A name that a call mutates twice is dropped once; a view undone by its own call waits."""
    trace, options = random_dag(seed), {"deallocation": "eager", "mutation": "inplace"}
    budget = simulate(trace, "h_LRU", "0.4x", **options).row["budget_bytes"]
    assert not compare(trace, "h_DTR_eq", budget, {**options, "slowdown_limit": 2.0})


def test_scores_are_never_nan() -> None:
    """Infinity is a score, NaN is none: not even for empty storages that cost nothing."""
    trace = random_trace(3, events=120)
    for heuristic in sorted(oracle.SCORES):
        run = oracle.replay(trace, heuristic, oracle.unlimited_peak(trace) * 7 // 10)
        evictions = [event for event in run["events"] if event["action"] == "evict"]
        assert evictions
        assert not any(math.isnan(event["score"]) for event in evictions)
