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
from ...placing import BEST_FIT, FIRST_FIT, PLACING_FIELDS, BufferArrays, Placing, place
from ...randomness import seeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .searching import Search

    Int64 = NDArray[np.int64]

MOST = np.iinfo(np.int64).max


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


def first_fit(search: Search) -> None:
    """Give each buffer the lowest hole that is large enough."""
    _fit(search, FIRST_FIT)


def best_fit(search: Search) -> None:
    """Give each buffer the smallest hole that is large enough."""
    _fit(search, BEST_FIT)


def _fit(search: Search, rule: int) -> None:
    here, given = placing(search.buffers), arrays(search.buffers)
    for order in orders(search.buffers):
        if search.is_over and search.best is not None:
            return
        here.trial[:] = order
        place_entry().function(given, here, rule)
        search.offer(here.at.copy())
