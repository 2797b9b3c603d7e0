"""optimal: the best schedule by stages, with whichever solver finds and proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...static_graph import Schedule, StaticGraph
from .annealing import annealing
from .checkmate import round_held, solve_held
from .growing import Growing, grow
from .registry import OPTIMAL, PlannerResult, planner

_LARGEST = 250  # nodes, above which the relaxation of all stages takes too long
_FEW = 1000  # runs beyond first ones: so few are looked through in no time
_ANNEALING_SHARE, _ANNEALING_SECONDS = 0.1, 5.0  # of the time, and at most; for large ones half
_SHARE = 0.85  # of the time that is left, for all stages after that
_NEAR = 1.2  # times the relaxation's cost of recomputation: up to it stages are soon proven
_ROUNDING_SHARE = 0.3  # of the time, where nothing fits yet
_FEW_RUNS = 3  # computations of a node, under which moccasin has proofs of its own


@planner("optimal", reference="checkmate, moccasin, annealing", uses_starts=True, uses_solver=True)
def optimal(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    **_: Any,
) -> PlannerResult:
    """Find the best schedule by stages, and prove it.

    Annealing finds what is to be beaten; then stages as in checkmate are solved with CP-SAT, from
    what their relaxation costs upwards; if that takes long, so do moccasin's intervals.
    """
    search = Growing(graph, budget, starts, time_limit)
    by = "no solver"
    is_large = graph.n_nodes > _LARGEST
    if not search.is_over and (is_large or _n_again(search) > _FEW):
        by = "annealing"
        if search.best is None:
            round_held(search, _ROUNDING_SHARE)
        _anneal(search, starts, is_large)
    if not search.is_over and search.best is None:
        by = "moccasin"
        grow(search, 2, 2)
        search.go_on()
    if not search.is_over and not is_large:
        by = _prove(search)
    if not search.is_over:
        by = "moccasin"
        grow(search, 1 + (search.solved_runs or 1), graph.n_nodes)
    found = search.answer()
    what = "proven by" if found.status == OPTIMAL else "by"
    message = found.message or f"{what} {by}"
    return replace(found, message=message, details={**found.details, "method": by})


def _prove(search: Growing) -> str:
    """Solve the stages; after a few computations of a node where the relaxation is far away."""
    share = 1.0
    if _n_again(search) > _FEW:
        search.relax(_NEAR)
        if not search.is_over and not _is_near(search):
            grow(search, _FEW_RUNS, _FEW_RUNS)
            search.go_on()
            share = _SHARE
    solve_held(search, "cp-sat", share)
    search.go_on()
    return "checkmate"


def _is_near(search: Growing) -> bool:
    """Whether the bound explains most of what recomputation costs."""
    base = search.graph.base_cost
    return search.cost is not None and search.cost - base <= _NEAR * (search.bound - base)


def _anneal(search: Growing, starts: Sequence[Schedule], is_large: bool) -> None:
    """Offer what annealing finds in a part of the time."""
    part = search.clock.part(0.5)
    if not is_large:
        part = search.clock.part(_ANNEALING_SHARE, _ANNEALING_SECONDS)
    known = starts if search.best is None else [search.best, *starts]
    found = annealing(search.graph, search.budget, starts=known, time_limit=part.left)
    if found.schedule is not None:
        search.offer_schedule(found.schedule)


def _n_again(search: Growing) -> int:
    """Count the runs that may come after first ones."""
    problem = search.problem(search.less())
    return sum(map(len, problem.stages)) - problem.n_nodes
