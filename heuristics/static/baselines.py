"""What planners that move data may not lose to: the simple ones, which they try too.

Those that keep fixed sets of values, rotor, on-demand, and offloading alone; where everything
fits, keep-all is all there is to do. They come before all else, the quick ones first, and have as
much of the time as they need; which of them had too little is told. The answer is the fastest by
what the execution takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...errors import PlanError
from ...links import NO_WAY, Link
from ...moved_schedules import evaluate_moves
from ...static_graph import Schedule, StaticGraph
from .clock import Clock
from .registry import FEASIBLE, PlannerResult, get, without_plan
from .transfer_gaps import Found

SIMPLE = ("checkpoint-all", "checkpoint-last", "chen-sqrt", "min-cut", "rotor", "every-kth",
          "m-of-n", "offload-all", "knapsack", "chen-greedy", "on-demand")  # fmt: skip
MOST_SHARE = 0.5  # of the time that is left, for one of several


class Asked(NamedTuple):
    """Plans of some planners, and the names of those that had too little time."""

    found: list[Found]
    late: list[str]


def simple_plans(graph: StaticGraph, budget: int, link: Link | None, clock: Clock) -> Asked:
    """Ask the simple planners."""
    return ask(SIMPLE, graph, budget, link, clock)


def ask(
    names: Iterable[str], graph: StaticGraph, budget: int, link: Link | None, clock: Clock
) -> Asked:
    """Give the plans of some planners that have one, with what these cost.

    Parameters
    ----------
    names : iterable of str
        Of planners; each may take half of the time that is left, the last of them all.
    graph, budget, link
        As for planners.
    clock : Clock
    """
    left = list(names)
    schedules: list[Schedule] = []
    late: list[str] = []
    while left:
        limit = clock.part(max(MOST_SHARE, 1 / len(left))).left
        name = left.pop(0)
        if limit == 0:
            late.append(name)
            continue
        answer = get(name).plan(graph, budget, time_limit=limit, link=link)
        if limit is not None and answer.solve_seconds >= limit:
            late.append(name)
        if answer.schedule is not None:
            schedules.append(answer.schedule)
    return Asked(list(judged(graph, schedules, budget, link)), late)


def judged(
    graph: StaticGraph, schedules: Iterable[Schedule], budget: int, link: Link | None
) -> Iterator[Found]:
    """Give those that fit, each with the time of its execution: so all of them compare."""
    for schedule in schedules:
        try:
            yield Found(*evaluate_moves(graph, schedule, link or NO_WAY, budget), schedule)
        except PlanError:
            continue


def best_of(
    found: Iterable[Found], clock: Clock, message: str, late: Iterable[str] = ()
) -> PlannerResult:
    """Answer with the fastest plan, and who had too little time; or that there is none, and why."""
    best = min(found, key=lambda one: one.cost, default=None)
    if best is None:
        return without_plan(clock, message)
    told = ", ".join(late)
    return PlannerResult(FEASIBLE, best.schedule, message=told and f"too little time for {told}")
