"""Time limits and Ctrl-C: one clock, which the first Ctrl-C ends and the second does not."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rematsim import planning
from rematsim.heuristics.static.clock import (
    Clock,
    interrupts_caught,
    is_interrupted,
    left_at_once,
)
from rematsim.heuristics.static.registry import TIME_LIMIT, PlannerResult, get
from rematsim.jit import compiling
from rematsim.planning import plan_trace
from rematsim.sweeps import sweep
from rematsim.traces.loading import load_trace


@contextmanager
def pressed(seconds: float) -> Iterator[None]:
    """Press Ctrl-C once, so much later."""
    timer = threading.Timer(seconds, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def test_clocks_stand_still_while_something_is_compiled() -> None:
    """Of a block within a block the time counts once; Ctrl-C ends them then too."""
    clock, before = Clock(100), compiling.seconds
    with compiling.timed(), compiling.timed():
        assert compiling.is_going_on
        time.sleep(0.3)
    assert not compiling.is_going_on
    assert 0.3 <= compiling.seconds - before < clock.spent + 0.3 + 0.1
    assert clock.spent < 0.2


def test_a_clock_tells_what_is_left() -> None:
    clock = Clock(100)
    assert 99 < (clock.left or 0) <= 100 and not clock.is_over
    assert 49 < (clock.part(0.5).left or 0) <= 50 and (clock.part(0.5, most=3).left or 9) <= 3
    assert Clock().left is None and Clock().limit is None and not Clock().is_over
    assert Clock(0).is_over and Clock(0).left == 0 and (Clock(0).limit or 0) > 0


def test_the_first_interrupt_ends_clocks_and_the_second_is_raised() -> None:
    clock = Clock()
    with pytest.raises(KeyboardInterrupt), interrupts_caught():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted() and clock.is_over and Clock(10).is_over
        signal.raise_signal(signal.SIGINT)
    assert not is_interrupted() and not clock.is_over
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_asks_no_clock_is_left() -> None:
    with interrupts_caught():
        with left_at_once():
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not reached")
        assert is_interrupted()


def test_who_handles_interrupts_goes_on_to() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_caught():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("method", ["annealing", "large-neighborhood", "optimal"])
def test_an_interrupted_search_gives_its_best(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "STARTS", ("h_LRU",))
    trace = load_trace("bundled:gpt")
    plan_trace(trace, method, 0.5, time_limit=0.5)  # all is loaded
    started = time.monotonic()
    with pressed(3.0):
        planned = plan_trace(trace, method, 0.5)
    assert time.monotonic() - started < 20
    assert planned.row.status == "ok" and planned.found.message == "interrupted"
    assert planned.found.details["interrupted"]


def test_without_a_plan_an_interrupt_is_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(self: object, *_: object, **__: object) -> PlannerResult:
        clock = Clock(20)
        while not clock.is_over:
            time.sleep(0.01)
        return PlannerResult("no_plan", message="none")

    trace = load_trace("synthetic:chain:6")
    monkeypatch.setattr(type(get("rotor")), "plan", wait)
    with pressed(0.5):
        planned = plan_trace(trace, "rotor", 5)
    assert (planned.found.status, planned.row.status) == (TIME_LIMIT, "no_plan")
    assert planned.row.message == "interrupted"


def test_an_interrupted_sweep_stops_and_keeps_no_row_that_was_cut_short() -> None:
    trace = load_trace("bundled:gpt")
    plan_trace(trace, "annealing", 0.5, time_limit=0.5)
    told: list[int] = []
    with pytest.raises(KeyboardInterrupt), pressed(1.0):
        sweep([trace], [], ["0.5x"], methods="annealing", report=lambda done, _: told.append(done))
    assert told == [0]
