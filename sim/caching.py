"""Kernels: the memory model ``caching``, PyTorch's allocator for CUDA devices, on one stream.

Memory is taken from the device in *segments*, which belong to a pool for small blocks or to one for
large ones and stay reserved when their blocks are freed. The rules and where they are known from
are in ``docs/caching.md``; the settings in ``allocator_settings.py``.

A segment is a list of pieces with a head of its own, so that nothing merges across its ends; free
pieces stand in their pool's tree. The heads of segments are chained by address (`left`, `right`),
and each piece knows its head (`mark`). `stamp` is how many requests its pool had seen when a piece
became free; of a pool's head, how many it has seen.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .pieces import (
    best_fit,
    clear,
    cut,
    forget,
    has_records,
    insert,
    largest,
    link,
    new_piece,
    next_larger,
    open_area,
    remove,
    set_free,
)
from .serving import Serve, make_serve
from .space import FREE, LOW, NONE
from .state import NO_LIMIT, State

MIB = 1 << 20
ALIGNMENT = 512  # bytes
SMALL_REQUEST = MIB  # at most
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB  # for requests of less than OWN_SEGMENT
OWN_SEGMENT = 10 * MIB
SEGMENT_UNIT = 2 * MIB  # of larger ones
MOST_ADDRESSES = 1 << 44  # of an expandable segment
FIRST_INTERVAL = 20  # the logarithm of 1 MiB
INTERVALS = 16
BILLION = 1_000_000_000
SPARE_RECORDS = 8  # an allocation needs no more

# Settings, as `AllocatorSettings.as_integers` gives them.
MAX_SPLIT, MAX_ROUNDING, GARBAGE, EXPANDABLE, DIVISIONS = range(5)

SMALL, LARGE, CHAIN = 0, 1, 2  # heads of the pools, and of the chain of segments
UNMAPPED = -4  # in place of a storage: addresses of an expandable segment without memory


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


@kernel
def page(pool: int) -> int:
    """Give the unit in which expandable segments get memory."""
    return SMALL_SEGMENT if pool == SMALL else LARGE_SEGMENT


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


@kernel
def leave_free(state: State, p: int, before: int, address: int, size_bytes: int) -> None:
    """Put what remains of a piece at one end behind another."""
    q = new_piece(state, state.pieces[p].area, address, size_bytes)
    state.pieces[q].mark = state.pieces[p].mark
    link(state, q, before)
    insert(state, q)


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
    unit = LARGE_SEGMENT if state.settings[EXPANDABLE] else SEGMENT_UNIT
    if left >= max(OWN_SEGMENT, unit):
        return max(size, left // unit * unit)
    return max(size, SMALL_REQUEST) if left >= SMALL_SEGMENT else size


def serve_caching() -> Serve:
    """Make the entry point."""
    return make_serve(begin, allocate, free, settle, largest_hole)
