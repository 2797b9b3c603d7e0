"""Transfers put into a schedule: values leave between two uses and come back ahead of the second.

A schedule without transfers, which may need too much memory, and the gaps in which some values are
to be away, become a schedule with transfers. Which gaps, is for planners to decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import PlanError
from ...links import Link
from ...moved_schedules import evaluate_moves
from ...plan import DISCARD, OFFLOAD, PREFETCH
from ...static_graph import COMPUTE, FREE, Evaluation, Schedule, StaticGraph
from .clock import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

Places = Mapping[int, Sequence[int]]  # values, by the computation, counted, before which


class Gap(NamedTuple):
    """A value and the computations, counted, between which it may be away: both need it."""

    value: int
    size: int
    last: int
    next: int


class Found(NamedTuple):
    """A schedule with transfers, and what it costs."""

    cost: int
    peak_bytes: int
    schedule: Schedule


class Moving:
    """A schedule without transfers, and when its values could be away.

    Parameters
    ----------
    graph : StaticGraph
    schedule : Schedule
        Without transfers; its peak may be over the budget.
    budget : int
    link : Link

    Attributes
    ----------
    begins : ndarray of int64
        When each computation begins where nothing waits; the end at the end.
    occupied : ndarray of int64
        Bytes that are needed while each runs.
    gaps : list of Gap
        The longest of each value's life, in time, of those in which memory lacks, if there are
        some; the longest first.
    """

    def __init__(self, graph: StaticGraph, schedule: Schedule, budget: int, link: Link) -> None:
        self.graph, self.schedule, self.budget, self.link = graph, schedule, budget, link
        self.begins = np.concatenate([[0], np.cumsum(graph.cost[schedule.order])]).astype(np.int64)
        self.occupied, self.lives = self._followed()
        gaps = (gap for life in self.lives if (gap := self._longest(*life)) is not None)
        self.gaps = sorted(gaps, key=self.time_away, reverse=True)

    def _followed(self) -> tuple[Int64, list[tuple[int, list[int]]]]:
        """Give the bytes needed by each computation, and the uses of each life of a value."""
        graph, used = self.graph, self.graph.fixed_bytes
        size, workspace = graph.size.tolist(), graph.workspace.tolist()
        occupied: list[int] = []
        here: dict[int, list[int]] = {}
        ended: list[tuple[int, list[int]]] = []
        for action, target in zip(
            self.schedule.action.tolist(), self.schedule.target.tolist(), strict=True
        ):
            if action != COMPUTE:
                used -= size[target]
                ended.append((target, here.pop(target)))
                continue
            at = len(occupied)
            for value in graph.reads_of(target).tolist():
                here[value].append(at)
            made = list(graph.values(target))
            occupied.append(used + sum(size[value] for value in made) + workspace[target])
            for value in made:
                if value not in here:
                    here[value] = [at]
                    used += size[value]
        return np.array(occupied, np.int64), [*ended, *here.items()]

    def _longest(self, value: int, uses: list[int]) -> Gap | None:
        """Give the gap of one life of a value that has bytes."""
        gaps = self.gaps_of(value, uses)
        best = max(gaps, key=lambda gap: (self.is_crowded(gap), self.time_away(gap)), default=None)
        return best if best is None or best.size else None

    def gaps_of(self, value: int, uses: list[int]) -> list[Gap]:
        """Give the gaps of one life of a value, between any two uses."""
        size = int(self.graph.size[value])
        return [Gap(value, size, a, b) for a, b in pairwise(uses) if b > a + 1]

    def crowded_gaps(self) -> list[Gap]:
        """Give all gaps in which memory lacks, several of a value's life too; the longest first."""
        gaps = [gap for life in self.lives for gap in self.gaps_of(*life)]
        chosen = [gap for gap in gaps if gap.size and self.is_crowded(gap)]
        return sorted(chosen, key=self.time_away, reverse=True)

    def is_crowded(self, gap: Gap) -> bool:
        """Say whether memory lacks somewhere in a gap."""
        return bool(self._crowded[gap.next] > self._crowded[gap.last + 1])

    @cached_property
    def _crowded(self) -> Int64:
        """Give the computations before each for which memory lacks."""
        return self.crowded_before(self.occupied)

    def crowded_before(self, occupied: Int64) -> Int64:
        """Count, before each computation, those for which memory lacks if they need so much."""
        return np.append(0, np.cumsum(occupied > self.budget))

    def time_away(self, gap: Gap) -> int:
        """Give how long a value can be away."""
        return int(self.begins[gap.next] - self.begins[gap.last + 1])

    def on_host(self, gaps: Iterable[Gap]) -> list[Gap]:
        """Give the gaps, as far as the host has room for all of them at once."""
        chosen, total = [], 0
        for gap in gaps:
            if self.link.host_bytes is None or total + gap.size <= self.link.host_bytes:
                chosen.append(gap)
                total += gap.size
        return chosen

    def fits(self, gaps: Iterable[Gap]) -> bool:
        """Say whether all fits while these values are away."""
        return bool((self.occupied_without(gaps) <= self.budget).all())

    def fewest(self, gaps: Iterable[Gap]) -> list[Gap]:
        """Leave out gaps, the shortest first, as far as all fits without."""
        chosen = sorted(gaps, key=self.time_away)
        occupied = self.occupied_without(chosen)
        kept = []
        for gap in chosen:
            span = slice(gap.last + 1, gap.next)
            if (occupied[span] + gap.size <= self.budget).all():
                occupied[span] += gap.size
            else:
                kept.append(gap)
        return kept

    def hidden(self, clock: Clock) -> list[Gap]:
        """Choose what to swap: by free time, as long as all copies are hidden and memory lacks.

        Free time is what is left of a gap when the value has gone and come back.
        """
        occupied, chosen = self.occupied.copy(), list[Gap]()
        gaps = [gap for gap in self.gaps if self._free_time(gap) >= 0]
        for gap in self.on_host(sorted(gaps, key=self._free_time, reverse=True)):
            if clock.is_over or (occupied <= self.budget).all():
                break
            span = slice(gap.last + 1, gap.next)
            if (occupied[span] > self.budget).any() and self.hides([*chosen, gap]):
                chosen.append(gap)
                occupied[span] -= gap.size
        return chosen

    def _free_time(self, gap: Gap) -> int:
        out, back = self.link.to_host_ns(gap.size) or 0, self.link.from_host_ns(gap.size) or 0
        return self.time_away(gap) - out - back

    def hides(self, gaps: Iterable[Gap]) -> bool:
        """Say whether compute hides all copies, one after another each way, of these values."""
        chosen = sorted(gaps, key=lambda gap: gap.last)
        leaves = self.begins[[gap.last + 1 for gap in chosen]]
        left = _one_by_one(leaves, [self.link.to_host_ns(gap.size) or 0 for gap in chosen])
        # Coming back is the same, seen from the end.
        order = sorted(range(len(chosen)), key=lambda i: -chosen[i].next)
        needed = self.begins[-1] - self.begins[[chosen[i].next for i in order]]
        took = [self.link.from_host_ns(chosen[i].size) or 0 for i in order]
        begun = self.begins[-1] - _one_by_one(needed, took)
        return bool((left[order] <= begun).all())

    def occupied_without(self, gaps: Iterable[Gap]) -> Int64:
        """Give the bytes that are needed while each computation runs, if these values are away."""
        occupied = self.occupied.copy()
        for gap in gaps:
            occupied[gap.last + 1 : gap.next] -= gap.size
        return occupied

    def found(self, choices: Iterable[Collection[Gap]], clock: Clock) -> Iterator[Found]:
        """Give schedules within the budget that have some sets of values away."""
        for gaps in choices:
            if clock.is_over:
                break
            if self.fits(gaps):
                yield from self._tried(gaps)

    def _tried(self, gaps: Collection[Gap]) -> Iterator[Found]:
        """Bring values back as soon as there is room, and as late as hides it."""
        for is_late in (False, True):
            schedule = self.written(gaps, is_late=is_late)
            try:
                evaluation: Evaluation = evaluate_moves(
                    self.graph, schedule, self.link, self.budget
                )
            except PlanError:  # who waits for whom has not turned out as planned
                continue
            yield Found(*evaluation, schedule)

    def written(self, gaps: Collection[Gap], *, is_late: bool) -> Schedule:
        """Write the schedule with transfers in it; host copies go as soon as they can."""
        chosen = sorted(gaps, key=lambda gap: gap.next)
        occupied = self.occupied_without(chosen)
        hidden = self._hidden(chosen) if is_late else [0] * len(chosen)
        back: dict[int, list[int]] = {}
        before = 0
        for gap, late in zip(chosen, hidden, strict=True):
            first = max(before, gap.last + 1, late)
            crowded = np.flatnonzero(occupied[first : gap.next] + gap.size > self.budget)
            before = first = first + int(crowded[-1]) + 1 if len(crowded) else first
            occupied[first : gap.next] += gap.size
            back.setdefault(first, []).append(gap.value)
        away: dict[int, list[int]] = {}
        for gap in chosen:
            away.setdefault(gap.last + 1, []).append(gap.value)
        return self.with_transfers(away, back)

    def _hidden(self, chosen: Sequence[Gap]) -> list[int]:
        """Give the last computations before which prefetches, one by one, come in time."""
        places: list[int] = []
        busy_from = int(self.begins[-1])
        for gap in reversed(chosen):
            took = self.link.from_host_ns(gap.size) or 0
            busy_from = min(busy_from, int(self.begins[gap.next])) - took
            places.append(max(0, int(np.searchsorted(self.begins, busy_from, side="right")) - 1))
        return places[::-1]

    def with_transfers(self, away: Places, back: Places, stays: bool = False) -> Schedule:
        """Issue offloads and prefetches before some computations, offloads first.

        ``stays``: what goes away again has its copy on the host yet, and is just freed.
        """
        actions: list[tuple[int, int]] = []
        at = 0
        later = (
            Counter(value for values in back.values() for value in values) if stays else Counter()
        )
        on_host: set[int] = set()
        pairs: Any = zip(self.schedule.action.tolist(), self.schedule.target.tolist(), strict=True)
        for action, target in pairs:
            if action == COMPUTE:
                goes = away.get(at, ())
                actions += [(FREE if value in on_host else OFFLOAD, value) for value in goes]
                for value in back.get(at, ()):
                    actions.append((PREFETCH, value))
                    later[value] -= 1
                    if later[value] > 0:
                        on_host.add(value)
                    else:
                        actions.append((DISCARD, value))
                at += 1
            actions.append((action, target))
        return Schedule.of(actions)


def _one_by_one(ready: Int64, took: Sequence[int]) -> Int64:
    """Give when things end that begin one after another, each when it is ready."""
    spent = np.cumsum(np.array(took, np.int64))
    return spent + np.maximum.accumulate(ready - (spent - took))
