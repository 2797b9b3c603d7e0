"""joint: keep, recompute and offload at once by constraint programming, with a bound for all plans.

The program is in ``joint_program.py``. It starts from the best of the other planners, looks for a
faster plan, and bounds what any plan can reach that computes no node and moves no value more often
than allowed. Its copies begin whenever they like; the engine's begin as soon as they can. So a
solution is written as several plans, which differ in where prefetches are issued, and these are
judged. Larger graphs are solved as groups of nodes, where nothing is proven.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...links import NO_WAY, Link
from ...moved_schedules import follow_moves
from ...plan import PREFETCH
from ...static_graph import (
    Schedule,
    StaticGraph,
    free_after_last_use,
    naive_peak_bytes,
    naive_schedule,
)
from ..parameters import Whole
from .baselines import MOST_SHARE, best_of, found_by, judged, simple_plans
from .clock import Clock
from .coarse import Coarse
from .joint_program import JointProblem, Timed, joint_plan
from .joint_relaxation import relaxed_plan
from .offload_all import leads_both_ways
from .placing_copies import Trip, placed
from .poet import overlapped
from .registry import (
    ANY_SCHEDULE,
    FEASIBLE,
    INFEASIBLE,
    OPTIMAL_FOR_CV,
    PlannerResult,
    planner,
)
from .solving import solve
from .stage_problem import stage_problem
from .transfer_gaps import Found, Gap, Moving

OTHERS = ("pofo", "capuchin")
# Of the time that is left.
OTHERS_SHARE, FIRST_SHARE, RELAXED_SHARE, SOLVER_SHARE = 0.15, 0.05, 0.4, 0.9
BEYOND = "it computes or moves more often than allowed; no plan that does not is faster"
FEW = 40  # nodes of a graph that poet solves too
LARGEST, GROUPS = 120, 50  # nodes of a graph that is solved itself; groups, if not


@planner(
    "joint",
    reference="ours: Moccasin's intervals in time, with POFO's link",
    allowed={"runs": Whole(1, 100), "trips": Whole(0, 100)},
    uses_solver=True,
)
def joint(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    runs: int = 2,
    trips: int = 1,
    **_: Any,
) -> PlannerResult:
    """Find what to keep, recompute and offload by constraint programming, and bound all plans.

    Parameters
    ----------
    graph, budget, time_limit, link
        As for every planner.
    runs : int
        How often a node may be computed.
    trips : int
        How often a value may come back from the host, where it goes once.
    """
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit)
    names = OTHERS if graph.n_nodes > FEW else (*OTHERS, "poet")
    found = simple_plans(graph, budget, link, clock.part(MOST_SHARE))
    # Where nothing is known, the naive schedule says that the simple planners have been asked.
    starts = [one.schedule for one in sorted(found, key=lambda one: one.cost)] or [
        naive_schedule(graph)
    ]
    found += found_by(names, graph, budget, link, clock.part(OTHERS_SHARE), starts)
    way = link if link is not None and leads_both_ways(link) else NO_WAY
    most = GROUPS if graph.n_nodes > LARGEST else LARGEST
    search = _Search(Coarse(graph, most), budget, way, runs, trips)
    search.found = found
    search.solve(clock)
    return search.result(clock)


class _Search:
    """The best plan so far, and what is proven."""

    def __init__(self, coarse: Coarse, budget: int, link: Link, runs: int, trips: int) -> None:
        self.coarse, self.budget, self.link = coarse, budget, link
        self.graph, self.runs, self.trips = coarse.graph, runs, trips
        self.found: list[Found] = []
        self.bound = float(self.graph.base_cost)
        self.is_proven = False
        self.message = ""

    @property
    def best(self) -> Found | None:
        """The fastest plan."""
        return min(self.found, key=lambda one: one.cost, default=None)

    def solve(self, clock: Clock) -> None:
        """Look for a faster plan, and bound all of them: by what is quick first."""
        if not self.coarse.is_same:
            self._search(clock, SOLVER_SHARE)
            return
        self._search(clock, FIRST_SHARE)
        self._relax(clock)
        self._search(clock, SOLVER_SHARE)

    def _search(self, clock: Clock, share: float) -> None:
        """Solve the program in time."""
        if self._is_done(clock):
            return
        problem = self._problem()
        task = joint_plan.__module__, joint_plan.__name__
        hint = self._hint(problem.ticks)
        ended = solve(*task, problem, hint, seconds=clock.part(share).left)
        self.message = ended.message
        told = ended.told[-1:] if ended.answer is None else [ended.answer["found"]]
        for timed in told:
            if timed is not None:
                self.found += self._plans(timed, problem, clock)
        if ended.answer is not None and self.coarse.is_same:
            self._take_bound(ended.answer["status"], problem.nanoseconds(ended.answer["bound"]))

    def _is_done(self, clock: Clock) -> bool:
        return clock.is_over or self.is_proven or self._cost == self.graph.base_cost

    @property
    def _cost(self) -> int | None:
        """What the fastest plan takes."""
        return None if self.best is None else self.best.cost

    def _problem(self) -> JointProblem:
        limits = (self._cost, self.runs, self.trips)
        return joint_problem(self.coarse.small, self.budget, self.link, limits, int(self.bound))

    def _relax(self, clock: Clock) -> None:
        """Bound all plans by those in which the order between first runs does not matter."""
        if self._is_done(clock):
            return
        task = relaxed_plan.__module__, relaxed_plan.__name__
        ended = solve(*task, self._problem(), seconds=clock.part(RELAXED_SHARE).left)
        self.message = ended.message
        for answer in (*ended.told, ended.answer):
            if answer is None:
                continue
            if answer["found"] is not None:
                found = overlapped(self.coarse, answer["found"], self.budget, self.link, clock)
                self.found += found
            self._take_bound(answer["status"], answer["bound"])

    def _take_bound(self, status: str, least: int) -> None:
        """Bound plans: where none is faster than the best, by what that takes."""
        cost = self._cost
        if status == INFEASIBLE:
            self.is_proven = True
            self.bound = float(self.bound if cost is None else cost)
            return
        self.bound = max(self.bound, float(least if cost is None else min(least, cost)))
        self.is_proven = cost is not None and self.bound >= cost

    def _hint(self, ticks: int) -> Timed:
        """Give what happens when in the best plan; nothing where groups are solved."""
        best = self.best
        if best is None or not self.coarse.is_same:
            return Timed([], [], [])
        followed = follow_moves(self.graph, best.schedule, self.link, self.budget)
        late = np.cumsum(self.graph.own_cost[best.schedule.order] == 0)
        begun = [ns * ticks + int(before) for ns, before in zip(followed.begun, late, strict=True)]
        moved = [(copy.is_out, (copy.start - 1) * ticks, copy.storage.number)
                 for copy in followed.copies]  # fmt: skip
        return Timed(
            list(zip(begun, best.schedule.order.tolist(), strict=True)),
            [(start, value) for is_out, start, value in moved if is_out],
            [(start, value) for is_out, start, value in moved if not is_out],
        )

    def _plans(self, timed: Timed, problem: JointProblem, clock: Clock) -> Iterator[Found]:
        """Write a solution as plans."""
        order, places = self.coarse.orders([node for _, node in timed.runs])
        schedule = free_after_last_use(self.graph, order)
        if not timed.comes:
            yield from judged(self.graph, [schedule], self.budget, self.link)
            return
        moving = Moving(self.graph, schedule, self.budget, self.link)
        trips = self._trips(moving, timed, problem, [*places, len(order)])
        yield from placed(moving, trips, clock)

    def _trips(
        self, moving: Moving, timed: Timed, problem: JointProblem, places: Sequence[int]
    ) -> list[Trip]:
        """Give what goes and comes, where it does in a solution."""
        starts = [start for start, _ in timed.runs]
        lives: dict[int, list[Gap]] = {}
        for value, uses in moving.lives:
            lives.setdefault(value, []).extend(moving.gaps_of(value, uses))
        left = {value: start for start, value in timed.leaves}
        trips = []
        for start, value in timed.comes:
            read_at = places[bisect_left(starts, start + problem.back[value])]
            away, back = (places[bisect_left(starts, at)] for at in (left[value], start))
            gaps = [gap for part in self.coarse.parts[value] for gap in lives.get(part, ())
                    if gap.last < read_at <= gap.next]  # fmt: skip
            trips += [(left[value], start, Trip(gap, away, back).moved(0, 0)) for gap in gaps]
        return [trip for _, _, trip in sorted(trips, key=lambda one: one[:2])]

    def result(self, clock: Clock) -> PlannerResult:
        """Give the answer."""
        answer = best_of(self.found, clock, self.message or "nothing that fits was found")
        scope = f"at most {self.runs} runs of a call and {self.trips} returns of a value"
        status, message = answer.status, answer.message or self.message
        if answer.schedule is not None and self.is_proven:
            message = BEYOND
            if self._is_within(answer.schedule):
                status, message = f"{OPTIMAL_FOR_CV}{self.runs}", ""
        details = {"runs": self.runs, "trips": self.trips, "groups": self.coarse.small.n_nodes}
        return replace(
            answer,
            status=status,
            bound=self.bound,
            bound_scope=scope if self.bound > self.graph.base_cost else ANY_SCHEDULE,
            message=message,
            details=details,
        )

    def _is_within(self, schedule: Schedule) -> bool:
        """Say whether a plan does nothing more often than allowed."""
        runs = np.bincount(schedule.order, minlength=1).max()
        comes = schedule.target[schedule.action == PREFETCH]
        trips = np.bincount(comes, minlength=1).max()
        return bool(runs <= self.runs and trips <= self.trips)


def joint_problem(
    graph: StaticGraph, budget: int, link: Link, most: tuple[int | None, int, int], least: int
) -> JointProblem:
    """Make the program of a graph: from so many ns to less than so many; so many runs and trips.

    Views take their time whenever it is, once each: a run may do without them later.
    """
    cost, most_runs, most_trips = most
    rest = int(graph.view_cost.sum())
    bare = replace(graph, cost=graph.own_cost, base_cost=graph.base_cost - rest)
    stages = stage_problem(bare, budget, None if cost is None else cost - 1 - rest)
    runs = [min(most_runs, stages.most_runs(node)) for node in range(graph.n_nodes)]
    took = bare.cost.tolist()
    n_timeless = sum(count for count, ns in zip(runs, took, strict=True) if not ns)
    ticks = n_timeless + 1
    out, back = (
        [of(size) for size in graph.size.tolist()] for of in (link.to_host_ns, link.from_host_ns)
    )
    if cost is None:
        cost = int((bare.cost * runs).sum()) + rest + 1
        cost += sum(ns or 0 for ns in out + back) * most_trips
    waits = (graph.last_reader - graph.producer > 1).tolist()
    may_go = [None not in way and waits[value]
              for value, way in enumerate(zip(out, back, strict=True))]  # fmt: skip
    return JointProblem(
        duration=[ns * ticks or 1 for ns in took],
        out=[(ns or 0) * ticks for ns in out],
        back=[(ns or 0) * ticks for ns in back],
        size=stages.size,
        workspace=stages.workspace,
        capacity=stages.capacity,
        on_host=graph.size.tolist(),
        host=link.host_bytes,
        makes=stages.makes,
        reads=stages.reads,
        producer=stages.producer,
        runs=runs,
        trips=[most_trips * goes for goes in may_go],
        is_half=link.duplex == "half",
        least=least * ticks,
        most=(cost - 1) * ticks + n_timeless,
        rest=rest * ticks,
        ticks=ticks,
    )
