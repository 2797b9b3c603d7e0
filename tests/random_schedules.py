"""Random schedules on a static graph, legal by construction, and a plain judge of schedules.

They drop at random what can be made again, and make it again when it is needed: nothing that a
planner would do, and every rule in a few hundred actions.
"""

from __future__ import annotations

import random

from rematsim.static_graph import COMPUTE, FREE, Schedule, StaticGraph


def random_schedule(graph: StaticGraph, seed: int, drops: float = 0.3) -> Schedule:
    """Make the random schedule of a seed."""
    author = _Author(graph, random.Random(seed), drops)
    for node in range(graph.n_nodes):
        author.compute(node)
        author.drop()
    return Schedule.of(author.actions)


class _Author:
    def __init__(self, graph: StaticGraph, chance: random.Random, drops: float) -> None:
        self.graph, self.chance, self.drops = graph, chance, drops
        self.resident: set[int] = set()
        self.actions: list[tuple[int, int]] = []

    def compute(self, node: int) -> None:
        """Compute a node, first what it needs and is not there."""
        held = set(self.graph.reads_of(node).tolist())
        stack = [(node, held)]
        while stack:
            current, _ = stack[-1]
            missing = [v for v in self.graph.reads_of(current).tolist() if v not in self.resident]
            if missing:
                maker = int(self.graph.producer[self.chance.choice(missing)])
                stack.append((maker, set(self.graph.reads_of(maker).tolist())))
                continue
            self.actions.append((COMPUTE, current))
            self.resident.update(self.graph.values(current))
            stack.pop()
            self.drop({v for _, values in stack for v in values})

    def drop(self, held: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        """Free some values that can be made again, but none that a node under way reads."""
        for value in sorted(self.resident - held):
            node = int(self.graph.producer[value])
            if self.graph.recomputable[node] and self.chance.random() < self.drops:
                self.resident.discard(value)
                self.actions.append((FREE, value))


def judge(graph: StaticGraph, schedule: Schedule) -> tuple[int, int]:
    """Give cost and peak by the rules, in sets and sums; an AssertionError says which is broken."""
    resident: set[int] = set()
    done: list[int] = []
    cost, peak = 0, graph.fixed_bytes

    def taken(values: list[int]) -> int:
        return sum(int(graph.size[v]) for v in values)

    for action, target in zip(schedule.action.tolist(), schedule.target.tolist(), strict=True):
        if action == FREE:
            assert target in resident, "not there"
            resident.remove(target)
            continue
        assert target in done or target == len(set(done)), "out of order"
        assert target not in done or graph.recomputable[target], "only once"
        assert resident.issuperset(graph.reads_of(target).tolist()), "not resident"
        done.append(target)
        made = list(graph.values(target))
        cost += int(graph.cost[target])
        now = graph.fixed_bytes + taken([*resident, *made]) + int(graph.workspace[target])
        peak = max(peak, now)
        resident.update(made)
    assert len(set(done)) == graph.n_nodes, "too short"
    return cost, peak
