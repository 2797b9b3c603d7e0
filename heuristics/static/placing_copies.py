"""Where copies are issued in an order of computations: a wish made a plan, and that improved.

An offload is issued before a computation after the last use, a prefetch before one before the next
use. A prefetch that comes early takes memory that a call may want, one that comes late is waited
for: so places are moved one by one as long as that makes the plan faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...errors import PlanError
from ...moved_schedules import evaluate_moves
from .clock import Clock
from .transfer_gaps import Found, Gap, Moving

STEPS = (-1, 1, -2, 2)


class Trip(NamedTuple):
    """A value that goes to the host and comes back, and the computations before which it does."""

    gap: Gap
    away: int
    back: int

    def moved(self, away: int, back: int) -> Trip:
        """Issue its copies earlier or later, as far as its uses allow."""
        low, high = self.gap.last + 1, self.gap.next
        away = min(max(self.away + away, low), high)
        return Trip(self.gap, away, min(max(self.back + back, away), high))


def placed(moving: Moving, trips: Sequence[Trip], clock: Clock) -> Iterator[Found]:
    """Give plans with these trips, each better than the one before.

    Parameters
    ----------
    moving : Moving
        The order of computations.
    trips : sequence of Trip
        In the order in which the values leave; among equal places they come back as they stand.
    clock : Clock
    """
    trips = list(trips)
    best = judged(moving, trips)
    if best is not None:
        yield best
    improves = True
    while improves and not clock.is_over:
        improves = False
        for at in range(len(trips)):
            for changed in _neighbours(trips, at):
                found = None if clock.is_over else judged(moving, changed)
                if found is not None and (best is None or found.cost < best.cost):
                    best, trips, improves = found, changed, True
                    yield found


def _neighbours(trips: Sequence[Trip], at: int) -> Iterator[list[Trip]]:
    """Change the places of one trip, or its turn."""
    for step in STEPS:
        for away, back in ((0, step), (step, 0), (step, step)):
            changed = trips[at].moved(away, back)
            if changed != trips[at]:
                yield [*trips[:at], changed, *trips[at + 1 :]]
    if at:
        yield [*trips[: at - 1], trips[at], trips[at - 1], *trips[at + 1 :]]


def judged(moving: Moving, trips: Sequence[Trip]) -> Found | None:
    """Give the plan with these trips, if it can be.

    What goes twice is copied twice, or stays on the host for as long as that takes, whichever is
    faster.
    """
    away: dict[int, list[int]] = {}
    back: dict[int, list[int]] = {}
    for trip in trips:
        away.setdefault(trip.away, []).append(trip.gap.value)
        back.setdefault(trip.back, []).append(trip.gap.value)
    goes_again = len({trip.gap.value for trip in trips}) < len(trips)
    found = []
    for stays in (False, True)[: 1 + goes_again]:
        schedule = moving.with_transfers(away, back, stays)
        with suppress(PlanError):
            estimated = evaluate_moves(moving.graph, schedule, moving.link, moving.budget)
            found.append(Found(*estimated, schedule))
    return min(found, key=lambda one: one.cost, default=None)
