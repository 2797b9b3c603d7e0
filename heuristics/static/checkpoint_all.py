"""checkpoint-all: every forward node, or every articulation point, is a checkpoint."""

from __future__ import annotations

from typing import Any

from ...static_graph import StaticGraph
from .registry import PlannerResult, planner
from .segments import NO_BACKWARD, POINTS, Segments, candidates, chosen
from .sweeping import MODES, cheapest


@planner("checkpoint-all", reference="Jain et al., MLSys 2020, appendix B")
def checkpoint_all(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    points: str = "linear",
    mode: str = "trimmed",
    **_: Any,
) -> PlannerResult:
    """Keep every forward node, or every articulation point: what lies between is computed again."""
    chosen("checkpoint-all: points", points, POINTS)
    is_trimmed = chosen("checkpoint-all: mode", mode, MODES) == "trimmed"
    nodes = candidates(graph, points)
    if not nodes:
        return NO_BACKWARD
    return cheapest(
        graph,
        budget,
        [tuple(nodes)],
        Segments(graph).kept,
        is_trimmed=is_trimmed,
        time_limit=time_limit,
    )
