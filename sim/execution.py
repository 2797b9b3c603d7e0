"""`execute`: run a Plan on its trace, by the rules of a replay, and refuse what cannot be.

Nothing is decided here. What a plan may not do whatever is in memory is found before the run
(``plan_reading.py``), the rest by the kernels of ``following.py``; the first impossible action is
named.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from . import compiled, report
from .budgets import Budget, parse_budget
from .following import END_WITH, NOT_DEFINED, NOT_TAKEN
from .links import NO_LINK, find_link, parse_link
from .memory import LARGEST_HOLE
from .memory_models import COUNTER, find_memory
from .opcodes import IGNORE, OK, OOM, STATUSES
from .plan import PLAN_ACTIONS, Plan
from .plan_reading import PlanReading
from .result import RunResult, slowdown
from .runner import Run, Settings
from .schedules import FREE
from .traces.loading import load_trace
from .traces.trace import Trace
from .transferring import IS_HERE, IS_ON_HOST, NOT_ON_HOST, WAITS_FOR_EVER
from .waiting import Waiting
from .workload import NO_CHOICE, Workload, workload

HOST_RULES = {
    NOT_ON_HOST: "there is no copy of it on the host",
    IS_ON_HOST: "there is a copy of it on the host already: FREE does",
    IS_HERE: "it is in memory already, or on its way",
}
REFUSED = STATUSES.index("refused")
BY_PLAN = "plan"  # what stands for a deallocation policy: the plan frees, not the program


def execute(
    trace: Trace | str | Path,
    plan: Plan,
    budget: Any = "unlimited",
    *,
    memory: str = COUNTER,
    link: str = NO_LINK,
    event_log: bool = False,
    live_sets: bool = False,
    cached: bool = True,
) -> RunResult:
    """Run a Plan on its trace, with no decisions of its own.

    Parameters
    ----------
    trace : Trace, str or Path
        What the model did, or the file to read it from.
    plan : Plan
        What is to be done, in the trace's own calls and storages.
    budget : str, int, float or Budget
        As for `simulate`: all bytes at once.
    memory, event_log, live_sets, cached
        As in `simulation.Options`.
    link : str
        What connects device and host, for a plan that moves data: as `links.find_link` reads it.

    Returns
    -------
    RunResult
        A row of the same columns as a replay, ``kind`` static. ``status`` is ``ok``, ``oom``, or
        ``refused``: ``failed_at`` is then the first action that cannot be.

    Raises
    ------
    PlanError
        If the plan is for another trace.
    UsageError
        If there is no such budget, memory or link.

    Examples
    --------
    >>> from rematsim.plan import plan_of_run
    >>> from rematsim.simulation import simulate
    >>> from rematsim.traces.synthetic import chain
    >>> from rematsim.workload import workload
    >>> trace = chain(6)
    >>> online = simulate(trace, "h_LRU", 5, event_log=True)
    >>> static = execute(trace, plan_of_run(workload(trace).program, online), 5)
    >>> static.status, static.peak_bytes, static.remat_ns == online.remat_ns
    ('ok', 5, True)
    """
    if not isinstance(trace, Trace):
        trace = load_trace(trace)
    plan.check_trace(trace)
    work = workload(trace, plan.mutation, cached=cached)
    options = {"event_log": event_log, "live_sets": live_sets}
    return run_plan(work, plan, parse_budget(budget), memory=memory, link=link, **options)


def run_plan(
    work: Workload,
    plan: Plan,
    budget: Budget,
    *,
    memory: str = COUNTER,
    link: str = NO_LINK,
    event_log: bool = False,
    live_sets: bool = False,
) -> RunResult:
    """Run a Plan; `execute` for callers that have everything at hand.

    Raises
    ------
    UsageError
        As `execute`.
    """
    started = time.perf_counter()
    model, found = find_memory(memory), find_link(link)
    reading = PlanReading(work.program, plan, found)
    settings = Settings(
        budget_bytes=budget.resolve(work.unlimited_peak_bytes),
        policy=IGNORE,
        in_place=plan.mutation == "inplace",
        logs_events=event_log,
        memory=model.model,
        memory_settings=model.settings,
        link=found if reading.transfers else None,
        transfers=reading.transfers,
    )
    run = Run(reading.program, settings)
    _follow(run)
    ended = _Ended(work, plan, reading, run)
    result = _row(ended, budget, {"memory": model.name, "link": parse_link(link)})
    result = dataclasses.replace(result, run_seconds=time.perf_counter() - started)
    if event_log:
        result = dataclasses.replace(
            result,
            events=reading.numbered(report.event_columns(run)),
            storages=report.storage_columns(work.trace, work.program),
        )
    if live_sets:
        live = report.live_sets(work, run, settings, _follow)
        result = dataclasses.replace(result, **live)  # type: ignore[arg-type]
    return result


def _follow(run: Run) -> None:
    run.finish(NO_CHOICE, compiled.follow_transfers() if run.has_transfers else compiled.follow())


class _Ended:
    """A plan that has been followed to its end, or to where that was impossible."""

    def __init__(self, work: Workload, plan: Plan, reading: PlanReading, run: Run) -> None:
        self.work, self.plan, self.reading, self.run = work, plan, reading, run
        self.code = run.code
        self.action: int | None = None
        self.message = ""
        has_followed = run.fact("instruction") == len(reading.program.instructions)
        if has_followed and reading.fault is not None:
            self.code, self.action = REFUSED, reading.fault.action
            self.message = f"{self._place(self.action)}: {reading.fault.rule}"
        elif run.code != OK:
            self.code = OOM if run.code == OOM else REFUSED
            self.action = self._action_of(run.fact("instruction"))
            self.message = f"{self._place(self.action)}: {self._rule()}"

    def _action_of(self, instruction: int) -> int:
        """Give the plan's action that an instruction belongs to."""
        found = self.reading.action_of
        return found[instruction] if instruction < len(found) else len(self.plan)

    def _place(self, place: int) -> str:
        """Say which action of the plan it is."""
        if place == len(self.plan):
            return "the end of the plan"
        action, target = int(self.plan.action[place]), int(self.plan.target[place])
        return f"action {place}, {PLAN_ACTIONS[action]} {self._named(action, target)}"

    def _named(self, action: int, target: int) -> str:
        """Name a call or a storage, if there is one of that number."""
        program, trace = self.work.program, self.work.trace
        if action >= FREE:
            is_known = 0 <= target < program.n_storages
            return f"{target} ({self._storage(target)})" if is_known else str(target)
        if not 0 <= target < len(program.calls):
            return str(target)
        return f"{target} ({report.call_name(trace, int(program.calls[target]['origin']))})"

    def _is_away(self, storage: int) -> bool:
        """Say whether a storage is on the host alone."""
        if not self.run.has_transfers:
            return False
        move = self.run.state.moves[storage]
        return bool(move["is_on_host"]) and not move["is_here"]

    def _is_missing(self, tensor: int) -> bool:
        storage = int(self.run.program.tensors["storage"][tensor])
        return not self.run.state.defined[tensor] or self._is_away(storage)

    def _storage(self, storage: int) -> str:
        return report.storage_names(self.work.trace, self.work.program)[storage]

    def _rule(self) -> str:
        """Say why the kernels stopped."""
        if self.run.code in HOST_RULES:
            return HOST_RULES[self.run.code]
        if self.run.code == WAITS_FOR_EVER:
            waiting = self._waiting()
            message = waiting.for_ever()
            self.code = OOM if waiting.is_for_host else REFUSED
            return message
        return self._rule_of_memory()

    def _waiting(self) -> Waiting:
        return Waiting(self.run, lambda i: self._place(self._action_of(i)))

    def _rule_of_memory(self) -> str:
        """Say what is not in memory, or finds no place there."""
        program, state = self.run.program, self.run.state
        code, operand = program.instructions[self.run.fact("instruction")].tolist()
        if self.run.code == NOT_DEFINED and code == END_WITH:
            storage = int(program.tensors[operand]["storage"])
            return f"storage {storage} ({self._storage(storage)}) is an output, and not in memory"
        if self.run.code == NOT_DEFINED:
            call = program.calls[operand]
            parents = program.parents[call["first_parent"] : call["end_parent"]]
            missing = next(t for t in parents.tolist() if self._is_missing(t))
            storage = int(program.tensors[missing]["storage"])
            what = f"storage {storage} ({self._storage(storage)})"
            if self._is_away(storage):
                return f"it reads {what}, which is on the host"
            is_view = program.storages[storage]["root"] != missing
            return f"it reads {'a view of ' * bool(is_view)}{what}, which is not computed"
        if self.run.code == OOM:
            call = program.calls[operand]
            need = int(call["result_bytes"] + call["workspace_bytes"])
            used, most = int(state.room["used_bytes"]), int(state.room["budget_bytes"])
            taken = f"it needs {need:,} bytes, {used:,} of {most:,} are taken"
            hole = report.no_hole(self.run).rstrip(",")
            kept = self._waiting().what_is_to_leave(need) if self.run.has_transfers else ""
            return f"out of memory: {taken}{hole}{kept}"
        if self.run.code == NOT_TAKEN:
            return f"it does not take over storage {operand} ({self._storage(operand)})"
        return "it is not in memory"


def _row(ended: _Ended, budget: Budget, machine: dict[str, str]) -> RunResult:
    ran = report.columns_of_run(ended.run)
    if ended.code == OOM and ended.run.has_addresses:  # on the host, too
        ran["largest_hole_bytes"] = ended.run.ask_memory(LARGEST_HOLE)
    times = (ran["model_ns"], ran["remat_ns"], ran["stall_ns"])
    return RunResult(
        **report.columns_of_work(ended.work, budget),
        **ran,
        **machine,  # type: ignore[arg-type]
        kind="static",
        method=ended.plan.method,
        deallocation=BY_PLAN,
        slowdown_limit=None,
        seed=None,
        status=STATUSES[ended.code],
        slowdown=slowdown(*times) if ended.code == OK else None,
        evaluations=None,
        metadata_accesses=None,
        run_seconds=0.0,
        failed_at=ended.action,
        message=ended.message,
    )
