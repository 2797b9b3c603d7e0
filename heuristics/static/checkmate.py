"""checkmate: the integer program over stages, with HiGHS; and its relaxation, rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import InputError
from ...static_graph import Schedule, StaticGraph
from .integer_solving import (
    INFEASIBLE,
    OPTIMAL,
    integer,
    kept_of_shares,
    relaxed,
    take_bound,
)
from .registry import PlannerResult, planner
from .searching import Search
from .stage_program import FORMS

_PARTS = [1.0, 0.95, 0.9, 0.8, 0.7, 0.6]  # of the budget, for the relaxation
_THRESHOLDS = [0.001, 0.01, *(n / 20 for n in range(1, 20)), 0.99]


@planner("checkmate", reference="Jain et al., MLSys 2020", uses_starts=True)
def checkmate(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    form: str = "tight",
    **_: Any,
) -> PlannerResult:
    """Solve the integer program over stages: what is kept into each, what is computed in it."""
    search = Search(graph, budget, starts, time_limit)
    solve_whole(search, _known(form))
    return search.result()


@planner("checkmate-lp-rounding", reference="Jain et al., MLSys 2020, section 5.2")
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
            relaxed, problem, _known(form), _PARTS,
            seconds=search.seconds_left, take=lambda part: _round(search, part["kept"]),
        )  # fmt: skip
        if found is not None:
            take_bound(search, problem, found)
    return search.result()


def _known(form: str) -> str:
    if form not in FORMS:
        raise InputError(f"checkmate: form ({form}): it is one of {', '.join(FORMS)}")
    return form


def _round(search: Search, shares: Any) -> None:
    """Offer the plans of all thresholds."""
    tried = set()
    for threshold in _THRESHOLDS:
        kept = kept_of_shares(search.graph, shares, threshold)
        if tuple(kept) not in tried:
            tried.add(tuple(kept))
            search.offer_kept(kept)


def solve_whole(search: Search, form: str, share: float = 1.0) -> None:
    """Look for something better than the best in a share of the time; take it, and the bound."""
    if search.is_over:
        return
    seconds, problem = search.seconds_left, search.problem(search.less())
    seconds = None if seconds is None else seconds * share
    found = search.ask(integer, problem, form, seconds=search.seconds_left, take=lambda _: None)
    if found is None:
        return
    if found["kept"] is not None:
        search.offer_kept(kept_of_shares(search.graph, found["kept"], 0.5))
    take_bound(search, problem, found)
    if found["status"] not in (OPTIMAL, INFEASIBLE):
        search.ended.message = "the time limit was reached"
    elif not search.is_proven:
        search.ended.message = "the solver's plan does not fit by a rounding error"
