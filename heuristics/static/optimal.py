"""optimal: the best schedule by stages, with whichever solver proves it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...static_graph import Schedule, StaticGraph
from .checkmate import solve_held
from .growing import Growing, grow
from .registry import OPTIMAL, PlannerResult, planner

_LARGEST = 250  # nodes, above which the relaxation of all stages takes too long
_FEW = 1000  # runs beyond the first ones; so few are looked through in no time
_FIRST_SHARE, _SHARE = 0.3, 0.6  # of the time that is left, for all stages
_FEW_RUNS = 3  # with so few computations of a node, moccasin is good at finding schedules


@planner(
    "optimal",
    reference="checkmate's stages, moccasin's intervals",
    uses_starts=True,
    uses_solver=True,
)
def optimal(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    **_: Any,
) -> PlannerResult:
    """Find the best schedule by stages, and prove it, by turns with two programs.

    Stages as in checkmate, solved a little above what their relaxation costs, come first. If that
    takes long, moccasin looks for a good schedule, which leaves the stages less to look at.
    """
    search = Growing(graph, budget, starts, time_limit)
    by = "no solver"
    first_share = 1.0 if not search.is_over and _n_again(search) <= _FEW else _FIRST_SHARE
    for share, last in ((first_share, _FEW_RUNS), (_SHARE, graph.n_nodes)):
        if graph.n_nodes <= _LARGEST and not search.is_over:
            solve_held(search, "cp-sat", share)
            by = "stages"
            search.go_on()
        if not search.is_over:
            by = "moccasin"
            grow(search, 2, last)
            search.go_on()
    found = search.answer()
    what = "proven by" if found.status == OPTIMAL else "by"
    message = found.message or f"{what} {by}"
    return replace(found, message=message, details={**found.details, "method": by})


def _n_again(search: Growing) -> int:
    """Count the runs that may come after first ones."""
    problem = search.problem(search.less())
    return sum(map(len, problem.stages)) - problem.n_nodes
