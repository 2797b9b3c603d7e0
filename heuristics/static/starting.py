"""Where searches start: the best of what is known and of the trivial planners' plans that fit.

Where nothing is known, there is first what `descending.py` finds, which is mostly there at once,
but hangs on luck where little memory is left: one byte more may lead a descent astray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...static_graph import Schedule, StaticGraph, evaluate
from .clock import Clock, is_interrupted
from .descending import descend
from .registry import get

QUICK = ("keep-all", "rotor", "m-of-n", "every-kth", "chen-sqrt(points=articulation)", "chen-sqrt")
# Where none of these fits; they take little memory, and many computations.
LAST_RESORTS = ("treewidth", "revolve")
FIRST = ("on-demand",)  # takes least time, and needs hardly more memory than any plan
SLOW = ("chen-greedy(points=articulation)", "knapsack", "chen-greedy", "checkpoint-last")
TRIVIAL = (*QUICK, *SLOW)
DESCENT_SEEDS = range(1, 5)  # whoever has no starts has mostly tried 0
# Of the time that is left for all, for one of them, or all descents.
DESCENT_PART, LEAST_PART, LAST_PART = 0.5, 0.2, 0.4


@dataclass
class Start:
    """The best schedule so far, and how long the first that fits has taken.

    Attributes
    ----------
    schedule : Schedule or None
    cost : int or None
        Of the schedule.
    first_seconds : float or None
        From the beginning to the first schedule that fits.
    """

    graph: StaticGraph
    budget: int
    schedule: Schedule | None = None
    cost: int | None = None
    first_seconds: float | None = None
    clock: Clock = field(default_factory=Clock)

    def ask(self, method: str, seconds: float | None) -> None:
        """Offer what a planner finds."""
        found = get(method).plan(self.graph, self.budget, time_limit=seconds)
        if found.schedule is not None:
            self.offer(found.schedule)

    def descend(self, clock: Clock) -> None:
        """Offer what the first of some descents finds that ends."""
        for seed in DESCENT_SEEDS:
            found = descend(self.graph, self.budget, seed=seed, clock=clock)
            if found is not None:
                self.offer(found)
                return

    def offer(self, schedule: Schedule) -> None:
        """Take a schedule if it fits and is the cheapest."""
        cost, peak_bytes = evaluate(self.graph, schedule)
        if peak_bytes > self.budget or (self.cost is not None and cost >= self.cost):
            return
        self.schedule, self.cost = schedule, cost
        if self.first_seconds is None:
            self.first_seconds = self.clock.spent


def best_start(graph: StaticGraph, budget: int, starts: Sequence[Schedule], clock: Clock) -> Start:
    """Give the best of some schedules and of the plans of the trivial planners.

    Parameters
    ----------
    graph, budget, starts
        As for every planner.
    clock : Clock
        For the planners.
    """
    best = Start(graph, budget)
    for schedule in starts:
        best.offer(schedule)
    if best.schedule is None:
        best.descend(clock.part(DESCENT_PART))
    for method in (*FIRST, *QUICK, *LAST_RESORTS, *SLOW):
        if method in (*FIRST, *LAST_RESORTS) and best.schedule is not None:
            continue
        is_enough = best.schedule is not None or is_interrupted() or method in SLOW
        if clock.is_over and is_enough:
            break
        best.ask(method, clock.part(LAST_PART if method in LAST_RESORTS else LEAST_PART).limit)
    return best
