"""min-cut: save the fewest bytes between the passes, and compute nothing heavy again.

As PyTorch's partitioner of compiled training does, without its weights for fusion: forward results
are saved where a cut between what must not run again and what the backward pass reads is cheapest.
"""

from __future__ import annotations

import re
from typing import Any

import networkx as nx

from ...static_graph import StaticGraph
from .clock import Clock
from .registry import PlannerResult, planner
from .saving import always_saved, kept_of_saved
from .segments import NO_BACKWARD, forward_nodes
from .stages import links_of
from .sweeping import cheapest

# Operators whose work is too much to do twice, or that draw random numbers.
HEAVY = re.compile(
    r"(^|_)(mm|bmm|addmm|addbmm|baddbmm|addmv|mv|einsum|matmul|linear)($|_)|conv|attention|lstm|gru"
    r"|rand|dropout|bernoulli|normal_|uniform_"
)


def saved_values(graph: StaticGraph, heavy: re.Pattern[str] = HEAVY) -> set[int]:
    """Give the forward values that the cheapest cut saves.

    Parameters
    ----------
    graph : StaticGraph
        With a backward pass.
    heavy : re.Pattern
        Operators that must not run again.
    """
    made, reads, _ = links_of(graph)
    forward = forward_nodes(graph)
    is_forward, fixed = set(forward), always_saved(graph)
    net = nx.DiGraph()
    net.add_nodes_from(["source", "sink"])
    for node in forward:
        if heavy.search(graph.operator[node]) or not graph.recomputable[node]:
            net.add_edge("source", ("run", node))  # no capacity: infinite
        for value in made[node]:
            # What is saved in any case costs nothing to save.
            size = 0 if value in fixed else int(graph.size[value])
            net.add_edge(("run", node), ("made", value))
            net.add_edge(("made", value), ("read", value), capacity=size)
            if any(reader not in is_forward for reader in graph.readers(value).tolist()):
                net.add_edge(("read", value), "sink")
        for value in reads[node]:
            net.add_edge(("read", value), ("run", node))
    if not net.in_degree("sink") or not net.out_degree("source"):
        return set()
    _, (reached, _) = nx.minimum_cut(net, "source", "sink")
    return {
        value
        for node in forward
        for value in made[node]
        if ("made", value) in reached and ("read", value) not in reached
    }


@planner("min-cut", reference="PyTorch, torch/_functorch/partitioners.py, min-cut")
def min_cut(
    graph: StaticGraph, budget: int | None, *, time_limit: float | None = None, **_: Any
) -> PlannerResult:
    """Save the fewest bytes for the backward pass without running a heavy operator twice."""
    clock = Clock(time_limit)
    if not forward_nodes(graph):
        return NO_BACKWARD
    saved = saved_values(graph)
    return cheapest(graph, budget, [None], lambda _: kept_of_saved(graph, saved), clock=clock)
