"""first-fit, best-fit: buffers one after another, in several orders, into a hole that is there.

The orders are those of the literature: by size, by lifetime, by their product, by the load at the
worst moment of a lifetime, and by time. Where there is no time for any of them, the plan is what an
arena does that knows no future.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...buffers import Buffers, peak_in_life, unit
from ...jit import Entry, entry
from ...placing import (
    BEST_FIT,
    FIRST_FIT,
    PLACING_FIELDS,
    BufferArrays,
    Holes,
    Placing,
    place,
    place_in_time,
)
from ...randomness import seeded
from ...space import PIECE_FIELDS, SPACE_FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .searching import Search

    Int64 = NDArray[np.int64]

MOST = np.iinfo(np.int64).max
TURN = 2_000_000  # buffers looked at, or so, between two looks at the clock
FIRST_TURN = 1_000  # buffers placed before the first of them


def orders(buffers: Buffers) -> Iterator[Int64]:
    """Give orders of the buffers, each by some features, the largest first."""
    life, size, load = buffers.upper - buffers.lower, buffers.size, peak_in_life(buffers)
    area = life.astype(float) * size
    features = (
        (size, life),
        (area, load),
        (life, area, load),
        (load, area, life),
        (load, life, area),
        (size, -buffers.lower),
        (-buffers.lower, size),
        (buffers.upper, size),
    )
    for keys in features:
        yield np.lexsort([-key for key in reversed(keys)])


def placing(buffers: Buffers, *, target: int = 0, seed: int = 0) -> Placing:
    """Make what kernels need to place buffers."""
    count = len(buffers)
    run = np.zeros(1, PLACING_FIELDS)
    run["random"], run["target"], run["best_height"] = seeded(seed), target, MOST
    numbers = {name: np.zeros(count, np.int32) for name in ("order", "trial", "by_address")}
    addresses = {name: np.zeros(count, np.int64) for name in ("at", "best")}
    return Placing(**numbers, **addresses, run=run.view(np.recarray))


def arrays(buffers: Buffers) -> BufferArrays:
    """Give buffers as kernels read them."""
    return BufferArrays(
        lower=buffers.lower, upper=buffers.upper, size=buffers.size, alignment=buffers.alignment
    )


@functools.cache
def place_entry() -> Entry:
    """Get `placing.place`."""
    return entry(place, (BufferArrays, Placing))


@functools.cache
def place_in_time_entry() -> Entry:
    """Get `placing.place_in_time`."""
    return entry(place_in_time, (BufferArrays, Holes))


def first_fit(search: Search) -> None:
    """Give each buffer the lowest hole that is large enough."""
    _fit(search, FIRST_FIT)


def best_fit(search: Search) -> None:
    """Give each buffer the smallest hole that is large enough."""
    _fit(search, BEST_FIT)


def place_all(search: Search, given: BufferArrays, here: Placing, rule: int) -> bool:
    """Place all in the order tried, unless time is over before; say whether all are placed."""
    count, placed = len(here.trial), 0
    here.run["rule"], here.run["placed"] = rule, 0
    while placed < count:
        if search.clock.is_over:
            return False
        # Each looks at all that were placed before.
        turn = min(FIRST_TURN, TURN // (placed + 1))
        placed = min(count, placed + max(1, turn))
        place_entry().function(given, here, placed)
    return True


def _fit(search: Search, rule: int) -> None:
    given = arrays(search.buffers)
    if not search.is_over:
        _fit_in_orders(search, given, rule)
    if search.best is None:
        _fit_in_time(search, given)


def _fit_in_orders(search: Search, given: BufferArrays, rule: int) -> None:
    here = placing(search.buffers)
    for order in orders(search.buffers):
        if search.is_over:
            return
        here.trial[:] = order
        if place_all(search, given, here, rule):
            search.offer(here.at.copy())


def _fit_in_time(search: Search, given: BufferArrays) -> None:
    """Make the plan that there is however little time there was."""
    buffers, count = search.buffers, len(search.buffers)
    holes = Holes(
        entering=np.argsort(buffers.lower, kind="stable").astype(np.int32),
        leaving=np.argsort(buffers.upper, kind="stable").astype(np.int32),
        piece=np.zeros(count, np.int32),
        at=np.zeros(count, np.int64),
        pieces=np.zeros(2 * count + 2, PIECE_FIELDS).view(np.recarray),
        space=np.zeros(1, SPACE_FIELDS).view(np.recarray),
    )
    place_in_time_entry().function(given, holes, unit(buffers))
    search.offer(holes.at)
