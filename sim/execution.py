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
from .engine import REACHED_BYTES
from .errors import PlanError
from .following import END_WITH, NOT_DEFINED, NOT_TAKEN
from .opcodes import IGNORE, OK, OOM, STATUSES
from .plan import PLAN_ACTIONS, Plan
from .plan_reading import PlanReading
from .result import LiveSet, RunResult, slowdown
from .runner import Run, Settings
from .schedules import FREE
from .traces.loading import load_trace
from .traces.trace import Trace
from .workload import NO_CHOICE, Workload, workload

REFUSED = STATUSES.index("refused")
BY_PLAN = "plan"  # what stands for a deallocation policy: the plan frees, not the program


def execute(
    trace: Trace | str | Path,
    plan: Plan,
    budget: Any = "unlimited",
    *,
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
    event_log, live_sets, cached : bool
        As in `simulation.Options`.

    Returns
    -------
    RunResult
        A row of the same columns as a replay, ``kind`` static. ``status`` is ``ok``, ``oom``, or
        ``refused``: ``failed_at`` is then the first action that cannot be.

    Raises
    ------
    PlanError
        If the plan is for another trace.

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
    if plan.trace_digest != trace.digest:
        raise PlanError(
            f"plan: it is for the trace {plan.trace!r} ({plan.trace_digest[:16]}), "
            f"not for {trace.name!r} ({trace.digest[:16]})"
        )
    work = workload(trace, plan.mutation, cached=cached)
    return run_plan(work, plan, parse_budget(budget), event_log=event_log, live_sets=live_sets)


def run_plan(
    work: Workload,
    plan: Plan,
    budget: Budget,
    *,
    event_log: bool = False,
    live_sets: bool = False,
) -> RunResult:
    """Run a Plan; `execute` for callers that have everything at hand."""
    started = time.perf_counter()
    settings = Settings(
        budget_bytes=budget.resolve(work.unlimited_peak_bytes),
        policy=IGNORE,
        in_place=plan.mutation == "inplace",
        logs_events=event_log,
    )
    reading = PlanReading(work.program, plan)
    run = Run(reading.program, settings)
    run.finish(NO_CHOICE, compiled.follow())
    ended = _Ended(work, plan, reading, run)
    result = _row(ended, budget, time.perf_counter() - started)
    if event_log:
        events, storages = (
            report.event_columns(run),
            report.storage_columns(work.trace, work.program),
        )
        result = dataclasses.replace(result, events=events, storages=storages)
    if live_sets:
        at_oom = report.live_set(work.trace, work.program, run) if run.code == OOM else None
        result = dataclasses.replace(
            result, live_at_peak=_live_at_peak(ended, settings), live_at_oom=at_oom
        )
    return result


class _Ended:
    """A plan that has been followed to its end, or to where that was impossible."""

    def __init__(self, work: Workload, plan: Plan, reading: PlanReading, run: Run) -> None:
        self.work, self.plan, self.reading, self.run = work, plan, reading, run
        self.code = run.code
        self.action: int | None = None
        self.message = ""
        if run.code == OK and reading.fault is not None:
            self.code, self.action = REFUSED, reading.fault.action
            self.message = self._at(reading.fault.rule)
        elif run.code != OK:
            self.code = OOM if run.code == OOM else REFUSED
            self.action = reading.action_of[run.fact("instruction")]
            self.message = self._at(self._rule())

    def _at(self, rule: str) -> str:
        """Say which action it is that breaks a rule."""
        if self.action == len(self.plan):
            return f"the end of the plan: {rule}"
        assert self.action is not None
        action, target = int(self.plan.action[self.action]), int(self.plan.target[self.action])
        return f"action {self.action}, {PLAN_ACTIONS[action]} {self._named(action, target)}: {rule}"

    def _named(self, action: int, target: int) -> str:
        """Name a call or a storage, if there is one of that number."""
        program, trace = self.work.program, self.work.trace
        if action >= FREE:
            is_known = 0 <= target < program.n_storages
            return f"{target} ({self._storage(target)})" if is_known else str(target)
        if not 0 <= target < len(program.calls):
            return str(target)
        return f"{target} ({report.call_name(trace, int(program.calls[target]['origin']))})"

    def _storage(self, storage: int) -> str:
        return report.storage_names(self.work.trace, self.work.program)[storage]

    def _rule(self) -> str:
        """Say why the kernels stopped."""
        program, state = self.run.program, self.run.state
        code, operand = program.instructions[self.run.fact("instruction")].tolist()
        if self.run.code == NOT_DEFINED and code == END_WITH:
            storage = int(program.tensors[operand]["storage"])
            return f"storage {storage} ({self._storage(storage)}) is an output, and not in memory"
        if self.run.code == NOT_DEFINED:
            call = program.calls[operand]
            parents = program.parents[call["first_parent"] : call["end_parent"]]
            missing = int(parents[state.defined[parents] == 0][0])
            storage = int(program.tensors[missing]["storage"])
            what = f"storage {storage} ({self._storage(storage)})"
            is_view = program.storages[storage]["root"] != missing
            return f"it reads {'a view of ' * bool(is_view)}{what}, which is not computed"
        if self.run.code == OOM:
            call = program.calls[operand]
            need = int(call["result_bytes"] + call["workspace_bytes"])
            used, most = int(state.room["used_bytes"]), int(state.room["budget_bytes"])
            return f"out of memory: it needs {need:,} bytes, {used:,} of {most:,} are taken"
        if self.run.code == NOT_TAKEN:
            return f"it does not take over storage {operand} ({self._storage(operand)})"
        return "it is not in memory"


def _row(ended: _Ended, budget: Budget, run_seconds: float) -> RunResult:
    work, run, facts = ended.work, ended.run, ended.run.facts()
    model_ns, remat_ns = facts["model_ns"], facts["remat_ns"]
    return RunResult(
        trace=work.trace.name,
        trace_digest=work.trace.digest,
        kind="static",
        method=ended.plan.method,
        deallocation=BY_PLAN,
        mutation=ended.plan.mutation,
        memory="counter",
        slowdown_limit=None,
        budget_bytes=budget.resolve(work.unlimited_peak_bytes),
        budget_fraction=budget.fraction,
        unlimited_peak_bytes=work.unlimited_peak_bytes,
        seed=None,
        status=STATUSES[ended.code],
        model_ns=model_ns,
        remat_ns=remat_ns,
        stall_ns=0,
        search_ns=0,
        slowdown=slowdown(model_ns, remat_ns) if ended.code == OK else None,
        clock=int(run.state.next_free[0]),
        peak_bytes=int(run.state.room["peak_bytes"]),
        evictions=facts["evictions"],
        pressure_evictions=facts["pressure_evictions"],
        evict_sha=run.evict_sha,
        rematerializations=facts["rematerializations"],
        evaluations=None,
        metadata_accesses=None,
        run_seconds=run_seconds,
        base_compute_ns=work.program.base_compute_ns,
        failed_at=ended.action,
        message=ended.message,
        times="estimated" if work.trace.times_estimated else "measured",
        calls=work.trace.n_calls,
    )


def _live_at_peak(ended: _Ended, settings: Settings) -> LiveSet:
    """Follow again up to the moment of the peak, and look."""
    peak = int(ended.run.state.room["peak_bytes"])
    again = Run(
        ended.reading.program,
        dataclasses.replace(settings, pause_at_bytes=peak, logs_events=False),
    )
    again.finish(NO_CHOICE, compiled.follow())
    assert again.code in (REACHED_BYTES, ended.run.code)
    live = report.live_set(ended.work.trace, ended.work.program, again)
    rest = peak - live.total_bytes
    return LiveSet({**live.categories, "workspace and second copies": rest}, live.locked)
