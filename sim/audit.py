"""The auditor: re-derives a run from its event log, row by row, and names what contradicts.

It follows the trace by the rules of a replay and takes one thing from the log: which storage was
evicted when memory forced it. Everything else (memory, locks, neighborhoods, clock, counts) is
derived from its definition and compared. It is slow, decides nothing and shares no code with the
engine that it audits. What it derives is in ``audit_ledger.py``, the scores in
``audit_scores.py``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator
from math import inf
from typing import TYPE_CHECKING, Any

from .audit_addresses import declared, layout_of
from .audit_facts import FINDINGS as FINDINGS
from .audit_facts import Call, Contradiction, Row, Storage, Tensor
from .audit_facts import Verdict as Verdict
from .audit_ledger import Ledger
from .audit_scores import SCORES, check_choice
from .errors import InputError
from .links import NO_LINK, find_link
from .opcodes import IDLE_REMATS_PER_CALL, INSTRUCTIONS, TAG_COLLECTIVE, TAG_DATA_DEPENDENT

if TYPE_CHECKING:
    from .result import RunResult
    from .traces.trace import Trace


def audit(trace: Trace, result: RunResult) -> Verdict:
    """Re-derive a run from its event log and name the first contradiction.

    Parameters
    ----------
    trace : Trace
        What was replayed.
    result : RunResult
        A run of it with its event log, from ``simulate(..., event_log=True)``.

    Returns
    -------
    Verdict
        Scores, and with them the choice of a victim, are checked for the heuristics of the DTR
        paper that are not random; of others only that the victim could be evicted.

    Raises
    ------
    InputError
        If the run has no event log.
    """
    events = result.events  # all that it takes of a result, beside its row
    if events is None:
        raise InputError("run: no event log in it; run again with one (event_log=True)")
    kind = Audit
    if result.row.get("kind") == "static":
        from .audit_plan import PlanAudit  # it is made from what stands here
        from .audit_transfers import TransferAudit, moves_data

        kind = TransferAudit if moves_data(events) else PlanAudit
    elif find_link(result.row.get("link") or NO_LINK) is not None:
        from .audit_moves import MovingAudit

        kind = MovingAudit
    try:
        kind(trace, result.row, events).run()
    except Contradiction as found:
        return Verdict(found.finding, str(found), found.row)
    return Verdict("GOOD")


class End(Exception):  # noqa: N818
    """The run ends here, and how."""


class Audit:
    """A replay that is told its victims by the log."""

    knows_failure = True  # which call it is that found no place, if one did

    def __init__(self, trace: Trace, row: dict[str, Any], events: Any) -> None:
        self.trace = trace
        self.row = row
        layout = layout_of(trace, row)
        self.ledger = self.opened(events, layout)
        self.base = int(trace.call_time_ns.sum())
        self.limit = inf if row["slowdown_limit"] is None else row["slowdown_limit"] - 1
        self.score, heuristic = SCORES.get(row["method"]), declared(row["method"])
        self.names: dict[int, Tensor] = {}
        self.counts: Counter[str] = Counter()
        self.drops_intermediates = heuristic is not None and heuristic.drops_intermediates
        self.wanted: list[list[Tensor]] = []  # by call under way: what it found not computed
        self.idle = 0  # the latest recomputations, in a row, that took no time

    def opened(self, events: Any, layout: Any) -> Ledger:
        """Give the ledger of a log."""
        return Ledger(events, self.row["budget_bytes"], layout)

    def run(self) -> None:
        """Follow the run to where it ended, and compare the row."""
        status = self.follow()
        self.ledger.close(f"the run has ended ({status})")
        if status != self.row["status"]:
            message = f"the run ended {self.row['status']}, by its log it ended {status}"
            raise Contradiction("STATUS_MISMATCH", message)
        self._compare_figures()

    def follow(self) -> str:
        """Follow the trace to its end, or to where the run ended; give the status."""
        try:
            for op, a, b in self.trace.instructions.tolist():
                self.step(op, a, b)
            for tensor in self.outputs():
                while not tensor.is_there:
                    if not tensor.defined:
                        self._materialize(tensor, "recompute")
                    self.bring_back(tensor.storage, tensor.call)
                self.wait_for([tensor], None)
                self.ledger.pin(tensor.storage)
        except End as end:
            return str(end)
        return "ok"

    def step(self, op: int, a: int, b: int) -> None:
        """Follow one instruction."""
        getattr(self, "_" + INSTRUCTIONS[op].lower())(a, b)

    def outputs(self) -> list[Tensor]:
        """Give what the program still holds, in the order of the names that meant it first."""
        held = [t for t in self.ledger.tensors if t.references > 0]
        return sorted(held, key=lambda t: (t.first_name, t.number))

    def figures(self) -> dict[str, Any]:
        """Give the row's figures as the log adds up to them."""
        victims = self.ledger.victims
        text = ",".join(str(number) for number in victims)
        figures = {
            "base_compute_ns": self.base,
            "model_ns": self.counts["compute_ns"],
            "remat_ns": self.counts["recompute_ns"],
            "clock": self.ledger.clock,
            "peak_bytes": self.ledger.peak,
            "evictions": len(victims),
            "pressure_evictions": self.counts["evict"],
            "evict_sha": hashlib.sha256(text.encode()).hexdigest()[:16],
            "rematerializations": self.counts["recompute"],
        }
        if self.ledger.layout is not None:
            figures |= self.ledger.layout.figures(
                self.row["status"], self.row["budget_bytes"], self.knows_failure
            )
        return figures

    def _compare_figures(self) -> None:
        """Compare the row's figures with what the log adds up to."""
        for column, derived in self.figures().items():
            if self.row[column] != derived:
                message = f"{column} is {self.row[column]}, the log adds up to {derived}"
                raise Contradiction("COUNT_MISMATCH", message)

    # The program's instructions.

    def _constant(self, name: int, ordinal: int) -> None:
        call = Call(-1, is_constant=True)
        self.ledger.create(call, [(int(self.trace.constant_bytes[ordinal]), -1)])
        self._run_model(call)
        self._bind(name, call.results[0])
        self.ledger.pin(call.results[0].storage, logged=False)

    def _call(self, number: int, _: int) -> None:
        t = self.trace
        operands = _part(t.arg_names, t.arg_offsets, number)
        names = _part(t.result_names, t.result_offsets, number)
        mutated = [operands[m] for m in _part(t.mutate_args, t.mutate_offsets, number)]
        call = self._issue(number, operands, mutated)
        for name, tensor in zip(names, call.results, strict=False):
            self._bind(name, tensor)
        if t.rebinding == "storage":
            self._rebind_storages(call)
            for tensor in call.results[len(names) :]:
                self._drop(tensor)
        else:
            for name, tensor in zip(mutated, call.replaces, strict=True):
                before = self.names[name]
                self._bind(name, tensor)
                self._drop(before)

    def _copy(self, target: int, source: int) -> None:
        self.names[source].references += 1
        self._bind(target, self.names[source])

    def _copy_from(self, target: int, source: int) -> None:
        before, after = self.names[target], self.names[source]
        if before is not after:
            self._drop(before)
            after.references += 1
            self._bind(target, after)

    def _release(self, name: int, _: int) -> None:
        self._drop(self.names.pop(name))

    def _backward(self, _a: int, _b: int) -> None:
        pass

    # Names.

    def _bind(self, name: int, tensor: Tensor) -> None:
        """Let a name mean a tensor."""
        self.names[name] = tensor
        if tensor.first_name < 0:
            tensor.first_name = name

    def _drop(self, tensor: Tensor) -> None:
        """Drop a reference; what the policy does with the last must be in the log."""
        storage = tensor.storage
        tensor.references -= 1
        if storage.referenced:
            return
        if self._can_be_banished(storage):
            self.ledger.banish(storage)
        elif self.row["deallocation"] == "eager" and not storage.evicted and not storage.pinned:
            self.ledger.leave_memory(storage, "deallocate")

    def _rebind_storages(self, call: Call) -> None:
        """Let the live names of mutated storages mean the new ones, views derived again."""
        for root, old in call.replaces.items():
            renewed = {old.tensors[0]: root}
            for name in sorted(n for n, t in self.names.items() if t.storage is old):
                before = self.names[name]
                if before not in renewed:
                    view = Call(call.number, parents=[root])
                    self.ledger.create(view, [(0, 0)])
                    self._run_model(view)
                    renewed[before] = view.results[0]
                else:
                    renewed[before].references += 1
                self._bind(name, renewed[before])
                self._drop(before)

    # Calls.

    def _issue(self, number: int, operands: list[int], mutated: list[int]) -> Call:
        """Create a call's tensors, those that replace mutated ones last, and run it."""
        t = self.trace
        call = Call(number, int(t.call_time_ns[number]), int(t.call_workspace_bytes[number]))
        call.parents = [self.names[name] for name in operands]
        sizes = _part(t.result_bytes, t.result_offsets, number)
        aliases = _part(t.result_alias, t.result_offsets, number)
        old = [self.names[name].storage for name in mutated]
        if t.rebinding == "storage":
            old = [s for s in dict.fromkeys(old) if not s.tensors[0].call.is_constant]
        results = [*zip(sizes, aliases, strict=True), *((s.size, -1) for s in old)]
        self.ledger.create(call, results or [(0, -1)])
        call.replaces = dict(zip(call.results[len(sizes) :], old, strict=False))
        dropped = Counter(self.names[name].storage for name in set(mutated))  # each name once
        held = {s: sum(t.references for t in s.tensors) - dropped[s] for s in old}
        by_storage = self.trace.rebinding == "storage"
        call.last = {t for t, s in call.replaces.items() if by_storage or held[s] == 0}
        if int(t.call_tags[number]) & (TAG_COLLECTIVE | TAG_DATA_DEPENDENT):
            for tensor in call.results:
                tensor.storage.irreplaceable = True
                self.ledger.pin(tensor.storage, logged=False)
        self._run_model(call)
        return call

    def _run_model(self, call: Call) -> None:
        """Follow a call as the model's own work."""
        self._materialize(call.results[0], "compute")
        for tensor in call.results:
            tensor.storage.last_access = self.ledger.clock

    def _materialize(self, tensor: Tensor, action: str) -> None:
        """Follow the computation of a tensor and of what it needs, without recursion."""
        self.wanted = [[tensor]]
        stack = [self._compute(tensor, action)]
        while stack:
            needed = next(stack[-1], None)
            if needed is None:
                stack.pop()
            else:
                stack.append(self._compute(needed, "recompute"))

    def _compute(self, tensor: Tensor, action: str) -> Generator[Tensor, None, None]:
        """Follow one call; gives each parent that has to be computed before it."""
        call, ledger = tensor.call, self.ledger
        parents = [p for p in call.parents if not p.storage.banished]
        for p in parents:
            if self.row["deallocation"] != "banish" or p.storage.referenced:
                p.storage.last_access = ledger.clock
        missing = [p for p in parents if not p.is_there]
        self.wanted.append(missing)
        for p in parents:
            if p not in missing:
                ledger.lock(p.storage)
        for p in missing:
            while not p.is_there:
                if not p.defined:
                    yield p
                self.bring_back(p.storage, call)
            ledger.lock(p.storage)
        self._follow_evictions(call)
        self.wait_for(parents, call)
        if not call.is_constant:
            self.counts[action] += 1
        self.counts[action + "_ns"] += call.cost
        self.idle = self.idle + 1 if action == "recompute" and call.cost == 0 else 0
        ledger.place(tensor, action, self._taken_over(call))
        self.wanted.pop()
        for p in parents:
            if not p.storage.banished:
                ledger.unlock(p.storage)
                if self.drops_intermediates:
                    self._drop_intermediate(p.storage)
                if self._can_be_banished(p.storage):
                    ledger.banish(p.storage)
        is_idle = self.idle > IDLE_REMATS_PER_CALL * len(self.trace.call_time_ns)
        lost = self.counts["recompute_ns"] + ledger.stall_ns
        if lost > self.limit * self.base or is_idle:
            raise End("thrashed")

    def _drop_intermediate(self, storage: Storage) -> None:
        """Drop what was recomputed on the way, if no call under way waits to read it."""
        is_held = storage.referenced or not storage.was_recomputed
        if is_held or storage not in self.ledger.pool or self._can_be_banished(storage):
            return
        waiting = [t.call for tensors in self.wanted for t in tensors if not t.defined]
        if not any(p.storage is storage for call in waiting for p in call.parents):
            self.ledger.leave_memory(storage, "deallocate")

    def _taken_over(self, call: Call) -> dict[Tensor, Storage]:
        """Give the results that take over the bytes of the storage that they replace."""
        taken: dict[Tensor, Storage] = {}
        if self.row["mutation"] == "inplace":
            for t, old in call.replaces.items():
                if self.trace.rebinding == "listed" and any(r.storage is old for r in call.results):
                    continue  # it returns a view of the old value, which its name goes on meaning
                own = sum(p.storage is old for p in call.parents)
                held = old.pinned and not call.gives_up(t, old)
                free = not held and self.ledger.held[old] == own and old.material
                if free and not t.defined and old not in taken.values():
                    taken[t] = old
        return taken

    def _can_be_banished(self, storage: Storage) -> bool:
        """Whether banish's rule is the one for a storage."""
        return self.row["deallocation"] == "banish" or storage.irreplaceable

    # Evictions forced by memory.

    def _follow_evictions(self, call: Call) -> None:
        """Compare the evictions that make room for a call."""
        ledger = self.ledger
        while not ledger.fits(call, taken := self._taken_over(call)):
            if ledger.due is None and not ledger.can_make_room():
                raise End("oom")
            self.follow_choice(call, call.request(taken))

    def follow_choice(self, call: Call, wanted: int) -> None:
        """Compare what is evicted at once for so many bytes."""
        ledger, is_window = self.ledger, self.ledger.has_window()
        why = f"{ledger.memory} + {wanted} bytes are over the budget"
        row = ledger.take("evict", why if ledger.layout is None else "it finds no place")
        self._follow_eviction(call, row)
        while is_window and ledger.goes_with(row):
            self._follow_eviction(call, ledger.take("evict", "it is of the same window"))

    def _follow_eviction(self, call: Call, row: Row) -> None:
        """Compare one of them."""
        victim = self.ledger.victim(row)
        if row.columns["cause_call"] != call.number:
            raise row.fail("WRONG_CAUSE", f"call {call.number} asked for room")
        check_choice(self.scores(), row, victim)
        self.ledger.leave_memory(victim, "evict", row)
        self.counts["evict"] += 1

    def scores(self) -> dict[Storage, float]:
        """Score the pool; nothing where the heuristic is not known."""
        if self.score is None:
            return {}
        return {s: self.score(self.ledger, s) for s in self.ledger.pool}

    # What only runs that move data do (`audit_moves.py`).

    def bring_back(self, storage: Storage, call: Call) -> None:
        """Follow one step of a storage's way back from the host, if it is there."""

    def wait_for(self, wanted: list[Tensor], call: Call | None) -> None:
        """Follow the waiting for what is on its way."""


def _part(values: Any, offsets: Any, index: int) -> list[int]:
    """Give one row of a ragged table."""
    part: list[int] = values[offsets[index] : offsets[index + 1]].tolist()
    return part
