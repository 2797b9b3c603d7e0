"""The slow simulator with a link: storages go to the host and back, as semantics.md, 8, has it.

Plain objects and full searches: what the engine remembers between two searches is found anew each
time. It adds to ``oracle.py`` what a heuristic moves, victims and what is copied ahead included;
updates are replayed as copies.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Generator
from typing import Any

from oracle import (
    INFINITY,
    Call,
    OutOfMemoryError,
    Simulator,
    Storage,
    Tensor,
    ThrashedError,
    cost_eq,
    parents_of,
    ratio,
    reach,
    total,
)

AHEAD = "h_next_use_offload"


class Pool(dict[Storage, None]):
    """What may be evicted, in the order of entering; and what is not worth saving."""

    def __init__(self) -> None:
        self.passed_over: set[Storage] = set()

    def __setitem__(self, storage: Storage, _: None) -> None:
        if storage not in self:
            self.passed_over.discard(storage)
        super().__setitem__(storage, None)


class Recorder(Simulator):
    """Notes which storages each call reads, and when the model's own work comes to it."""

    def __init__(self, trace: Any) -> None:
        super().__init__(trace, "h_LRU", None, "ignore", None, "copy")
        self.uses: dict[int, list[int]] = {}
        self.starts = [0]

    def issue(self, call: Call) -> None:
        """Note a call."""
        for number in {p.storage.number for p in call.parents}:
            self.uses.setdefault(number, []).append(len(self.starts) - 1)
        self.starts.append(self.starts[-1] + call.cost)
        super().issue(call)

    def finish(self) -> None:
        """Note that the outputs are wanted at the end."""
        for number in {t.storage.number for t in self.tensors if t.references > 0}:
            self.uses.setdefault(number, []).append(len(self.starts) - 1)
        super().finish()


class Mover(Simulator):
    """A run over a link; copies one way follow one another, and each is over at a time known."""

    def __init__(
        self, trace: Any, heuristic: str, budget: int, link: Any, deallocation: str, limit: Any
    ) -> None:
        super().__init__(trace, "h_DTR_eq", budget, deallocation, limit, "copy")
        self.looks_ahead = heuristic == AHEAD
        self.score = Mover.value
        self.link, self.pool = link, Pool()
        self.stall = self.host = self.host_peak = 0
        self.moved = {True: 0, False: 0}  # bytes to the host, and from it
        self.taken_until = {True: 1, False: 1}
        self.on_host: set[Storage] = set()
        self.away: set[Storage] = set()
        self.busy: dict[Storage, int] = {}
        self.arrival: dict[Storage, int] = {}
        known = Recorder(trace)
        assert known.run() == "ok"
        self.uses, self.starts, self.now = known.uses, known.starts, -1

    # What things take.

    def duration(self, s: Storage, out: bool) -> float:
        """Give how long a copy takes."""
        taken = self.link.to_host_ns(s.size) if out else self.link.from_host_ns(s.size)
        return INFINITY if taken is None else taken

    def free_at(self, out: bool) -> int:
        """Give when a copy one way can begin."""
        both = self.taken_until.values() if self.link.duplex == "half" else ()
        return max(self.clock, self.taken_until[out], *both)

    def out_ns(self, s: Storage) -> float:
        """Give how long it would take until the host had a copy."""
        limit = INFINITY if self.link.host_bytes is None else self.link.host_bytes
        if s in self.on_host:
            return 0
        if self.host + s.size > limit or self.duration(s, False) == INFINITY:
            return INFINITY
        return self.free_at(True) - self.clock + self.duration(s, True)

    def until_use(self, s: Storage) -> float:
        """Give the model's own work until the trace reads a storage."""
        uses = self.uses.get(s.number, [])
        place = bisect_left(uses, self.now)
        return INFINITY if place == len(uses) else self.starts[uses[place]] - self.starts[self.now]

    def return_queue(self) -> float:
        """Give what it takes to copy back all that is away."""
        return sum(self.duration(s, False) for s in self.away)

    def value(self, s: Storage) -> float:
        """Score a storage."""
        cost, back = cost_eq(self, s), self.duration(s, False)
        if self.busy.get(s, 0) > self.clock:
            return INFINITY
        if not self.looks_ahead:
            move: Any = min(cost, 4 * (self.out_ns(s) + back))
            return ratio(move, s.size, self.clock - s.last_access)
        least: Any = min(cost, back) if self.out_ns(s) == 0 else cost
        return ratio(ratio(least, self.until_use(s)), s.size)

    def is_moved(self, s: Storage) -> bool:
        """Decide the way of a victim that the host has no copy of."""
        above = 0 if self.looks_ahead else total(reach(self, s, parents_of)) // 2
        moving = self.out_ns(s) + self.duration(s, False)
        return not s.banished and moving <= s.cost + above

    def is_made_sooner(self, s: Storage) -> bool:
        """Say whether what is away is computed before it could be back."""
        if not self.looks_ahead or s.pinned or s.irreplaceable:
            return False
        made = {s} | reach(self, s, parents_of)
        read = {p for one in made for p in one.parents if p in self.away and not p.pinned}
        recompute = total(made) + sum(self.duration(p, False) for p in read)
        return recompute < self.free_at(False) - self.clock + self.duration(s, False)

    # Copies.

    def wait(self, until: int) -> None:
        """Let the model wait."""
        self.stall += max(until - self.clock, 0)
        self.clock = max(until, self.clock)

    def begin_copy(self, s: Storage, out: bool) -> None:
        """Begin a copy."""
        end = self.free_at(out) + int(self.duration(s, out))
        self.taken_until[out] = self.busy[s] = end
        self.moved[out] += s.size
        if out:
            self.on_host.add(s)
            self.host += s.size
            self.host_peak = max(self.host, self.host_peak)

    def evict(self, s: Storage, action: str, **details: Any) -> None:
        """Evict to the host, or drop; with a host copy, if it is for good."""
        if action == "evict" and s not in self.on_host and self.is_moved(s):
            self.begin_copy(s, True)
        self.wait(self.busy.get(s, 0))
        if action == "evict" and s in self.on_host:
            self.pool.pop(s, None)
            self.away.add(s)
            self.memory -= s.size
            self.evictions.append(s.root)
            return
        if s in self.on_host:
            self.on_host.remove(s)
            self.host -= s.size
        if s in self.away:
            self.away.remove(s)
            self.vacate(s)
        else:
            super().evict(s, action, **details)

    def come_back(self, s: Storage) -> None:
        """Begin to copy back."""
        self.wait(self.free_at(False))
        self.begin_copy(s, False)
        self.arrival[s] = self.busy[s]
        self.away.remove(s)
        self.memory += s.size
        self.peak = max(self.peak, self.memory)
        if s.locks == 0:
            self.pool[s] = None

    def bring_back(self, s: Storage, call: Call) -> None:
        """Take one step: begin to copy what is away back, make room, or drop it."""
        assert self.budget is not None
        if self.is_made_sooner(s):
            self.evict(s, "forget")
        elif self.memory + s.size <= self.budget:
            self.come_back(s)
        elif not self.pool:
            raise OutOfMemoryError
        else:
            victim, score = self.choose()
            self.pressure_evictions += 1
            self.evict(victim, "evict", score=score, cause=call)

    # Ahead.

    def issue(self, call: Call) -> None:
        """Copy ahead, then run the call."""
        self.now += 1
        if self.looks_ahead:
            self.save()
            self.return_ahead(call)
        super().issue(call)

    def save(self) -> None:
        """Copy to the host what is used last, while the stream is free."""
        assert self.budget is not None
        while 2 * self.memory >= self.budget and self.free_at(True) == self.clock:
            worth = [s for s in self.pool if s not in self.pool.passed_over and self.is_worth(s)]
            if not worth:
                self.pool.passed_over = set(self.pool)
                return
            self.begin_copy(max(worth, key=self.next_call), True)

    def is_worth(self, s: Storage) -> bool:
        """Say whether a storage can be on the host, and back for its use."""
        until = self.until_use(s)
        if s in self.on_host or s.size == 0 or self.out_ns(s) == INFINITY or until == INFINITY:
            return False
        back = self.duration(s, False)
        is_in_time = until >= self.duration(s, True) + self.return_queue() + back
        return self.next_call(s) > 0 and is_in_time and back <= 32 * s.cost

    def next_call(self, s: Storage) -> float:
        """Give which call reads a storage next."""
        uses = self.uses.get(s.number, [])
        place = bisect_left(uses, self.now)
        return INFINITY if place == len(uses) else uses[place]

    def return_ahead(self, call: Call) -> None:
        """Copy back what is used first, while there is room beside the call."""
        assert self.budget is not None
        while self.away and self.free_at(False) == self.clock:
            s = min(self.away, key=lambda s: (self.next_call(s), s.number))
            until = self.until_use(s)
            asked = s.size + call.workspace + sum(r.size for r in call.results)
            is_read = self.next_call(s) < len(self.starts) - 1  # by a call, not at the end
            if not is_read or until > 2 * self.return_queue():
                return
            if self.memory + asked > self.budget:
                return
            self.come_back(s)

    # Calls, with what is away.

    def compute(self, tensor: Tensor, own: bool) -> Generator[Tensor, None, None]:
        """Bring back what is read, and wait for it, beside computing it."""
        call, parents = tensor.call, self.living_parents(tensor.call)
        for p in parents:
            if self.deallocation != "banish" or p.storage.references > 0:
                p.storage.last_access = self.clock
        missing = [p for p in parents if not p.defined or p.storage in self.away]
        for p in parents:
            if p not in missing:
                self.lock(p.storage)
        for p in missing:
            while not p.defined or p.storage in self.away:
                if not p.defined:
                    yield p
                else:
                    self.bring_back(p.storage, call)
            self.lock(p.storage)
        self.make_room(call, parents)
        for p in parents:
            self.wait(self.arrival.get(p.storage, 0))
        self.execute(tensor, {}, own)
        for p in parents:
            if not p.storage.banished:
                self.unlock(p.storage)
                if self.banishes(p.storage):
                    self.try_banish(p.storage)
        if self.remat + self.stall > self.limit:
            raise ThrashedError

    def finish(self) -> None:
        """Make every output, or bring it back."""
        self.now = len(self.starts) - 1
        outputs = [t for t in self.tensors if t.references > 0]
        for t in sorted(outputs, key=lambda t: (t.first_name, t.number)):
            while not t.defined or t.storage in self.away:
                if not t.defined:
                    self.materialize(t, own=False)
                else:
                    self.bring_back(t.storage, t.call)
            self.wait(self.arrival.get(t.storage, 0))
            self.pin(t.storage)


def replay(
    trace: Any, heuristic: str, budget: int, link: Any, deallocation: str, limit: float | None
) -> dict[str, Any]:
    """Replay a trace over a link; give the figures by their column's name."""
    run = Mover(trace, heuristic, budget, link, deallocation, limit)
    status = run.run()
    text = ",".join(str(root) for root in run.evictions)
    return {
        "status": status,
        "model_ns": run.model,
        "remat_ns": run.remat,
        "stall_ns": run.stall,
        "clock": run.clock,
        "peak_bytes": run.peak,
        "evictions": len(run.evictions),
        "pressure_evictions": run.pressure_evictions,
        "rematerializations": run.rematerializations,
        "offloaded_bytes": run.moved[True],
        "prefetched_bytes": run.moved[False],
        "host_peak_bytes": run.host_peak,
        "evict_sha": hashlib.sha256(text.encode()).hexdigest()[:16],
    }
