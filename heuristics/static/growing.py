"""The search of `moccasin`: the limit on computations of a node grows until more cannot pay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...static_graph import Schedule, StaticGraph
from . import retention
from .held_solving import narrowed
from .registry import INFEASIBLE, OPTIMAL, OPTIMAL_FOR_CV, TIME_LIMIT, PlannerResult
from .searching import Runs, Search
from .solving import DONE
from .stage_problem import StageProblem

_FIRST_TRY = 0.7  # part of the time for a schedule that fits, before the least peak is sought


class Growing(Search):
    """A search whose solver computes a node at most so often.

    Parameters
    ----------
    graph, budget, starts, time_limit
        As for `Search`.
    most_runs : int or None
        How often schedules may compute a node, starts among them; None: as often as they do.

    Attributes
    ----------
    solved_runs : int or None
        The limit under which nothing is better than the best.
    narrow : StageProblem or None
        The problem without what the relaxation excludes from schedules better than the best.
    """

    solved_runs: int | None = None
    narrow: StageProblem | None = None

    def __init__(
        self,
        graph: StaticGraph,
        budget: int | None,
        starts: Sequence[Schedule],
        time_limit: float | None,
        most_runs: int | None = None,
    ) -> None:
        self.most_runs = most_runs
        super().__init__(graph, budget, starts, time_limit)

    def offer(self, schedule: Schedule, runs: Runs) -> None:
        """Take a schedule as `Search` does, if it computes no node too often."""
        if self.most_runs is None or _most_runs_of(schedule) <= self.most_runs:
            super().offer(schedule, runs)

    def problem(self, most_cost: int | None) -> StageProblem:
        """Give the problem of schedules that cost at most so much."""
        problem = super().problem(most_cost)
        known = None if self.narrow is None else self.narrow.most_extra
        if self.narrow is None or known is None or problem.most_extra is None:
            return problem
        if problem.most_extra > known:
            return problem
        return replace(self.narrow, most_extra=problem.most_extra)

    def relax(self, near: float = 1.0) -> None:
        """Raise the bound to what the relaxation proves, and leave out what it excludes.

        Unless what recomputation costs is at most so many times what it costs by the bound.
        """
        if self.is_over:
            return
        seconds, problem = self.clock.left, self.problem(self.less())
        found = self.ask(narrowed, problem, near, seconds=seconds, take=lambda _: None)
        if found is None:
            return
        self.is_proven = self.is_proven or found["status"] == INFEASIBLE
        self.raise_bound(self.graph.base_cost + found["bound"] * problem.cost_unit)
        self.narrow = found["problem"]

    def solve(self, most_runs: int) -> None:
        """Look for the best schedule that computes no node more often."""
        known = self.cost
        clock = self.clock.part(_FIRST_TRY) if self.best is None else self.clock
        # A start by stages may cost what it costs, and is where the solver begins.
        is_start = bool(self.runs) and self.narrow is None
        most_cost = self.cost if is_start else self.less()
        problem = self.problem(most_cost)
        found = self._ask(problem, most_runs, clock.left)
        if self.cost != known:
            self.solved_runs = None
        if found is None:
            return
        if found["status"] in (OPTIMAL, INFEASIBLE):
            self._conclude(most_runs)
            return
        lower = self.graph.base_cost + math.ceil(found["bound"] - 1e-6) * problem.cost_unit
        self._raise_bound_under(most_runs, lower)
        if self.best is None:
            self._fit(most_runs)
        else:
            self._stop()

    def _ask(
        self, problem: Any, most_runs: int, seconds: float | None, is_peak: bool = False
    ) -> Any:
        naive = [(node, node) for node in range(problem.n_nodes)] if is_peak else []
        hint = self.runs or naive
        return self.ask(
            retention.retention, problem, most_runs, hint, is_peak,
            seconds=seconds, take=self.offer_runs,
        )  # fmt: skip

    def _fit(self, most_runs: int) -> None:
        """Look for the least peak, from the naive schedule on; then for the least cost."""
        if self.is_over:
            self._stop()
            return
        problem = self.problem(None)
        found = self._ask(problem, most_runs, self.clock.left, is_peak=True)
        if self.best is not None:
            if not self.is_over:
                self.solve(most_runs)
            return
        if found is not None and found["bound"] > problem.capacity:
            self._conclude(most_runs)
        elif found is not None:
            self._stop()

    def _stop(self) -> None:
        if self.ended.status == DONE:
            self.ended.status, self.ended.message = TIME_LIMIT, "the time limit was reached"

    def _conclude(self, most_runs: int) -> None:
        """Note that nothing under this limit is better than the best."""
        self.solved_runs = max(most_runs, self.solved_runs or 0)
        if self.cost is not None:
            self._raise_bound_under(most_runs, self.cost)
        if self._dearer(most_runs) is None:
            self.is_proven = True

    def _raise_bound_under(self, most_runs: int, lower: int) -> None:
        """Take a bound on schedules under the limit; those beyond it may cost less."""
        beyond = self._dearer(most_runs)
        self.raise_bound(lower if beyond is None else min(lower, beyond))

    def _dearer(self, most_runs: int) -> int | None:
        """Give the least cost of what computes a node more often; None if it cannot be better."""
        problem = self.problem(self.less())
        more = [
            most_runs * problem.cost[node]
            for node in range(problem.n_nodes)
            if problem.most_runs(node) > most_runs
        ]
        return self.graph.base_cost + min(more) * problem.cost_unit if more else None

    def answer(self) -> PlannerResult:
        """Give the answer."""
        solved = self.solved_runs
        if solved is None or self.is_proven:
            return self.result()
        often = "once" if solved == 1 else f"{solved} times"
        under = f"no plan by stages that computes a node at most {often}"
        if self.best is None:
            return replace(self.result(computations=solved), message=f"{under} fits")
        if self.runs and _most_runs_of(self.best) <= solved:
            return self.result(f"{OPTIMAL_FOR_CV}{solved}", computations=solved)
        return replace(self.result(computations=solved), message=f"{under} is cheaper")


def _most_runs_of(schedule: Schedule) -> int:
    """Count how often the node runs that runs most often."""
    return int(np.bincount(schedule.order).max(initial=0))


def grow(search: Growing, first: int, last: int) -> None:
    """Let the limit grow from the first to the last one, as long as that can pay."""
    most_runs = first
    while most_runs <= last and not search.is_over:
        search.solve(most_runs)
        most_runs += max(1, most_runs // 2 - (most_runs < 4))
