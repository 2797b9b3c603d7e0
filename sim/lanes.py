"""Copies each way, who waits for room, memory and the host, in plain objects.

The rules of docs/semantics.md, 8, once more: two queues and one line for room. The auditor derives
from it what must have happened, planners what will; the engine, which has kernels of its own, is
held to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from .links import Link

CALL = "call"  # stands in the line for room


@dataclass(eq=False)
class Copy:
    """An offload or a prefetch: issued by an action of the plan, started and ended at times.

    What it is of has a ``number`` and a ``size`` in bytes.
    """

    storage: Any
    is_out: bool
    place: int
    source: Copy | None
    start: int = -1
    end: int = -1
    has_ended: bool = False
    dropped_by: int = -1  # the discard that waits for its end
    never: bool = False  # it never begins, says the log of a run that failed


class Lanes:
    """Copies under way, memory and the host, up to a time.

    Parameters
    ----------
    link : Link
    budget : int or float
        Bytes.
    """

    def __init__(self, link: Link, budget: float) -> None:
        self.link, self.budget = link, budget
        self.host_limit = inf if link.host_bytes is None else link.host_bytes
        self.now = 1
        self.memory = self.peak = self.host = self.host_peak = 0
        self.passing = 0  # workspace and second copies of the call that runs
        self.queues: dict[bool, list[Copy]] = {True: [], False: []}
        self.line: list[Any] = []
        self.moved = {True: 0, False: 0}
        self.rows: list[dict[str, Any]] = []

    def duration(self, copy: Copy) -> int:
        """Give how long a copy takes: bytes over the rate, rounded up, and the latency."""
        rate = self.link.to_host if copy.is_out else self.link.from_host
        if rate is None:
            return self.link.latency_ns
        size: int = copy.storage.size
        whole, rest = divmod(size * 10**9, rate)
        return self.link.latency_ns + whole + (rest > 0)

    def under_way(self) -> list[Copy]:
        """Give the copies that have started and not ended."""
        return [q[0] for q in self.queues.values() if q and q[0].start >= 0]

    def fits(self, size: int, asker: Any = None) -> bool:
        """Say whether there is room beside all that is there, for a copy or a call that asks."""
        return size == 0 or self.memory + self.passing + size <= self.budget

    def take(self, size: int) -> None:
        """Take bytes of memory."""
        self.memory += size
        self.peak = max(self.peak, self.memory + self.passing)

    def settle(self) -> None:
        """Start what can start now, what was issued first before the rest."""
        for copy in sorted((q[0] for q in self.queues.values() if q), key=lambda c: c.place):
            waits = copy.source is not None and not copy.source.has_ended
            is_barred = self.link.duplex == "half" and bool(self.under_way())
            if copy.start >= 0 or waits or is_barred or copy.never:
                continue
            if copy.is_out and self.host + copy.storage.size <= self.host_limit:
                self._start(copy)
                self.host += copy.storage.size
                self.host_peak = max(self.host_peak, self.host)
            elif not copy.is_out and self._has_turn(copy):
                self._start(copy)
                self.take(copy.storage.size)
                self.note_copy(copy)

    def _has_turn(self, copy: Copy) -> bool:
        """Stand in the line for room; say whether it is the first there and fits."""
        if copy.storage.size == 0:
            return True
        if copy not in self.line:
            self.line.append(copy)
        if self.line[0] is not copy or not self.fits(copy.storage.size, copy):
            return False
        self.line.pop(0)
        return True

    def _start(self, copy: Copy) -> None:
        copy.start, copy.end = self.now, self.now + self.duration(copy)

    def next_end(self) -> float:
        """Give when the next copy ends; infinity if none is under way."""
        return min((copy.end for copy in self.under_way()), default=inf)

    def let_end(self) -> None:
        """End the copies whose time has come, those to the host first."""
        for is_out in (True, False):
            for copy in [c for c in self.under_way() if c.is_out == is_out and c.end <= self.now]:
                self.queues[is_out].pop(0)
                copy.has_ended = True
                self.moved[is_out] += copy.storage.size
                if is_out:
                    self.leave(copy)
                    self.note_copy(copy)
                if copy.dropped_by >= 0:
                    self.drop(copy.storage, copy.dropped_by)

    def leave(self, copy: Copy) -> None:
        """Let what has been copied to the host go from memory."""
        self.memory -= copy.storage.size

    def let_pass(self) -> None:
        """Let go what only the call that was running needed."""
        self.passing = 0

    def makes_room(self, size: int, call: Any = None) -> bool:
        """Stand in the line for a call until so many bytes are free; say whether they ever are."""
        if size == 0:
            return True
        self.line.append(CALL)
        while self.line[0] is not CALL or not self.fits(size, call):
            if not self.step():
                return False
        self.line.pop(0)
        return True

    def discard(self, storage: Any, place: int, *needing: Copy | None) -> None:
        """Let a host copy go: now, or when the last of the copies that need it has ended."""
        left = [copy for copy in needing if copy is not None and not copy.has_ended]
        if left:
            left[-1].dropped_by = place
        else:
            self.drop(storage, place)

    def drop(self, storage: Any, place: int) -> None:
        """Let a host copy go."""
        self.host -= storage.size
        self.note("discard", storage, place, (self.now, self.now))

    def step(self) -> bool:
        """Go on to when the next copy ends; say whether there is one."""
        if self.next_end() == inf:
            return False
        self.now = max(self.now, int(self.next_end()))
        self.let_end()
        self.settle()
        return True

    def comes(self, copy: Copy) -> bool:
        """Go on until a copy has ended; say whether it does."""
        while not copy.has_ended:
            if not self.step():
                return False
        return True

    def reach(self, time: float) -> None:
        """Let all happen until a time, at which a call that was running has ended."""
        self.settle()
        while self.next_end() < time:
            self.step()
        if time < inf:
            self.now = int(time)
            self.let_pass()
            self.let_end()
            self.settle()
        while self.next_end() <= self.now:
            self.step()

    def give_up(self, clock: int) -> None:
        """Write the rows of what never came about."""
        left = sorted(self.queues[True] + self.queues[False], key=lambda copy: copy.place)
        for copy in left:
            action, stream = ("offload", 1) if copy.is_out else ("prefetch", 2)
            self.note(action, copy.storage, copy.place, (clock, clock), stream=stream, bytes=0)
        for copy in left:
            if copy.dropped_by >= 0:
                self.note("discard", copy.storage, copy.dropped_by, (clock, clock), bytes=0)

    def note_copy(self, copy: Copy, **others: int) -> None:
        """Write the row of a copy."""
        action, stream = ("offload", 1) if copy.is_out else ("prefetch", 2)
        times = (copy.start, copy.end)
        self.note(action, copy.storage, copy.place, times, stream=stream, **others)

    def note(
        self,
        action: str,
        storage: Any,
        place: int,
        times: tuple[int, int],
        **others: int,
    ) -> None:
        """Write a row that the log must have; times are clock readings."""
        number = -1 if storage is None else storage.number
        size = 0 if storage is None or action == "stall" else storage.size
        columns = {"stream": 0, "call": -1, "cause_call": -1, "bytes": size, **others}
        columns |= {"storage": number, "instruction": place, "host_after_bytes": self.host}
        columns |= {"start_ns": times[0] - 1, "end_ns": times[1] - 1}
        self.rows.append({"action": action, **columns})
