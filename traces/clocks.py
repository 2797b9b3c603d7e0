"""How long an operator takes: by the host's clock, or by events of the GPU that it runs on.

Needs torch for the latter only. A recorder takes ``start`` before an operator and hands its result
to ``stop`` after it; what ``stop`` returns means nanoseconds once it went through ``resolve``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any


class HostClock:
    """The host's own clock: right where operators run on the host."""

    start = staticmethod(time.perf_counter_ns)

    def stop(self, started: int) -> int:
        """Return the nanoseconds since the start."""
        return time.perf_counter_ns() - started

    def resolve(self, values: Sequence[int]) -> list[int]:
        """Return them as they are."""
        return list(values)


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
        self._pairs: list[tuple[Any, Any]] = []

    def start(self) -> Any:
        """Record an event before an operator."""
        event = self._make_event()
        event.record()
        return event

    def stop(self, started: Any) -> int:
        """Record an event after an operator; return the number of the pair."""
        self._pairs.append((started, self.start()))
        return len(self._pairs) - 1

    def resolve(self, values: Sequence[int]) -> list[int]:
        """Return the nanoseconds between the events of each pair."""
        self._synchronize()
        return [
            round(self._pairs[pair][0].elapsed_time(self._pairs[pair][1]) * 1e6) for pair in values
        ]


class NoClock:
    """No time passes: under fake tensors there is nothing to measure."""

    start = staticmethod(int)

    def stop(self, started: int) -> int:
        """Return 0."""
        return 0

    def resolve(self, values: Sequence[int]) -> list[int]:
        """Return them as they are."""
        return list(values)


Clock = HostClock | EventClock | NoClock


def best_clock() -> Clock:
    """Return the clock for where this process computes: events once it uses a GPU."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return EventClock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.synchronize)
    return HostClock()
