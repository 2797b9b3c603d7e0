"""joint: keep, recompute and offload at once by constraint programming, with a bound for all plans.

The program is in ``joint_program.py``. It starts from the best of the other planners, looks for a
faster plan, and bounds what any plan can reach that computes no node and moves no value more often
than allowed; once that is proven, it allows more, until that helps no further. Its copies begin
whenever they like; the engine's begin as soon as they can. So a solution is written as several
plans, which differ in where prefetches are issued, and these are judged. Larger graphs are solved
as groups of nodes, where nothing is proven.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...links import NO_WAY, Link, can_move
from ...moved_schedules import follow_moves
from ...plan import PREFETCH
from ...static_graph import (
    StaticGraph,
    free_after_last_use,
    naive_peak_bytes,
    naive_schedule,
)
from ..parameters import Whole
from .baselines import best_of, judged, simple_plans
from .capuchin import capuchin_plans
from .clock import Clock
from .coarse import Coarse
from .joint_program import JointProblem, Timed, joint_plan
from .joint_relaxation import relaxed_plan
from .placing_copies import Trip, placed
from .poet import overlapped, poet_plans
from .pofo import pofo_plans
from .registry import (
    ANY_SCHEDULE,
    FEASIBLE,
    INFEASIBLE,
    OPTIMAL,
    OPTIMAL_FOR_CV,
    PlannerResult,
    planner,
)
from .solving import UNKNOWN, solve
from .stage_problem import stage_problem
from .transfer_gaps import Found, Gap, Moving

# Poet alone takes most of a short time: most of what it finds, it finds within some seconds.
POET_MOST, POET_SECONDS = 0.85, 8.0
# Of the time that is left.
OTHERS_SHARE, FIRST_SHARE, POET_SHARE, RELAXED_SHARE, SOLVER_SHARE = 0.15, 0.1, 0.55, 0.5, 0.9
LARGEST, GROUPS = 120, 50  # nodes of a graph that is solved itself; groups, if not
GROWS = {"runs": 0, "trips": -1}  # what says that more and more are allowed


class Limits(NamedTuple):
    """How often a node may run, and a value come back from the host."""

    runs: int = 2
    trips: int = 1

    def __str__(self) -> str:
        """Say so."""
        return f"at most {self.runs} runs of a call and {self.trips} returns of a value"


@planner(
    "joint",
    reference="ours: Moccasin's intervals in time, with POFO's link",
    allowed={"runs": Whole(0, 100), "trips": Whole(0, 100, also=-1)},
    uses_solver=True,
)
def joint(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    runs: int = GROWS["runs"],
    trips: int = GROWS["trips"],
    **_: Any,
) -> PlannerResult:
    """Find what to keep, recompute and offload by constraint programming, and bound all plans.

    Parameters
    ----------
    graph, budget, time_limit, link
        As for every planner.
    runs : int
        How often a node may be computed; 0: twice, and more once that is proven.
    trips : int
        How often a value may come back from the host, where it goes once; -1: once, and more
        likewise.
    """
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit)
    simple = simple_plans(graph, budget, link, clock)
    way = link if can_move(link) else NO_WAY
    most = GROUPS if graph.n_nodes > LARGEST else LARGEST
    search = _Search(Coarse(graph, most), budget, way, runs, trips)
    search.found += simple.found
    search.solve(clock)
    return search.result(clock, simple.late)


class _Search:
    """The best plan so far, and what is proven.

    Attributes
    ----------
    found : list of Found
        Plans, whatever they do how often.
    limits : Limits
        Of the plans that are looked for.
    bounds : dict of Limits to float
        What no plan within limits is faster than, of the present ones and those before.
    is_ended : bool
        Whether all plans within the limits have been looked through.
    looked : tuple, or None
        The least time, and the bound, when the limits before had been looked through.
    is_over : bool
        Whether nothing is left to look for.
    """

    def __init__(self, coarse: Coarse, budget: int, link: Link, runs: int, trips: int) -> None:
        self.coarse, self.budget, self.link = coarse, budget, link
        self.graph = coarse.graph
        self.grows = (runs == GROWS["runs"], trips == GROWS["trips"])
        least = Limits()
        self.limits = Limits(runs or least.runs, least.trips if trips < 0 else trips)
        self.found: list[Found] = []
        self.bounds = {self.limits: float(self.graph.base_cost)}
        self.is_ended = self.is_over = False
        self.looked: tuple[int | None, float] | None = None
        self.message = ""

    @property
    def best(self) -> Found | None:
        """The fastest plan."""
        return min(self.found, key=lambda one: one.cost, default=None)

    def solve(self, clock: Clock) -> None:
        """Look for a faster plan, and bound all of them: by what is quick first."""
        self._ask_others(clock.part(OTHERS_SHARE))
        if self.coarse.is_same:
            self._prove(clock.part(FIRST_SHARE))
        share = POET_SHARE
        if clock.left:
            share = max(share, min(POET_MOST, POET_SECONDS / clock.left))
        self._ask_poet(clock.part(share))
        if not self.coarse.is_same:
            self._search(clock.part(SOLVER_SHARE))
            return
        self._relax(clock.part(RELAXED_SHARE))
        self._prove(clock)

    def _ask_others(self, clock: Clock) -> None:
        """Take the plans of planners that take little time."""
        args = self.graph, self.budget, self.link
        if can_move(self.link):
            self.found += pofo_plans(*args, clock)
        self.found += capuchin_plans(*args, clock)

    def _ask_poet(self, clock: Clock) -> None:
        """Take the plans of the integer program, which may do things more often than allowed."""
        if not self._is_done(clock):
            solved = poet_plans(self.graph, self.budget, self.link, clock)
            self.found += solved.found

    def _prove(self, clock: Clock) -> None:
        """Search within limits that grow as often as all within them has been looked through."""
        while not self._is_done(clock):
            if not self.is_ended:
                self._search(clock.part(SOLVER_SHARE))
            if not self.is_ended:
                break
            self._grow()

    def _grow(self) -> None:
        """Allow more, at least what the best plan does; unless the last time it was of no use."""
        before, self.looked = self.looked, (self._cost, self.bounds[self.limits])
        self.is_over = not any(self.grows) or before == self.looked
        if self.is_over:
            return
        self.is_ended = False
        runs, trips = (max(now + 1, done) if grows else now for grows, now, done in
                       zip(self.grows, self.limits, self._done(), strict=True))  # fmt: skip
        self.limits = Limits(runs, trips)
        self.bounds[self.limits] = float(self.graph.base_cost)

    def _done(self) -> Limits:
        """Give how often the best plan does things."""
        if self.best is None:
            return Limits(0, 0)
        schedule = self.best.schedule
        comes = schedule.target[schedule.action == PREFETCH]
        most = (int(np.bincount(what, minlength=1).max()) for what in (schedule.order, comes))
        return Limits(*most)

    def _is_proven(self, limits: Limits) -> bool:
        """Say whether the best plan keeps limits, and no plan that does is faster."""
        done = self._done()
        keeps = done.runs <= limits.runs and done.trips <= limits.trips
        return keeps and self._cost is not None and self.bounds[limits] >= self._cost

    def _search(self, clock: Clock) -> None:
        """Solve the program in time."""
        if self._is_done(clock):
            return
        problem = self._problem()
        task = joint_plan.__module__, joint_plan.__name__
        hint = self._hint(problem.ticks)
        ended = solve(*task, problem, hint, seconds=clock.left)
        self.message = ended.message
        told = ended.told[-1:] if ended.answer is None else [ended.answer["found"]]
        for timed in told:
            if timed is not None:
                self.found += self._plans(timed, problem, clock)
        if ended.answer is not None and self.coarse.is_same:
            self._take_bound(ended.answer["status"], problem.nanoseconds(ended.answer["bound"]))

    def _is_done(self, clock: Clock) -> bool:
        return clock.is_over or self.is_over or self._cost == self.graph.base_cost

    @property
    def _cost(self) -> int | None:
        """What the fastest plan takes."""
        return None if self.best is None else self.best.cost

    def _problem(self) -> JointProblem:
        least = int(self.bounds[self.limits])
        return joint_problem(
            self.coarse.small, self.budget, self.link, (self._cost, *self.limits), least
        )

    def _relax(self, clock: Clock) -> None:
        """Bound all plans by those in which the order between first runs does not matter."""
        if self._is_done(clock) or self.is_ended:
            return
        task = relaxed_plan.__module__, relaxed_plan.__name__
        ended = solve(*task, self._problem(), seconds=clock.left)
        self.message = ended.message
        for answer in (*ended.told, ended.answer):
            if answer is None:
                continue
            if answer["found"] is not None:
                found = overlapped(self.coarse, answer["found"], self.budget, self.link, clock)
                self.found += found
            status = INFEASIBLE if answer["status"] == INFEASIBLE else UNKNOWN
            self._take_bound(status, answer["bound"])

    def _take_bound(self, status: str, least: int) -> None:
        """Bound plans: where none is faster than the best, by what that takes."""
        cost = self._cost
        if status == INFEASIBLE and cost is not None:
            least = cost
        self.bounds[self.limits] = max(self.bounds[self.limits], float(least))
        is_reached = cost is not None and self.bounds[self.limits] >= cost
        self.is_ended = is_reached or status in (OPTIMAL, INFEASIBLE)

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

    def result(self, clock: Clock, late: Iterable[str]) -> PlannerResult:
        """Give the answer."""
        details = {**self.limits._asdict(), "groups": self.coarse.small.n_nodes}
        answer = best_of(self.found, clock, self.message or "nothing that fits was found", late)
        if answer.schedule is None:
            return replace(answer, details=details)
        proven = [limits for limits in self.bounds if self._is_proven(limits)]
        if proven:
            status, message = f"{OPTIMAL_FOR_CV}{proven[-1].runs}", ""
            limits, bound = proven[-1], float(self._cost or 0)
        else:
            status, message = FEASIBLE, self.message
            limits, bound, slower = self._bounded()
            if slower is not None:
                message = f"no plan with {slower} is faster"
        return replace(
            answer,
            status=status,
            bound=bound,
            bound_scope=str(limits) if bound > self.graph.base_cost else ANY_SCHEDULE,
            message="; ".join(text for text in (answer.message, message) if text),
            details=details,
        )

    def _bounded(self) -> tuple[Limits, float, Limits | None]:
        """Give limits and the best bound below the best plan, which may do more than they allow.

        And those within which, as is proven, no plan is faster, if there are some.
        """
        cost = self._cost or 0
        below = [(bound, limits) for limits, bound in self.bounds.items() if bound < cost]
        bound, limits = max(below, default=(float(self.graph.base_cost), self.limits))
        passed = [limits for limits, bound in self.bounds.items() if bound >= cost]
        return limits, bound, passed[-1] if passed else None


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
    runs = [stages.most_runs_of(node, most_runs) for node in range(graph.n_nodes)]
    took = bare.cost.tolist()
    n_timeless = sum(count for count, ns in zip(runs, took, strict=True) if not ns)
    ticks = n_timeless + 1
    out, back = (
        [of(size) for size in graph.size.tolist()] for of in (link.to_host_ns, link.from_host_ns)
    )
    if cost is None:
        cost = int((bare.cost * runs).sum()) + rest + 1
        cost += sum(ns or 0 for ns in out + back) * most_trips
    # One read by the next node alone may go too: for what is made again in between, or later.
    is_read = (graph.last_reader > graph.producer).tolist()
    may_go = [None not in way and is_read[value]
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
