"""Whatever column of a row, or of an event log, says otherwise, the auditor finds it.

But for what neither the log nor the trace tells: what that is in each kind of run stands here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from random_traces import random_trace
from rematsim.audit import audit
from rematsim.audit_facts import MAY_LACK, OF_PLANS
from rematsim.audit_row import EVENTS_NOT_DERIVED, NOT_DERIVED
from rematsim.errors import InputError
from rematsim.execution import execute
from rematsim.opcodes import ACTIONS, STATUSES
from rematsim.plan import FREE, Plan, made_plan, plan_of_run
from rematsim.planning import plan_trace
from rematsim.result import EVENT_COLUMNS, RunResult
from rematsim.simulation import simulate
from rematsim.traces.synthetic import chain
from rematsim.traces.trace import Trace
from rematsim.workload import workload

CHAIN = chain(6, size_bytes=512)  # 13 calls of 1 ns
LINK = "link(d2h=600GB/s,h2d=512GB/s,latency=0)"  # of a nanosecond each way
CHEAP = "link(d2h=inf,h2d=512GB/s,latency=0)"  # there and back as dear as a call
SLOW = "link(d2h=1GB/s,h2d=1GB/s)"
UPDATES = random_trace(2, events=40, rebinding="storage")
VIEWS = random_trace(4, events=40)


@cache
def plan_that_moves() -> Plan:
    planned = plan_trace(CHAIN, "offload-all", 0.8, link=LINK)
    assert planned.plan is not None
    return planned.plan


def cut(plan: Plan, place: int, *more: tuple[int, int]) -> Plan:
    """Give the first actions of a plan, and others after them."""
    return made_plan([*list(plan)[:place], *more], plan.trace_digest, method=plan.method)


def online(heuristic: str, budget: Any = 0.8, **options: Any) -> RunResult:
    return simulate(CHAIN, heuristic, budget, event_log=True, **options)


def planned(method: str, budget: float, **options: Any) -> RunResult:
    return plan_trace(CHAIN, method, budget, event_log=True, **options).row


def executed(plan: Plan, budget: Any, trace: Trace = CHAIN, **options: Any) -> RunResult:
    return execute(trace, plan, budget, event_log=True, **options)


def plan_in_place() -> RunResult:
    run = simulate(UPDATES, "h_DTR_eq", 0.8, mutation="inplace", event_log=True)
    program = workload(UPDATES, "inplace").program
    return executed(plan_of_run(program, run), 0.8, UPDATES)


ASKED = {"trace", "mutation", "run_seconds"}
IN_PLACE = {"mutation"}  # shows there
CHOSEN = ASKED | {"slowdown_limit"}
EXECUTED = ASKED | {"method"}
PLANNED = EXECUTED | {"planner_status", "solve_seconds", "time_limit"}
OUT_OF_CHOICES = CHOSEN | {"method", "message", "bound_slowdown"}
FAILED = EXECUTED | {"status", "message", "bound_slowdown"}
SCORE = ("evict", "score")

# Each kind of run: how to make one, and what may be changed unnoticed in its row, and in its log.
KINDS: dict[str, tuple[Callable[[], RunResult], set[str], set[tuple[str, str]]]] = {
    "online": (lambda: online("h_DTR_eq"), CHOSEN, set()),
    "counted": (
        lambda: online("h_DTR", count_accesses=True), CHOSEN | {"metadata_accesses"}, set(),
    ),
    "random": (lambda: online("h_rand"), CHOSEN | {"seed"}, {SCORE}),
    "in bytes, banishing": (
        lambda: online("h_LRU", 5 * 512, deallocation="banish"), CHOSEN | {"budget_bytes"}, set(),
    ),
    "in place": (
        lambda: simulate(UPDATES, "h_DTR", 0.8, mutation="inplace", event_log=True),
        CHOSEN - IN_PLACE, set(),
    ),
    "online, moving": (lambda: online("h_DTR_offload", 0.6, link=CHEAP), CHOSEN, set()),
    "online, moving ahead": (
        lambda: online("h_next_use_offload", 0.6, link=CHEAP), CHOSEN, {SCORE},
    ),
    "online, moving nothing": (
        lambda: online("h_DTR_offload", link=SLOW), CHOSEN | {"link"}, set(),
    ),
    "online, out of memory": (
        lambda: online("h_DTR_eq", 0.3), OUT_OF_CHOICES | {"deallocation"},
        set(),
    ),
    "thrashed": (
        lambda: online("h_DTR_eq", 0.5, slowdown_limit=1.2),
        OUT_OF_CHOICES, set(),
    ),
    "online, with addresses": (lambda: online("h_DTR_eq", memory="arena"), CHOSEN, set()),
    "online, by windows": (
        lambda: online("Coop", memory="arena"), CHOSEN | {"search_steps"}, {SCORE},
    ),
    "plan": (lambda: planned("on-demand", 0.6), PLANNED | {"link"}, set()),
    "plan, moving": (lambda: planned("offload-all", 0.8, link=LINK), PLANNED, set()),
    "plan, moving nothing": (
        lambda: planned("capuchin", 0.6, link=SLOW), PLANNED | {"link"}, set(),
    ),
    "plan, with views, nothing to move over": (
        lambda: plan_trace(VIEWS, "capuchin", 0.85, event_log=True).row,
        PLANNED - IN_PLACE | {"link", "predicted_slowdown"}, set(),
    ),
    "plan, moving, with addresses": (
        lambda: executed(plan_that_moves(), 0.8, link=LINK, memory="arena"), EXECUTED, set(),
    ),
    "plan, in place": (plan_in_place, EXECUTED - IN_PLACE | {"link"}, set()),
    "plan, moving, out of memory": (
        lambda: executed(plan_that_moves(), 0.6, link=LINK), FAILED, set(),
    ),
    "plan, out of memory": (
        lambda: executed(cut(plan_that_moves(), 9), 0.4), FAILED | {"link"}, set(),
    ),
    "plan, moving, refused": (
        lambda: executed(cut(plan_that_moves(), 9, (FREE, 99)), 0.8, link=LINK), FAILED, set(),
    ),
}  # fmt: skip

OTHERS = {
    "kind": ("online", "static"), "memory": ("arena", "caching"), "status": STATUSES,
    "deallocation": ("ignore", "banish"), "mutation": ("copy", "inplace"),
    "method": ("h_MSPS",), "link": ("link(d2h=7GB/s,h2d=7GB/s)", "none", "link(d2h=0,h2d=0)"),
    "times": ("estimated",), "budget_fraction": (2.0, np.inf, np.nan, 1e300),
    "bound_slowdown": (2.0, 0.0),
}  # fmt: skip


def trace_of(kind: str) -> Trace:
    return UPDATES if "in place" in kind else VIEWS if "views" in kind else CHAIN


def changes(column: str, value: Any) -> Iterator[Any]:
    """Give values that a column could have in place of its own."""
    if column in OTHERS:
        yield from (other for other in OTHERS[column] if other != value)
    elif isinstance(value, str):
        yield "0123456789abcdef"
    else:
        yield 1 if value is None else 1.1 * value + 0.01 if isinstance(value, float) else value + 1


def is_unnoticed(trace: Trace, run: RunResult, column: str) -> bool:
    values = changes(column, run.row[column])
    return any(audit(trace, dataclasses.replace(run, **{column: value})) for value in values)


def with_event(run: RunResult, row: int, column: str) -> RunResult:
    """Give a run with one entry of its log changed."""
    assert run.events is not None
    events = {name: values.copy() for name, values in run.events.items()}
    value = events[column][row]
    events[column][row] = value + 1 if np.isfinite(value) else 1
    return with_columns(run, events)


def with_columns(run: RunResult, events: Any) -> RunResult:
    """Give a run with another log."""
    return dataclasses.replace(run, events=events)


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_that_is_changed_is_found(kind: str) -> None:
    """In the row, and in the last event of each action; and that event, where it is missing."""
    make, row_blind, log_blind = KINDS[kind]
    run, trace = make(), trace_of(kind)
    assert audit(trace, run), audit(trace, run).message
    assert bool(run.offloaded_bytes) == ("moving" in kind and "nothing" not in kind)
    assert run.events is not None
    assert {c for c in run.row if is_unnoticed(trace, run, c)} == row_blind
    assert not audit(trace, with_columns(run, {c: v[:-1] for c, v in run.events.items()}))
    actions = run.events["action"]
    found = set()
    for action in np.unique(actions).tolist():
        last = int(np.flatnonzero(actions == action)[-1])
        for column in EVENT_COLUMNS:
            if audit(trace, with_event(run, last, column)):
                found.add((ACTIONS[action], column))
    assert found == log_blind


def test_what_is_not_derived_is_listed() -> None:
    """And why: no kind of run has another column."""
    assert {c for _, row, _ in KINDS.values() for c in row} <= set(NOT_DERIVED)
    assert {c for _, _, log in KINDS.values() for _, c in log} <= set(EVENTS_NOT_DERIVED)


def test_a_log_without_a_column_is_no_log() -> None:
    """Only of plans that move data it has to say which action of theirs a row is of."""
    for kind, is_known in (("plan", True), ("plan, moving", False)):
        run = KINDS[kind][0]()
        assert run.events is not None
        for column in set(EVENT_COLUMNS) - set(MAY_LACK) | set(OF_PLANS):
            less = {name: values for name, values in run.events.items() if name != column}
            with pytest.raises(InputError, match=f"run: its event log lacks the columns {column}"):
                audit(CHAIN, with_columns(run, less))
        unknown = np.full(len(run.events["action"]), -1)
        verdict = audit(CHAIN, with_columns(run, {**run.events, "instruction": unknown}))
        assert bool(verdict) == is_known


def test_without_a_way_views_may_be_predicted_to_take_longer() -> None:
    """Where data can move a prediction follows views, and is what happens."""
    trace = random_trace(71, events=40, rebinding="storage")
    for link, is_exact in (("link(d2h=0,h2d=1GB/s)", False), ("link(d2h=1B/s,h2d=1B/s)", True)):
        run = plan_trace(trace, "capuchin", 0.5, link=link, event_log=True).row
        assert (run.predicted_slowdown == run.slowdown) == is_exact
        assert audit(trace, run), audit(trace, run).message
        assert is_unnoticed(trace, run, "predicted_slowdown") == (not is_exact)
