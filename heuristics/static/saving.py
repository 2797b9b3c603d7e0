"""Plans of training frameworks: some forward values are saved, the others made again when needed.

What is not saved goes after its last use in the forward pass, and is computed a second time, at the
latest moment, when the backward pass first needs it; then it stays until it is read last. So every
node is computed at most twice. Which values to save is for planners to decide.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ...static_graph import StaticGraph
from .segments import forward_nodes
from .stages import Kept, links_of, nothing_kept, span


class Needs(NamedTuple):
    """When what is not saved is needed again.

    Attributes
    ----------
    made_again : dict of int to int
        Node -> the stage in which it is computed a second time.
    last : dict of int to int
        Value -> the last stage that reads it then.
    """

    made_again: dict[int, int]
    last: dict[int, int]


def always_saved(graph: StaticGraph) -> set[int]:
    """Give the values that are saved in any case: outputs, and what cannot be computed again."""
    fixed = {
        value
        for value, producer in enumerate(links_of(graph).producer)
        if not graph.recomputable[producer]
    }
    return fixed | set(graph.reads_of(graph.n_nodes - 1).tolist() if graph.has_outputs else ())


def needs(graph: StaticGraph, saved: Collection[int]) -> Needs:
    """Work out when the forward values that are not saved are needed by the backward pass."""
    forward = forward_nodes(graph)
    is_forward = set(forward)
    found = Needs({}, {})
    for node in reversed(forward):
        for value in links_of(graph).made[node]:
            if value in saved:
                continue
            stages = [
                found.made_again.get(reader) if reader in is_forward else reader
                for reader in graph.readers(value).tolist()
            ]
            wanted = [stage for stage in stages if stage is not None]
            if wanted:
                found.last[value] = max(wanted)
                first = min(wanted)
                found.made_again[node] = min(first, found.made_again.get(node, first))
    return found


def kept_of_saved(graph: StaticGraph, saved: Collection[int]) -> Kept:
    """Keep the saved values up to their last use; others up to that in each of the two passes.

    Parameters
    ----------
    graph : StaticGraph
        With a backward pass.
    saved : collection of int
        Forward values; those that have to be (`always_saved`) need not be named.
    """
    saved = {*saved, *always_saved(graph)}
    again = needs(graph, saved)
    is_forward = set(forward_nodes(graph))
    kept = nothing_kept(graph)
    for value, producer in enumerate(links_of(graph).producer):
        readers = graph.readers(value).tolist()
        if producer not in is_forward or value in saved:
            # Up to its last reader, or to where that, or another, is computed again.
            stages = [again.made_again.get(reader, reader) for reader in readers]
            kept[value] |= span(producer + 1, max([producer, *stages, *readers]) + 1)
            continue
        in_forward = [reader for reader in readers if reader in is_forward]
        kept[value] |= span(producer + 1, max(in_forward, default=producer) + 1)
        if producer in again.made_again:
            made = again.made_again[producer]
            kept[value] |= span(made + 1, again.last.get(value, made) + 1)
    return kept
