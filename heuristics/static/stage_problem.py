"""What exact solvers are given: the static graph as plain lists, less what cannot matter.

A schedule that costs at most ``most_extra`` above running everything once computes no dearer node
again, and a node is computed again only while somebody may still read what it makes. Both cut the
stages in which a node can run, without losing a schedule that is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...static_graph import StaticGraph


@dataclass(frozen=True)
class StageProblem:
    """The graph as lists, with the stages in which each node may run.

    Attributes
    ----------
    cost, size, workspace, producer : list of int
        As those of StaticGraph, divided by what costs, or bytes, have in common.
    makes, reads, readers : list of list of int
        Values of a node; values that a node reads; nodes that read a value.
    capacity : int
        What is left for values and workspace.
    stages : sequence of sequence of int
        In which each node may run, ascending, its own first.
    most_extra : int or None
        What recomputation may cost at most; None for any.
    cost_unit : int
        By what costs are divided.
    """

    cost: list[int]
    size: list[int]
    workspace: list[int]
    producer: list[int]
    makes: list[list[int]]
    reads: list[list[int]]
    readers: list[list[int]]
    capacity: int
    stages: Sequence[Sequence[int]]
    most_extra: int | None
    cost_unit: int

    @property
    def n_nodes(self) -> int:
        """Nodes, and stages."""
        return len(self.cost)

    def most_runs(self, node: int) -> int:
        """How often a node may run: as often as stages and what recomputation may cost allow."""
        return self.most_runs_of(node, len(self.stages[node]))

    def most_runs_of(self, node: int, most: int) -> int:
        """How often a node may run at most ``most`` times, several in a stage, as costs allow."""
        if len(self.stages[node]) == 1:
            return 1
        if self.most_extra is not None and self.cost[node]:
            most = min(most, 1 + self.most_extra // self.cost[node])
        return most

    def without(self, runs: Collection[tuple[int, int]]) -> StageProblem:
        """Give the problem without some runs, by stage and node."""
        stages = [[s for s in at if (s, node) not in runs] for node, at in enumerate(self.stages)]
        return replace(self, stages=stages)

    def at_first_reads(self) -> StageProblem:
        """Give the problem with runs only where a first computation reads what they make.

        That excludes good schedules, and leaves about as many runs as there are reads.
        """
        stages = []
        for node, at in enumerate(self.stages):
            first_reads = {reader for value in self.makes[node] for reader in self.readers[value]}
            stages.append([stage for stage in at if stage == node or stage in first_reads])
        return replace(self, stages=stages)


def stage_problem(graph: StaticGraph, budget: int, most_cost: int | None) -> StageProblem:
    """Make the problem of a graph within a budget, of schedules that cost at most so much."""
    byte_unit = math.gcd(*graph.size.tolist(), *graph.workspace.tolist()) or 1
    cost_unit = math.gcd(*graph.cost.tolist()) or 1
    most_extra = None if most_cost is None else (most_cost - graph.base_cost) // cost_unit
    nodes = range(graph.n_nodes)
    cost = [c // cost_unit for c in graph.cost.tolist()]
    makes = [list(graph.values(node)) for node in nodes]
    readers = [graph.readers(value).tolist() for value in range(graph.n_values)]
    can_run_again = [
        bool(again) and bool(made) and (most_extra is None or c <= most_extra)
        for again, made, c in zip(graph.recomputable.tolist(), makes, cost, strict=True)
    ]
    last_stage = list(nodes)
    for node in reversed(nodes):
        if can_run_again[node]:
            used = [last_stage[reader] for value in makes[node] for reader in readers[value]]
            last_stage[node] = max(used, default=node)
    return StageProblem(
        cost=cost,
        size=[s // byte_unit for s in graph.size.tolist()],
        workspace=[w // byte_unit for w in graph.workspace.tolist()],
        producer=graph.producer.tolist(),
        makes=makes,
        reads=[graph.reads_of(node).tolist() for node in nodes],
        readers=readers,
        capacity=(budget - graph.fixed_bytes) // byte_unit,
        stages=[range(node, last + 1) for node, last in enumerate(last_stage)],
        most_extra=most_extra,
        cost_unit=cost_unit,
    )
