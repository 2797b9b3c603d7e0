"""What an audit derives: calls, tensors and storages, what is in memory, and the log beside it.

Every change of memory is made here and compared at once with the row of the event log that must
say the same. Which change is due is for ``audit.py`` to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Any

from .audit_addresses import Layout
from .audit_facts import Call, Contradiction, Row, Storage, Tensor
from .opcodes import ACTIONS

COLUMNS = (
    "start_ns",
    "end_ns",
    "action",
    "call",
    "storage",
    "bytes",
    "score",
    "cause_call",
    "memory_after_bytes",
)
ADDRESS_COLUMNS = ("address", "reserved_after_bytes")


class Classes:
    """The union-find of the approximate neighborhood, as plain sets with a running cost."""

    def __init__(self) -> None:
        self.groups: list[tuple[set[Storage], int]] = []

    def add(self, storage: Storage, cost: int, near: set[Storage]) -> None:
        """Open a class for a storage and merge those of its neighbors into it."""
        merged = [group for group in self.groups if group[0] & near]
        self.groups = [group for group in self.groups if not group[0] & near]
        members = {storage}.union(*(group[0] for group in merged))
        self.groups.append((members, cost + sum(group[1] for group in merged)))

    def remove(self, storage: Storage) -> None:
        """Take a storage out of its class, and its cost off the class's."""
        left = []
        for members, cost in self.groups:
            if storage not in members:
                left.append((members, cost))
            elif len(members) > 1:
                left.append((members - {storage}, cost - storage.cost))
        self.groups = left

    def cost(self, near: set[Storage]) -> int:
        """Sum over the distinct classes of some storages."""
        return sum(cost for members, cost in self.groups if members & near)


class Ledger:
    """Memory as derived, compared change by change with the rows of a log."""

    columns: tuple[str, ...] = COLUMNS
    stall_ns = 0

    def __init__(self, events: Any, budget_bytes: int | None, layout: Layout | None = None) -> None:
        self.rows = _rows(events, self.columns + (ADDRESS_COLUMNS if layout is not None else ()))
        self.due: Row | None = next(self.rows, None)
        self.budget = inf if budget_bytes is None else budget_bytes
        self.layout = layout
        self.tensors: list[Tensor] = []
        self.storages: list[Storage] = []
        self.held: Counter[Storage] = Counter()  # locks of running calls
        self.pool: dict[Storage, None] = {}  # in the order of last entering
        self.classes = Classes()
        self.clock = 1
        self.peak = 0
        self.victims: list[int] = []

    @property
    def memory(self) -> int:
        """Bytes of the material storages."""
        return sum(s.size for s in self.storages if s.material)

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
            if t in taken:
                memory -= t.size
                row = self.expect("take_over", taken[t], t.size, memory, times=(start, start))
                self._compare_address(row, places.get(t))
                if row.columns["cause_call"] != call.number:
                    raise row.fail("WRONG_CAUSE", f"call {call.number} replaces it")
            memory += t.size
            times = (start, self.clock)
            row = self.expect(action, t.storage, t.size, memory, call=call.number, times=times)
            self._compare_address(row, places.get(t))
        self.peak = max(self.peak, memory + call.workspace)
        for t in [t for t in call.results if t.defined]:
            memory -= t.size
            row = self.expect("drop_duplicate", t.storage, t.size, memory, call=call.number)
            self._compare_address(row, places.get(t))
        for t in [*(t for t in call.results if t is not wanted), wanted]:
            t.defined = True
            if t.storage.evicted:
                t.storage.material = True
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

    def leave_memory(self, storage: Storage, action: str, row: Row | None = None) -> None:
        """Let a storage be evicted, by a row already taken or by the next."""
        self._undefine(storage)
        self.victims.append(storage.tensors[0].number)
        if row is None:
            row = self.expect(action, storage, storage.size, self.memory)
        else:
            self.compare(row, storage, storage.size, self.memory)
        if self.layout is not None:
            self._compare_address(row, self.layout.address.get(storage))
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
            self._compare_address(self.expect("banish", storage, 0, self.memory), None)
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
                row = self.expect("pin", storage, storage.size, self.memory)
                self._compare_address(row, None)

    def _undefine(self, storage: Storage) -> None:
        """Note that a storage is no more material."""
        storage.material = False
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

    def expect(
        self,
        action: str,
        storage: Storage,
        size: int,
        memory: int,
        call: int = -1,
        times: tuple[int, int] | None = None,
    ) -> Row:
        """Take the next row and compare all that can be derived of it."""
        row = self.take(action, f"storage {storage.number}, call {call}")
        if row.columns["call"] != call:
            finding, reason = self._explain(row)
            finding = "WRONG_CALL" if finding == "UNEXPECTED_ACTION" else finding
            raise row.fail(finding, f"call {row.columns['call']} {reason}; due is call {call}")
        self.compare(row, storage, size, memory, times)
        return row

    def compare(
        self,
        row: Row,
        storage: Storage,
        size: int,
        memory: int,
        times: tuple[int, int] | None = None,
    ) -> None:
        """Compare a row's storage, bytes and times (clock readings; the log counts from 0)."""
        start, end = times or (self.clock, self.clock)
        derived = {
            "storage": (storage.number, "WRONG_STORAGE"),
            "bytes": (size, "BYTES_MISMATCH"),
            "start_ns": (start - 1, "CLOCK_MISMATCH"),
            "end_ns": (end - 1, "CLOCK_MISMATCH"),
            "memory_after_bytes": (memory, "BYTES_MISMATCH"),
        }
        for column, (value, finding) in (derived | self.more_of(row)).items():
            if row.columns[column] != value:
                message = f"{column} is {row.columns[column]} and should be {value}"
                raise row.fail(finding, message)

    def more_of(self, row: Row) -> dict[str, tuple[int, str]]:
        """Give what other columns of a row must say, and what is wrong where they do not."""
        return {}

    def _compare_address(self, row: Row, address: int | None) -> None:
        """Compare where a row says that something lies; None: nowhere."""
        if self.layout is not None:
            self.layout.compare(row, address)

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


def _rows(events: Any, names: tuple[str, ...]) -> Iterator[Row]:
    """Give the rows of an event log."""
    columns = {name: events[name].tolist() for name in names}
    for number in range(len(columns["action"])):
        row = {name: values[number] for name, values in columns.items()}
        yield Row(number, ACTIONS[row["action"]], row)
