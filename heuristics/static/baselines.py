"""What planners that move data may not lose to: the simple ones, which they try too.

Those that keep fixed sets of values, rotor, on-demand, and offloading alone; where everything
fits, keep-all is all there is to do. They come before all else, the quick ones first, and have as
much of the time as they need. The answer is the fastest by prediction, which is what the execution
takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...errors import PlanError
from ...links import NO_WAY, Link
from ...moved_schedules import evaluate_moves
from ...static_graph import Schedule, StaticGraph
from .clock import Clock
from .registry import FEASIBLE, NO_PLAN, TIME_LIMIT, PlannerResult, get
from .transfer_gaps import Found

SIMPLE = ("on-demand", "checkpoint-all", "checkpoint-last", "chen-sqrt", "min-cut", "offload-all",
          "rotor", "every-kth", "m-of-n", "chen-greedy", "knapsack")  # fmt: skip
MOST_SHARE = 0.5  # of the time that is left, for one of several


def simple_plans(
    graph: StaticGraph,
    budget: int,
    link: Link | None,
    clock: Clock,
    starts: Sequence[Schedule] = (),
) -> list[Found]:
    """Give the plans of the simple planners, or of who has asked them already, ``starts``."""
    if starts:
        return list(judged(graph, starts, budget, link))
    return found_by(SIMPLE, graph, budget, link, clock)


def found_by(
    names: Iterable[str],
    graph: StaticGraph,
    budget: int,
    link: Link | None,
    clock: Clock,
    starts: Sequence[Schedule] = (),
) -> list[Found]:
    """Give the plans of some planners that have one, with what these cost.

    Parameters
    ----------
    names : iterable of str
        Of planners; each may take half of the time that is left, the last of them all.
    graph, budget, link, starts
        As for planners.
    clock : Clock
    """
    left = list(names)
    schedules: list[Schedule] = []
    while left and not clock.is_over:
        limit = clock.part(max(MOST_SHARE, 1 / len(left))).left
        planner = get(left.pop(0))
        answer = planner.plan(graph, budget, starts=starts, time_limit=limit, link=link)
        if answer.schedule is not None:
            schedules.append(answer.schedule)
    return list(judged(graph, schedules, budget, link))


def judged(
    graph: StaticGraph, schedules: Iterable[Schedule], budget: int, link: Link | None
) -> Iterator[Found]:
    """Give those that fit, each with the time of its execution: so all of them compare."""
    for schedule in schedules:
        try:
            yield Found(*evaluate_moves(graph, schedule, link or NO_WAY, budget), schedule)
        except PlanError:
            continue


def best_of(found: Iterable[Found], clock: Clock, message: str) -> PlannerResult:
    """Answer with the fastest plan; or that there is none, and why."""
    best = min(found, key=lambda one: one.cost, default=None)
    if best is not None:
        return PlannerResult(FEASIBLE, best.schedule)
    return PlannerResult(TIME_LIMIT if clock.is_over else NO_PLAN, message=message)
