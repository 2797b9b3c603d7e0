"""capuchin: swap what a measured iteration can hide, recompute the rest, most bytes a second first.

The trace is the measured iteration. A value may go to the host between its two uses that lie
farthest apart; free time is what is left of that when it has gone and come back. Values with most
free time go first, as long as the copies of all of them, one after another each way, are hidden by
compute. What is too much then is computed again, by memory saved per second (MSPS), where what has
been dropped before has to be made again too. Half as many swaps are tried as well, and none, since
room may come too late where time is enough; and if nothing fits, all that can be away goes.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from ...links import NO_WAY, Link, can_move
from ...static_graph import Schedule, StaticGraph, naive_peak_bytes, naive_schedule
from .baselines import best_of, simple_plans
from .clock import Clock
from .registry import FEASIBLE, PlannerResult, planner
from .saving import Needs, always_saved, kept_of_saved, needs
from .segments import forward_nodes
from .stages import links_of, schedule_of
from .sweeping import first_that_fits
from .transfer_gaps import Found, Gap, Moving

SHARES = (1.0, 0.5, 0.0)  # of the values to swap that are hidden
ENOUGH = 3  # numbers of values that are computed again, from the fewest on


@planner("capuchin", reference="Peng et al., ASPLOS 2020, with times of the trace as measured")
def capuchin(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    **_: Any,
) -> PlannerResult:
    """Swap while copies are hidden, and compute again what saves most memory per second."""
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit)
    simple = simple_plans(graph, budget, link, clock)
    found = [*capuchin_plans(graph, budget, link, clock), *simple.found]
    message = "with all computed again that can be, and all away, it is over the budget"
    return best_of(found, clock, message, simple.late)


def capuchin_plans(
    graph: StaticGraph, budget: int, link: Link | None, clock: Clock
) -> Iterator[Found]:
    """Give its own plans, without those of the simple planners."""
    if not clock.is_over:
        yield from _Plans(graph, budget, link if can_move(link) else None, clock).found()


class _Plans:
    """What is swapped and what is computed again, for more and more of the latter."""

    def __init__(self, graph: StaticGraph, budget: int, link: Link | None, clock: Clock) -> None:
        self.graph, self.budget, self.link, self.clock = graph, budget, link, clock
        self.moving = Moving(graph, naive_schedule(graph), budget, link or NO_WAY)
        self.hidden = self.moving.hidden(clock) if link is not None else []

    def _wanted(self, swapped: Collection[Gap]) -> set[int]:
        """Give the values without which memory would lack less where it does."""
        left = self.moving.occupied_without(swapped)
        crowded = self.moving.crowded_before(left).tolist()
        return {
            value
            for value, uses in self.moving.lives
            if any(crowded[b] > crowded[a + 1] for a, b in pairwise(uses) if b > a)
        }

    def found(self) -> list[Found]:
        """Give schedules within the budget: the first that are hidden swapped, then all."""
        some: list[Found] = []
        for share in SHARES if self.hidden else (0.0,):
            some += self._found(self.hidden[: round(share * len(self.hidden))])
        if not some and self.link is not None:
            some += self._found(self.moving.on_host(self.moving.gaps))
        return some

    def _found(self, swapped: list[Gap]) -> Iterator[Found]:
        """Swap some values, and compute as few again as fits, or some more."""
        away = {gap.value for gap in swapped}
        drops = _Drops(self.graph, self._wanted(swapped), away)
        count = len(drops.order) + 1
        tries: dict[int, tuple[Moving, list[Gap]]] = {}

        def fits(dropped: int) -> bool:
            if dropped not in tries:
                tries[dropped] = self._tried(drops, dropped, away)
            return tries[dropped][0].fits(tries[dropped][1])

        low = first_that_fits(count, fits, self.clock)
        for dropped in range(low, min(low + ENOUGH, count)):
            if self.clock.is_over or not fits(dropped):
                continue
            moving, gaps = tries[dropped]
            choices = [gaps, moving.fewest(gaps)] if gaps else [gaps]
            yield from moving.found(choices, self.clock)

    def _tried(
        self, drops: _Drops, dropped: int, away: Collection[int]
    ) -> tuple[Moving, list[Gap]]:
        """Give the schedule in which the first so many are computed again, and what is away."""
        schedule = drops.schedule(dropped) if dropped else naive_schedule(self.graph)
        moving = Moving(self.graph, schedule, self.budget, self.moving.link)
        return moving, moving.on_host(gap for gap in moving.gaps if gap.value in away)


class _Drops:
    """The forward values that may be computed again, in the order of memory saved per second.

    Parameters
    ----------
    graph : StaticGraph
    wanted, away : collection of int
        Values whose memory is wanted; and those that are on the host then.
    """

    def __init__(self, graph: StaticGraph, wanted: Collection[int], away: Collection[int]) -> None:
        self.graph = graph
        self.saved: set[int] = always_saved(graph)
        again: Needs = needs(graph, self.saved) if forward_nodes(graph) else Needs({}, {})
        self.saved |= again.last.keys()
        self.order: list[int] = []
        here = {value for value in self.saved if value not in away}
        may_go = [value for value in again.last if value in wanted and value in here]
        self._choose(may_go, again)

    def _choose(self, values: Collection[int], again: Needs) -> None:
        """Put values in order, each by what it saves and costs when those before have gone.

        What a value costs only grows with what has gone; so the best by older figures is the best,
        if it still is so by its new one.
        """
        gone: set[int] = set()
        size = self.graph.size.tolist()
        heap = [(-size[v] / max(self._time(v, gone, again), 1), v) for v in values if size[v]]
        heapq.heapify(heap)
        while heap:
            _, value = heapq.heappop(heap)
            now = -size[value] / max(self._time(value, gone, again), 1)
            if heap and now > heap[0][0]:
                heapq.heappush(heap, (now, value))
                continue
            gone.add(value)
            self.order.append(value)

    def _time(self, value: int, gone: Collection[int], again: Needs) -> int:
        """Give the time to make a value again, from what is there."""
        made, reads, producer = links_of(self.graph)
        todo, seen, time = [producer[value]], {producer[value]}, 0
        while todo:
            node = todo.pop()
            time += int(self.graph.cost[node])
            for read in reads[node]:
                is_there = read in self.saved and read not in gone
                maker = producer[read]
                if not is_there and maker in again.made_again and maker not in seen:
                    seen.add(maker)
                    todo.append(maker)
        return time

    def schedule(self, count: int) -> Schedule:
        """Give the schedule in which the first so many values are computed again."""
        saved = self.saved.difference(self.order[:count])
        return schedule_of(self.graph, kept_of_saved(self.graph, saved))
