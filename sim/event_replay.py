"""Kernels: allocations and frees through the model of the caching allocator, without a trace.

A row of the table is one event, in the order in which they happen; before the first allocation may
stand what was there already, segments and the blocks held in them, by address.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .allocator_settings import AllocatorSettings
from .caching import allocate, begin, free, largest_hole
from .jit import Bundle, Entry, entry, kernel
from .pieces import cut
from .segments import CHAIN, LARGE, SMALL, add_segment, leave_free, map_piece
from .space import HIGH, LOW, NONE, SCRATCH
from .state import NO_LIMIT, State, blank

SMALL_SEGMENT, LARGE_SEGMENT, HELD, ALLOCATE, RELEASE, PASS = range(6)
EVENT_ROWS = np.dtype(
    [
        ("kind", "i8"),  # as above; PASS: nothing happens
        ("address", "i8"),  # of what was there; then where an allocation was placed, or NONE
        ("size_bytes", "i8"),
        ("allocated_by", "i8"),  # RELEASE: the row of what is released
        ("piece", "i8"),
        ("allocated_bytes", "i8"),  # after it, in blocks
        ("reserved_bytes", "i8"),
    ],
    align=True,
)


class Events(Bundle):
    """Rows of `EVENT_ROWS`."""

    rows: Any
    LAYOUT: ClassVar[dict[str, Any]] = {"rows": EVENT_ROWS}


@kernel
def hold(state: State, address: int, size_bytes: int) -> int:
    """Take a block in the last segment, behind all that is held there; give its piece."""
    head = state.pieces[CHAIN].left
    p = state.pieces[head].before
    cut(state, p, state.pieces[p].address + state.pieces[p].size_bytes - address, HIGH)
    rest = state.pieces[p].size_bytes - size_bytes
    if rest > 0:
        state.pieces[p].size_bytes = size_bytes
        leave_free(state, p, p, address + size_bytes, rest)
    state.space[0].occupied_bytes += size_bytes
    return p


@kernel
def add_reserved(state: State, pool: int, address: int, size_bytes: int) -> int:
    """Add a segment behind the others, all of it free; give its piece."""
    head = add_segment(state, pool, state.pieces[CHAIN].left, address, size_bytes)
    p = state.pieces[head].after
    map_piece(state, p, size_bytes)
    return p


def replay_rows(events: Events, state: State, count: int) -> int:
    """Let so many events happen, from nothing on; give the largest hole after the last."""
    begin(state)
    for i in range(count):
        row = events.rows[i]
        if row.kind == ALLOCATE:
            p = allocate(state, row.size_bytes, LOW)
            row.piece, row.address = p, NONE
            if p != NONE:
                state.pieces[p].storage = SCRATCH
                row.address = state.pieces[p].address
        elif row.kind == RELEASE:
            p = events.rows[row.allocated_by].piece
            if p != NONE:
                free(state, p)
        elif row.kind == HELD:
            row.piece = hold(state, row.address, row.size_bytes)
            state.pieces[row.piece].storage = SCRATCH
        elif row.kind == SMALL_SEGMENT:
            add_reserved(state, SMALL, row.address, row.size_bytes)
        elif row.kind == LARGE_SEGMENT:
            add_reserved(state, LARGE, row.address, row.size_bytes)
        row.allocated_bytes = state.space[0].occupied_bytes
        row.reserved_bytes = state.space[0].reserved_bytes
    return largest_hole(state)


@functools.cache
def _entry() -> Entry:
    return entry(replay_rows, (Events, State))


def replay_events(
    rows: NDArray[Any], settings: AllocatorSettings, budget_bytes: int | None = None
) -> State:
    """Let events happen in the model.

    Parameters
    ----------
    rows : ndarray of EVENT_ROWS
        What was there, by address, then what happens. Addresses of allocations, and what is
        allocated and reserved after each, are written into it.
    settings : AllocatorSettings
    budget_bytes : int, optional
        What may be reserved.

    Returns
    -------
    State
        As the last event left it: its row of ``space`` counts retries and the peak.
    """
    state = blank({"pieces": 4 * len(rows) + 64})
    asked = settings.as_integers()
    state.settings[: len(asked)] = asked
    state.room["budget_bytes"] = NO_LIMIT if budget_bytes is None else budget_bytes
    table = Events(rows=rows.view(np.recarray))
    _entry().function(table, state, len(rows))
    return state
