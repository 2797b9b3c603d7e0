"""For planners with a parameter and no budget: try its values, take the cheapest plan that fits.

What a choice costs is known from what it computes, without a schedule; so the schedules are made in
the order of these costs, and the first that fits is the answer. (Trimming may make a later one
cheaper still; it is rare, and not waited for.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from ...static_graph import Schedule, StaticGraph, evaluate
from ..parameters import OneOf
from .clock import NO_LIMIT, Clock
from .registry import FEASIBLE, PlannerResult, without_plan
from .segments import NO_BACKWARD, POINTS, Segments, candidates
from .stages import (
    Kept,
    cost_of,
    count_of,
    minimal_computations,
    schedule_of,
)

Choice = TypeVar("Choice")

# A schedule of more computations than this for each node is of no use, and takes long to write.
MOST_COMPUTATIONS_A_NODE = 1000
CHECKPOINT_RULES = {"points": OneOf(POINTS), "mode": OneOf(("trimmed", "faithful"))}


def cheapest(
    graph: StaticGraph,
    budget: int | None,
    choices: Iterable[Choice],
    kept: Callable[[Choice], Kept],
    *,
    is_trimmed: bool = True,
    clock: Clock = NO_LIMIT,
) -> PlannerResult:
    """Plan by the cheapest of some choices whose schedule fits; by the least memory of equal ones.

    Parameters
    ----------
    graph : StaticGraph
    budget : int or None
        As for planners.
    choices : iterable
        Of the planner's own kind; equal ones are tried once.
    kept : callable
        What a choice keeps; see `stages.minimal_computations`.
    is_trimmed : bool
        See `stages.schedule_of`.
    clock : Clock
        What has been found when it is over counts.
    """
    # The other half is for the schedules.
    priced = _priced(graph, choices, kept, clock.part(0.5))
    tries = _Tries(
        graph,
        budget,
        lambda choice: schedule_of(graph, kept(choice), is_trimmed=is_trimmed, clock=clock),
    )
    if clock.left is not None:
        # Dearer ones mostly take less memory: so one that fits is known before all are tried.
        first_that_fits(len(priced), lambda place: tries.fits(*priced[place]), clock)
    for price in priced:
        if clock.is_over or tries.is_cheaper_than(price[0]):
            break
        tries.fits(*price)
    if tries.best is not None:
        schedule, choice = tries.best[3:]
        return PlannerResult(
            FEASIBLE, schedule, details={} if choice is None else {"choice": choice}
        )
    return _without(budget, tries.least_peak, clock)


def first_that_fits(count: int, fits: Callable[[int], bool], clock: Clock) -> int:
    """Find, by halving, the first of some numbers from which on all fit; or where time ended it.

    It is ``count`` if none fits. Those looked at are asked in an order in which few need be.
    """
    low, high = 0, count
    while low < high and not clock.is_over:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _priced(
    graph: StaticGraph, choices: Iterable[Choice], kept: Callable[[Choice], Kept], clock: Clock
) -> list[tuple[int, int, Choice]]:
    """Give what choices cost, ascending, with their numbers; until the time is up."""
    priced: list[tuple[int, int, Choice]] = []
    seen: set[Choice] = set()
    for number, choice in enumerate(choices):
        if clock.is_over and seen:
            break
        if choice in seen:
            continue
        seen.add(choice)
        computed = minimal_computations(graph, kept(choice))
        if count_of(computed) <= MOST_COMPUTATIONS_A_NODE * max(graph.n_nodes, 1):
            priced.append((cost_of(graph, computed), number, choice))
    return sorted(priced, key=lambda known: known[:2])


class _Tries:
    """The schedules of choices, each made once; the cheapest that fits, and the least peak."""

    def __init__(
        self, graph: StaticGraph, budget: int | None, schedule: Callable[[Any], Schedule]
    ) -> None:
        self.graph, self.budget, self.schedule = graph, budget, schedule
        self.known: dict[int, bool] = {}
        self.best: tuple[int, int, int, Schedule, Any] | None = None
        self.least_peak: int | None = None

    def fits(self, cost: int, number: int, choice: Any) -> bool:
        """Say whether the schedule of a choice fits."""
        if number in self.known:
            return self.known[number]
        schedule = self.schedule(choice)
        peak = evaluate(self.graph, schedule).peak_bytes
        self.least_peak = peak if self.least_peak is None else min(peak, self.least_peak)
        self.known[number] = self.budget is None or peak <= self.budget
        if self.known[number] and (self.best is None or (cost, peak, number) < self.best[:3]):
            self.best = cost, peak, number, schedule, choice
        return self.known[number]

    def is_cheaper_than(self, cost: int) -> bool:
        """Say whether one fits that costs less."""
        return self.best is not None and self.best[0] < cost


class Checkpoints(NamedTuple):
    """Planning by sets of checkpoints in the forward pass, and what users may choose of it.

    Attributes
    ----------
    points : str
        Of ``segments.POINTS``: which nodes may be checkpoints.
    mode : str
        Of ``MODES``: whether schedules are trimmed or as published.
    """

    points: str
    mode: str

    def cheapest(
        self,
        graph: StaticGraph,
        budget: int | None,
        choices: Callable[[list[int]], Iterable[Choice]],
        kept: Callable[[Segments, list[int], Choice], Kept],
        clock: Clock,
    ) -> PlannerResult:
        """Plan by the cheapest of some sets.

        Parameters
        ----------
        graph, budget, clock
            As for the function of this name.
        choices : callable
            Given the nodes that may be checkpoints, ascending: what is tried.
        kept : callable
            What a choice keeps, given also the segments and these nodes.
        """
        nodes = candidates(graph, self.points)
        if not nodes:
            return NO_BACKWARD
        segments = Segments(graph)
        return cheapest(
            graph,
            budget,
            choices(nodes),
            lambda choice: kept(segments, nodes, choice),
            is_trimmed=self.mode == "trimmed",
            clock=clock,
        )


def kept_for_good(segments: Segments, _: list[int], checkpoints: tuple[int, ...]) -> Kept:
    """Keep checkpoints from when they are made to the end."""
    return segments.kept(checkpoints)


def _without(budget: int | None, least_peak: int | None, clock: Clock) -> PlannerResult:
    if least_peak is None:
        limit = f"more than {MOST_COMPUTATIONS_A_NODE:,} computations a node"
        return without_plan(clock, f"every plan of this method has {limit}")
    message = f"the smallest of its plans takes {least_peak:,} bytes, the budget is {budget:,}"
    return without_plan(clock, message)
