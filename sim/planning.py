"""From a method and a budget to a plan and its row: `plan_trace` plans, then executes the plan.

Whoever made it, every plan is judged by the same simulator. How planners plan is in
``heuristics/static/``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import report
from .bounds import lower_bound
from .budgets import Budget, parse_budget
from .errors import PlanError, UsageError
from .execution import BY_PLAN, run_plan
from .heuristics.methods import get as get_heuristic
from .heuristics.static.clock import (
    INTERRUPTED,
    NO_LIMIT,
    Clock,
    interrupts_caught,
    is_interrupted,
    left_at_once,
)
from .heuristics.static.descending import descend
from .heuristics.static.registry import (
    ANY_SCHEDULE,
    INFEASIBLE,
    OPTIMAL,
    TIME_LIMIT,
    Planner,
    PlannerResult,
    get,
)
from .heuristics.static.solving import load_solvers
from .links import NO_LINK, Link, find_link, parse_link
from .memory_models import COUNTER, parse_memory
from .plan import Plan, plan_of_run, plan_of_schedule, schedule_of_plan
from .result import RunResult, gap
from .schedules import Evaluation, Schedule, evaluate, naive_schedule
from .simulation import Options, replay
from .traces.loading import load_trace
from .traces.trace import Trace
from .workload import Workload, workload

# Online heuristics whose runs planners start from.
STARTS = ("h_DTR", "h_DTR_eq", "h_MSPS", "h_next_use", "h_next_use_hybrid", "h_MegEngine",
          "h_abl_eq_size", "h_DTR_local", "h_LRU", "h_size")  # fmt: skip
START_SLOWDOWN, START_TRIES = 4.0, 3
# Where nothing is known: a descent, and on-demand where that comes to nothing, each in a share of
# the time that is left for a first start.
ON_DEMAND, FIRST_SHARE = "on-demand", 0.6
LEAST_SHARE = 0.5  # of the time limit, for the planner itself
START_SHARE = 0.15  # of the time limit, after which no further run is begun


@dataclass(frozen=True)
class Planned:
    """What planning gave.

    Attributes
    ----------
    row : RunResult
        Of the plan's execution, with the planner's columns; without a plan, of none.
    plan : Plan or None
    found : PlannerResult
        What the planner answered.
    """

    row: RunResult
    plan: Plan | None
    found: PlannerResult


def plan_trace(
    trace: Trace | str | Path,
    method: str | Planner = "keep-all",
    budget: Any = "unlimited",
    *,
    time_limit: float | None = None,
    seed: int = 0,
    interruptible: bool = True,
    **options: Any,
) -> Planned:
    """Plan a trace within a budget, and execute the plan.

    Parameters
    ----------
    trace : Trace, str or Path
        What the model did, or the file to read it from.
    method : str or Planner
        A planner's name, with parameters in parentheses if some are to be other.
    budget : str, int, float or Budget
        As for `simulate`: all bytes at once, constants and outputs included.
    time_limit : float, optional
        Seconds.
    seed : int
        For planners that draw random numbers.
    interruptible : bool
        Whether the first Ctrl-C ends the search, as a time limit does, and the best plan so far is
        the answer; without one the status is ``time_limit``. Else it is raised, as a second one is.
    **options
        ``memory``, ``link``, ``event_log``, ``live_sets``: as for `execute`; ``cached``. Planners
        count bytes, whatever memory the plan is executed in; most use no link.

    Returns
    -------
    Planned
        An infeasible budget, a limit that was reached and their like are results: see
        ``row.status`` and ``row.planner_status``.

    Raises
    ------
    InputError
        If the log is not what it should be; `UsageError`, if the budget or the method is not.

    Examples
    --------
    >>> from rematsim.traces.synthetic import chain
    >>> planned = plan_trace(chain(6), "keep-all")
    >>> planned.row.status, planned.row.planner_status, planned.row.slowdown
    ('ok', 'optimal', 1.0)
    """
    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"time limit ({time_limit!r}): a number of seconds above 0, or none")
    if not isinstance(trace, Trace):
        trace = load_trace(trace)
    planner, allowed = get(method), parse_budget(budget)
    work = workload(trace, cached=options.pop("cached", True))
    with interrupts_caught() if interruptible else contextlib.nullcontext():
        return _planned(work, planner, allowed, time_limit, seed, options)


def _planned(
    work: Workload,
    planner: Planner,
    allowed: Budget,
    time_limit: float | None,
    seed: int,
    options: dict[str, Any],
) -> Planned:
    """Plan, and execute the plan."""
    if not planner.moves_data:
        options = {**options, "link": NO_LINK}
    found = _find(work, planner, allowed, time_limit, seed, find_link(options.get("link", NO_LINK)))
    plan = None
    if found.schedule is not None:
        plan = plan_of_schedule(
            work.graph, work.program, found.schedule, work.trace.digest, planner.name
        )
        row = run_plan(work, plan, allowed, **options)
    else:
        machine = {
            "memory": parse_memory(options.get("memory", COUNTER)),
            "link": parse_link(options.get("link", NO_LINK)),
        }
        row = _row_without_plan(work, planner, allowed, found, machine)
    row = dataclasses.replace(
        row,
        seed=seed if planner.is_random else None,
        time_limit=time_limit,
        **_planner_columns(work, found, row.slowdown),
    )
    return Planned(row, plan, found)


def _find(
    work: Workload,
    planner: Planner,
    budget: Budget,
    time_limit: float | None,
    seed: int,
    link: Link | None,
) -> PlannerResult:
    """Ask the planner; the time includes that of the runs that it starts from."""
    graph, budget_bytes = work.graph, budget.resolve(work.unlimited_peak_bytes)
    evaluate(graph, naive_schedule(graph))  # it is loaded now: not the planner's time
    clock = Clock(time_limit)
    starts: list[Schedule] = []
    if planner.uses_starts:
        starts = online_starts(work, budget, clock.part(START_SHARE))
    online_seconds = clock.spent
    if planner.uses_solver:  # nor is this, which is for after the starts: Ctrl-C gives these
        load_solvers()
    clock = Clock()
    if time_limit is not None:
        time_limit = max(time_limit - online_seconds, LEAST_SHARE * time_limit)
    found = planner.plan(
        graph, budget_bytes, starts=starts, time_limit=time_limit, seed=seed, link=link
    )
    found = _told(found)
    if not planner.can_move(link):  # else what is dropped may come back without being computed
        found = _bounded(work, budget_bytes, found)
    if (first := found.details.get("first_plan_seconds")) is not None:
        found.details["first_plan_seconds"] = first + online_seconds
    return dataclasses.replace(found, solve_seconds=online_seconds + clock.spent)


def _told(found: PlannerResult) -> PlannerResult:
    """Say of what was interrupted that it was."""
    if not is_interrupted() or found.status in (OPTIMAL, INFEASIBLE):
        return found
    status = TIME_LIMIT if found.schedule is None else found.status
    details = {**found.details, INTERRUPTED: True}
    return dataclasses.replace(found, status=status, message=INTERRUPTED, details=details)


def _bounded(work: Workload, budget_bytes: int | None, found: PlannerResult) -> PlannerResult:
    """Hold the planner's bound against the one that every run has, and keep the better.

    Planners see a graph on which views cost what their calls do, and constants stay to the end. A
    run can go without a view, or let a constant go: where there is such a thing, what is proven on
    the graph bounds no run.
    """
    if found.status == INFEASIBLE:
        return found
    bound = lower_bound(work.program, budget_bytes)
    is_as_it_runs = not len(work.graph.view_call) and not work.graph.fixed_bytes
    if is_as_it_runs and bound <= (found.bound or 0):
        return found
    if math.isinf(bound):
        message = "what cannot be computed again takes more than the budget"
        return PlannerResult(INFEASIBLE, message=message)
    is_met = found.predicted is not None and found.predicted.cost <= bound
    status = OPTIMAL if is_met else found.status
    return dataclasses.replace(found, status=status, bound=bound, bound_scope=ANY_SCHEDULE)


def online_starts(work: Workload, budget: Budget, clock: Clock = NO_LIMIT) -> list[Schedule]:
    """Give schedules that fit, of keep-all, a descent, on-demand and online runs, best first.

    Parameters
    ----------
    work : Workload
    budget : Budget
    clock : Clock
        When it is over, no further run is begun; while none has given a schedule, for twice that
        time. An interruption ends the run that is going on.
    """
    longer = Clock(None if clock.left is None else 2 * clock.left)
    allowed = budget.resolve(work.unlimited_peak_bytes)
    naive = naive_schedule(work.graph)
    known = [(naive, evaluate(work.graph, naive))]
    if allowed is not None:
        known = [start for start in known if start[1].peak_bytes <= allowed]
        known = known or _descended(work, allowed, longer.part(FIRST_SHARE))
        known = known or _on_demand_start(work, allowed, longer.part(FIRST_SHARE))
        for name in STARTS:
            if (clock if known else longer).is_over:
                break
            with left_at_once():
                known += _online_start(work, name, allowed)
    return [schedule for schedule, _ in sorted(known, key=lambda start: start[1].cost)]


def _descended(work: Workload, allowed: int, clock: Clock) -> list[tuple[Schedule, Evaluation]]:
    """Give what is there soonest, unless little memory is left."""
    found = descend(work.graph, allowed, clock=clock)
    return [] if found is None else [(found, evaluate(work.graph, found))]


def _on_demand_start(
    work: Workload, allowed: int, clock: Clock
) -> list[tuple[Schedule, Evaluation]]:
    """Give what is there soon, near the least budget too."""
    found = get(ON_DEMAND).plan(work.graph, allowed, time_limit=clock.left)
    if found.schedule is None or found.predicted is None:
        return []
    return [(found.schedule, found.predicted)]


def _online_start(
    work: Workload, heuristic: str, allowed: int
) -> Iterator[tuple[Schedule, Evaluation]]:
    """Give what an online run did as a schedule within a budget, if that can be had.

    On the graph constants are there from the start, so the same actions may take more memory: then
    a run with so much less is tried.
    """
    options = Options(slowdown_limit=START_SLOWDOWN, event_log=True)
    limit = allowed
    for _ in range(START_TRIES):
        run = replay(work, get_heuristic(heuristic), Budget("bytes", limit), options)
        if run.status != "ok":
            return
        schedule = schedule_of_plan(work.graph, work.program, plan_of_run(work.program, run))
        try:
            found = evaluate(work.graph, schedule)
        except PlanError:  # entangled views: see schedule_of_plan
            return
        if found.peak_bytes <= allowed:
            yield schedule, found
            return
        limit -= found.peak_bytes - allowed


def _planner_columns(
    work: Workload, found: PlannerResult, executed: float | None
) -> dict[str, Any]:
    """Give what the planner says, and how far the slowdown of its plan is from its bound."""
    base = work.graph.base_cost

    def ratio(cost: float | None) -> float | None:
        return None if cost is None else cost / base if base else 1.0

    bound = ratio(found.bound)
    return {
        "planner_status": found.status,
        "bound_slowdown": bound,
        "gap": gap(executed, bound),
        "solve_seconds": found.solve_seconds,
        "predicted_slowdown": ratio(found.predicted and found.predicted.cost),
        "predicted_peak_bytes": found.predicted and found.predicted.peak_bytes,
    }


def _row_without_plan(
    work: Workload,
    planner: Planner,
    budget: Budget,
    found: PlannerResult,
    machine: dict[str, str],
) -> RunResult:
    """Make the row of a planner that has no plan: nothing was run."""
    is_infeasible = found.status == INFEASIBLE
    return RunResult(
        **report.columns_of_work(work, budget),
        **report.NO_RUN,
        kind="static",
        method=planner.name,
        deallocation=BY_PLAN,
        **machine,  # type: ignore[arg-type]
        slowdown_limit=None,
        seed=None,
        status="infeasible" if is_infeasible else "no_plan",
        slowdown=None,
        evaluations=None,
        metadata_accesses=None,
        run_seconds=0.0,
        failed_at=None,
        message=found.message or f"the planner ended {found.status}",
    )
