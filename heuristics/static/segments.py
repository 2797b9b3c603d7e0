"""The forward pass cut into segments by checkpoints, as Chen et al. and their followers do.

Which nodes may be checkpoints, which backward nodes differentiate which segment, and what is kept
for a set of checkpoints. Nothing here chooses checkpoints.

References
----------
Jain et al., MLSys 2020, appendix B (general graphs, articulation points); Chen et al., 2016.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence

import networkx as nx

from ...static_graph import StaticGraph
from .registry import NOT_APPLICABLE, PlannerResult
from .stages import Kept, links_of, nothing_kept, span

POINTS = ("linear", "articulation")
NO_BACKWARD = PlannerResult(NOT_APPLICABLE, message="the trace has no backward pass")


def forward_nodes(graph: StaticGraph) -> list[int]:
    """Give the nodes of the forward pass, of each step where there are several.

    Where phases are not known, all before the backward pass; without one, none.
    """
    backward = graph.backward.tolist()
    if True not in backward:
        return []
    first = backward.index(True)
    return [
        node
        for node, phase in enumerate(graph.phase)
        if not backward[node] and phase != "opt" and (node < first or phase == "fwd")
    ]


def candidates(graph: StaticGraph, points: str) -> list[int]:
    """Give the nodes that may be checkpoints, ascending.

    Parameters
    ----------
    graph : StaticGraph
    points : str
        ``"linear"``: every forward node; ``"articulation"``: those without which the forward pass
        falls apart, its two ends included.
    """
    forward = forward_nodes(graph)
    if points == "linear" or len(forward) < 2:
        return forward
    links = forward_links(graph, forward)
    # With something hanging at each end, the ends are cut points too.
    links.add_edges_from([(forward[0], "before"), (forward[-1], "after")])
    return sorted(nx.articulation_points(links))


def forward_links(graph: StaticGraph, forward: Iterable[int]) -> nx.Graph:
    """Give the forward pass as an undirected graph."""
    links = nx.Graph()
    links.add_nodes_from(forward)
    for node in forward:
        producers = graph.producer[graph.reads_of(node)].tolist()
        links.add_edges_from((producer, node) for producer in producers if producer in links)
    return links


def differentiated(graph: StaticGraph, forward: Sequence[int]) -> dict[int, int]:
    """Give for each node of the backward pass the forward node that it differentiates.

    Where the backward pass mirrors the forward pass, as in the graphs of Checkmate, its mirror
    image. Elsewhere the newest forward node of which it reads something, and for one that reads
    nothing of them, that of the node before.
    """
    n, n_forward = graph.n_nodes - graph.has_outputs, len(forward)
    if n == 2 * n_forward + 1 and forward[-1] == n_forward - 1:
        pairs = {node: n - 1 - node for node in range(n_forward, n)}
        return pairs | ({n: 0} if graph.has_outputs else {})
    is_forward = set(forward)
    pairs, last = {}, forward[-1] if forward else 0
    for node, is_backward in enumerate(graph.backward.tolist()):
        if is_backward:
            producers = graph.producer[graph.reads_of(node)].tolist()
            last = max((p for p in producers if p in is_forward), default=last)
            pairs[node] = last
    return pairs


class Segments:
    """What is kept for a set of checkpoints, worked out for many sets on one graph.

    Parameters
    ----------
    graph : StaticGraph
        With a backward pass.
    """

    def __init__(self, graph: StaticGraph) -> None:
        self.graph = graph
        forward = forward_nodes(graph)
        self.is_forward = set(forward)
        self.pairs = differentiated(graph, forward)
        self.end = forward[-1] + 2  # of the last segment; the loss is of it
        self.always = nothing_kept(graph)
        outputs = set(graph.reads_of(graph.n_nodes - 1).tolist()) if graph.has_outputs else set()
        last_reader = graph.last_reader.tolist()
        for node, values in enumerate(links_of(graph).reads):
            for value in values:
                self.always[value] |= 1 << node
        for value, producer in enumerate(links_of(graph).producer):
            if producer not in self.is_forward or value in outputs:
                self.always[value] |= span(producer + 1, last_reader[value] + 1)

    def backward(self, bounds: Sequence[int]) -> list[int]:
        """Give the stages in which each of the segments between some nodes is differentiated."""
        stages = [0] * (len(bounds) + 1)
        for node, paired in self.pairs.items():
            stages[bisect.bisect_right(bounds, paired)] |= 1 << node
        return stages

    def kept(self, checkpoints: Iterable[int], held: Mapping[int, int] | None = None) -> Kept:
        """Keep checkpoints, and each segment while it is computed and differentiated.

        Gradients and outputs are kept from when they are made to where they are read last, and
        gradients of a segment while it is differentiated.

        Parameters
        ----------
        checkpoints : iterable of int
            Forward nodes, each the first of its segment.
        held : mapping of int to int, optional
            Node -> stages for which a checkpoint is held; if not given, for good.
        """
        bounds, n = sorted(checkpoints), self.graph.n_nodes
        starts, ends = [0, *bounds], [*bounds, self.end]
        gradients = self.backward(bounds)
        during = [
            stages | span(start, end + 1)
            for start, end, stages in zip(starts, ends, gradients, strict=True)
        ]
        if held is None:
            held = {node: span(node + 1, n) for node in bounds}
        kept = list(self.always)
        for node, made in enumerate(links_of(self.graph).made):
            stages = held.get(node, 0)
            if node in self.is_forward:
                stages |= during[bisect.bisect_right(bounds, node)]
            elif node in self.pairs:
                stages |= gradients[bisect.bisect_right(bounds, self.pairs[node])]
            for value in made:
                kept[value] |= stages & span(node + 1, n)
        return kept
