"""How long an operator takes: by the host's clock, or by events of the GPU that it runs on.

Needs torch for the latter only. A recorder takes the time (``now``) before and after an operator;
what it took means nanoseconds once it went through ``elapsed_ns``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class HostClock:
    """The host's own clock: right where operators run on the host."""

    now = staticmethod(time.perf_counter_ns)

    def elapsed_ns(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Return the nanoseconds from each start to its end."""
        return [end - start for start, end in zip(starts, ends, strict=True)]


class EventClock:
    """Events on a GPU's stream: calls only enqueue work there, so the host's clock says little.

    Parameters
    ----------
    make_event : callable
        Makes a timing event, with ``record()`` and ``elapsed_time(later)`` in milliseconds.
    synchronize : callable
        Waits until all events have happened.
    """

    def __init__(self, make_event: Callable[[], Any], synchronize: Callable[[], object]) -> None:
        self._make_event = make_event
        self._synchronize = synchronize

    def now(self) -> Any:
        """Record an event in the stream."""
        event = self._make_event()
        event.record()
        return event

    def elapsed_ns(self, starts: Sequence[Any], ends: Sequence[Any]) -> list[int]:
        """Return the nanoseconds from each start to its end."""
        self._synchronize()
        pairs = zip(starts, ends, strict=True)
        return [round(start.elapsed_time(end) * 1e6) for start, end in pairs]


class NoClock:
    """No time passes: under fake tensors there is nothing to measure."""

    now = staticmethod(int)

    def elapsed_ns(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Return zeros."""
        return [0] * len(starts)


class Clock(Protocol):
    """What a recorder needs of a clock."""

    def now(self) -> Any:
        """Take the time."""

    def elapsed_ns(self, starts: Sequence[Any], ends: Sequence[Any]) -> list[int]:
        """Return the nanoseconds from each start to its end."""


def best_clock() -> Clock:
    """Return the clock for where this process computes: events once it uses a GPU."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return EventClock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.synchronize)
    return HostClock()
