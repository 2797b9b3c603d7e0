"""Heuristics that move data, on random traces and links: audited, and right at the limits."""

from __future__ import annotations

import itertools
from typing import Any

import moving_oracle
import numpy as np
import pytest
from random_traces import random_trace
from random_transfers import random_link
from rematsim.audit import audit
from rematsim.errors import InputError, UsageError
from rematsim.execution import execute
from rematsim.links import find_link
from rematsim.opcodes import ACTIONS, DEALLOCATIONS
from rematsim.plan import plan_of_run
from rematsim.requirements import requirements
from rematsim.result import RunResult
from rematsim.simulation import simulate
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

MOVING = {"h_DTR_offload": "h_DTR_eq", "h_next_use_offload": "h_next_use"}
NO_WAY = (
    "link(d2h=0,h2d=0)",
    "link(d2h=24GB/s,h2d=0)",
    "link(d2h=0,h2d=24GB/s)",
    "link(d2h=1B/s,h2d=1B/s)",
)
PERFECT = "link(d2h=inf,h2d=inf,latency=0)"


def a_trace(seed: int, events: int = 150) -> Trace:
    return random_trace(
        seed, events=events, rebinding=("listed", "storage")[seed % 2], tags=seed % 3 == 0
    )


def options_of(seed: int) -> dict[str, Any]:
    return {
        "deallocation": DEALLOCATIONS[seed % 3],
        "mutation": ("copy", "inplace")[seed // 2 % 2],
        "slowdown_limit": (2.0, None)[seed % 2],
    }


def same_rows(a: RunResult, b: RunResult) -> None:
    """What differs is what the rows are called, and how long they took."""
    named = {"method": "", "link": "", "run_seconds": 0, "memory": ""}
    assert a.row | named == b.row | named
    assert a.events is not None and b.events is not None
    for name, column in a.events.items():
        is_float = column.dtype.kind == "f"
        assert np.array_equal(column, b.events[name], equal_nan=is_float), name


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("heuristic", MOVING)
def test_what_happens_is_what_the_rules_say(heuristic: str, seed: int) -> None:
    """The auditor derives every transfer, every stall and the host's memory from the log."""
    trace, options = a_trace(seed), options_of(seed)
    for fraction in (0.5, 0.7, 0.9):
        result = simulate(
            trace, heuristic, fraction, link=random_link(seed), event_log=True, **options
        )
        verdict = audit(trace, result)
        assert verdict, (fraction, options, result.status, result.message, verdict.message)
        lost = result.remat_ns + result.stall_ns
        assert result.clock == 1 + result.model_ns + lost
        assert result.peak_bytes <= (result.budget_bytes or 0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("heuristic", MOVING)
def test_a_slow_simulator_makes_the_same_choices(heuristic: str, seed: int) -> None:
    """Victims, ways and what is copied ahead: searched afresh each time, with full scans."""
    trace, options = a_trace(seed), {**options_of(seed), "mutation": "copy"}
    link = random_link(seed).replace(")", ",host=200)" if seed % 4 == 3 else ")")
    for fraction in (0.5, 0.8):
        result = simulate(trace, heuristic, fraction, link=link, **options)
        expected = moving_oracle.replay(
            *(trace, heuristic, result.budget_bytes, find_link(link)),
            *(options["deallocation"], options["slowdown_limit"]),
        )
        assert {name: result.row[name] for name in expected} == expected, (fraction, link)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("heuristic", MOVING)
def test_without_a_way_nothing_changes(heuristic: str, seed: int) -> None:
    """No bandwidth one way, or next to none: the row and log of the plain one, to the last digit.

    What has no bytes fits a host without memory, and is left out.
    """
    trace, options = a_trace(seed), options_of(seed)
    for fraction in (0.5, 0.8):
        plain = simulate(trace, MOVING[heuristic], fraction, event_log=True, **options)
        for link in NO_WAY:
            moving = simulate(trace, heuristic, fraction, link=link, event_log=True, **options)
            same_rows(plain, moving)
            assert audit(trace, moving)


@pytest.mark.parametrize("heuristic", MOVING)
@pytest.mark.parametrize("name", ["bundled:resnet32", "synthetic:transformer:2"])
def test_a_host_without_memory_changes_nothing(heuristic: str, name: str) -> None:
    """It takes nothing, so nothing goes there."""
    for fraction in (0.4, 0.7):
        plain = simulate(name, MOVING[heuristic], fraction, event_log=True)
        link = "link(d2h=24GB/s,h2d=24GB/s,host=0)"
        same_rows(plain, simulate(name, heuristic, fraction, link=link, event_log=True))


@pytest.mark.parametrize("heuristic", ["h_DTR_eq", "h_LRU", "h_rand"])
def test_a_link_is_nothing_to_others(heuristic: str) -> None:
    """A heuristic that cannot move data gives the same row, and says that there was no link."""
    trace = a_trace(5)
    plain = simulate(trace, heuristic, 0.7, event_log=True)
    linked = simulate(trace, heuristic, 0.7, link="h100-pcie5", event_log=True)
    assert linked.link == "none"
    same_rows(plain, linked)


@pytest.mark.parametrize("heuristic", MOVING)
@pytest.mark.parametrize(
    "name", ["bundled:resnet32", "bundled:gpt", "synthetic:transformer:2", "synthetic:tree:4"]
)
def test_a_perfect_link_costs_nothing(heuristic: str, name: str) -> None:
    """Where copies take no time, slowdown is 1 wherever what has to be there at once fits."""
    trace = load_trace(name)
    work = workload(trace)
    least = requirements(work.program).lowest_budget_bytes
    for budget in np.linspace(least, work.unlimited_peak_bytes, 5).astype(int).tolist():
        result = simulate(trace, heuristic, budget, link=PERFECT, event_log=True)
        assert (result.status, result.slowdown, result.stall_ns) == ("ok", 1.0, 0), budget
        assert audit(trace, result), audit(trace, result).message
    assert simulate(trace, heuristic, least - 1, link=PERFECT).status == "oom"


@pytest.mark.parametrize("heuristic", MOVING)
def test_what_moves_for_nothing_is_computed_once_wherever_a_run_ends(heuristic: str) -> None:
    """With calls that cannot be repeated, too, whose results may leave no room for outputs.

    Without them, every run ends for which what has to be there at once fits.
    """
    for seed, tags, policy in itertools.product(range(4), (False, True), DEALLOCATIONS):
        trace = random_trace(seed, events=60, tags=tags)
        least = requirements(workload(trace, cached=False).program).lowest_budget_bytes
        for budget in (least, least + 40):
            run = simulate(trace, heuristic, budget, link=PERFECT, deallocation=policy)
            assert run.slowdown in ((1.0, None) if tags or policy == "banish" else (1.0,))


def test_why_a_run_over_a_link_ended_is_told() -> None:
    """What comes back has its own bytes, not those of its call; waiting counts to the limit.

    Of 18 calls of 1 ns, 5.4 ns may be lost at 1.3: computing again alone loses less.
    """
    run = simulate("synthetic:random:3", "h_DTR_offload", 618, link=PERFECT)
    assert run.message == (
        "out of memory making an output: x85, which comes back from the host, needs 16 bytes, 610 "
        "are held and nothing is left to evict"
    )
    link = "link(d2h=2GB/s,h2d=2GB/s,latency=0)"
    run = simulate("synthetic:chain:9", "h_DTR_offload", 5, link=link, slowdown_limit=1.3)
    assert (run.base_compute_ns, run.message) == (
        18,
        "over the slowdown limit at b (call 14, bwd), 4 ns of rematerialization and 2 ns of "
        "waiting for copies",
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("heuristic", MOVING)
def test_host_memory_is_never_more_than_there_is(heuristic: str, seed: int) -> None:
    """Where it is full, a storage is dropped instead."""
    trace, options = a_trace(seed), options_of(seed)
    link = "link(d2h=40GB/s,h2d=40GB/s,latency=0"
    free = simulate(trace, heuristic, 0.6, link=f"{link})", **options)
    for part in (1.0, 0.6, 0.2):
        host = int((free.host_peak_bytes or 0) * part)
        result = simulate(
            trace, heuristic, 0.6, link=f"{link},host={host})", event_log=True, **options
        )
        assert audit(trace, result), audit(trace, result).message
        assert (result.host_peak_bytes or 0) <= host


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("heuristic", MOVING)
def test_a_changed_log_is_found(heuristic: str, seed: int) -> None:
    """Whatever a row of a transfer or a stall says otherwise, the auditor notices."""
    trace = a_trace(seed)
    link = "link(d2h=40GB/s,h2d=3GB/s,latency=0)"
    result = simulate(trace, heuristic, 0.6, link=link, event_log=True)
    events: Any = result.events
    moved = [ACTIONS.index(name) for name in ("offload", "save", "prefetch", "discard", "stall")]
    rows = np.flatnonzero(np.isin(events["action"], moved))
    assert len(rows), "nothing was moved"
    for row in rows[:: max(1, len(rows) // 6)]:
        for column in ("start_ns", "end_ns", "bytes", "host_after_bytes", "stream", "storage"):
            changed = {name: values.copy() for name, values in events.items()}
            changed[column][row] += 1
            object.__setattr__(result, "events", changed)
            assert not audit(trace, result), (row, column)


@pytest.mark.parametrize(
    ("heuristic", "link", "said", "action"),
    [
        ("h_DTR_offload", NO_WAY[0], PERFECT, "evict"),
        ("h_next_use_offload", NO_WAY[0], PERFECT, "evict"),
        ("h_DTR_offload", PERFECT, "link(d2h=1B/s,h2d=1B/s,latency=0)", "offload"),
    ],
)
def test_the_dearer_way_is_found(heuristic: str, link: str, said: str, action: str) -> None:
    """Dropping where copies take no time, moving where they take for ever: neither is right."""
    result = simulate("synthetic:chain:8", heuristic, 0.6, link=link, event_log=True)
    events: Any = result.events
    assert ACTIONS.index(action) in events["action"].tolist()
    object.__setattr__(result, "link", said)
    verdict = audit(load_trace("synthetic:chain:8"), result)
    assert verdict.finding == "DEARER_WAY" and ACTIONS[events["action"][verdict.row]] == action


def test_a_user_s_heuristic_moves_data() -> None:
    """Declared with moves=, it chooses the victims; their way is what costs less."""
    from rematsim.heuristics import heuristic
    from rematsim.heuristics.terms import cheaper, own_cost, size, time_from_host, time_to_host

    @heuristic("the largest", moves="on demand")
    def largest(state: Any, s: int) -> float:
        return -size(state, s)

    @heuristic("the cheaper way", moves="on demand")
    def mine(state: Any, s: int) -> float:
        move = time_to_host(state, s) + time_from_host(state, s)
        return cheaper(state, s, 2.0 * own_cost(state, s), move)

    link = "link(d2h=40GB/s,h2d=40GB/s,latency=0)"
    for function in (largest, mine):
        moved = simulate(a_trace(4), function, 0.7, link=link, event_log=True)
        assert moved.offloaded_bytes
        assert audit(a_trace(4), moved)


@pytest.mark.parametrize("heuristic", MOVING)
def test_what_moved_nothing_over_a_link_is_a_plan(heuristic: str) -> None:
    """Executed without a link, it does what the run did."""
    trace = load_trace("synthetic:chain:9")
    run = simulate(trace, heuristic, 6, link="link(d2h=1B/s,h2d=1B/s)", event_log=True)
    assert run.evictions and not run.offloaded_bytes
    again = execute(trace, plan_of_run(workload(trace).program, run), 6)
    assert (again.status, again.clock, again.peak_bytes) == ("ok", run.clock, run.peak_bytes)


def test_what_cannot_be_is_refused() -> None:
    """Memory with addresses knows no host; a run that moved data is no plan."""
    with pytest.raises(UsageError, match="memory arena: h_DTR_offload moves data over h100-pcie5"):
        simulate(a_trace(1), "h_DTR_offload", 0.7, link="h100-pcie5", memory="arena")
    simulate(a_trace(1), "h_DTR_offload", 0.9, memory="arena")
    link = "link(d2h=40GB/s,h2d=40GB/s,latency=0)"
    result = simulate(a_trace(1), "h_DTR_offload", 0.9, link=link, event_log=True)
    with pytest.raises(InputError, match="it moved data over link"):
        plan_of_run(workload(a_trace(1)).program, result)
