"""checkpoint-all: every forward node, or every articulation point, is a checkpoint."""

from __future__ import annotations

from typing import Any

from ...static_graph import StaticGraph
from .clock import Clock
from .registry import PlannerResult, planner
from .sweeping import CHECKPOINT_RULES, Checkpoints, kept_for_good


@planner(
    "checkpoint-all",
    reference="Jain et al., MLSys 2020, appendix B",
    allowed=CHECKPOINT_RULES,
)
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
    return Checkpoints(points, mode).cheapest(
        graph,
        budget,
        lambda nodes: [tuple(nodes)],
        kept_for_good,
        Clock(time_limit),
    )
