"""moccasin: the constraint program over retention intervals, with CP-SAT."""

from __future__ import annotations

from collections.abc import Sequence

from ...static_graph import Schedule, StaticGraph
from .growing import Search
from .registry import PlannerResult, planner


@planner("moccasin", reference="Bartan et al., ICML 2023", uses_starts=True)
def moccasin(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    seed: int = 0,
    cv: int = 0,
    memory_gb: float = 8.0,
) -> PlannerResult:
    """Solve for intervals in which values are kept; a node is computed at most cv times.

    With ``cv=0`` that limit grows from 2 until no node's next computation could pay.
    """
    search = Search(graph, budget, starts, time_limit, seed=seed, memory_gb=memory_gb)
    for most_runs in [cv] if cv else range(2, graph.n_nodes + 1):
        if search.is_over:
            break
        search.solve(most_runs)
    return search.result()
