"""What holds for every run of every heuristic, whatever it decides: on random traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_traces import random_trace
from rematsim import heuristics
from rematsim.audit import audit
from rematsim.inspection import enlarged
from rematsim.opcodes import (
    ACTIONS,
    BANISH_STORAGE,
    COMPUTE,
    DEALLOCATE,
    DEALLOCATIONS,
    DROP_DUPLICATE,
    EVICT,
    PIN,
    RECOMPUTE,
)
from rematsim.simulation import simulate

NAMES = heuristics.names()
ONLINE = [name for name in NAMES if not heuristics.get(name).is_offline]
TAKE_OVER = ACTIONS.index("take_over")
LESS = (DROP_DUPLICATE, EVICT, DEALLOCATE, BANISH_STORAGE, TAKE_OVER)


def run_of(trace: Any, heuristic: str, budget: float, **options: Any) -> Any:
    """Simulate with an event log; a budget that is no int is a fraction of the unlimited peak."""
    return simulate(
        trace, heuristic, budget, event_log=True, memory=memory_of(heuristic), **options
    )


def memory_of(heuristic: str) -> str:
    """The memory model under which a heuristic is of use."""
    return "arena" if heuristics.get(heuristic).needs_addresses else "counter"


def trace_for(heuristic: str, seed: int, **options: Any) -> Any:
    """A random trace; with addresses its bytes are many, as memory rounds them up."""
    trace = random_trace(seed, **options)
    return enlarged(trace) if memory_of(heuristic) == "arena" else trace


@pytest.mark.parametrize("heuristic", NAMES)
def test_the_auditor_accepts_every_heuristic(heuristic: str) -> None:
    """Whatever the score, only what is free is evicted, and only when room is needed."""
    for seed in range(3):
        trace = trace_for(heuristic, 100 + seed, rebinding=("listed", "storage")[seed % 2])
        result = run_of(
            trace, heuristic, 0.8, deallocation=DEALLOCATIONS[seed % 2], slowdown_limit=None
        )
        verdict = audit(trace, result)
        assert verdict, f"{trace.name}: {verdict.message}"


@pytest.mark.parametrize("heuristic", NAMES)
def test_accounts_add_up(heuristic: str) -> None:
    """The log's memory is the sum of its changes, its times never turn back, its counts match."""
    for seed in range(2):
        trace = trace_for(heuristic, 200 + seed)
        result = run_of(trace, heuristic, 0.8, deallocation=("eager", "banish")[seed])
        row, log = result.row, result.events
        action, size = log["action"], log["bytes"]
        change = np.where(np.isin(action, LESS), -size, size)
        change[action == PIN] = 0
        assert np.array_equal(np.cumsum(change), log["memory_after_bytes"])
        assert (log["memory_after_bytes"] >= 0).all()
        assert (log["memory_after_bytes"] <= row["budget_bytes"]).all()
        assert (np.diff(log["start_ns"]) >= 0).all()
        assert row["peak_bytes"] >= log["memory_after_bytes"].max()
        assert row["clock"] == 1 + row["model_ns"] + row["remat_ns"]
        assert (action == EVICT).sum() == row["pressure_evictions"]
        freed = np.isin(action, (EVICT, DEALLOCATE))
        banished = (action == BANISH_STORAGE).sum()
        assert freed.sum() <= row["evictions"] <= freed.sum() + banished
        if row["status"] == "ok":
            assert row["model_ns"] == row["base_compute_ns"]
            assert row["slowdown"] == (row["model_ns"] + row["remat_ns"]) / row["model_ns"]


@pytest.mark.parametrize("heuristic", ONLINE)
def test_online_decisions_do_not_depend_on_what_comes_later(heuristic: str) -> None:
    """Cut a trace: up to its last call the same is evicted, for the same budget in bytes."""
    whole = trace_for(heuristic, 300, events=60)
    budget = int(0.8 * simulate(whole, "h_LRU").row["unlimited_peak_bytes"])
    full = run_of(whole, heuristic, budget, slowdown_limit=None).events
    for cut in (25, 40, 50):
        part = trace_for(heuristic, 300, events=60, cut=cut)
        log = run_of(part, heuristic, budget, slowdown_limit=None).events
        computed = np.flatnonzero(log["action"] == COMPUTE)
        end = int(computed[-1]) + 1 if len(computed) else 0
        for column in ("action", "storage", "start_ns", "memory_after_bytes"):
            assert np.array_equal(log[column][:end], full[column][:end]), f"cut {cut}: {column}"
        assert np.array_equal(log["score"][:end], full["score"][:end], equal_nan=True)


@pytest.mark.parametrize("heuristic", NAMES)
def test_a_run_can_be_repeated(heuristic: str) -> None:
    """The same inputs and the same seed give the same run."""
    trace = trace_for(heuristic, 400)
    first, second = (run_of(trace, heuristic, 0.8, seed=5) for _ in range(2))
    for column in ("evict_sha", "clock", "peak_bytes", "status"):
        assert first.row[column] == second.row[column]


@pytest.mark.parametrize("deallocation", DEALLOCATIONS)
@pytest.mark.parametrize("mutation", ["copy", "inplace"])
def test_without_a_budget_nothing_is_forced(deallocation: str, mutation: str) -> None:
    """No eviction for room; under banish nothing is recomputed, and the peak is *the* peak."""
    for seed in range(5):
        trace = random_trace(500 + seed, tags=True)
        row = simulate(
            trace, "h_LRU", deallocation=deallocation, mutation=mutation, slowdown_limit=None
        ).row
        assert (row["status"], row["pressure_evictions"]) == ("ok", 0)
        if deallocation == "banish":
            assert row["peak_bytes"] == row["unlimited_peak_bytes"]
            if mutation == "copy":
                assert (row["remat_ns"], row["clock"]) == (0, 1 + row["base_compute_ns"])


def test_recomputed_calls_have_run_before() -> None:
    """The model runs a call once; what is recomputed was run by the model, or is just running."""
    trace = random_trace(600)
    log = run_of(trace, "h_DTR_eq", 0.7, slowdown_limit=None).events
    seen: set[int] = set()
    for code, call in zip(log["action"].tolist(), log["call"].tolist(), strict=True):
        if code == COMPUTE:
            seen.add(call)
        elif code == RECOMPUTE:
            assert call in seen
