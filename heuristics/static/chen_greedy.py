"""chen-greedy: a checkpoint whenever the forward pass has made so many bytes since the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...static_graph import StaticGraph, evaluate, naive_peak_bytes
from .chen_sqrt import sqrt_checkpoints
from .clock import Clock
from .registry import PlannerResult, planner
from .segments import (
    Segments,
    forward_nodes,
)
from .stages import made_bytes, schedule_of
from .sweeping import CHECKPOINT_RULES, Checkpoints, kept_for_good

STEPS = 300  # segment sizes tried, as published: hundredths of what the sqrt(n) plan takes;
MOST_NODES = 2000  # of a graph on which the sqrt(n) plan is written for that
FINER_STEPS = 200  # and between them ones in equal ratios, down to a 10,000th of the largest


def greedy_checkpoints(
    graph: StaticGraph, nodes: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Take one of some nodes whenever more than so many bytes have been made since the last.

    Gives the nodes taken for each of the sizes.
    """
    made, allowed = made_bytes(graph), set(nodes)
    forward = [(node, made[node], node in allowed) for node in forward_nodes(graph)]
    for segment_bytes in sizes:
        found, since = [], 0
        for node, made_here, is_allowed in forward:
            since += made_here
            if since > segment_bytes and is_allowed:
                found.append(node)
                since = 0
        yield tuple(found)


def segment_sizes(graph: StaticGraph, nodes: Sequence[int]) -> list[int]:
    """Give the sizes that are tried: up to three times what the sqrt(n) plan as published takes.

    On large graphs, where that plan is long to write, up to what the naive one takes.
    """
    if graph.n_nodes > MOST_NODES:
        peak = (naive_peak_bytes(graph) - graph.fixed_bytes) // 3
    else:
        peak = _peak_as_published(graph, nodes)
    equal_steps = peak * np.arange(STEPS) // 100
    equal_ratios = np.geomspace(1e-4, 1, FINER_STEPS) * equal_steps[-1]
    return [int(size) for size in np.concatenate([equal_steps, equal_ratios])]


def _peak_as_published(graph: StaticGraph, nodes: Sequence[int]) -> int:
    plan = schedule_of(graph, Segments(graph).kept(sqrt_checkpoints(nodes)), is_trimmed=False)
    return evaluate(graph, plan).peak_bytes - graph.fixed_bytes


@planner(
    "chen-greedy",
    reference="Chen et al., 2016, algorithm 3; Jain et al., 2020, appendix B",
    allowed=CHECKPOINT_RULES,
)
def chen_greedy(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    points: str = "linear",
    mode: str = "trimmed",
    **_: Any,
) -> PlannerResult:
    """Cut the forward pass into segments of equal bytes; of 500 sizes, the cheapest that fits."""
    return Checkpoints(points, mode).cheapest(
        graph,
        budget,
        lambda nodes: greedy_checkpoints(graph, nodes, segment_sizes(graph, nodes)),
        kept_for_good,
        Clock(time_limit),
    )
