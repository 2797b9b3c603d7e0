"""A large graph as a small one: runs of nodes become one node each, for solvers that need few.

What a solver finds there is an order of groups, and values that are away for a while; `orders`
makes it an order of the nodes themselves. What is proven of the small graph bounds no schedule of
the large one: there values of a group stay and go together, and a group runs as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...static_graph import StaticGraph, no_views
from .stages import links_of, made_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]


class Coarse:
    """A graph, and a smaller one of groups of its nodes.

    Parameters
    ----------
    graph : StaticGraph
    most : int
        How many groups there may be; two more for the ends of the passes. A graph of no more nodes
        stays as it is.

    Attributes
    ----------
    small : StaticGraph
        The groups as nodes. All that a group makes and the same later groups read is one value.
    is_same : bool
        Whether that is the graph itself.
    starts : list of int
        The first node of each group.
    parts : list of list of int
        The values of the graph that each value of the small one stands for.
    """

    def __init__(self, graph: StaticGraph, most: int) -> None:
        self.graph = graph
        self.is_same = graph.n_nodes <= most
        if self.is_same:
            self.small, self.starts = graph, list(range(graph.n_nodes))
            self.parts = [[value] for value in range(graph.n_values)]
            return
        self.starts = _starts(graph, most)
        nodes = np.arange(graph.n_nodes)
        self._group = np.searchsorted(self.starts, nodes, side="right") - 1
        self._readers = [
            tuple(sorted({int(self._group[reader]) for reader in graph.readers(value).tolist()}))
            for value in range(graph.n_values)
        ]
        self.parts = list(self._merged())
        self.small = self._small()

    def _merged(self) -> Iterator[list[int]]:
        """Give the values that later groups read, those together that the same groups read."""
        together: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for value, producer in enumerate(self.graph.producer.tolist()):
            group = int(self._group[producer])
            later = tuple(reader for reader in self._readers[value] if reader > group)
            if later:
                together.setdefault((group, later), []).append(value)
        yield from (together[key] for key in sorted(together))

    def _small(self) -> StaticGraph:
        graph, count = self.graph, len(self.starts)
        first = [values[0] for values in self.parts]
        producer = self._group[graph.producer[first]].astype(np.int32)
        size = np.array([int(graph.size[values].sum()) for values in self.parts], np.int64)
        reads: list[list[int]] = [[] for _ in range(count)]
        for number, value in enumerate(first):
            for group in self._readers[value]:
                if group > producer[number]:
                    reads[group].append(number)
        made = np.bincount(producer, size, count).astype(np.int64)
        workspace = [need - int(own) for need, own in zip(self._needs(), made, strict=True)]
        return StaticGraph(
            cost=np.add.reduceat(graph.cost, self.starts),
            size=size,
            producer=producer,
            value_pointer=_pointer(np.bincount(producer, minlength=count)),
            read_pointer=_pointer(np.array([len(read) for read in reads])),
            reads=np.array([value for read in reads for value in read], np.int32),
            own_reads=tuple(tuple(read) for read in reads),
            workspace=np.array(workspace, np.int64),
            recomputable=np.array(
                [bool(graph.recomputable[self._again(*ends)].all()) for ends in self._ends()]
            ),
            backward=graph.backward[self.starts],
            phase=("",) * count,
            module=("",) * count,
            operator=("",) * count,
            fixed_bytes=graph.fixed_bytes,
            base_cost=graph.base_cost,
            call=graph.call[self.starts],
            storage=graph.storage[first],
            is_mark=np.zeros(count, np.bool_),
            **no_views(count),
            name=graph.name,
        )

    def _ends(self) -> Iterator[tuple[int, int]]:
        """Give the first node of each group, and of the one after it."""
        return zip(self.starts, [*self.starts[1:], self.graph.n_nodes], strict=True)

    def _needs(self) -> Iterator[int]:
        """Give what each group needs beside what it reads, all that it makes among it."""
        graph = self.graph
        kept = {value for values in self.parts for value in values}
        made = made_bytes(graph)
        for start, end in self._ends():
            used = most = 0
            gone: dict[int, int] = {}  # bytes that go after each node
            for value in range(*graph.value_pointer[[start, end]].tolist()):
                if value not in kept:
                    last = int(graph.last_reader[value])
                    gone[last] = gone.get(last, 0) + int(graph.size[value])
            for node in range(start, end):
                used += made[node]
                most = max(most, used + int(graph.workspace[node]))
                used -= gone.get(node, 0)
            yield most

    def orders(self, groups: Sequence[int]) -> tuple[list[int], list[int]]:
        """Give the nodes of groups one after another, and where each group begins.

        The first time all of a group runs, later what its values need.
        """
        if self.is_same:
            return list(groups), list(range(len(groups)))
        order: list[int] = []
        places: list[int] = []
        done: set[int] = set()
        ends = list(self._ends())
        for group in groups:
            places.append(len(order))
            order += self._again(*ends[group]) if group in done else range(*ends[group])
            done.add(group)
        return order, places

    def _again(self, start: int, end: int) -> list[int]:
        """Give the nodes of a group whose values later groups may read, and what these need."""
        made, reads, producer = links_of(self.graph)
        wanted: set[int] = set()
        for node in range(end - 1, start - 1, -1):
            is_read = any(self._readers[v] and self._readers[v][-1] >= self._group[node] + 1
                          for v in made[node])  # fmt: skip
            if is_read or node in wanted:
                wanted.add(node)
                wanted.update(producer[v] for v in reads[node] if producer[v] >= start)
        return sorted(wanted)


def _pointer(counts: Int64) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _starts(graph: StaticGraph, most: int) -> list[int]:
    """Cut into runs of about as many nodes and bytes, where few bytes go from one to the next."""
    n = graph.n_nodes
    first = int(graph.backward.argmax()) if graph.backward.any() else n
    crossing = _crossing(graph, first)
    starts = {0, first, n - 1} - {n}
    weight = 1 / n + np.array(made_bytes(graph)) / max(int(graph.size.sum()), 1)
    edges = np.searchsorted(np.cumsum(weight), np.linspace(0, weight.sum(), most + 1)).tolist()
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        if max(low, 1) < high:
            starts.add(max(low, 1) + int(crossing[max(low, 1) : high].argmin()))
    return sorted(starts)


def _crossing(graph: StaticGraph, first: int) -> Int64:
    """Give the bytes that are read next in the same pass, from before each node to after it."""
    change = np.zeros(graph.n_nodes + 1, np.int64)
    for value, producer in enumerate(graph.producer.tolist()):
        readers = graph.readers(value)
        if producer < first:
            readers = readers[readers < first]
        if len(readers):
            change[producer + 1] += graph.size[value]
            change[int(readers[-1]) + 1] -= graph.size[value]
    return np.cumsum(change)[: graph.n_nodes]
