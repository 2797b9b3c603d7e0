"""chen-sqrt: checkpoints that cut the forward pass into segments of about sqrt(n) nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...static_graph import StaticGraph
from .registry import PlannerResult, planner
from .segments import NO_BACKWARD, POINTS, Segments, candidates, chosen
from .sweeping import MODES, cheapest


def sqrt_checkpoints(nodes: Sequence[int]) -> tuple[int, ...]:
    """Take every k-th of some nodes, with k the root of their number, rounded down."""
    every = math.isqrt(len(nodes))
    return tuple(nodes[every - 1 :: every]) if every else ()


@planner("chen-sqrt", reference="Chen et al., 2016; on graphs Jain et al., MLSys 2020, appendix B")
def chen_sqrt(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    points: str = "linear",
    mode: str = "trimmed",
    **_: Any,
) -> PlannerResult:
    """Keep every k-th node of n, k = sqrt(n); compute each segment again to differentiate it."""
    chosen("chen-sqrt: points", points, POINTS)
    is_trimmed = chosen("chen-sqrt: mode", mode, MODES) == "trimmed"
    nodes = candidates(graph, points)
    if not nodes:
        return NO_BACKWARD
    return cheapest(
        graph,
        budget,
        [sqrt_checkpoints(nodes)],
        Segments(graph).kept,
        is_trimmed=is_trimmed,
        time_limit=time_limit,
    )
