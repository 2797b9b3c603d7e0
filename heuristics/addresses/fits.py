"""first-fit, best-fit: buffers one after another, in several orders, into a hole that is there.

The orders are those of the literature: by size, by lifetime, by their product, by the load at the
worst moment of a lifetime, and in the order of time, as an allocator that knows no future would.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...buffers import Buffers, peak_in_life
from ...jit import Entry, entry
from ...placing import (
    BEST_FIT,
    FIRST_FIT,
    PLACING_FIELDS,
    BufferArrays,
    Placing,
    place,
    place_in_time,
)
from ...randomness import seeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .searching import Search

    Int64 = NDArray[np.int64]

MOST = np.iinfo(np.int64).max
TURN = 1_000  # buffers placed between two looks at the clock


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
    return entry(place_in_time, (BufferArrays, Placing))


def first_fit(search: Search) -> None:
    """Give each buffer the lowest hole that is large enough."""
    _fit(search, FIRST_FIT)


def best_fit(search: Search) -> None:
    """Give each buffer the smallest hole that is large enough."""
    _fit(search, BEST_FIT)


def place_all(search: Search, given: BufferArrays, here: Placing, rule: int) -> bool:
    """Place all in the order tried, unless time is over before; say whether all are placed."""
    count = len(here.trial)
    here.run["rule"], here.run["placed"] = rule, 0
    for first in range(0, count, TURN):
        if search.clock.is_over:
            return False
        place_entry().function(given, here, min(first + TURN, count))
    return True


def _fit(search: Search, rule: int) -> None:
    here, given = placing(search.buffers), arrays(search.buffers)
    for order in orders(search.buffers):
        if search.is_over and search.best is not None:
            return
        here.trial[:] = order
        if place_all(search, given, here, rule):
            search.offer(here.at.copy())
    if search.best is None:
        _fit_in_time(search, given, here)


def _fit_in_time(search: Search, given: BufferArrays, here: Placing) -> None:
    """Make the plan that there is however little time there was."""
    here.trial[:] = np.argsort(search.buffers.lower, kind="stable")
    place_in_time_entry().function(given, here, len(here.trial))
    search.offer(here.at.copy())
