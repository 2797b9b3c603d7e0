"""Clocks of a capture; that of a GPU with events that a test makes."""

from __future__ import annotations

from typing import Any

from rematsim.traces.clocks import EventClock, HostClock, NoClock


class Stamp:
    """An event that happens at the next of 0, 1, 3, 6, 10, ... milliseconds."""

    made = 0

    def record(self) -> None:
        Stamp.made += 1
        self.at = sum(range(Stamp.made))

    def elapsed_time(self, later: Stamp) -> float:
        return float(later.at - self.at)


def test_events_are_read_once_everything_has_happened() -> None:
    """Two operators, of 1 and 3 ms; nobody waits before the end."""
    waits: list[int] = []
    clock = EventClock(Stamp, lambda: waits.append(1))
    values: list[Any] = []
    for _ in range(2):
        values.append(clock.stop(clock.start()))
    assert waits == []
    assert clock.resolve(values) == [1_000_000, 3_000_000]
    assert waits == [1]


def test_the_hosts_clock_counts_up() -> None:
    clock = HostClock()
    elapsed = clock.stop(clock.start())
    assert elapsed > 0
    assert clock.resolve([elapsed]) == [elapsed]


def test_no_clock_counts_nothing() -> None:
    clock = NoClock()
    assert clock.resolve([clock.stop(clock.start())]) == [0]
