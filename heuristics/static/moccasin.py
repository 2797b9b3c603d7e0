"""moccasin: the constraint program over retention intervals, with CP-SAT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...static_graph import Schedule, StaticGraph
from ..parameters import Whole
from .growing import Growing, grow
from .registry import PlannerResult, planner

MOST_COMPUTATIONS = 1000  # of a node, that may be asked for
_RELAXED_AFTER = 3  # computations: by then most small graphs are proven


@planner(
    "moccasin",
    reference="Bartan et al., ICML 2023",
    allowed={"cv": Whole(0, MOST_COMPUTATIONS)},
    uses_starts=True,
    uses_solver=True,
)
def moccasin(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    cv: int = 0,
    **_: Any,
) -> PlannerResult:
    """Solve for intervals in which values are kept; a node is computed at most cv times.

    With ``cv=0`` that limit grows from 2 until no node's next computation could pay; a start that
    computes a node more often is then an answer too, and what is said is `feasible`.
    """
    search = Growing(graph, budget, starts, time_limit, cv or None)
    if cv:
        grow(search, cv, cv)
        return search.answer()
    grow(search, 2, _RELAXED_AFTER)
    search.relax()
    search.go_on()
    grow(search, _RELAXED_AFTER + 1, graph.n_nodes)
    return search.answer()
