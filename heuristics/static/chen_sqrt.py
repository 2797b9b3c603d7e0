"""chen-sqrt: checkpoints that cut the forward pass into segments of about sqrt(n) nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...static_graph import StaticGraph
from .clock import Clock
from .registry import PlannerResult, planner
from .sweeping import CHECKPOINT_RULES, Checkpoints, kept_for_good


def sqrt_checkpoints(nodes: Sequence[int]) -> tuple[int, ...]:
    """Take every k-th of some nodes, with k the root of their number, rounded down."""
    every = math.isqrt(len(nodes))
    return tuple(nodes[every - 1 :: every]) if every else ()


@planner(
    "chen-sqrt",
    reference="Chen et al., 2016; on graphs Jain et al., MLSys 2020, appendix B",
    allowed=CHECKPOINT_RULES,
)
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
    return Checkpoints(points, mode).cheapest(
        graph,
        budget,
        lambda nodes: [sqrt_checkpoints(nodes)],
        kept_for_good,
        Clock(time_limit),
    )
