"""What exact planners share: the best schedule so far, what is proven, the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...static_graph import (
    FREE,
    Schedule,
    StaticGraph,
    evaluate,
    free_after_last_use,
    least_budget,
    naive_schedule,
)
from .clock import INTERRUPTED, Clock
from .registry import FEASIBLE, IN_ORDER, LATE, NO_PLAN, OPTIMAL, TIME_LIMIT, PlannerResult
from .solving import DONE, Ended, solve
from .stage_problem import StageProblem, stage_problem
from .stages import Kept, by_stage, span, trim

Runs = list[tuple[int, int]]  # stage and node of each computation, in order
BEYOND_STAGES = "a start computes a node twice in a stage; no plan by stages is as cheap"


class Search:
    """The best schedule so far, and what has been proven.

    Attributes
    ----------
    best, cost : Schedule and int, or None
        What fits the budget.
    runs : list of (int, int)
        The best by stages; empty where it is not one.
    bound : int or float
        No schedule by stages costs less.
    is_proven : bool
        Whether no schedule by stages is better than the best, or none fits.
    ended : Ended
        How the solver ended last.
    """

    def __init__(
        self,
        graph: StaticGraph,
        budget: int | None,
        starts: Sequence[Schedule],
        time_limit: float | None,
    ) -> None:
        self.graph, self.budget = graph, budget
        self.clock = Clock(time_limit)
        self.best: Schedule | None = None
        self.cost: int | None = None
        self.runs: Runs = []
        self.bound: float = graph.base_cost
        self.is_proven = False
        self.ended = Ended(DONE)
        for start in (*starts, naive_schedule(graph)):
            self.offer_schedule(start)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to find, or no time to find it."""
        if self.is_proven or self.cost == self.graph.base_cost or self.ended.status != DONE:
            return True
        return self.clock.is_over

    def offer(self, schedule: Schedule, runs: Runs) -> None:
        """Take a schedule if it fits and is better, or as good and by stages."""
        cost, peak_bytes = evaluate(self.graph, schedule)
        fits = self.budget is None or peak_bytes <= self.budget
        is_better = self.cost is None or cost < self.cost
        if fits and (is_better or (cost == self.cost and bool(runs) and not self.runs)):
            self.best, self.cost, self.runs = schedule, cost, runs

    def offer_schedule(self, schedule: Schedule) -> None:
        """Offer any schedule, and what it is by stages."""
        self.offer_kept(_kept_by(self.graph, schedule))
        self.offer(schedule, [])

    def offer_runs(self, runs: Runs) -> None:
        """Offer what is given by stages."""
        self.offer(free_after_last_use(self.graph, [node for _, node in runs]), runs)

    def offer_kept(self, kept: Kept) -> None:
        """Offer the cheapest schedule that keeps these values."""
        computed = trim(self.graph, kept)[1]
        self.offer_runs([(at, v) for at, nodes in enumerate(by_stage(computed)) for v in nodes])

    def less(self) -> int | None:
        """Give what a wanted schedule costs at most: less than the best, if that is by stages."""
        return None if self.cost is None else self.cost - bool(self.runs)

    def problem(self, most_cost: int | None) -> StageProblem:
        """Give the problem of schedules that cost at most so much."""
        assert self.budget is not None, "without a budget the naive schedule is the best"
        return stage_problem(self.graph, self.budget, most_cost)

    def ask(
        self,
        task: Callable[..., Any],
        *args: Any,
        seconds: float | None,
        take: Callable[[Any], None],
    ) -> Any:
        """Run a solver, take what it tells, and give its answer; None if it did not end."""
        self.ended = solve(task.__module__, task.__name__, *args, seconds=seconds)
        for what in self.ended.told:
            take(what)
        return self.ended.answer

    def go_on(self) -> None:
        """Let another solver try, where one reached its part of the time."""
        left = self.clock.left
        has_time = left is None or left > 1
        if self.ended.status in (DONE, TIME_LIMIT) and has_time:
            self.ended = Ended(DONE)

    def raise_bound(self, lower: float) -> None:
        """Take a bound on schedules that are better than the best."""
        self.bound = max(self.bound, lower if self.cost is None else min(lower, self.cost))
        if self.cost is not None and self.bound > self.cost - 1:  # costs are whole numbers
            self.bound, self.is_proven = self.cost, True

    def result(self, status: str = FEASIBLE, **details: Any) -> PlannerResult:
        """Give the answer; ``status`` is for a schedule that is not known to be the best."""
        if self.best is None:
            status, message = self._without_plan()
            return PlannerResult(status, None, self.bound, IN_ORDER, message, details)
        message = self.ended.message
        if self.is_proven or self.cost == self.graph.base_cost:
            if not self.runs:  # a start: whether another such is better, no proof by stages says
                return PlannerResult(FEASIBLE, self.best, message=BEYOND_STAGES, details=details)
            status, self.bound = OPTIMAL, self.cost or 0
        return PlannerResult(status, self.best, self.bound, IN_ORDER, message, details)

    def _without_plan(self) -> tuple[str, str]:
        need, node = least_budget(self.graph)
        call = f"the largest single call, node {node}, needs {need:,} bytes"
        if self.is_proven:
            return NO_PLAN, f"no plan that computes a node at most once a stage fits; {call}"
        if self.ended.status == DONE and self.clock.is_over:
            return TIME_LIMIT, LATE
        if self.ended.status == DONE:
            return NO_PLAN, f"none found that fits; {call}"
        status = TIME_LIMIT if self.ended.status == INTERRUPTED else self.ended.status
        return status, self.ended.message


def _kept_by(graph: StaticGraph, schedule: Schedule) -> Kept:
    """Give what a schedule keeps at each stage's start."""
    kept = [0] * graph.n_values
    there_since: dict[int, int] = {}  # the first stage that began with it
    stage = 0
    for action, target in zip(schedule.action.tolist(), schedule.target.tolist(), strict=True):
        if action == FREE:
            kept[target] |= span(there_since.pop(target), stage + 1)
            continue
        is_first = target == stage
        for value in graph.values(target):
            there_since.setdefault(value, stage + 1)
        stage += is_first
    for value, first in there_since.items():
        kept[value] |= span(first, graph.n_nodes)
    return kept
