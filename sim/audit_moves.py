"""The auditor of replays whose heuristic moves data: derives transfers, stalls and host memory.

From the log it takes which storage is evicted, and which is copied ahead of any need. When each
copy begins and ends, who waits for it, and what is on the host then, is derived; and so is whether
a victim went the way that costs less.
"""

from __future__ import annotations

from math import inf
from typing import Any

from .audit import Audit, End
from .audit_addresses import declared
from .audit_facts import Call, Contradiction, Row, Storage, Tensor
from .audit_ledger import Ledger
from .audit_scores import ancestors, check_choice, return_cost
from .heuristics.registry import AHEAD, ON_DEMAND
from .links import Link, find_link
from .state import MAX_CLOCK

DEAREST = 32  # a copy back that takes more times its storage's own cost is not worth a save
TO_HOST, FROM_HOST = 1, 2  # of `opcodes.STREAMS`


class MovingLedger(Ledger):
    """Memory and host memory, with one copy at a time each way."""

    def __init__(self, events: Any, budget_bytes: int | None, link: Link) -> None:
        super().__init__(events, budget_bytes)
        self.link = link
        self.host_limit = inf if link.host_bytes is None else link.host_bytes
        self.on_host: set[Storage] = set()
        self.busy: dict[Storage, int] = {}  # when the latest copy of it ends
        self.arrival: dict[Storage, int] = {}  # when the latest copy back of it does
        self.taken_until = {True: 1, False: 1}  # the stream to the host, and that from it

    def duration(self, storage: Storage, is_out: bool) -> float:
        """Give how long a copy takes; infinity if there is no way."""
        way = self.link.to_host_ns if is_out else self.link.from_host_ns
        taken = way(storage.size)
        return inf if taken is None or taken > MAX_CLOCK else taken

    def free_at(self, is_out: bool) -> int:
        """Give when a copy one way can begin."""
        both = self.taken_until.values() if self.link.duplex == "half" else ()
        return max(self.clock, self.taken_until[is_out], *both)

    def can_move(self, storage: Storage) -> bool:
        """Say whether a storage can be brought to the host, and back."""
        taken = self.duration(storage, True) + self.duration(storage, False)
        return taken < inf and self.host + storage.size <= self.host_limit

    def cheaper(self, storage: Storage, recompute_ns: float, weight: int) -> float:
        """Give the lower cost of computing again and of moving; infinity while it is copied."""
        if self.busy.get(storage, 0) > self.clock:
            return inf
        move_ns = self.wait_ns(storage) + self.duration(storage, False)
        return min(recompute_ns, weight * move_ns)

    def wait_ns(self, storage: Storage) -> float:
        """Give how long an eviction to the host waits, of what is not being copied."""
        if storage in self.on_host:
            return 0
        if not self.can_move(storage):
            return inf
        return self.free_at(True) - self.clock + self.duration(storage, True)

    def check_way(self, row: Row, victim: Storage, moves: str | None) -> None:
        """Compare whether a victim without a host copy goes to the host with what that costs.

        How its heuristic moves data is not known of a user's: then either measure may be right.
        """
        move_ns = self.wait_ns(victim) + self.duration(victim, False)
        above = (return_cost(victim) - victim.cost) // 2
        least = victim.cost + (above if moves == ON_DEMAND else 0)
        most = victim.cost + (0 if moves == AHEAD else above)
        if row.action == "offload" and move_ns > most:
            raise row.fail("DEARER_WAY", f"{move_ns} ns, computing it again {most}")
        if row.action == "evict" and move_ns <= least and not victim.banished:
            raise row.fail("DEARER_WAY", f"{least} ns, moving it {move_ns}")

    def is_made_sooner(self, storage: Storage) -> bool:
        """Say whether computing what is on the host alone takes less time than until it is back."""
        if storage.pinned or storage.irreplaceable:
            return False
        above = ancestors(storage)
        read = {p for s in {storage, *above} for p in s.parents() if p.away and not p.pinned}
        recompute = return_cost(storage) + sum(self.duration(p, False) for p in read)
        return recompute < self.free_at(False) - self.clock + self.duration(storage, False)

    def wait(self, until: int, storage: Storage, cause: int) -> None:
        """Compare a stall up to a time, if it is to come."""
        if until <= self.clock:
            return
        said = {"times": (self.clock, until), "cause_call": cause}
        self.expect("stall", storage, 0, self.memory, **said)
        self.stall_ns += until - self.clock
        self.clock = until

    def copy(self, storage: Storage, is_out: bool) -> tuple[int, int]:
        """Begin a copy as soon as that can be; give its times."""
        start = self.free_at(is_out)
        end = start + int(self.duration(storage, is_out))
        self.taken_until[is_out] = self.busy[storage] = end
        self.moved[is_out] += storage.size
        if is_out:
            self.on_host.add(storage)
            self.host += storage.size
            self.host_peak = max(self.host_peak, self.host)
        return start, end

    def leave_memory(
        self, storage: Storage, action: str, row: Row | None = None, cause: int = -1
    ) -> None:
        """Let a storage be nowhere, if not on the host alone that is an eviction."""
        self.wait(self.busy.get(storage, 0), storage, -1)
        if storage in self.on_host:
            self.on_host.remove(storage)
            self.host -= storage.size
            self.expect("discard", storage, storage.size, self.memory)
            if storage.away:
                storage.away = False
                self._undefine(storage)
                if action == "banish":
                    self.expect("banish", storage, 0, self.memory)
                return
        super().leave_memory(storage, action, row, cause)

    def go_away(self, storage: Storage) -> None:
        """Let a storage be on the host alone."""
        self._vanish(storage)
        storage.away = True
        self.pool.pop(storage, None)

    def _undefine(self, storage: Storage) -> None:
        if storage in self.on_host:  # an update in place takes its bytes over
            self.go_away(storage)
        else:
            super()._undefine(storage)

    def come_back(self, storage: Storage) -> tuple[int, int]:
        """Begin to copy a storage back."""
        self._appear(storage)
        storage.away = False
        times = self.copy(storage, False)
        self.arrival[storage] = times[1]
        self.peak = max(self.peak, self.memory)
        self._enter(storage)
        return times


class MovingAudit(Audit):
    """A replay that is told its victims, and what is copied ahead, by the log."""

    ledger: MovingLedger

    @property
    def moves(self) -> str | None:
        """How the heuristic moves data; None if it is not known."""
        heuristic = declared(self.row["method"])
        return None if heuristic is None else heuristic.moves

    def opened(self, events: Any, layout: Any) -> MovingLedger:
        """Give the ledger of a log."""
        link = find_link(self.row["link"])
        assert link is not None
        return MovingLedger(events, self.row["budget_bytes"], link)

    def _run_model(self, call: Call) -> None:
        """Follow what is copied ahead, then a call as the model's own work."""
        due = self.ledger.due
        while due is not None and due.action in ("save", "prefetch"):
            number = int(due.columns["storage"])
            if due.columns["cause_call"] != -1 or not 0 <= number < len(self.ledger.storages):
                break
            storage = self.ledger.storages[number]
            if due.action == "save":
                self._save(due, storage)
            else:
                self._prefetch_ahead(due, storage, call)
            due = self.ledger.due
        super()._run_model(call)

    def _save(self, row: Row, storage: Storage) -> None:
        ledger = self.ledger
        if storage not in ledger.pool or storage in ledger.on_host:
            raise row.fail("NOT_MATERIAL", "it is not free to be copied, or on the host already")
        is_early = 2 * ledger.memory < ledger.budget
        if ledger.duration(storage, False) > DEAREST * storage.cost:
            raise row.fail("DEARER_WAY", f"it is computed again in {storage.cost} ns")
        if is_early or not ledger.can_move(storage) or ledger.free_at(True) != ledger.clock:
            raise row.fail("UNEXPECTED_ACTION", "not now: no need, no room, or the stream is taken")
        times = ledger.copy(storage, True)
        ledger.expect("save", storage, storage.size, ledger.memory, times=times, stream=TO_HOST)

    def _prefetch_ahead(self, row: Row, storage: Storage, call: Call) -> None:
        ledger = self.ledger
        if not storage.away:
            raise row.fail("NOT_ON_HOST", "it is not on the host alone")
        has_room = ledger.memory + storage.size + call.request({}) <= ledger.budget
        if not has_room or ledger.free_at(False) != ledger.clock:
            raise row.fail("OVER_BUDGET", "no room beside the call, or the stream is taken")
        times = ledger.come_back(storage)
        ledger.expect(
            "prefetch", storage, storage.size, ledger.memory, times=times, stream=FROM_HOST
        )

    def bring_back(self, storage: Storage, call: Call) -> None:
        """Follow a step of what is on the host alone: it is dropped, room is made, it comes."""
        ledger = self.ledger
        if not storage.away:
            return
        if self._is_dropped(storage):
            ledger.leave_memory(storage, "forget")
            return
        if ledger.memory + storage.size > ledger.budget:
            self.follow_choice(call, storage.size)
            return
        ledger.wait(ledger.free_at(False), storage, call.number)
        times = ledger.come_back(storage)
        said = {"times": times, "stream": FROM_HOST, "cause_call": call.number}
        ledger.expect("prefetch", storage, storage.size, ledger.memory, **said)

    def _is_dropped(self, storage: Storage) -> bool:
        """Say whether what is on the host alone is dropped; of a user's heuristic the log does."""
        if self.moves == ON_DEMAND or not self.ledger.is_made_sooner(storage):
            return False
        due = self.ledger.due
        return self.moves == AHEAD or (due is not None and due.action == "discard")

    def wait_for(self, wanted: list[Tensor], call: Call | None) -> None:
        """Follow the waiting for what is on its way to a call, or to the end."""
        cause = -1 if call is None else call.number
        for tensor in wanted:
            storage = tensor.storage
            self.ledger.wait(self.ledger.arrival.get(storage, 0), storage, cause)

    def _taken_over(self, call: Call) -> dict[Tensor, Storage]:
        """Leave out what is being copied."""
        taken = super()._taken_over(call)
        return {t: s for t, s in taken.items() if self.ledger.busy.get(s, 0) <= self.ledger.clock}

    def follow_choice(self, call: Call, wanted: int) -> None:
        """Compare one eviction: to the host, or not."""
        ledger = self.ledger
        if ledger.due is None and not ledger.pool:
            raise End("oom")
        if ledger.due is None:
            raise Contradiction("LOG_ENDS_EARLY", f"call {call.number} needs {wanted} bytes")
        victim, scores = ledger.victim(ledger.due), self.scores()
        if victim not in ledger.on_host:
            ledger.check_way(ledger.due, victim, self.moves)
        if victim in ledger.on_host:
            ledger.wait(ledger.busy[victim], victim, call.number)
            row = ledger.take("evict", "it is on the host")
            ledger.go_away(victim)
            ledger.compare(row, victim, victim.size, ledger.memory, cause_call=call.number)
        elif ledger.due.action == "offload":
            row = self._offload(victim, call)
        else:
            row = ledger.take("evict", f"{ledger.memory} + {wanted} bytes are over the budget")
            ledger.leave_memory(victim, "evict", row, call.number)
            ledger.victims.pop()
        check_choice(scores, row, victim)
        ledger.victims.append(victim.tensors[0].number)
        self.counts["evict"] += 1

    def _offload(self, victim: Storage, call: Call) -> Row:
        """Follow a copy to the host, for which the call waits."""
        ledger = self.ledger
        row = ledger.take("offload", "it is said to go to the host")
        if not ledger.can_move(victim) or victim.banished:
            raise row.fail("UNEXPECTED_ACTION", "it cannot be moved: no way, or the host is full")
        times = ledger.copy(victim, True)
        ledger.go_away(victim)
        said: dict[str, Any] = {"times": times, "stream": TO_HOST, "cause_call": call.number}
        ledger.compare(row, victim, victim.size, ledger.memory, **said)
        ledger.wait(times[1], victim, call.number)
        return row
