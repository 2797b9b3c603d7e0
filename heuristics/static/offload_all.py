"""offload-all: values leave for the host between two uses and come back ahead of the second.

Nothing is computed twice. A value goes after the use before its longest gap; a prefetch is issued
as soon as memory has room for it from there on, or as late as still hides it. Tried are all values
that have a gap, and fewer, those with the longest gaps first: the fastest that fits is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import PlanError
from ...links import Link
from ...moved_schedules import evaluate_moves
from ...plan import DISCARD, OFFLOAD, PREFETCH
from ...static_graph import COMPUTE, Schedule, StaticGraph, naive_peak_bytes, naive_schedule
from .clock import Clock
from .registry import FEASIBLE, NO_PLAN, NOT_APPLICABLE, TIME_LIMIT, PlannerResult, planner

SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
NO_LINK = PlannerResult(
    NOT_APPLICABLE, message="there is no link to the host: --device h100-pcie5, or --d2h and --h2d"
)


class _Gap(NamedTuple):
    """A value and the nodes between which it may be away: it is read, or made, at both."""

    value: int
    size: int
    last: int
    next: int


@planner("offload-all", reference="offloading alone, as in vDNN, Rhu et al., MICRO 2016")
def offload_all(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    **_: Any,
) -> PlannerResult:
    """Offload values between their uses, and prefetch them ahead: nothing is computed twice."""
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    if link is None or link.to_host == 0 or link.from_host == 0:
        return NO_LINK
    clock, offloading = Clock(time_limit), _Offloading(graph, budget, link)
    found: list[tuple[int, Schedule]] = []
    for share in SHARES:
        if clock.is_over:
            break
        for is_late in (False, True):
            schedule = offloading.schedule(share, is_late)
            if schedule is None:
                continue
            try:
                found.append((evaluate_moves(graph, schedule, link, budget).cost, schedule))
            except PlanError:  # who waits for whom has not turned out as planned
                continue
    if found:
        return PlannerResult(FEASIBLE, min(found, key=lambda pair: pair[0])[1])
    message = "what is used between goes over the budget, however much is away"
    return PlannerResult(TIME_LIMIT if clock.is_over else NO_PLAN, message=message)


class _Offloading:
    """The naive order of a graph, and which of its values can be away when."""

    def __init__(self, graph: StaticGraph, budget: int, link: Link) -> None:
        self.graph, self.budget, self.link = graph, budget, link
        self.begins = np.concatenate([[0], np.cumsum(graph.cost)]).astype(np.int64)
        self.occupied = self._occupied()
        self.gaps = sorted(self._gaps(), key=self._time_away, reverse=True)

    def _occupied(self) -> Any:
        """Give the bytes that are needed while each node runs, in the naive order."""
        graph = self.graph
        change = np.zeros(graph.n_nodes + 1, np.int64)
        np.add.at(change, graph.producer, graph.size)
        np.add.at(change, graph.last_reader + 1, -graph.size)
        return graph.fixed_bytes + np.cumsum(change)[:-1] + graph.workspace

    def _gaps(self) -> list[_Gap]:
        """Find the longest time between two uses of each value that has bytes."""
        graph, found = self.graph, []
        for value in np.flatnonzero(graph.size).tolist():
            uses = [int(graph.producer[value]), *graph.readers(value).tolist()]
            pairs = [(a, b) for a, b in zip(uses, uses[1:], strict=False) if b > a + 1]
            if pairs:
                last, first = max(pairs, key=lambda p: self.begins[p[1]] - self.begins[p[0] + 1])
                found.append(_Gap(value, int(graph.size[value]), last, first))
        return found

    def _time_away(self, gap: _Gap) -> int:
        return int(self.begins[gap.next] - self.begins[gap.last + 1])

    def _chosen(self, share: float) -> list[_Gap]:
        """Take a share of the bytes that can be away, as far as the host has room."""
        most = share * sum(gap.size for gap in self.gaps)
        if self.link.host_bytes is not None:
            most = min(most, self.link.host_bytes)
        chosen, total = [], 0
        for gap in self.gaps:
            if total + gap.size <= most:
                chosen.append(gap)
                total += gap.size
        return chosen

    def schedule(self, share: float, is_late: bool) -> Schedule | None:
        """Give a schedule that has a share of the bytes away; None if it does not fit."""
        chosen = sorted(self._chosen(share), key=lambda gap: gap.next)
        occupied = self.occupied.copy()
        for gap in chosen:
            occupied[gap.last + 1 : gap.next] -= gap.size
        if (occupied > self.budget).any():
            return None
        hidden = self._hidden(chosen) if is_late else [0] * len(chosen)
        back: dict[int, list[int]] = {}
        before = 0
        for gap, late in zip(chosen, hidden, strict=True):
            first = max(before, gap.last + 1, late)
            crowded = np.flatnonzero(occupied[first : gap.next] + gap.size > self.budget)
            before = first = first + int(crowded[-1]) + 1 if len(crowded) else first
            occupied[first : gap.next] += gap.size
            back.setdefault(first, []).append(gap.value)
        return self._written(chosen, back)

    def _hidden(self, chosen: Sequence[_Gap]) -> list[int]:
        """Give the last nodes before which prefetches, one after another, come in time."""
        nodes: list[int] = []
        busy_from = int(self.begins[-1])
        for gap in reversed(chosen):
            took = self.link.from_host_ns(gap.size) or 0
            busy_from = min(busy_from, int(self.begins[gap.next])) - took
            nodes.append(max(0, int(np.searchsorted(self.begins, busy_from, side="right")) - 1))
        return nodes[::-1]

    def _written(self, chosen: Sequence[_Gap], back: dict[int, list[int]]) -> Schedule:
        """Write the naive schedule with transfers in it; host copies go as soon as they can."""
        away: dict[int, list[int]] = {}
        for gap in chosen:
            away.setdefault(gap.last, []).append(gap.value)
        naive = naive_schedule(self.graph)
        actions: list[tuple[int, int]] = []
        leaving: list[int] = []
        for action, target in zip(naive.action.tolist(), naive.target.tolist(), strict=True):
            if action == COMPUTE:
                actions += [(OFFLOAD, value) for value in leaving]
                for value in back.get(target, ()):
                    actions += [(PREFETCH, value), (DISCARD, value)]
                leaving = away.get(target, [])
            actions.append((action, target))
        return Schedule.of(actions)
