"""Cost and peak of a schedule that moves values between device and host, as predicted.

As `schedules.evaluate` for all other schedules; but folded views take their time where the plan of
the schedule makes them, so that what is under way then is what the execution has.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple, NoReturn

from .errors import PlanError
from .lanes import Copy, Lanes
from .links import Link
from .made_views import with_views
from .plan import OFFLOAD, PREFETCH
from .schedules import COMPUTE, FREE, Evaluation, Schedule
from .static_graph import StaticGraph


class _Value(NamedTuple):
    number: int
    size: int


def moves_values(schedule: Schedule) -> bool:
    """Say whether a schedule has transfers."""
    return bool((schedule.action > FREE).any())


def evaluate_moves(
    graph: StaticGraph, schedule: Schedule, link: Link, budget: int | None
) -> Evaluation:
    """Follow a schedule with its transfers; give its cost, waiting included, and its peak.

    Parameters
    ----------
    graph : StaticGraph
    schedule : Schedule
    link : Link
    budget : int or None
        Bytes: what has no room waits.

    Returns
    -------
    Evaluation
        The cost is in ns, waiting included; copies after the last call take none of it.

    Raises
    ------
    PlanError
        At the first action that cannot be, or that waits for ever.
    """
    following = follow_moves(graph, schedule, link, budget)
    return Evaluation(following.clock - 1, following.lanes.peak)


def follow_moves(
    graph: StaticGraph, schedule: Schedule, link: Link, budget: int | None
) -> Following:
    """Follow a schedule with its transfers to the end; give what happened when.

    As `evaluate_moves`.
    """
    following = Following(graph, link, inf if budget is None else budget)
    for action, target in with_views(graph, schedule):
        following.do(action, target)
    following.lanes.reach(inf)
    if any(following.lanes.queues.values()):
        following.fail("a transfer never ends")
    return following


class Following:
    """A schedule on its way.

    Attributes
    ----------
    begun : list of int
        When each computation has begun, in ns.
    copies : list of Copy
        All that were issued; their times are clock readings, a nanosecond more.
    """

    def __init__(self, graph: StaticGraph, link: Link, budget: float) -> None:
        self.graph = graph
        self.lanes = Lanes(link, budget)
        self.lanes.take(graph.fixed_bytes)
        self.clock = 1
        self.place = -1
        self.begun: list[int] = []
        self.copies: list[Copy] = []
        self.here: set[int] = set()
        self.arrival: dict[int, Copy] = {}
        self.on_host: dict[int, Copy] = {}
        self.size: list[int] = graph.size.tolist()
        self.cost: list[int] = graph.own_cost.tolist()
        self.view_cost: list[int] = graph.view_cost.tolist()
        self.workspace: list[int] = graph.workspace.tolist()

    def do(self, action: int, target: int) -> None:
        """Follow the next action."""
        self.place += 1
        self.lanes.reach(self.clock)
        if action == COMPUTE and target < self.graph.n_nodes:
            self._compute(target)
        elif action == COMPUTE:
            self._make_view(target - self.graph.n_nodes)
        elif action == FREE:
            self._wait_for(target)
            self.lanes.memory -= self.size[target]
            self._leave(target)
        elif action == OFFLOAD:
            copy = Copy(self._value(target), True, self.place, self.arrival.get(target))
            self._issue(copy)
            self.on_host[target] = copy
            self._leave(target)
        elif action == PREFETCH:
            if target not in self.on_host or target in self.here:
                self.fail(f"value {target} is not on the host alone")
            copy = Copy(self._value(target), False, self.place, self.on_host[target])
            self.arrival[target] = copy
            self._issue(copy)
            self.here.add(target)
        else:
            self._discard(target)
        self.lanes.settle()

    def _issue(self, copy: Copy) -> None:
        self.copies.append(copy)
        self.lanes.queues[copy.is_out].append(copy)

    def fail(self, rule: str) -> NoReturn:
        """Refuse the action."""
        raise PlanError(f"schedule, action {self.place}: {rule}")

    def _value(self, number: int) -> _Value:
        return _Value(number, self.size[number])

    def _leave(self, value: int) -> None:
        if value not in self.here:
            self.fail(f"value {value} is not in memory")
        self.here.discard(value)
        self.arrival.pop(value, None)

    def _wait_for(self, value: int) -> None:
        if value not in self.here:
            self.fail(f"value {value} is not in memory")
        copy = self.arrival.get(value)
        if copy is not None and not self.lanes.comes(copy):
            self.fail(f"it waits for value {value} for ever")
        self.clock = max(self.clock, self.lanes.now)

    def _compute(self, node: int) -> None:
        graph, lanes = self.graph, self.lanes
        for value in graph.own_reads[node]:
            self._wait_for(value)
        made = list(graph.values(node))
        total = sum(self.size[value] for value in made)
        if not lanes.makes_room(total + self.workspace[node]):
            self.fail(f"node {node} waits for room for ever")
        self.clock = max(self.clock, lanes.now)
        self.begun.append(self.clock - 1)
        self.clock += self.cost[node]
        lanes.passing = self.workspace[node]
        lanes.take(total)
        for value in made:
            if value in self.here or value in self.on_host:
                lanes.memory -= self.size[value]
                lanes.passing += self.size[value]
            else:
                self.here.add(value)

    def _make_view(self, view: int) -> None:
        for value in self.graph.view_reads[view]:
            self._wait_for(value)
        self.clock += self.view_cost[view]

    def _discard(self, value: int) -> None:
        if value not in self.on_host:
            self.fail(f"value {value} is not on the host")
        brought = self.on_host.pop(value)
        self.lanes.discard(self._value(value), self.place, brought, self.arrival.get(value))
