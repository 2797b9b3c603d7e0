"""Stages: what is kept from one first computation to the next, and what has to be computed for it.

Stage t ends with the first computation of node t; before that, any older node may be computed
again. A plan is decided by ``kept``: for each value a set of the stages at whose start it is there
(S of the literature), and it follows what to compute (R, `minimal_computations`). A set of stages
is an int whose bit t stands for stage t, so that one operation treats all stages at once. Which
sets are good is for planners to decide, not for this module.

References
----------
Jain et al., MLSys 2020, sections 4.2 (stages), 4.8 (when to free), 5.2 (R from S).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...static_graph import COMPUTE, FREE, Schedule, StaticGraph, free_after_last_use
from .clock import NO_LIMIT, Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kept = list[int]  # by value
Computed = list[int]  # by node
_AT_START = -1  # of a stage, in place of a node


def span(first: int, end: int) -> int:
    """Give the set of stages from ``first`` up to, not including, ``end``."""
    return (1 << end) - (1 << first) if first < end else 0


def members(stages: int) -> list[int]:
    """Give the stages of a set, ascending."""
    found = []
    while stages:
        lowest = stages & -stages
        found.append(lowest.bit_length() - 1)
        stages ^= lowest
    return found


class Links(NamedTuple):
    """A graph's arrays as lists: what each node makes, what it reads, who makes each value."""

    made: list[range]
    reads: list[list[int]]
    producer: list[int]


_links: WeakKeyDictionary[StaticGraph, Links] = WeakKeyDictionary()


def links_of(graph: StaticGraph) -> Links:
    """Give a graph's links as lists, which are quick to go through; made once."""
    if graph not in _links:
        nodes = range(graph.n_nodes)
        _links[graph] = Links(
            [graph.values(node) for node in nodes],
            [graph.reads_of(node).tolist() for node in nodes],
            graph.producer.tolist(),
        )
    return _links[graph]


def nothing_kept(graph: StaticGraph) -> Kept:
    """Keep only what cannot be computed again: from its computation to the end."""
    n_nodes, can_repeat = graph.n_nodes, graph.recomputable.tolist()
    return [0 if can_repeat[p] else span(p + 1, n_nodes) for p in graph.producer.tolist()]


def minimal_computations(graph: StaticGraph, kept: Sequence[int]) -> Computed:
    """Give the least that has to be computed, stage by stage, so that what is kept can be.

    Parameters
    ----------
    graph : StaticGraph
    kept : sequence of int
        Stages at whose start each value is there, all after that of its producer; those of a node
        that cannot be computed again without a gap from the first on.

    Returns
    -------
    list of int
        Stages in which each node is computed. No schedule that keeps the same computes less.

    Notes
    -----
    One pass from the last node to the first: O(reads) operations on sets of n stages.
    """
    made, reads, producer = links_of(graph)
    computed = [1 << node for node in range(graph.n_nodes)]
    for node in reversed(range(graph.n_nodes)):
        stages = computed[node]
        for value in made[node]:
            # Kept into the next stage, and not there at the start of this one: made in this one.
            stages |= (kept[value] >> 1) & ~kept[value]
        computed[node] = stages
        for value in reads[node]:
            computed[producer[value]] |= stages & ~kept[value]
    return computed


def trim(graph: StaticGraph, kept: Sequence[int], clock: Clock = NO_LIMIT) -> tuple[Kept, Computed]:
    """Keep only what is read before it is made again; until nothing more can go, or the time is up.

    It never costs more, nor takes more memory.
    """
    before, trimmed = None, list(kept)
    while trimmed != before:
        before = trimmed
        computed = minimal_computations(graph, before)
        if clock.is_over:
            break
        trimmed = _used(graph, before, computed)
    return before, computed


def _used(graph: StaticGraph, kept: Kept, computed: Computed) -> Kept:
    """Drop from each value's stages those in which it is made again, or not read from there on."""
    _, reads, producer = links_of(graph)
    read = [0] * graph.n_values
    for node, values in enumerate(reads):
        for value in values:
            read[value] |= computed[node]
    found = []
    for value, stages in enumerate(kept):
        passing = stages & ~computed[producer[value]]
        used, step = passing & read[value], 1
        passing &= (1 << used.bit_length()) - 1
        # Down from each use as far as it is kept: steps of 1, 2, 4, ... stages.
        while passing:
            used |= passing & (used >> step)
            passing &= passing >> step
            step *= 2
        found.append(used)
    return found


def cost_of(graph: StaticGraph, computed: Sequence[int]) -> int:
    """Add up what the computations cost."""
    cost = graph.cost.tolist()
    return sum(c * stages.bit_count() for c, stages in zip(cost, computed, strict=True))


def count_of(computed: Sequence[int]) -> int:
    """Count the computations."""
    return sum(stages.bit_count() for stages in computed)


def by_stage(computed: Sequence[int]) -> list[list[int]]:
    """Give the nodes computed in each stage, ascending."""
    nodes: list[list[int]] = [[] for _ in computed]
    for node, stages in enumerate(computed):
        for stage in members(stages):
            nodes[stage].append(node)
    return nodes


def order_of(computed: Sequence[int]) -> NDArray[np.int32]:
    """Give the nodes computed, stage by stage."""
    n_bytes = -(-len(computed) // 8)
    stages = [
        np.flatnonzero(
            np.unpackbits(
                np.frombuffer(bits.to_bytes(n_bytes, "little"), np.uint8), bitorder="little"
            )
        )
        for bits in computed
    ]
    nodes = np.repeat(np.arange(len(computed), dtype=np.int32), [len(found) for found in stages])
    stage = np.concatenate([np.zeros(0, np.int64), *stages])
    return nodes[np.argsort(stage, kind="stable")]


def tight_schedule(graph: StaticGraph, computed: Sequence[int]) -> Schedule:
    """Compute stage by stage; free each value as soon as it is not read before it is made again."""
    return free_after_last_use(graph, order_of(computed))


def stage_schedule(
    graph: StaticGraph, kept: Sequence[int], computed: Sequence[int] | None = None
) -> Schedule:
    """Compute stage by stage, and keep what is kept, whether it is read again or not.

    What is not kept into the next stage is freed after it is read last in this one: where it is not
    read, when it has been made, or else at the start.
    """
    if computed is None:
        computed = minimal_computations(graph, kept)
    nodes = by_stage(computed)
    leaving: list[dict[int, list[int]]] = [{} for _ in nodes]  # by stage: after which node
    for value, stages in enumerate(kept):
        producer = int(graph.producer[value])
        left = (stages | computed[producer]) & ~(stages >> 1)
        for node in (*reversed(graph.readers(value).tolist()), producer):
            for stage in members(left & computed[node]):
                leaving[stage].setdefault(node, []).append(value)
            left &= ~computed[node]
        for stage in members(left):
            leaving[stage].setdefault(_AT_START, []).append(value)
    actions: list[tuple[int, int]] = []
    for stage, ran in enumerate(nodes):
        freed = leaving[stage]
        if graph.has_outputs and stage == graph.n_nodes - 1:
            freed.pop(stage, None)  # what its last node reads stays
        actions.extend((FREE, value) for value in freed.get(_AT_START, ()))
        for node in ran:
            actions.append((COMPUTE, node))
            actions.extend((FREE, value) for value in freed.get(node, ()))
    return Schedule.of(actions)


def schedule_of(
    graph: StaticGraph,
    kept: Sequence[int],
    *,
    is_trimmed: bool = True,
    clock: Clock = NO_LIMIT,
) -> Schedule:
    """Turn what is kept into a schedule.

    Parameters
    ----------
    graph : StaticGraph
    kept : sequence of int
        As for `minimal_computations`.
    is_trimmed : bool
        Whether to keep only what is read again; else all that ``kept`` says is kept, as published
        recipes do.
    clock : Clock
        Until when to trim.
    """
    if is_trimmed:
        return tight_schedule(graph, trim(graph, kept, clock)[1])
    return stage_schedule(graph, kept)


def checkpointed(graph: StaticGraph, nodes: Iterable[int]) -> Kept:
    """Keep the values of some nodes, and all that cannot be computed again, for good."""
    kept = nothing_kept(graph)
    for node in nodes:
        for value in graph.values(int(node)):
            kept[value] = span(int(node) + 1, graph.n_nodes)
    return kept


def made_bytes(graph: StaticGraph) -> list[int]:
    """Add up what each node makes."""
    before = np.concatenate([[0], np.cumsum(graph.size)]).astype(np.int64)
    pointer = graph.value_pointer
    made: list[int] = (before[pointer[1:]] - before[pointer[:-1]]).tolist()
    return made


def read_again(graph: StaticGraph, order: Sequence[int]) -> list[int]:
    """Leave out the repeats whose values nothing reads before they are made again."""
    seen: set[int] = set()
    is_first = [node not in seen and not seen.add(node) for node in order]  # type: ignore[func-returns-value]
    wanted = [False] * graph.n_values
    kept = []
    for node, is_new in zip(reversed(order), reversed(is_first), strict=True):
        values = graph.values(node)
        if not is_new and not any(wanted[value] for value in values):
            continue
        for value in values:
            wanted[value] = False
        for value in graph.reads_of(node).tolist():
            wanted[value] = True
        kept.append(node)
    return kept[::-1]
