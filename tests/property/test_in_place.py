"""Runs of random traces, updates in place among them, whose event logs the auditor re-derives."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from random_traces import random_trace
from rematsim import audit as audits
from rematsim import runner
from rematsim.inspection import enlarged
from rematsim.opcodes import DEALLOCATIONS
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.random_dag import random_dag
from rematsim.traces.trace import Trace

HEURISTICS = ("h_LRU", "h_DTR", "h_DTR_eq", "h_MSPS", "h_size", "h_DTR_neighborhood", "h_rand")


def traces_of(seed: int) -> tuple[Trace, Trace]:
    """Two traces of a seed, from two authors."""
    rebinding, is_rich = ("listed", "storage")[seed % 2], seed % 3 > 0
    return random_dag(seed), random_trace(seed, rebinding=rebinding, tags=is_rich, returns=is_rich)


def check(trace: Trace, heuristic: str, budget: str, **options: Any) -> None:
    """Run as people do, with bounds and caches in use, and audit that."""
    run = simulate(trace, heuristic, budget, event_log=True, cached=False, **options)
    verdict = audits.audit(trace, run)
    assert verdict, f"{trace.name}, {heuristic}, {budget}, {options}: {verdict.message}"


@pytest.mark.parametrize("memory", ["counter", "arena", "caching"])
def test_audits_of_many_runs_find_nothing(memory: str) -> None:
    """Whatever the policy, the mutation, the heuristic and the budget."""
    for seed in range(12):
        chance = random.Random(f"{memory} {seed}")
        for trace in traces_of(seed):
            sized = trace if memory == "counter" else enlarged(trace)
            for policy, mutation in itertools.product(DEALLOCATIONS, ("copy", "inplace")):
                budget = f"0.{chance.randint(4, 9)}x"
                options = {"deallocation": policy, "mutation": mutation, "memory": memory}
                limit = chance.choice((2.0, 1.25, None))
                check(sized, chance.choice(HEURISTICS), budget, slowdown_limit=limit, **options)


def test_what_is_given_up_is_banished_at_once() -> None:
    """What was made of it stays from then on: else it could be wanted, and cannot be made."""
    options = {"deallocation": "eager", "mutation": "inplace", "slowdown_limit": 1.25}
    check(random_dag(48), "h_rand", "0.9x", **options)


def test_sums_of_a_banished_storage_that_is_back_are_exact() -> None:
    """Storages that return do not meet it on their walks, so its old sums are no bounds."""
    check(random_trace(19), "h_DTR", "0.4x", deallocation="banish", mutation="inplace")


def test_calls_without_cost_do_not_undo_each_other_for_ever() -> None:
    """A call that takes over what it returns a view of would undo the view each time it ran."""
    check(random_dag(37), "h_LRU", "0.4x", deallocation="ignore", mutation="inplace")


def test_recomputing_without_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on time is no limit on what takes none: that is counted. Here one is too many."""
    builder = TraceBuilder("idle")
    builder.call("op", [], [("a", 10, -1)], 0)
    builder.call("op", [], [("b", 10, -1)], 1)
    builder.call("op", ["b"], [("c", 10, -1)], 1)
    builder.release("b")
    builder.release("c")
    builder.call("op", ["a"], [("d", 10, -1)], 1)
    trace = builder.build()
    assert simulate(trace, "h_LRU", 20, slowdown_limit=None).row["rematerializations"] == 1
    for module in (runner, audits):
        monkeypatch.setattr(module, "IDLE_REMATS_PER_CALL", 0)
    run = simulate(trace, "h_LRU", 20, slowdown_limit=None, event_log=True)
    assert run.status == "thrashed"
    assert run.row["message"] == "no progress at op (call 3): 1 recomputations that take no time"
    assert audits.audit(trace, run)
