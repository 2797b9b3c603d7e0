"""reordering: first fit again and again, the order changed where buffers stand too high."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ...jit import Entry, entry
from ...placing import FIRST_FIT, BufferArrays, Placing, improve_order
from ..static.clock import Clock
from .fits import arrays, first_fit, place_all, placing

if TYPE_CHECKING:
    from .searching import Search

CHUNK_SECONDS = 0.1
STEPS_PER_BUFFER = 2_000


@functools.cache
def improve_entry() -> Entry:
    """Get `placing.improve_order`."""
    return entry(improve_order, (BufferArrays, Placing))


def reordering(search: Search) -> None:
    """Begin with the addresses of the best plan as an order, and change it step by step."""
    if search.best is None:
        first_fit(search)
    if search.is_over or search.best is None:
        return
    given = arrays(search.buffers)
    here = placing(search.buffers, target=search.target, seed=search.seed)
    # In the order of their addresses, first fit puts no buffer higher than it was.
    here.order[:] = here.trial[:] = np.argsort(search.best.address, kind="stable")
    lap = Clock()
    if not place_all(search, given, here, FIRST_FIT):
        return
    seconds = lap.spent  # that a step takes
    here.run[0].kept_spill = here.run[0].spill
    steps, chunk = STEPS_PER_BUFFER * len(search.buffers), 1
    while steps > 0 and not search.is_over and _has(search.clock, seconds):
        lap = Clock()
        asked = min(chunk, steps)
        if improve_entry().function(given, here, asked) < asked:
            steps = 0
        steps -= asked
        if here.run[0].best_height < (search.height or 0):
            search.offer(here.best.copy())
        chunk = 2 * chunk if lap.spent < CHUNK_SECONDS else chunk


def _has(clock: Clock, seconds: float) -> bool:
    """Say whether so much time is left."""
    return clock.left is None or clock.left >= seconds
