"""The search of `moccasin`: the limit on computations of a node grows until more cannot pay."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
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
from . import retention
from .registry import (
    FEASIBLE,
    IN_ORDER,
    NO_PLAN,
    OPTIMAL,
    OPTIMAL_FOR_CV,
    TIME_LIMIT,
    PlannerResult,
)
from .solving import DONE, INTERRUPTED, Ended, solve
from .stage_problem import StageProblem, stage_problem
from .stages import by_stage, trim

_SOLVER = f"{__package__}.retention"

Runs = list[tuple[int, int]]  # stage and node of each computation, in order


import os
class Search:
    """The best schedule so far, and what has been proven.

    Attributes
    ----------
    best, cost : Schedule and int, or None
        What fits the budget.
    bound : int or float
        No schedule by stages costs less.
    """

    def __init__(
        self,
        graph: StaticGraph,
        budget: int | None,
        starts: Sequence[Schedule],
        time_limit: float | None,
        *,
        seed: int,
        memory_gb: float,
    ) -> None:
        self.graph, self.budget = graph, budget
        self.seed, self.memory_gb = seed, memory_gb
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.best: Schedule | None = None
        self.cost: int | None = None
        self.runs: Runs = []  # of the best, where it is one by stages
        self.bound: float = graph.base_cost
        self.solved_runs: int | None = None  # under this limit none is better than the best
        self.is_proven = False  # under no limit either
        self.ended = Ended(DONE)
        for start in (*starts, naive_schedule(graph)):
            self._offer_runs(runs_by_stage(graph, start))
            self._offer(start, [])

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to find, or no time to find it."""
        if self.is_proven or self.cost == self.graph.base_cost or self.ended.status != DONE:
            return True
        left = self._seconds_left()
        return left is not None and left <= 0

    def _seconds_left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _offer(self, schedule: Schedule, runs: Runs) -> None:
        """Take a schedule if it fits and is better, or as good and by stages."""
        cost, peak_bytes = evaluate(self.graph, schedule)
        fits = self.budget is None or peak_bytes <= self.budget
        is_better = self.cost is None or cost < self.cost
        if fits and (is_better or (cost == self.cost and bool(runs) and not self.runs)):
            self.best, self.cost, self.runs = schedule, cost, runs
            if is_better:
                self.solved_runs = None

    def _offer_runs(self, runs: Runs) -> None:
        self._offer(free_after_last_use(self.graph, [node for _, node in runs]), runs)

    def solve(self, most_runs: int) -> None:
        """Look for the best schedule that computes no node more often."""
        if self.best is None:
            found = self._ask(most_runs, is_peak=True)
            if found is None:
                return
            if self.best is None:  # not even the least peak fits
                self.is_proven = self._dearer(most_runs) is None
                return
        most_cost = self.cost if self.runs else self._one_less()
        found = self._ask(most_runs, most_cost=most_cost)
        if found is not None:
            self._conclude(most_runs, found)

    def _one_less(self) -> int | None:
        return None if self.cost is None else self.cost - 1

    def _problem(self, most_cost: int | None) -> StageProblem:
        assert self.budget is not None, "without a budget the naive schedule is the best"
        return stage_problem(self.graph, self.budget, most_cost)

    def _ask(
        self, most_runs: int, *, is_peak: bool = False, most_cost: int | None = None
    ) -> dict[str, Any] | None:
        """Run the solver, and take what it finds; None if it did not come to its end."""
        problem = self._problem(most_cost)
        ended = solve(
            _SOLVER, "retention", problem, most_runs, self.runs, self.seed, is_peak,
            seconds=self._seconds_left(), memory_gb=self.memory_gb,
        )  # fmt: skip
        for runs in ended.told:
            self._offer_runs(runs)
        found: dict[str, Any] | None = ended.answer
        if os.environ.get("DBG"): print("level",most_runs,is_peak,most_cost,[r["bound"] if 0 else 0 for r in []],found and (found["status"],found["bound"]),ended.status,len(ended.told),self.cost,round(self._seconds_left() or 0,2),flush=True)
        if found is not None and found["status"] not in (retention.OPTIMAL, retention.INFEASIBLE):
            ended = Ended(TIME_LIMIT, message="the time limit was reached")
        if ended.status != DONE:
            self.ended = ended
            if found is not None and not is_peak:
                lower = self.graph.base_cost + math.ceil(found["bound"] - 1e-6) * problem.cost_unit
                self._raise_bound(most_runs, lower)
            return None
        return found

    def _conclude(self, most_runs: int, found: dict[str, Any]) -> None:
        """Note that nothing under this limit is better than the best."""
        if self.cost is None:
            self.is_proven = self._dearer(most_runs) is None
            return
        self.solved_runs = most_runs
        self.is_proven = self._dearer(most_runs) is None
        self._raise_bound(most_runs, self.cost)

    def _raise_bound(self, most_runs: int, lower: int) -> None:
        """Take a bound under the limit, less what a schedule beyond it might cost."""
        beyond = self._dearer(most_runs)
        known = [lower] + [b for b in (beyond, self.cost) if b is not None]
        self.bound = max(self.bound, min(known))

    def _dearer(self, most_runs: int) -> int | None:
        """Give the least cost of what computes a node more often; None if it cannot be better."""
        problem = self._problem(self._one_less())
        more = [
            most_runs * problem.cost[node]
            for node in range(problem.n_nodes)
            if problem.most_runs(node) > most_runs
        ]
        return self.graph.base_cost + min(more) * problem.cost_unit if more else None

    def result(self) -> PlannerResult:
        """Give the answer."""
        details = {"computations": self.solved_runs}
        if self.best is None:
            status, message = self._without_plan()
            return PlannerResult(status, None, self.bound, IN_ORDER, message, details)
        status = FEASIBLE
        if self.is_proven or self.cost == self.graph.base_cost:
            status, self.bound = OPTIMAL, self.cost or 0
        elif self.solved_runs is not None:
            status = f"{OPTIMAL_FOR_CV}{self.solved_runs}"
        return PlannerResult(status, self.best, self.bound, IN_ORDER, self.ended.message, details)

    def _without_plan(self) -> tuple[str, str]:
        need, node = least_budget(self.graph)
        call = f"the largest single call, node {node}, needs {need:,} bytes"
        if self.is_proven:
            return NO_PLAN, f"no plan computes each node at most once a stage and fits; {call}"
        if self.ended.status == DONE:
            return NO_PLAN, f"none fits with so few computations of a node; {call}"
        status = TIME_LIMIT if self.ended.status == INTERRUPTED else self.ended.status
        return status, self.ended.message


def runs_by_stage(graph: StaticGraph, schedule: Schedule) -> Runs:
    """Do what a schedule does by stages: keep the same at each stage's start, compute the least."""
    kept = [0] * graph.n_values
    resident: set[int] = set()
    stage = 0
    for action, target in zip(schedule.action.tolist(), schedule.target.tolist(), strict=True):
        if action == FREE:
            resident.discard(target)
            continue
        resident.update(graph.values(target))
        if target == stage:
            stage += 1
            for value in resident:
                kept[value] |= 1 << stage
    past = ~(1 << stage)
    computed = trim(graph, [stages & past for stages in kept])[1]
    return [(at, node) for at, nodes in enumerate(by_stage(computed)) for node in nodes]
