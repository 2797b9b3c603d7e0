"""checkmate: the integer program over stages, with HiGHS; and its relaxation, rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...static_graph import Schedule, StaticGraph
from ..parameters import OneOf
from .held_solving import held, shares
from .integer_solving import integer, kept_of_shares, relaxed, take_bound
from .registry import INFEASIBLE, OPTIMAL, PlannerResult, planner
from .searching import Search
from .stage_program import FORMS

HELD = "held"  # the form in `HeldProgram`; the others are those of `StageProgram`
_PARTS = [1.0, 0.95, 0.9, 0.8, 0.7, 0.6]  # of the budget, for the relaxation
_SMALLER = [0.95, 0.9, 0.8]  # of the budget, for any schedule that fits
_THRESHOLDS = [0.001, 0.01, *(n / 20 for n in range(1, 20)), 0.99]


@planner(
    "checkmate",
    reference="Jain et al., MLSys 2020",
    allowed={"form": OneOf((*FORMS, HELD))},
    uses_starts=True,
    uses_solver=True,
)
def checkmate(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    form: str = HELD,
    **_: Any,
) -> PlannerResult:
    """Solve the integer program over stages: what is kept into each, what is computed in it."""
    search = Search(graph, budget, starts, time_limit)
    if form == HELD:
        solve_held(search, "highs")
    else:
        _solve_published(search, form)
    return search.result()


@planner(
    "checkmate-lp-rounding",
    reference="Jain et al., MLSys 2020, section 5.2",
    allowed={"form": OneOf(FORMS)},
    uses_solver=True,
)
def checkmate_lp_rounding(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    form: str = "tight",
    **_: Any,
) -> PlannerResult:
    """Round what the relaxation keeps, over parts of the budget and thresholds; trim the plan."""
    search = Search(graph, budget, (), time_limit)
    if not search.is_over:
        problem = search.problem(None)
        found = search.ask(
            relaxed, problem, form, _PARTS,
            seconds=search.clock.left, take=lambda part: _round(search, part["kept"]),
        )  # fmt: skip
        if found is not None:
            take_bound(search, problem, found)
    return search.result()


def _round(search: Search, kept_in_part: Any) -> None:
    """Offer the plans of all thresholds."""
    tried = set()
    for threshold in _THRESHOLDS:
        kept = kept_of_shares(search.graph, kept_in_part, threshold)
        if tuple(kept) not in tried:
            tried.add(tuple(kept))
            search.offer_kept(kept)


def round_held(search: Search, share: float) -> None:
    """Look for any schedule that fits, in a share of the time, by rounding relaxations."""
    seconds = search.clock.part(share).left
    problem = search.problem(search.less()).at_first_reads()
    search.ask(
        shares, problem, _SMALLER, seconds=seconds, take=lambda kept: _round(search, kept)
    )  # fmt: skip
    search.go_on()


def solve_held(search: Search, solver: str, share: float = 1.0) -> None:
    """Look for something better than the best in a share of the time; take it, and the bound."""
    if search.is_over:
        return
    seconds, problem = search.clock.part(share).left, search.problem(search.less())
    least = (math.ceil(search.bound) - search.graph.base_cost) // problem.cost_unit
    found = search.ask(held, problem, solver, least, seconds=seconds, take=search.offer_runs)
    if found is None:
        return
    if found["status"] == INFEASIBLE:
        search.is_proven = True
    else:
        search.raise_bound(search.graph.base_cost + found["bound"] * problem.cost_unit)
    _say_how_it_ended(search, found["status"])


def _solve_published(search: Search, form: str) -> None:
    if search.is_over:
        return
    seconds, problem = search.clock.left, search.problem(search.less())
    found = search.ask(integer, problem, form, seconds=seconds, take=lambda _: None)
    if found is None:
        return
    if found["kept"] is not None:
        search.offer_kept(kept_of_shares(search.graph, found["kept"], 0.5))
    take_bound(search, problem, found)
    _say_how_it_ended(search, found["status"])


def _say_how_it_ended(search: Search, status: str) -> None:
    if search.is_proven:
        return
    is_over = status in (OPTIMAL, INFEASIBLE)
    reason = "the solver's plan does not fit by a rounding error"
    search.ended.message = reason if is_over else "the time limit was reached"
