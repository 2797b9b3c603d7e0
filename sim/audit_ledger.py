"""What an audit derives: calls, tensors and storages, what is in memory, and the log beside it.

Every change of memory is made here and compared at once with the row of the event log that must
say the same. Which change is due is for ``audit.py`` to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np

from .audit_addresses import Layout
from .audit_facts import Call, Contradiction, Row, Storage, Tensor, rows_of

# What a row says that has nothing to do with a column; its score is nobody's.
NOTHING = {"stream": 0, "call": -1, "tensor": -1, "cause_call": -1, "address": -1}
NO_CHOICE: dict[str, Any] = {"score": nan}


@dataclass(eq=False)
class Group:
    """A class of evicted storages, and what it is said to cost."""

    members: set[Storage]
    cost: int


class Classes:
    """The union-find of the approximate neighborhood, as plain sets with a running cost."""

    def __init__(self) -> None:
        self.group: dict[Storage, Group] = {}

    def near(self, storages: set[Storage]) -> set[Group]:
        """Give the distinct classes of some storages."""
        return {self.group[s] for s in storages if s in self.group}

    def add(self, storage: Storage, cost: int, near: set[Storage]) -> None:
        """Open a class for a storage and merge those of its neighbors into it."""
        merged = self.near(near)
        members = {storage}.union(*(group.members for group in merged))
        opened = Group(members, cost + sum(group.cost for group in merged))
        self.group.update(dict.fromkeys(members, opened))

    def remove(self, storage: Storage) -> None:
        """Take a storage out of its class, and its cost off the class's."""
        group = self.group.pop(storage)
        group.members.remove(storage)
        group.cost -= storage.cost

    def cost(self, near: set[Storage]) -> int:
        """Sum over the distinct classes of some storages."""
        return sum(group.cost for group in self.near(near))


class Ledger:
    """Memory as derived, compared change by change with the rows of a log."""

    def __init__(self, events: Any, budget_bytes: int | None, layout: Layout | None = None) -> None:
        self.rows = iter(rows_of(events))
        self.due: Row | None = next(self.rows, None)
        self.budget = inf if budget_bytes is None else budget_bytes
        self.layout = layout
        self.tensors: list[Tensor] = []
        self.storages: list[Storage] = []
        self.there: set[Storage] = set()  # that are material
        self.held: Counter[Storage] = Counter()  # locks of running calls
        self.pool: dict[Storage, None] = {}  # in the order of last entering
        self.classes = Classes()
        self.clock = 1
        self.peak = 0
        self.victims: list[int] = []
        self.instruction = 0  # of the lowered program, or action of the plan, that is under way
        self.stall_ns = self.host = self.host_peak = 0
        self.moved = {True: 0, False: 0}  # bytes to the host, and from it

    @property
    def memory(self) -> int:
        """Bytes of the material storages."""
        return sum(s.size for s in self.there)

    def fits(self, call: Call, taken: dict[Tensor, Storage]) -> bool:
        """Say whether a call finds room; with addresses, it has its places from now on."""
        if self.layout is not None:
            return self.layout.fit(call, taken)
        return self.memory + call.request(taken) <= self.budget

    def can_make_room(self) -> bool:
        """Say whether there is something to evict for a call that does not fit."""
        return bool(self.pool) if self.layout is None else self.layout.can_make_room(self.pool)

    def has_window(self) -> bool:
        """Say whether the next eviction is of a window."""
        layout = self.layout
        return layout is not None and layout.goes_by_windows and layout.has_window(self.pool)

    def goes_with(self, row: Row) -> bool:
        """Say whether the next row is of the same window: it has its score, and there is no room.

        What a window is made of makes room with the last of it, and not before.
        """
        assert self.layout is not None
        if self.due is None or self.layout.has_window():
            return False
        is_eviction = self.due.action == row.action
        return is_eviction and bool(self.due.columns["score"] == row.columns["score"])

    def cheaper(self, storage: Storage, recompute_ns: float, weight: int) -> float:
        """Give the lower cost of computing a storage again and of moving it: there is no way."""
        return recompute_ns

    def create(self, call: Call, results: list[tuple[int, int]]) -> None:
        """Make a call's tensors from sizes and aliases."""
        for size, alias in results:
            if alias == -1:
                storage = Storage(len(self.storages), size)
                self.storages.append(storage)
                self.classes.add(storage, 0, set())
            else:
                origin = call.parents[alias] if alias >= 0 else call.results[-alias - 2]
                storage = origin.storage
            tensor = Tensor(len(self.tensors), call, storage, size if alias == -1 else 0)
            self.tensors.append(tensor)
            call.results.append(tensor)
            storage.tensors.append(tensor)
            for parent in dict.fromkeys(p.storage for p in call.parents):
                parent.readers.append(tensor)

    def place(self, wanted: Tensor, action: str, taken: dict[Tensor, Storage]) -> None:
        """Run a call: its results are placed, those computed twice dropped, old bytes reused."""
        call, memory, start = wanted.call, self.memory, self.clock
        self.clock += call.cost
        places: dict[Tensor | None, int] = {}
        if self.layout is not None:
            self.layout.settle(call, taken)
            places = self.layout.placed
        for t in call.results:
            where = {"address": places.get(t, -1)}
            if t in taken:
                memory -= t.size
                said = {**where, "times": (start, start), "cause_call": call.number}
                self.expect("take_over", taken[t], t.size, memory, **said)
            memory += t.size
            said = {**where, "times": (start, self.clock), "call": call.number, "tensor": t.number}
            self.expect(action, t.storage, t.size, memory, **said)
        self.peak = max(self.peak, memory + call.workspace)
        for t in [t for t in call.results if t.defined]:
            memory -= t.size
            said = {"address": places.get(t, -1), "call": call.number, "tensor": t.number}
            self.expect("drop_duplicate", t.storage, t.size, memory, **said)
        for t in [*(t for t in call.results if t is not wanted), wanted]:
            t.defined = True
            if t.storage.evicted:
                self._appear(t.storage)
                t.storage.was_recomputed |= action == "recompute"
                self.classes.remove(t.storage)
                self._enter(t.storage)
        given_up = [storage for storage in taken.values() if storage.pinned]
        for storage in taken.values():
            self._undefine(storage)
        for storage in given_up:  # it cannot be made again
            self._banish(storage)

    def victim(self, row: Row) -> Storage:
        """Give the storage that a row evicts, if it may be evicted."""
        number = int(row.columns["storage"])
        if not 0 <= number < len(self.storages) or not self.storages[number].material:
            raise row.fail("NOT_MATERIAL", "it is not in memory")
        victim = self.storages[number]
        if victim not in self.pool:
            holder = "a pin" if victim.pinned else f"{self.held[victim]} locks of running calls"
            raise row.fail("LOCKED_BUT_EVICTED", f"{holder} on it")
        return victim

    def leave_memory(
        self, storage: Storage, action: str, row: Row | None = None, cause: int = -1
    ) -> None:
        """Let a storage be evicted, by a row already taken, of a choice, or by the next."""
        self._undefine(storage)
        self.victims.append(storage.tensors[0].number)
        address = -1 if self.layout is None else self.layout.address.get(storage, -1)
        said: dict[str, Any] = {"address": address, "cause_call": cause}
        if row is None:
            self.expect(action, storage, storage.size, self.memory, **said)
        else:
            self.compare(row, storage, storage.size, self.memory, **said)
        if self.layout is not None:
            self.layout.drop(storage)

    def banish(self, storage: Storage) -> None:
        """Let a storage be banished if nobody needs it."""
        if not (storage.banished or storage.referenced or storage.awaited):
            self._banish(storage)

    def _banish(self, storage: Storage) -> None:
        """Let a storage be banished, and pin those computed from it."""
        if not storage.evicted:
            self.leave_memory(storage, "banish")
        else:
            self.expect("banish", storage, 0, self.memory)
        storage.banished = True
        storage.pinned = False
        self.held.pop(storage, None)
        for child in dict.fromkeys(t.storage for t in storage.readers):
            if child is not storage and not child.banished:
                child.irreplaceable = True
                self.pin(child)

    def lock(self, storage: Storage) -> None:
        """Hold a storage for a running call."""
        self.held[storage] += 1
        self.pool.pop(storage, None)

    def unlock(self, storage: Storage) -> None:
        """Take a running call's lock off."""
        self.held[storage] -= 1
        self._enter(storage)

    def pin(self, storage: Storage, logged: bool = True) -> None:
        """Hold a storage for good, once."""
        if not storage.pinned:
            storage.pinned = True
            self.pool.pop(storage, None)
            if logged:
                self.expect("pin", storage, storage.size, self.memory)

    def _appear(self, storage: Storage) -> None:
        storage.material = True
        self.there.add(storage)

    def _vanish(self, storage: Storage) -> None:
        storage.material = False
        self.there.discard(storage)

    def _undefine(self, storage: Storage) -> None:
        """Note that a storage is no more material."""
        self._vanish(storage)
        storage.came_back = storage.banished
        self.pool.pop(storage, None)
        for tensor in storage.tensors:
            tensor.defined = False
        self.classes.add(storage, storage.cost, storage.evicted_neighbors())

    def _enter(self, storage: Storage) -> None:
        """Put a storage at the end of the pool if nothing holds it."""
        if storage.material and not storage.pinned and not self.held[storage]:
            self.pool[storage] = None

    # The log.

    def close(self, why: str) -> None:
        """Check that the log has no rows left."""
        if self.due is not None:
            raise self.due.fail("UNEXPECTED_ACTION", why)

    def take(self, action: str, why: str) -> Row:
        """Take the next row, which has to be of one action."""
        row, self.due = self.due, next(self.rows, None)
        if row is None:
            message = f"the log ends where {action} is due: {why}"
            raise Contradiction("LOG_ENDS_EARLY", message)
        if row.action != action:
            finding, reason = self._explain(row)
            raise row.fail(finding, f"{reason}; due is {action}: {why}")
        return row

    def expect(self, action: str, storage: Storage, size: int, memory: int, **said: Any) -> None:
        """Take the next row, of no choice, and compare all of it."""
        call = said.get("call", -1)
        row = self.take(action, f"storage {storage.number}, call {call}")
        if row.columns["call"] != call:
            finding, reason = self._explain(row)
            finding = "WRONG_CALL" if finding == "UNEXPECTED_ACTION" else finding
            raise row.fail(finding, f"call {row.columns['call']} {reason}; due is call {call}")
        self.compare(row, storage, size, memory, **{**NO_CHOICE, **said})

    def compare(
        self,
        row: Row,
        storage: Storage,
        size: int,
        memory: int,
        times: tuple[int, int] | None = None,
        **said: Any,
    ) -> None:
        """Compare a row: storage, bytes, times (clock readings; the log counts from 0), the rest.

        What it should say besides is nothing, but for what is given.
        """
        start, end = times or (self.clock, self.clock)
        reserved = memory if self.layout is None else self.layout.arena.reserved_bytes
        row.compare(
            NOTHING
            | {
                "instruction": self.instruction,
                "storage": storage.number,
                "bytes": size,
                "start_ns": start - 1,
                "end_ns": end - 1,
                "memory_after_bytes": memory,
                "host_after_bytes": self.host,
                "reserved_after_bytes": reserved,
            }
            | said
        )

    def _explain(self, row: Row) -> tuple[str, str]:
        """Say what is wrong with a row that is not the one due."""
        if row.action in ("compute", "recompute"):
            return self._explain_run(row)
        number = int(row.columns["storage"])
        if row.action == "evict":
            self.victim(row)
            return "NEEDLESS_EVICTION", "everything fits"
        if row.action in ("deallocate", "banish") and 0 <= number < len(self.storages):
            storage = self.storages[number]
            if storage.referenced or (row.action == "banish" and storage.awaited):
                return "STILL_NEEDED", "it is referenced, or waited for"
        return "UNEXPECTED_ACTION", "is not due"

    def _explain_run(self, row: Row) -> tuple[str, str]:
        """Say what is wrong with a call that ran out of turn."""
        made = [t.call for t in self.tensors if t.call.number == row.columns["call"] >= 0]
        for p in made[0].parents if made else []:
            if not p.defined and not p.storage.banished:
                return "PARENT_NOT_DEFINED", f"reads tensor {p.number}, which is not defined"
        if self.layout is not None and not self.layout.fits_now:
            return "OVER_BUDGET", f"finds no place, {self.memory} bytes are taken"
        if self.memory + row.columns["bytes"] > self.budget:
            return "OVER_BUDGET", f"does not fit, {self.memory} bytes are taken"
        return "UNEXPECTED_ACTION", "is not due"


class Unlogged(Ledger):
    """Memory as derived, where there is no log beside it."""

    def __init__(self) -> None:
        super().__init__({"action": np.zeros(0, int)}, None)

    def expect(self, action: str, storage: Storage, size: int, memory: int, **said: Any) -> None:
        """Compare nothing."""
