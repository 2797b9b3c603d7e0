"""poet: Checkmate's integer program with a second storage, the host; what is found is overlapped.

The program counts copies as if compute stood still, as POET does. Its answer, what to compute when
and what is away between which stages, is written as a plan whose copies go on beside compute, and
judged as that. Graphs that are too large for it are solved as groups of nodes (``coarse.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ...links import NO_WAY, Link, can_move
from ...static_graph import StaticGraph, free_after_last_use, naive_peak_bytes, naive_schedule
from ..parameters import Number
from .baselines import best_of, simple_plans
from .clock import Clock
from .coarse import Coarse
from .poet_program import Copies, poet_plan
from .registry import FEASIBLE, PlannerResult, get, planner
from .solving import DONE, Ended, solve
from .stage_problem import stage_problem
from .transfer_gaps import Found, Gap, Moving

ANY = 0.0  # slowdowns are allowed
GROUPS = 40  # of nodes, as which larger graphs are solved
MOST_ALONE = 150  # nodes of a graph that is left to checkmate where nothing can move
SOLVER_SHARE = 0.85  # of the time that is left


@planner(
    "poet",
    reference="Patil et al., ICML 2022",
    allowed={
        "weight": Number(0, 1000),
        "slowest": Number(0, 1000),
    },
    uses_solver=True,
)
def poet(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    weight: float = 1.0,
    slowest: float = ANY,
    **_: Any,
) -> PlannerResult:
    """Solve Checkmate's program with a second storage, the host, and overlap what it finds.

    Parameters
    ----------
    graph, budget, time_limit, link
        As for every planner.
    weight : float
        What a nanosecond of copying counts beside one of computing. With 1 it is time; with the
        power of the link over that of the device, POET's energy.
    slowest : float
        At most so many times the model's own time, copies not hidden; 0: any.
    """
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit)
    simple = simple_plans(graph, budget, link, clock)
    if not can_move(link) and graph.n_nodes <= MOST_ALONE:
        starts = [one.schedule for one in sorted(simple.found, key=lambda one: one.cost)]
        return get("checkmate").plan(graph, budget, starts=starts, time_limit=clock.left)
    solved = poet_plans(graph, budget, link, clock, weight, slowest)
    found = [*solved.found, *simple.found]
    answer = best_of(found, clock, solved.message or "no plan by stages fits", simple.late)
    message = "; ".join(text for text in (answer.message, solved.message) if text)
    return replace(answer, message=message, details=solved.details)


class Solved(NamedTuple):
    """The plans of the program; why it did not end; its own optimum and bound, and the groups."""

    found: list[Found]
    message: str
    details: dict[str, Any]


def poet_plans(
    graph: StaticGraph,
    budget: int,
    link: Link | None,
    clock: Clock,
    weight: float = 1.0,
    slowest: float = ANY,
) -> Solved:
    """Give its own plans, without those of the simple planners."""
    if clock.is_over:
        return Solved([], "", {})
    way = link if can_move(link) else NO_WAY
    coarse = Coarse(graph, GROUPS)
    problem = stage_problem(coarse.small, budget, None)
    copies = _copies(coarse.small, problem.cost_unit, way, weight, slowest)
    task = poet_plan.__module__, poet_plan.__name__
    ended = solve(*task, problem, copies, seconds=clock.part(SOLVER_SHARE).left)
    found: list[Found] = []
    if ended.answer is not None and ended.answer["found"] is not None:
        found += overlapped(coarse, ended.answer["found"], budget, way, clock)
    return Solved(found, ended.message, _details(ended, coarse))


def _copies(graph: StaticGraph, unit: int, link: Link, weight: float, slowest: float) -> Copies:
    """Give what copies of the graph's values take, in a unit of time."""

    def times(of: Callable[[int], int | None]) -> list[float | None]:
        took = [of(size) for size in graph.size.tolist()]
        return [None if ns is None else ns / unit for ns in took]

    extra = slowest * graph.base_cost - graph.base_cost
    host = link.host_bytes
    return Copies(
        out=times(link.to_host_ns),
        back=times(link.from_host_ns),
        weight=weight,
        on_host=[0.0 if host is None else part / max(host, 1) for part in graph.size.tolist()],
        most_extra=math.inf if slowest == ANY else extra / unit,
    )


def overlapped(
    coarse: Coarse, told: dict[str, Any], budget: int, link: Link, clock: Clock
) -> Iterator[Found]:
    """Write what the program found as plans whose copies go on beside compute."""
    stages: list[list[int]] = [[] for _ in range(coarse.small.n_nodes)]
    for stage, node in told["computed"]:
        stages[stage].append(node)
    groups: list[int] = []
    begins: list[int] = []  # by stage
    for node, before in enumerate(stages):
        begins.append(len(groups))
        groups += [*sorted(before), node]
    order, places = coarse.orders(groups)
    wanted = [(part, places[begins[stage]])
              for stage, value in told["comes"] for part in coarse.parts[value]]  # fmt: skip
    moving = Moving(coarse.graph, free_after_last_use(coarse.graph, order), budget, link)
    gaps = moving.on_host(away_at(moving, wanted))
    yield from moving.found([gaps, moving.fewest(gaps)] if gaps else [gaps], clock)


def away_at(moving: Moving, wanted: Iterable[tuple[int, int]]) -> list[Gap]:
    """Give the gaps of some values' lives, each around a place: a computation, counted."""
    places: dict[int, list[int]] = {}
    for value, place in wanted:
        places.setdefault(value, []).append(place)
    gaps = (gap for value, uses in moving.lives if value in places
            for gap in moving.gaps_of(value, uses))  # fmt: skip
    return [g for g in gaps if g.size and any(g.last < at <= g.next for at in places[g.value])]


def _details(ended: Ended, coarse: Coarse) -> dict[str, Any]:
    """Tell of the program: its own optimum and bound, above running everything once."""
    details: dict[str, Any] = {"groups": coarse.small.n_nodes}
    if ended.status == DONE:
        details |= {"program": ended.answer["status"], "program_bound": ended.answer["bound"]}
    return details
