"""What planners that move data may not lose to: the simple ones, which they try too.

Those that keep fixed sets of values, rotor, on-demand, and offloading alone; where everything
fits, keep-all is all there is to do. The answer is the fastest by prediction, which is what the
execution takes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...links import Link
from ...static_graph import StaticGraph
from .clock import Clock
from .registry import FEASIBLE, NO_PLAN, TIME_LIMIT, PlannerResult, get
from .transfer_gaps import Found

SIMPLE = ("rotor", "offload-all", "on-demand", "checkpoint-all", "checkpoint-last", "chen-sqrt",
          "every-kth", "m-of-n", "min-cut", "knapsack", "chen-greedy")  # fmt: skip
SHARE = 0.4  # of the time that is left, for all of them


def found_by(
    names: Iterable[str], graph: StaticGraph, budget: int, link: Link | None, clock: Clock
) -> list[Found]:
    """Give the plans of some planners that have one, with what these cost.

    Parameters
    ----------
    names : iterable of str
        Of planners; the time that is left is for all of them alike.
    graph, budget, link
        As for planners.
    clock : Clock
    """
    left = list(names)
    found: list[Found] = []
    while left and not clock.is_over:
        limit = clock.part(1 / len(left)).left
        answer = get(left.pop(0)).plan(graph, budget, time_limit=limit, link=link)
        if answer.schedule is not None and answer.predicted is not None:
            found.append(Found(*answer.predicted, answer.schedule))
    return found


def best_of(found: Iterable[Found], clock: Clock, message: str) -> PlannerResult:
    """Answer with the fastest plan; or that there is none, and why."""
    best = min(found, key=lambda one: one.cost, default=None)
    if best is not None:
        return PlannerResult(FEASIBLE, best.schedule)
    return PlannerResult(TIME_LIMIT if clock.is_over else NO_PLAN, message=message)
