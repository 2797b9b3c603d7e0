"""Kernels: segments of the caching allocator, memory that is taken from the device at once.

A segment is a list of pieces with a head of its own, so that nothing merges across its ends; free
pieces stand in the tree of its pool. The heads of segments are chained by address (`left`,
`right`), and each piece knows its head (`mark`). `stamp` is how many requests its pool had seen
when a piece became free; of a pool's head, how many it has seen.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .pieces import forget, insert, link, new_piece, open_area, remove, set_free
from .space import FREE
from .state import State

SMALL, LARGE, CHAIN = 0, 1, 2  # heads of the pools, and of the chain of segments
UNMAPPED = -4  # in place of a storage: addresses of a segment without memory


@kernel
def reserve(state: State, size_bytes: int) -> None:
    """Account for bytes that are taken from the device, or given back where negative."""
    space = state.space[0]
    space.reserved_bytes += size_bytes
    space.reserved_peak_bytes = max(space.reserved_peak_bytes, space.reserved_bytes)


@kernel
def can_reserve(state: State, size_bytes: int) -> bool:
    """Say whether the device has so many bytes left."""
    return size_bytes <= state.memory[0].budget_bytes - state.space[0].reserved_bytes


@kernel
def is_whole(state: State, head: int) -> bool:
    """Say whether a segment is one free piece."""
    p = state.pieces[head].after
    return p == state.pieces[head].before and state.pieces[p].storage == FREE


@shared_kernel
def add_segment(state: State, pool: int, before: int, address: int, size_bytes: int) -> int:
    """Make a segment of addresses without memory, behind another in the chain; give its head."""
    head = open_area(state)
    row = state.pieces[head]
    row.area, row.address, row.size_bytes = pool, address, size_bytes
    after = state.pieces[before].right
    row.left, row.right = before, after
    state.pieces[before].right = head
    state.pieces[after].left = head
    p = new_piece(state, pool, address, size_bytes)
    state.pieces[p].storage, state.pieces[p].mark = UNMAPPED, head
    link(state, p, head)
    return head


@shared_kernel
def new_segment(state: State, pool: int, size_bytes: int) -> int:
    """Make a segment at the lowest addresses between the others; give its piece."""
    address, before = 0, CHAIN
    node = state.pieces[CHAIN].right
    while node != CHAIN and state.pieces[node].address - address < size_bytes:
        address = state.pieces[node].address + state.pieces[node].size_bytes
        before, node = node, state.pieces[node].right
    head = add_segment(state, pool, before, address, size_bytes)
    return state.pieces[head].after


@shared_kernel
def drop_segment(state: State, head: int) -> None:
    """Give back a segment that is one piece, free or unmapped."""
    row = state.pieces[head]
    p = row.after
    if state.pieces[p].storage == FREE:
        remove(state, p)
        reserve(state, -state.pieces[p].size_bytes)
    state.pieces[row.left].right = row.right
    state.pieces[row.right].left = row.left
    forget(state, p)
    forget(state, head)


@shared_kernel
def map_piece(state: State, p: int, size_bytes: int) -> None:
    """Back the first bytes of an unmapped piece by memory: it becomes free, and merges."""
    piece = state.pieces[p]
    rest = piece.size_bytes - size_bytes
    if rest > 0:
        q = new_piece(state, piece.area, piece.address + size_bytes, rest)
        state.pieces[q].storage, state.pieces[q].mark = UNMAPPED, piece.mark
        link(state, q, p)
        piece.size_bytes = size_bytes
    reserve(state, size_bytes)
    settle_free(state, p)


@kernel
def settle_free(state: State, p: int) -> None:
    """Make a piece free as of now."""
    set_free(state, p)
    state.pieces[p].stamp = state.pieces[state.pieces[p].area].stamp


@kernel
def leave_free(state: State, p: int, before: int, address: int, size_bytes: int) -> None:
    """Put what remains of a piece at one end behind another."""
    q = new_piece(state, state.pieces[p].area, address, size_bytes)
    state.pieces[q].mark = state.pieces[p].mark
    link(state, q, before)
    insert(state, q)
