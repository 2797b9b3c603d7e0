"""Random plans that move data, over random links: audited, and equal where the link is no limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_traces import random_trace, scaled
from random_transfers import RandomPlan, random_link
from rematsim.analysis.stays import Stay, stays
from rematsim.audit import audit
from rematsim.execution import execute
from rematsim.opcodes import ACTIONS
from rematsim.plan import OFFLOAD, Plan, made_plan
from rematsim.result import RunResult
from rematsim.traces.trace import Trace
from rematsim.workload import workload


def random_moves(seed: int, factor: int = 1) -> tuple[Trace, Plan]:
    """Make a random trace, with views and updates, and a random plan for it."""
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2], tags=seed % 3 == 0)
    trace = scaled(trace, factor)
    program = workload(trace, cached=False).program
    actions = RandomPlan(program, seed, (0.3, 0.6, 0.8)[seed % 3]).plan()
    return trace, made_plan(actions, trace.digest, method="random")


@pytest.mark.parametrize("seed", range(60))
def test_what_happens_is_what_the_rules_say(seed: int) -> None:
    """The auditor derives every row anew: without a budget, at the peak, and below it."""
    trace, plan = random_moves(seed)
    link = random_link(seed)
    free = execute(trace, plan, link=link, event_log=True)
    assert (free.status, free.message) == ("ok", "")
    assert free.clock == 1 + free.model_ns + free.remat_ns + free.stall_ns
    ended = set()
    for budget in (free.peak_bytes, *(int(free.peak_bytes * f) for f in (0.97, 0.9, 0.8))):
        if budget:
            result = execute(trace, plan, budget, link=link, event_log=True)
            verdict = audit(trace, result)
            assert verdict, (budget, result.message, verdict.message)
            assert result.peak_bytes <= budget
            ended.add(result.status)
    assert audit(trace, free), audit(trace, free).message
    assert "ok" in ended


@pytest.mark.parametrize(
    ("seed", "memory", "factor", "part", "host"),
    [
        (5426, "counter", 1, 0.8, 57),
        (5082, "arena", 256, 0.6, None),
        (5496, "arena", 256, 0.9, None),
    ],
)
def test_when_an_action_fails_the_call_before_it_has_ended(
    seed: int, memory: str, factor: int, part: float, host: int | None
) -> None:
    """What that call needed for itself is free, so what stood in line may have begun."""
    trace, plan = random_moves(seed, factor)
    link = random_link(seed) if host is None else f"{random_link(seed)[:-1]},host={host})"
    free = execute(trace, plan, link=random_link(seed), memory=memory)
    budget = int(part * (free.reserved_peak_bytes or free.peak_bytes))
    run = execute(trace, plan, budget, link=link, memory=memory, event_log=True)
    assert run.status == "oom" and run.prefetched_bytes
    assert audit(trace, run), audit(trace, run).message


def test_the_end_of_a_plan_waits_for_constants_too() -> None:
    """They are not pinned; one that came, before another output that never does, was waited for."""
    trace, plan = random_moves(20405)
    link = random_link(20405)
    budget = int(0.97 * execute(trace, plan, link=link).peak_bytes)
    run = execute(trace, plan, budget, link=link, event_log=True)
    assert run.status == "refused" and audit(trace, run), audit(trace, run).message


MEMORIES = {  # and what sizes are multiplied by, for rounding to matter
    "arena": 256,
    "arena(small_area=8KiB)": 256,
    "caching": 1 << 19,
    "caching(expandable_segments:True)": 1 << 19,
    "caching(garbage_collection_threshold:0.6,max_split_size_mb:21)": 1 << 19,
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("seed", range(8))
def test_with_addresses_all_lies_where_the_model_puts_it(seed: int, memory: str) -> None:
    """No two overlap, no byte is lost: the auditor has a slow model of each, asked as the engine.

    With host memory that is short, too.
    """
    trace, plan = random_moves(seed, MEMORIES[memory])
    link = random_link(seed)
    free = execute(trace, plan, link=link, memory=memory, event_log=True)
    assert (free.status, free.message) == ("ok", "")
    assert audit(trace, free), audit(trace, free).message
    reserved, host = free.reserved_peak_bytes or 0, free.host_peak_bytes or 0
    assert free.peak_bytes <= reserved
    scarce = f"{link[:-1]},host={int(0.8 * host)})"
    for part, over in ((1.2, link), (0.97, link), (0.9, scarce), (0.7, link)):
        if budget := int(part * reserved):
            run = execute(trace, plan, budget, link=over, memory=memory, event_log=True)
            assert audit(trace, run), (budget, run.message, audit(trace, run).message)
            assert (run.reserved_peak_bytes or 0) <= budget
            assert not overlapping(run)


def overlapping(run: RunResult) -> list[tuple[Stay, Stay]]:
    """What lies in one place at one time, by the log alone."""
    assert run.events is not None
    found = list(stays(run.events))
    return [
        (a, b)
        for i, a in enumerate(found)
        for b in found[:i]
        if a.start < b.end
        and b.start < a.end
        and a.address < b.address + b.size
        and b.address < a.address + a.size
    ]


@pytest.mark.parametrize("seed", range(30))
def test_host_memory_is_never_more_than_there_is(seed: int) -> None:
    """With what the unlimited run took it ends as that did; with less it waits, or runs out."""
    trace, plan = random_moves(seed)
    link = random_link(seed)
    free = execute(trace, plan, link=link)
    for part in (1.0, 0.9, 0.7):
        host = int((free.host_peak_bytes or 0) * part)
        result = execute(trace, plan, link=link[:-1] + f",host={host})", event_log=True)
        assert audit(trace, result), audit(trace, result).message
        assert (result.host_peak_bytes or 0) <= host
        assert result.status == "ok" or part < 1


@pytest.mark.parametrize("seed", range(30))
def test_a_link_without_limits_makes_nobody_wait(seed: int) -> None:
    """Infinitely fast, without latency and with all the host's memory: no stalls, full or half."""
    trace, plan = random_moves(seed)
    for duplex in ("full", "half"):
        result = execute(trace, plan, link=f"link(d2h=inf,h2d=inf,latency=0,duplex={duplex})")
        assert (result.status, result.stall_ns) == ("ok", 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_slower_link_makes_nothing_faster_without_a_budget(seed: int) -> None:
    """Where room is never lacking, a plan takes no less time over a slower link."""
    trace, plan = random_moves(seed)
    times = [
        execute(trace, plan, link=f"link(d2h={rate},h2d={rate},latency=0)").stall_ns
        for rate in ("inf", "40GB/s", "3GB/s", "500MB/s")
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_log_is_found(seed: int) -> None:
    """Whatever a row of a transfer or a stall says otherwise, the auditor notices.

    And so it does where the outputs are never said to be there.
    """
    trace, plan = random_moves(seed)
    result = execute(trace, plan, link=random_link(seed), event_log=True)
    events: Any = result.events
    others = events["action"] != ACTIONS.index("pin")
    if not others.all():
        ended = {name: values[others] for name, values in events.items()}
        assert audit(trace, replace(result, events=ended)).finding == "LOG_ENDS_EARLY"
    moved = [ACTIONS.index(name) for name in ("offload", "prefetch", "discard", "stall")]
    rows = np.flatnonzero(np.isin(events["action"], moved))
    for row in rows[:: max(1, len(rows) // 4)]:
        for column in ("start_ns", "end_ns", "bytes", "host_after_bytes", "stream"):
            changed = {name: values.copy() for name, values in events.items()}
            changed[column][row] += 1
            object.__setattr__(result, "events", changed)
            assert not audit(trace, result), (row, column)


def test_a_plan_without_transfers_runs_as_before(seed: int = 3) -> None:
    """A link changes nothing where nothing moves."""
    trace, plan = random_moves(seed)
    kept = [(a, t) for a, t in plan if a < OFFLOAD]
    for still in (made_plan([pair for pair in kept if pair[0] == 0], trace.digest),):
        with_link = execute(trace, still, link="h100-pcie5", event_log=True)
        without = execute(trace, still, event_log=True)
        assert with_link.row | {"link": "none", "run_seconds": 0} == without.row | {
            "run_seconds": 0
        }
        a, b = with_link.events, without.events
        assert a is not None and b is not None
        assert all(
            np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f") for name in a
        )
