"""Kernels: the memory model ``caching``, PyTorch's allocator for CUDA devices, on one stream.

The rules, and where they are known from, are in ``docs/caching.md``; the settings in
``allocator_settings.py``. Memory comes in segments (``segments.py``), which belong to a pool for
small blocks or to one for large ones and stay reserved when their blocks are freed.
"""

from __future__ import annotations

from .expanding import LARGE_PAGE, expand, unmap_pages
from .jit import kernel, shared_kernel
from .pieces import best_fit, clear, cut, has_records, largest, next_larger, open_area, remove
from .segments import (
    CHAIN,
    LARGE,
    SMALL,
    UNMAPPED,
    can_reserve,
    drop_segment,
    is_whole,
    map_piece,
    new_segment,
    settle_free,
)
from .serving import Serve, make_serve
from .space import LOW, NONE
from .state import NO_LIMIT, State

MIB = 1 << 20
ALIGNMENT = 512  # bytes
SMALL_REQUEST = MIB  # at most
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB  # for requests of less than OWN_SEGMENT
OWN_SEGMENT = 10 * MIB
SEGMENT_UNIT = 2 * MIB  # of larger ones
FIRST_INTERVAL = 20  # the logarithm of 1 MiB
INTERVALS = 16
BILLION = 1_000_000_000
SPARE_RECORDS = 8  # an allocation needs no more

# Settings, as `AllocatorSettings.as_integers` gives them.
MAX_SPLIT, MAX_ROUNDING, GARBAGE, EXPANDABLE, DIVISIONS = range(5)


@kernel
def begin(state: State) -> None:
    """Reserve nothing."""
    clear(state)
    for _ in range(3):
        open_area(state)
    state.pieces[CHAIN].left = state.pieces[CHAIN].right = CHAIN
    state.space[0].size_bytes = state.memory[0].budget_bytes


@kernel
def rounded(state: State, size_bytes: int) -> int:
    """Give the size of the block that a request needs."""
    place = 0
    while place < INTERVALS - 1 and size_bytes >> (FIRST_INTERVAL + 1 + place) > 0:
        place += 1
    divisions, part = state.settings[DIVISIONS + place], ALIGNMENT
    if divisions > 1 and size_bytes > ALIGNMENT * divisions:
        below = ALIGNMENT
        while below <= size_bytes >> 1:
            below *= 2
        part = below // divisions
    return max((size_bytes + part - 1) // part * part, ALIGNMENT)


@kernel
def room(state: State, p: int) -> int:
    """Give what a free piece can grow to."""
    size, after = state.pieces[p].size_bytes, state.pieces[p].after
    if state.pieces[after].storage == UNMAPPED:
        size += state.pieces[after].size_bytes
    return size


@kernel
def find(state: State, pool: int, size: int) -> int:
    """Find the best fit, if it may be used; a piece that can grow comes after those that cannot."""
    p = best_fit(state, pool, size)
    if p == NONE:
        return NONE
    if state.settings[EXPANDABLE]:
        q = next_larger(state, p)
        while q != NONE and room(state, q) < room(state, p):
            p = q
            q = next_larger(state, p)
    limit, found = state.settings[MAX_SPLIT], state.pieces[p].size_bytes
    if size < limit:
        return NONE if found >= limit else p
    return NONE if found >= size + state.settings[MAX_ROUNDING] else p


@kernel
def segment_size(pool: int, size: int) -> int:
    """Give the size of a segment for a request."""
    if pool == SMALL:
        return SMALL_SEGMENT
    if size < OWN_SEGMENT:
        return LARGE_SEGMENT
    return (size + SEGMENT_UNIT - 1) // SEGMENT_UNIT * SEGMENT_UNIT


@kernel
def grow(state: State, pool: int, size: int) -> int:
    """Take memory from the device: a free piece of the size, or NONE if there is not so much."""
    if state.settings[EXPANDABLE]:
        return expand(state, pool, size)
    total = segment_size(pool, size)
    if not can_reserve(state, total):
        return NONE
    p = new_segment(state, pool, total)
    map_piece(state, p, total)
    return p


@shared_kernel
def give_back(state: State) -> bool:
    """Give back all whole segments, or pages, that are not in use; say whether any were."""
    before = state.space[0].reserved_bytes
    head = state.pieces[CHAIN].right
    while head != CHAIN:
        after = state.pieces[head].right
        if state.settings[EXPANDABLE]:
            unmap_pages(state, head)
        elif is_whole(state, head):
            drop_segment(state, head)
        head = after
    return state.space[0].reserved_bytes < before


@kernel
def give_back_oversize(state: State, pool: int, size: int) -> bool:
    """Give back oversize blocks, enough for a request; say whether they are enough."""
    limit = state.settings[MAX_SPLIT]
    wanted, given = max(size, limit), 0
    if state.settings[EXPANDABLE]:
        return False
    p = best_fit(state, pool, wanted)
    if p != NONE:
        drop_segment(state, state.pieces[p].mark)
        return True
    p = largest(state, pool)
    while given < wanted and p != NONE and state.pieces[p].size_bytes >= limit:
        given += state.pieces[p].size_bytes
        drop_segment(state, state.pieces[p].mark)
        p = largest(state, pool)
    return given >= wanted


@shared_kernel
def collect_garbage(state: State) -> None:
    """Give back whole free segments, the older ones first, above a share of the budget."""
    limit, share = state.memory[0].budget_bytes, state.settings[GARBAGE]
    if share == 0 or limit == NO_LIMIT or state.settings[EXPANDABLE]:
        return
    excess = state.space[0].reserved_bytes - int(limit * (share / BILLION))
    now, found = state.pieces[LARGE].stamp, True
    while excess > 0 and found:
        count, ages = 0, 0
        head = state.pieces[CHAIN].right
        while head != CHAIN:
            if state.pieces[head].area == LARGE and is_whole(state, head):
                count += 1
                ages += now - state.pieces[state.pieces[head].after].stamp
            head = state.pieces[head].right
        found = count > 0
        head = state.pieces[CHAIN].right
        while head != CHAIN:
            after = state.pieces[head].right
            if state.pieces[head].area == LARGE and is_whole(state, head):
                age = now - state.pieces[state.pieces[head].after].stamp
                if age * count >= ages:
                    excess -= state.pieces[head].size_bytes
                    drop_segment(state, head)
            head = after


@kernel
def take(state: State, p: int, pool: int, size: int) -> None:
    """Take a free piece, cut to size if what remains is worth it."""
    rest = state.pieces[p].size_bytes - size
    if pool == SMALL or state.settings[EXPANDABLE]:
        is_split = rest >= ALIGNMENT
    else:
        is_split = rest > SMALL_REQUEST and size < state.settings[MAX_SPLIT]
    if not is_split:
        remove(state, p)
        return
    cut(state, p, size, LOW)
    q = state.pieces[p].after
    state.pieces[q].mark, state.pieces[q].stamp = state.pieces[p].mark, state.pieces[pool].stamp


@shared_kernel
def allocate(state: State, size_bytes: int, side: int) -> int:
    """Find a piece for a size and take it, at its low end; NONE if memory has run out."""
    size = rounded(state, size_bytes)
    pool = SMALL if size <= SMALL_REQUEST else LARGE
    state.pieces[pool].stamp += 1
    p = find(state, pool, size)
    if not has_records(state, SPARE_RECORDS):
        p = NONE
    if p == NONE:
        collect_garbage(state)
        p = grow_if_kept(state, pool, size)
    if p == NONE and give_back_oversize(state, pool, size):
        p = grow_if_kept(state, pool, size)
    if p == NONE:
        state.space[0].retries += give_back(state)
        p = grow_if_kept(state, pool, size)
    if p != NONE:
        take(state, p, pool, size)
        state.space[0].occupied_bytes += state.pieces[p].size_bytes
    return p


@kernel
def grow_if_kept(state: State, pool: int, size: int) -> int:
    """Take memory from the device if there are records for it."""
    return grow(state, pool, size) if has_records(state, SPARE_RECORDS) else NONE


@kernel
def free(state: State, p: int) -> None:
    """Let a piece go; its segment stays."""
    state.space[0].occupied_bytes -= state.pieces[p].size_bytes
    settle_free(state, p)


@kernel
def settle(state: State, p: int, side: int) -> None:
    """Do nothing: what is reserved stays reserved, whether the call fits or not."""


@kernel
def largest_hole(state: State) -> int:
    """Give the largest request that finds a place, in what is reserved or beyond."""
    size = 0
    for pool in (SMALL, LARGE):
        p = largest(state, pool)
        if p != NONE:
            piece = state.pieces[p].size_bytes
            size = max(size, min(piece, SMALL_REQUEST) if pool == SMALL else piece)
    left = state.memory[0].budget_bytes - state.space[0].reserved_bytes
    unit = LARGE_PAGE if state.settings[EXPANDABLE] else SEGMENT_UNIT
    if left >= max(OWN_SEGMENT, unit):
        return max(size, left // unit * unit)
    return max(size, SMALL_REQUEST) if left >= SMALL_SEGMENT else size


def serve_caching() -> Serve:
    """Make the entry point."""
    return make_serve(begin, allocate, free, settle, largest_hole)
