"""The auditor: re-derives a run from its event log, row by row, and names what contradicts.

It follows the trace by the rules of a replay and takes one thing from the log: which storage was
evicted when memory forced it. Everything else (memory, locks, neighborhoods, clock, counts) is
derived from its definition and compared. It is slow, decides nothing and shares no code with the
engine that it audits. The instructions that it follows are in ``audit_program.py``, what it derives
of memory in ``audit_ledger.py``, the scores in ``audit_scores.py``, the rest of a row in
``audit_row.py``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator
from math import inf
from typing import TYPE_CHECKING, Any

from .audit_addresses import declared, layout_of
from .audit_facts import (
    COLUMN_FINDINGS,
    MAY_LACK,
    OF_PLANS,
    Call,
    Contradiction,
    Row,
    Storage,
    Tensor,
)
from .audit_facts import FINDINGS as FINDINGS
from .audit_facts import Verdict as Verdict
from .audit_ledger import Ledger, Unlogged
from .audit_program import ProgramAudit
from .audit_row import FIGURES_OF_SPACE, is_known, rest_of_row
from .audit_scores import SCORES, check_choice
from .errors import InputError
from .links import NO_LINK, find_link
from .memory_models import COUNTER
from .opcodes import IDLE_REMATS_PER_CALL

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
        Scores, and with them the choice of a victim, are checked for the heuristics of
        `audit_scores.SCORES`; of others only that the victim could be evicted. Of the row and of
        the log all is derived but what `audit_row.NOT_DERIVED` and
        `audit_row.EVENTS_NOT_DERIVED` say.

    Raises
    ------
    InputError
        If the run has no event log, or one without what has to be in it.
    """
    events = result.events  # all that it takes of a result, beside its row
    if events is None:
        raise InputError("run: no event log in it; run again with one (event_log=True)")
    is_plan = result.row.get("kind") == "static"
    needed = [c for c in COLUMN_FINDINGS if c not in MAY_LACK or (is_plan and c in OF_PLANS)]
    if missing := [column for column in needed if column not in events]:
        raise InputError(f"run: its event log lacks the columns {', '.join(missing)}")
    kind = Audit
    if is_plan:
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


class Audit(ProgramAudit):
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
        self.considered = self.scored = 0  # storages of the pool, at all choices

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
                self.ledger.instruction += 1
        except End as end:
            return str(end)
        return "ok"

    def figures(self) -> dict[str, Any]:
        """Give the row's figures as the log adds up to them."""
        victims = self.ledger.victims
        text = ",".join(str(number) for number in victims)
        figures = {
            "base_compute_ns": self.base,
            "unlimited_peak_bytes": unlimited_peak(self.trace, self.row["mutation"]),
            "model_ns": self.counts["compute_ns"],
            "remat_ns": self.counts["recompute_ns"],
            "clock": self.ledger.clock,
            "peak_bytes": self.ledger.peak,
            "evictions": len(victims),
            "pressure_evictions": self.counts["evict"],
            "evict_sha": hashlib.sha256(text.encode()).hexdigest()[:16],
            "rematerializations": self.counts["recompute"],
            "stall_ns": self.ledger.stall_ns,
            "offloaded_bytes": self.ledger.moved[True],
            "prefetched_bytes": self.ledger.moved[False],
            "host_peak_bytes": self.ledger.host_peak,
            **self.figures_of_kind(),
        }
        if self.ledger.layout is None:
            return figures | dict.fromkeys(FIGURES_OF_SPACE)
        return figures | self.ledger.layout.figures(
            self.row["status"], self.row["budget_bytes"], self.knows_failure
        )

    def figures_of_kind(self) -> dict[str, Any]:
        """Give what only runs that decide as they go count."""
        figures = {} if self.row["status"] == "ok" else {"failed_at": self.ledger.instruction}
        heuristic = declared(self.row["method"])
        if self.ledger.layout is None or (heuristic and heuristic.kind != "window"):
            figures["search_steps"] = self.considered
        if self.score is not None and self.row.get("evaluations") is not None:
            figures["evaluations"] = self.scored
        return figures

    def _compare_figures(self) -> None:
        """Compare the row's figures with what the log adds up to, and with each other."""
        derived = self.figures()
        for column, value in (derived | rest_of_row(self.row, derived, self.trace)).items():
            if is_known(self.row, column) and self.row[column] != value:
                message = f"{column} is {self.row[column]}, the log adds up to {value}"
                raise Contradiction("COUNT_MISMATCH", message)

    # Calls.

    def _let_go(self, storage: Storage) -> None:
        """Let a storage go whose last reference went, as the policy has it."""
        if self._can_be_banished(storage):
            self.ledger.banish(storage)
        elif self.row["deallocation"] == "eager" and not storage.evicted and not storage.pinned:
            self.ledger.leave_memory(storage, "deallocate")

    def _run_model(self, call: Call) -> None:
        """Follow a call as the model's own work."""
        self._materialize(call.results[0], "compute")
        for tensor in call.results:
            tensor.storage.last_access = self.ledger.clock
        self.ledger.instruction += 1

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
        check_choice(self.scores(), row, victim)
        self.ledger.leave_memory(victim, "evict", row, call.number)
        self.counts["evict"] += 1

    def scores(self) -> dict[Storage, float]:
        """Score the pool, once a choice; nothing where the heuristic is not known."""
        self.considered += len(self.ledger.pool)
        if self.score is None:
            return {}
        scores = {s: self.score(self.ledger, s) for s in self.ledger.pool}
        values = list(scores.values())
        self.scored += values.index(0) + 1 if 0 in values else len(values)
        return scores

    # What only runs that move data do (`audit_moves.py`).

    def bring_back(self, storage: Storage, call: Call) -> None:
        """Follow one step of a storage's way back from the host, if it is there."""

    def wait_for(self, wanted: list[Tensor], call: Call | None) -> None:
        """Follow the waiting for what is on its way."""


class Unlimited(Audit):
    """A replay without a budget, under banish, that no log tells anything."""

    def opened(self, events: Any, layout: Any) -> Ledger:
        """Give a ledger of none."""
        return Unlogged()


def unlimited_peak(trace: Trace, mutation: str) -> int:
    """Derive what fractions of a budget are of."""
    asked = {"deallocation": "banish", "mutation": mutation, "memory": COUNTER, "method": ""}
    run = Unlimited(trace, {**asked, "budget_bytes": None, "slowdown_limit": None}, None)
    run.follow()
    return run.ledger.peak
