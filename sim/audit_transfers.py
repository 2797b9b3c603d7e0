"""The auditor of executed plans that move data: derives every row of the log anew.

From the log it takes which actions the plan had, by their places, and nothing of when they happened
or what was in memory. What then must have happened is derived from the trace and the link, and
compared row by row.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import Any

from .audit_facts import Call, Contradiction, Row, Storage, Tensor, names_of, rows_of
from .audit_lanes import AuditLanes
from .audit_ledger import NO_CHOICE, NOTHING
from .audit_plan import PlanAudit
from .lanes import Copy
from .links import find_link

CHANGES = {
    **dict.fromkeys(("compute", "recompute", "prefetch"), 1),
    **dict.fromkeys(("drop_duplicate", "evict", "deallocate", "offload"), -1),
}
MOVES = ("offload", "prefetch", "discard", "stall")


def moves_data(events: Any) -> bool:
    """Say whether a log has transfers, or waiting for them."""
    return any(action in MOVES for action in names_of(events["action"].tolist()))


class TransferAudit(PlanAudit):
    """Follows the actions of the plan in their order, with copies beside them."""

    def __init__(self, trace: Any, row: dict[str, Any], events: Any) -> None:
        super().__init__(trace, row, events)
        link = find_link(row["link"])
        if link is None:
            raise Contradiction("UNEXPECTED_ACTION", "data was moved, and there is no link")
        layout = self.ledger.layout
        self.lanes = AuditLanes(link, self.ledger.budget, layout)
        self.here: set[Storage] = set()  # in memory, or on its way
        self.arrival: dict[Storage, Copy] = {}
        self.on_host: dict[Storage, Copy] = {}  # by the copy that brought it there
        self.lost: list[Copy] = []  # that never begin
        self.log = rows_of(events)
        if self.log and "instruction" not in self.log[0].columns:
            raise Contradiction("UNEXPECTED_ACTION", "which actions the rows are of is not told")

    def follow(self) -> str:
        """Follow the actions to their end; give the status that the log tells."""
        self._make_all()
        self.last = {c: self.log[n].columns["instruction"] for c, n in self.last.items()}
        order = sorted(self.log, key=lambda row: row.columns["instruction"])
        for place, rows in groupby(order, key=lambda row: row.columns["instruction"]):
            self._follow_next(place, list(rows))
        self.lanes.reach(self.ledger.clock)  # what failed has no row; the call before has ended
        if self.has_failed:
            self._give_up()
        elif "pin" not in self.actions:
            self._follow_outputs(self.done, 0)
        self.lanes.reach(float("inf"))
        if not self.has_failed:
            self._check_end()
        self.lanes.give_up(self.ledger.clock)
        self._compare_rows()
        self._hand_over()
        return str(self.row["status"]) if self.has_failed else "ok"

    def _hand_over(self) -> None:
        """Let the ledger have what has been found out."""
        ledger, lanes = self.ledger, self.lanes
        ledger.due, ledger.peak, ledger.stall_ns = None, lanes.peak, self.counts["stall_ns"]
        ledger.moved, ledger.host_peak = lanes.moved, lanes.host_peak

    def _give_up(self) -> None:
        """Follow no more who is first in line: it may be a call that the log does not tell."""
        for copy in self.lost:
            copy.never = True
        layout = self.ledger.layout
        self.lanes.knows_places = layout is None or not layout.arena.keeps_failures

    def _follow_next(self, place: int, rows: list[Row]) -> None:
        """Follow one action: each has a row, but one that could not be may have none."""
        if place != self.done:
            raise rows[0].fail("UNEXPECTED_ACTION", f"action {self.done} comes next, not {place}")
        self._follow_place(place, rows)
        # The end is no action; nor is one done that was waited for, and then could not be.
        self.done += any(row.action not in ("stall", "pin") for row in rows)

    def _follow_place(self, place: int, rows: list[Row]) -> None:
        """Follow one action."""
        self.lanes.reach(self.ledger.clock)
        row = next((row for row in rows if row.action != "stall"), None)
        if row is None:
            self._only_wait(place, rows)
            return
        if row.action in ("compute", "recompute"):
            self._follow_call_at(place, row)
        elif row.action == "pin":
            pins = sum(row.action == "pin" for row in rows)
            waits = {row.columns["storage"] for row in rows if row.action == "stall"}
            self._follow_outputs(place, pins, waits)
        elif row.action in ("evict", "deallocate"):
            self._free(place, self._storage_of(row), row)
        elif row.action in ("offload", "prefetch", "discard"):
            getattr(self, "_" + row.action)(place, self._storage_of(row), row)
        else:
            raise row.fail("UNEXPECTED_ACTION", "a plan does no such thing")
        self.lanes.settle()

    def _only_wait(self, place: int, rows: list[Row]) -> None:
        """Follow an action that waited for data, and then could not be."""
        if not self.has_failed:
            raise rows[0].fail("LOG_ENDS_EARLY", "it waited and did nothing")
        for row in rows:
            storage, cause = self._storage_of(row), int(row.columns["cause_call"])
            if cause not in (-1, *(t.call.number for t in storage.readers)):
                raise row.fail("WRONG_CAUSE", f"call {cause} does not read it")
            self._wait_for(storage, place, cause)

    def _storage_of(self, row: Row) -> Storage:
        number = int(row.columns["storage"])
        if not 0 <= number < len(self.ledger.storages):
            raise row.fail("WRONG_STORAGE", "there is no such storage")
        return self.ledger.storages[number]

    # The compute stream.

    def _follow_call_at(self, place: int, row: Row) -> None:
        lanes, call = self.lanes, self._call_at(row)
        action = self._action_of(call, row)
        for p in call.parents:
            if not p.defined or p.storage not in self.here:
                raise row.fail("PARENT_NOT_DEFINED", f"reads tensor {p.number}, not there")
        for p in call.parents:
            self._wait_for(p.storage, place, call.number)
        self._wait_for_room(call.workspace + sum(t.size for t in call.results), place, call, row)
        start = self.ledger.clock
        self.ledger.clock = end = start + call.cost
        if not call.is_constant:
            self.counts[action] += 1
        self.counts[action + "_ns"] += call.cost
        for t in call.results:
            lanes.note(action, t.storage, place, (start, end), **self._shown(t))
        lanes.keep(call)
        second = [t for t in call.results if t.defined]
        lanes.passing = call.workspace
        lanes.take(sum(t.size for t in call.results))
        for t in second:
            lanes.note("drop_duplicate", t.storage, place, (end, end), **self._shown(t))
            lanes.memory -= t.size
            lanes.passing += t.size
        self._define(call, second)
        self.computed.add(call)

    def _shown(self, t: Tensor) -> dict[str, int]:
        """Give what a row says of a result."""
        place = self.lanes.place_of(t)
        return {"call": t.call.number, "tensor": t.number, "bytes": t.size, "address": place}

    def _define(self, call: Call, second: list[Tensor]) -> None:
        for t in call.results:
            t.defined = True
            if t not in second and t.storage.tensors[0] is t:
                self.here.add(t.storage)

    def _stall(self, storage: Storage | None, place: int, cause: int) -> None:
        """Let the clock go on to where the copies are."""
        start = self.ledger.clock
        if self.lanes.now > start:
            self.ledger.clock = self.lanes.now
            self.counts["stall_ns"] += self.lanes.now - start
            self.lanes.note("stall", storage, place, (start, self.lanes.now), cause_call=cause)

    def _wait_for(self, storage: Storage, place: int, cause: int = -1) -> bool:
        """Go on until a storage has come; say whether it does, where the run did not end ok."""
        copy = self.arrival.get(storage)
        if copy is None or copy.has_ended:
            return True
        if not self.lanes.comes(copy):
            if self.has_failed:
                return False
            message = f"action {place} waits for storage {storage.number}"
            raise Contradiction("WAITS_FOR_EVER", message)
        self._stall(storage, place, cause)
        return True

    def _wait_for_room(self, size: int, place: int, call: Call, row: Row) -> None:
        lanes = self.lanes
        if not lanes.makes_room(size, call):
            raise row.fail("OVER_BUDGET", f"{lanes.memory} + {size} bytes, for ever")
        self._stall(None, place, call.number)

    def _free(self, place: int, storage: Storage, row: Row) -> None:
        if storage not in self.here:
            raise row.fail("NOT_MATERIAL", "it is not in memory")
        self._wait_for(storage, place)
        call = storage.tensors[0].call
        is_made_again = not call.is_constant and self.last.get(call, -1) > place
        if self.has_failed:  # it may have been meant to be made again after the end
            is_made_again |= row.action == "evict"
        self.counts["evict"] += is_made_again
        self.ledger.victims.append(storage.tensors[0].number)
        address = self.lanes.drop_storage(storage, self.arrival.get(storage))
        action, now = "evict" if is_made_again else "deallocate", self.ledger.clock
        self.lanes.note(action, storage, place, (now, now), address=address)
        self._leave(storage)

    def _leave(self, storage: Storage) -> None:
        """Let a storage be on the host alone, or nowhere."""
        self.here.discard(storage)
        self.arrival.pop(storage, None)
        if storage not in self.on_host:
            for tensor in storage.tensors:
                tensor.defined = False

    # Transfers.

    def _never(self, row: Row) -> bool:
        """Say whether a transfer never began: in a run that failed it has no bytes in the log."""
        is_empty = row.columns["bytes"] == 0 and self._storage_of(row).size > 0
        return bool(is_empty and self.has_failed)

    def _queue(self, copy: Copy, row: Row) -> None:
        link = self.lanes.link
        if (link.to_host if copy.is_out else link.from_host) == 0:
            raise row.fail("WAITS_FOR_EVER", "the rate is 0, so it would never end")
        self.lanes.queues[copy.is_out].append(copy)
        if self._never(row):
            self.lost.append(copy)

    def _offload(self, place: int, storage: Storage, row: Row) -> None:
        if storage not in self.here or storage in self.on_host:
            raise row.fail("NOT_MATERIAL", "it is not in memory, or on the host already")
        copy = Copy(storage, True, place, self.arrival.get(storage))
        self._queue(copy, row)
        self.lanes.begin_to_leave(copy)
        self.on_host[storage] = copy
        self._leave(storage)

    def _prefetch(self, place: int, storage: Storage, row: Row) -> None:
        if storage not in self.on_host or storage in self.here:
            raise row.fail("NOT_ON_HOST", "it is not on the host, or in memory already")
        self.arrival[storage] = Copy(storage, False, place, self.on_host[storage])
        self._queue(self.arrival[storage], row)
        self.here.add(storage)

    def _discard(self, place: int, storage: Storage, row: Row) -> None:
        if storage not in self.on_host:
            raise row.fail("NOT_ON_HOST", "it is not on the host")
        brought = self.on_host.pop(storage)
        self.lanes.discard(storage, place, brought, self.arrival.get(storage))
        if storage not in self.here:
            self._leave(storage)

    # The end.

    def _follow_outputs(self, place: int, pins: int, waits: Collection[int] = ()) -> None:
        """Follow the end; if the run ended there, as far as it came: to the last pin or wait told.

        Constants are waited for as well, and are not pinned.
        """
        self._advance()
        for tensor in self.outputs():
            storage = tensor.storage
            self.lanes.reach(self.ledger.clock)
            is_told = pins > 0 or (storage.number in waits and tensor.defined)
            if self.has_failed and not is_told:
                return
            if not tensor.defined or storage not in self.here:
                message = f"tensor {tensor.number} is an output, and not there at the end"
                raise Contradiction("STATUS_MISMATCH", message)
            if not self._wait_for(storage, place):
                return
            if not storage.pinned:
                pins -= 1
                storage.pinned = True
                self.lanes.note("pin", storage, place, (self.ledger.clock, self.ledger.clock))

    def _check_end(self) -> None:
        """Check that nothing is left to be done, and that outputs were said to be there."""
        self._advance()
        for tensor in self.outputs():
            if not tensor.storage.pinned:
                message = f"tensor {tensor.number} is an output, and not pinned at the end"
                raise Contradiction("LOG_ENDS_EARLY", message)
        if self.place < len(self.calls):
            message = f"call {self.calls[self.place].number} has not been computed"
            raise Contradiction("LOG_ENDS_EARLY", message)
        if any(self.lanes.queues.values()):
            raise Contradiction("WAITS_FOR_EVER", "a transfer never ends")

    def _compare_rows(self) -> None:
        """Compare the log with the rows that it must have, in the order in which memory changes."""
        rows = sorted(self.lanes.rows, key=_moment)
        memory = reserved = 0
        has_addresses = self.ledger.layout is not None
        for row, derived in zip(self.log, rows, strict=False):
            memory += CHANGES.get(derived["action"], 0) * derived["bytes"]
            if not has_addresses:
                reserved = memory
            elif derived["action"] != "drop_duplicate":  # which is known when its call begins
                reserved = derived["reserved_after_bytes"]
            derived |= {"memory_after_bytes": memory, "reserved_after_bytes": reserved}
            row.compare(NOTHING | NO_CHOICE | derived)
        if len(self.log) != len(rows):
            message = f"the log has {len(self.log)} rows and should have {len(rows)}"
            raise Contradiction("LOG_ENDS_EARLY", message)


def _moment(row: dict[str, Any]) -> int:
    """Give when memory changes by a row."""
    return int(row["end_ns"] if row["action"] in ("offload", "stall") else row["start_ns"])
