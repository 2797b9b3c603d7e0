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
    starts: list[Any] = []
    ends: list[Any] = []
    for _ in range(2):
        starts.append(clock.now())
        ends.append(clock.now())
    assert waits == []
    assert clock.elapsed_ns(starts, ends) == [1_000_000, 3_000_000]
    assert waits == [1]


def test_the_hosts_clock_counts_up() -> None:
    clock = HostClock()
    start, end = clock.now(), clock.now()
    assert clock.elapsed_ns([start], [end]) == [end - start]
    assert end >= start


def test_no_clock_counts_nothing() -> None:
    clock = NoClock()
    assert clock.elapsed_ns([clock.now()], [clock.now()]) == [0]
