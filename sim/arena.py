"""Kernels: the memory model ``arena``: one stretch of addresses, best fit, merging at once.

As in Coop (Zhang et al., NeurIPS 2023): sizes are rounded up to 512 bytes, a request gets the
smallest free piece that is large enough, of equal ones the lowest, and takes it from the low end
or, as its call's side says, from the high end; a tensor never moves. On request, objects of up to
10 KiB have an area of their own at the arena's end, and go elsewhere only when that is full.
"""

from __future__ import annotations

from .jit import kernel
from .pieces import add_bytes, best_fit, clear, cut, largest, open_area, set_free
from .serving import Serve, make_serve
from .space import LOW, NONE
from .state import State

ALIGNMENT = 512  # bytes
SMALL_OBJECT = 10 << 10  # bytes, at most
MOST_BYTES = 1 << 62

# Settings.
SMALL_AREA_BYTES = 0  # 0: no such area

MAIN, SMALL = 0, 1  # heads of the areas


@kernel
def rounded(size_bytes: int) -> int:
    """Round a size up to the alignment."""
    return (size_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@kernel
def begin(state: State) -> None:
    """Make an empty arena of the budget, rounded down; too small a one has no area apart."""
    space = state.space[0]
    size = min(state.memory[0].budget_bytes, MOST_BYTES) // ALIGNMENT * ALIGNMENT
    small = rounded(state.settings[SMALL_AREA_BYTES])
    if 2 * small > size:
        small = 0
    clear(state)
    open_area(state)
    open_area(state)
    if size > small:
        add_bytes(state, MAIN, 0, size - small)
    if small > 0:
        add_bytes(state, SMALL, size - small, small)
    space.size_bytes = size
    space.untouched_begin, space.untouched_end = 0, size - small
    space.small_untouched_bytes = small


@kernel
def take(state: State, area: int, size: int, side: int) -> int:
    """Take a rounded size out of an area."""
    p = best_fit(state, area, size)
    if p != NONE:
        cut(state, p, size, side)
        state.space[0].occupied_bytes += size
    return p


@kernel
def allocate(state: State, size_bytes: int, side: int) -> int:
    """Find a piece for a size and take it; NONE if none is large enough."""
    size = rounded(size_bytes)
    if size_bytes <= SMALL_OBJECT:
        p = take(state, SMALL, size, LOW)
        if p != NONE:
            return p
    return take(state, MAIN, size, side)


@kernel
def free(state: State, p: int) -> None:
    """Let a piece go."""
    state.space[0].occupied_bytes -= state.pieces[p].size_bytes
    set_free(state, p)


@kernel
def settle(state: State, p: int, side: int) -> None:
    """Note that addresses have been in use; those that have not are one stretch in each area."""
    space, piece = state.space[0], state.pieces[p]
    begin, end = piece.address, piece.address + piece.size_bytes
    if piece.area == SMALL:
        space.small_untouched_bytes = min(space.small_untouched_bytes, space.size_bytes - end)
    elif begin < space.untouched_end and end > space.untouched_begin:
        if side == LOW:
            space.untouched_begin = min(end, space.untouched_end)
        else:
            space.untouched_end = max(begin, space.untouched_begin)
    untouched = space.untouched_end - space.untouched_begin + space.small_untouched_bytes
    space.reserved_bytes = space.size_bytes - untouched
    space.reserved_peak_bytes = max(space.reserved_peak_bytes, space.reserved_bytes)


@kernel
def largest_hole(state: State) -> int:
    """Give the size of the largest free piece."""
    size = 0
    for area in (MAIN, SMALL):
        p = largest(state, area)
        if p != NONE:
            size = max(size, state.pieces[p].size_bytes)
    return size


def serve_arena() -> Serve:
    """Make the entry point."""
    return make_serve(begin, allocate, free, settle, largest_hole)
