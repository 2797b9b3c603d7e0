"""keep-all: compute everything once, and free each value after it is read last."""

from __future__ import annotations

from typing import Any

from ...static_graph import StaticGraph, naive_schedule
from .registry import FEASIBLE, PlannerResult, planner


@planner("keep-all", reference="what a framework does without checkpointing")
def keep_all(graph: StaticGraph, budget: int | None, **_: Any) -> PlannerResult:
    """Keep every value until it is read last: nothing is computed twice."""
    return PlannerResult(FEASIBLE, naive_schedule(graph))
