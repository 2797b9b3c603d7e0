"""The auditor of executed plans: follows the event log of one and names what contradicts.

The trace says what there is: calls, their operands, storages. What was done, and in which order,
only the log says; that it could be done, and what it cost, is derived here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .audit import Audit
from .audit_facts import Call, Contradiction, Row, Storage, Tensor, names_of
from .opcodes import TAG_COLLECTIVE, TAG_DATA_DEPENDENT

if TYPE_CHECKING:
    from .traces.trace import Trace


FAILED = ("oom", "refused")  # which of them it was, only the action says that has no row


class PlanAudit(Audit):
    """Makes all that the trace has, then goes through the rows of the log."""

    def __init__(self, trace: Trace, row: dict[str, Any], events: Any) -> None:
        super().__init__(trace, row, events)
        self.knows_failure = row["status"] == "ok"  # a plan's next call is not in the log
        self.calls: list[Call] = []
        self.computed: set[Call] = set()
        self.unrepeatable: set[Call] = set()
        self.place = 0  # the first call that has not been computed
        self.actions = names_of(events["action"].tolist())
        self.tensors: list[int] = events["tensor"].tolist()
        self.storages: list[int] = events["storage"].tolist()
        self.last: dict[Call, int] = {}  # the last row with a result of each call
        self.done = 0  # actions of the plan so far
        self.ahead = 0  # of the next call, how many FREEs that hand over have passed, by the log

    @property
    def has_failed(self) -> bool:
        """Say whether the run ended before the plan did."""
        return self.row["status"] in FAILED

    def _make_all(self) -> None:
        """Make all that the trace has; find when each call runs last."""
        for op, a, b in self.trace.instructions.tolist():
            self.step(op, a, b)
        for storage in self.ledger.storages:
            storage.pinned &= storage.tensors[0].call.is_constant  # other pins are of replays
        tensors = self.ledger.tensors
        for number, (action, t) in enumerate(zip(self.actions, self.tensors, strict=True)):
            if action in ("compute", "recompute") and 0 <= t < len(tensors):
                self.last[tensors[t].call] = number

    def follow(self) -> str:
        """Follow the log to its end; give the status that it tells."""
        self._make_all()
        while self.ledger.due is not None and self.ledger.due.action != "pin":
            self._follow_row(self.ledger.due)
            self.done += 1
        if not self.has_failed:
            self._hand_over_to(self.ledger.due, 0)
        self.ledger.instruction = self.done
        if self.ledger.due is None and self.has_failed:
            return str(self.row["status"])
        self._advance()
        if self.place < len(self.calls):
            message = f"call {self.calls[self.place].number} has not been computed"
            raise Contradiction("LOG_ENDS_EARLY", message)
        self._end_with_outputs()
        return "ok"

    def figures_of_kind(self) -> dict[str, Any]:
        """Give where it failed; in place that may be a call that has rows in the log."""
        is_known = self.has_failed and self.row["mutation"] == "copy"
        return {"failed_at": self.done} if is_known else {}

    def _issue(self, number: int, operands: list[int], mutated: list[int]) -> Call:
        call = super()._issue(number, operands, mutated)
        if int(self.trace.call_tags[number]) & (TAG_COLLECTIVE | TAG_DATA_DEPENDENT):
            self.unrepeatable.add(call)
        return call

    def _run_model(self, call: Call) -> None:
        """Note a call: when it ran, the log says."""
        self.calls.append(call)

    def _let_go(self, storage: Storage) -> None:
        """Let nothing go: the plan frees."""

    def _end_with_outputs(self) -> None:
        for tensor in self.outputs():
            if not tensor.defined:
                message = f"tensor {tensor.number} is an output, and not defined at the end"
                raise Contradiction("STATUS_MISMATCH", message)
            self.ledger.pin(tensor.storage)

    def _advance(self) -> None:
        while self.place < len(self.calls) and self.calls[self.place] in self.computed:
            self.place += 1

    def _follow_row(self, row: Row) -> None:
        """Follow what begins at a row: a call, or a storage that goes."""
        if row.action in ("compute", "recompute", "take_over"):
            self._follow_call(row)
        elif row.action in ("evict", "deallocate"):
            self._follow_free(row)
        else:
            raise row.fail("UNEXPECTED_ACTION", "a plan does no such thing")

    def _follow_free(self, row: Row) -> None:
        ledger, number = self.ledger, int(row.columns["storage"])
        if not 0 <= number < len(ledger.storages) or not ledger.storages[number].material:
            raise row.fail("NOT_MATERIAL", "it is not in memory")
        storage = ledger.storages[number]
        call = storage.tensors[0].call
        is_made_again = not call.is_constant and self.last.get(call, -1) > row.number
        if self.has_failed:  # it may have been meant to be made again after the end
            is_made_again |= row.action == "evict"
        self.counts["evict"] += is_made_again
        ledger.instruction = self.done
        if self.row["mutation"] == "inplace":  # a FREE that hands over has no row
            self.ahead = max(self.ahead, int(row.columns.get("instruction", 0)) - self.done)
            ledger.instruction += self.ahead
        ledger.leave_memory(storage, "evict" if is_made_again else "deallocate")

    def _follow_call(self, row: Row) -> None:
        """Follow one computation: its order, its operands, its room, its rows."""
        ledger, call = self.ledger, self._call_at(row)
        action = self._action_of(call, row)
        for p in call.parents:
            if not p.defined:
                raise row.fail("PARENT_NOT_DEFINED", f"reads tensor {p.number}, not defined")
        for p in call.parents:
            ledger.lock(p.storage)
        taken = self._taken_in_log(call, row)
        self._hand_over_to(row, len(taken))
        ledger.instruction = self.done
        if not ledger.fits(call, taken):
            need = f"{ledger.memory} + {call.request(taken)} bytes"
            raise row.fail("OVER_BUDGET", f"{need} are over the budget, or find no place")
        if not call.is_constant:
            self.counts[action] += 1
        self.counts[action + "_ns"] += call.cost
        ledger.place(call.results[0], action, taken)
        for p in call.parents:
            ledger.unlock(p.storage)
        self.computed.add(call)

    def _hand_over_to(self, row: Row | None, count: int) -> None:
        """Count the FREEs that have handed over so many storages to a call."""
        if self.ahead > count:
            message = f"{self.ahead} FREEs more than there are rows of, {count} hand over"
            raise Contradiction("UNEXPECTED_ACTION", message, -1 if row is None else row.number)
        self.done += count
        self.ahead = 0

    def _call_at(self, row: Row) -> Call:
        """Find the call whose first row this is."""
        number = row.number
        while number < len(self.actions) and self.actions[number] == "take_over":
            number += 1
        t = self.tensors[number] if number < len(self.tensors) else -1
        if not 0 <= t < len(self.ledger.tensors):
            raise row.fail("WRONG_CALL", f"there is no tensor {t}")
        return self.ledger.tensors[t].call

    def _action_of(self, call: Call, row: Row) -> str:
        """Say whether a computation is the model's own, and whether it may be at all."""
        if call not in self.computed:
            self._advance()
            if not call.is_constant and self.calls[self.place] is not call:
                due = self.calls[self.place].number
                raise row.fail("WRONG_CALL", f"call {due} comes before call {call.number}")
            return "compute"
        if call.is_constant or call in self.unrepeatable:
            raise row.fail("WRONG_CALL", f"call {call.number} cannot be repeated")
        return "recompute"

    def _taken_in_log(self, call: Call, row: Row) -> dict[Tensor, Storage]:
        """Give the storages that the log says are taken over, of those that can be."""
        end = row.number
        rows: list[int] = []
        while end < len(self.actions) and len(rows) < len(call.results):
            if self.actions[end] != "take_over":
                rows.append(end)
            end += 1
        said = {
            int(self.storages[number])
            for number in range(row.number, end)
            if self.actions[number] == "take_over"
        }
        possible = self._taken_over(call)
        return {t: old for t, old in possible.items() if old.number in said}
