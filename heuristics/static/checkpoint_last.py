"""checkpoint-last: keep only what was computed last, and compute all else again."""

from __future__ import annotations

from typing import Any

from ...static_graph import StaticGraph
from .clock import Clock
from .registry import PlannerResult, planner
from .stages import nothing_kept
from .sweeping import cheapest


@planner("checkpoint-last", reference="Jain et al., MLSys 2020, appendix B")
def checkpoint_last(
    graph: StaticGraph, budget: int | None, *, time_limit: float | None = None, **_: Any
) -> PlannerResult:
    """Keep only the newest node's values: little memory, and computations by the square."""

    def kept(_: None) -> list[int]:
        found = nothing_kept(graph)
        for value, producer in enumerate(graph.producer.tolist()):
            if producer + 1 < graph.n_nodes:
                found[value] |= 1 << producer + 1
        return found

    return cheapest(graph, budget, [None], kept, clock=Clock(time_limit))
