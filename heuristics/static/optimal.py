"""optimal: the best schedule by stages, with whichever solver proves it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...static_graph import Schedule, StaticGraph
from .checkmate import solve_whole
from .growing import Growing, grow
from .integer_solving import raise_by_relaxation
from .registry import OPTIMAL, PlannerResult, planner

_FEW_RUNS = 3  # with so few computations of a node, the constraint program is the faster
_LARGEST_WHOLE = 250  # nodes, above which the integer program has not been seen to end
_WHOLE_SHARE = 0.6  # of the time that is left then, for the integer program


@planner("optimal", reference="moccasin, then checkmate", uses_starts=True)
def optimal(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    **_: Any,
) -> PlannerResult:
    """Find the best schedule with moccasin; prove it with that or with checkmate.

    Moccasin comes first, up to three computations of a node. What it has found then is what
    checkmate has to beat, which leaves it little to look at; then moccasin goes on.
    """
    search = Growing(graph, budget, starts, time_limit)
    by = "no solver"
    if not search.is_over:
        by = "moccasin"
        grow(search, 2, _FEW_RUNS)
    if not search.is_over and graph.n_nodes <= _LARGEST_WHOLE:
        raise_by_relaxation(search)
        if not search.is_over:
            solve_whole(search, "tight", share=_WHOLE_SHARE)
        by = "checkmate" if search.is_proven else by
        search.go_on()
    grow(search, _FEW_RUNS + 1, graph.n_nodes)
    found = search.answer()
    what = "proven by" if found.status == OPTIMAL else "by"
    message = found.message or f"{what} {by}"
    return replace(found, message=message, details={**found.details, "method": by})
