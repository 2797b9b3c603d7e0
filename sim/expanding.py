"""Kernels: expandable segments of the caching allocator, addresses that get memory page by page."""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .pieces import forget, has_records, remove
from .segments import (
    CHAIN,
    SMALL,
    UNMAPPED,
    can_reserve,
    drop_segment,
    leave_free,
    map_piece,
    new_segment,
    reserve,
)
from .space import FREE, NONE
from .state import NO_LIMIT, State

MIB = 1 << 20
SMALL_PAGE, LARGE_PAGE = 2 * MIB, 20 * MIB
MOST_ADDRESSES = 1 << 44  # of a segment


@kernel
def page(pool: int) -> int:
    """Give the unit in which expandable segments get memory."""
    return SMALL_PAGE if pool == SMALL else LARGE_PAGE


@kernel
def whole_pages(pool: int, size: int) -> int:
    """Round up to pages."""
    return (size + page(pool) - 1) // page(pool) * page(pool)


@shared_kernel
def expand(state: State, pool: int, size: int) -> int:
    """Map pages where the request then fits first; a piece of the size, or NONE."""
    p = expandable_place(state, pool, size)
    if p == NONE:
        limit = state.memory[0].budget_bytes
        most = MOST_ADDRESSES if limit == NO_LIMIT else min(limit + limit // 8, MOST_ADDRESSES)
        if whole_pages(pool, most) < size:
            return NONE
        p = new_segment(state, pool, whole_pages(pool, most))
    while state.pieces[p].storage == UNMAPPED or state.pieces[p].size_bytes < size:
        missing = size
        if state.pieces[p].storage == FREE:
            missing -= state.pieces[p].size_bytes
            p = state.pieces[p].after
        pages = min(whole_pages(pool, missing), state.pieces[p].size_bytes)
        if not can_reserve(state, pages):
            return NONE
        map_piece(state, p, pages)
    return p


@kernel
def expandable_place(state: State, pool: int, size: int) -> int:
    """Find where free and unmapped pieces, one behind the other, first have room; or NONE."""
    head = state.pieces[CHAIN].right
    while head != CHAIN:
        start, total, has_unmapped = NONE, 0, False
        p = state.pieces[head].after
        while p != head and state.pieces[head].area == pool:
            storage = state.pieces[p].storage
            if storage not in (FREE, UNMAPPED):
                start, total, has_unmapped = NONE, 0, False
            else:
                if start == NONE:
                    start = p
                total += state.pieces[p].size_bytes
                has_unmapped = has_unmapped or storage == UNMAPPED
                if has_unmapped and total >= size:
                    return start
            p = state.pieces[p].after
        head = state.pieces[head].right
    return NONE


@shared_kernel
def unmap_pages(state: State, head: int) -> None:
    """Give back the pages that lie wholly inside free pieces of an expandable segment."""
    base, unit = state.pieces[head].address, page(state.pieces[head].area)
    p, is_changed = state.pieces[head].after, False
    while p != head:
        piece = state.pieces[p]
        if piece.storage == FREE and has_records(state, 2):
            start = base + (piece.address - base + unit - 1) // unit * unit
            end = base + (piece.address + piece.size_bytes - base) // unit * unit
            if start < end:
                unmap(state, p, start, end)
                is_changed = True
        p = state.pieces[p].after
    if is_changed and state.pieces[head].after == state.pieces[head].before:
        p = state.pieces[head].after
        if state.pieces[p].storage == UNMAPPED:
            drop_segment(state, head)


@kernel
def unmap(state: State, p: int, start: int, end: int) -> None:
    """Take the memory from addresses inside a free piece; it merges with unmapped neighbors."""
    remove(state, p)
    piece = state.pieces[p]
    low, high = start - piece.address, piece.address + piece.size_bytes - end
    if low > 0:
        leave_free(state, p, piece.before, piece.address, low)
    if high > 0:
        leave_free(state, p, p, end, high)
    piece.address, piece.size_bytes, piece.storage = start, end - start, UNMAPPED
    reserve(state, start - end)
    after, before = piece.after, piece.before
    if state.pieces[after].storage == UNMAPPED:
        piece.size_bytes += state.pieces[after].size_bytes
        forget(state, after)
    if state.pieces[before].storage == UNMAPPED:
        piece.address = state.pieces[before].address
        piece.size_bytes += state.pieces[before].size_bytes
        forget(state, before)
