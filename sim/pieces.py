"""Kernels: memory with addresses as pieces, each in use or free, that split and merge.

A piece is a record of `space.PIECE_FIELDS`, known by its number, which stays the same while it
grows or shrinks. Pieces are linked to their neighbors by address, and free ones of an *area* stand
in a tree ordered by size, then address: what is free and smallest is found in logarithmic time, and
so are insertion and removal. Records of pieces that are gone are used again.

An area is known by the number of its *head*, a piece without bytes that is linked before its first
piece and after its last, and holds the root of its tree. The tree is a treap; its priorities are
pseudo-random and decide nothing but its shape.
"""

from __future__ import annotations

from .jit import kernel, shared_kernel
from .randomness import MODULUS, MULTIPLIER
from .space import FREE, HEAD, LOW, NONE
from .state import State

LEFT, RIGHT = 0, 1


@kernel
def clear(state: State) -> None:
    """Forget all pieces."""
    space = state.space[0]
    space.pieces, space.spare, space.priority = 0, NONE, 1


@shared_kernel
def new_piece(state: State, area: int, address: int, size_bytes: int) -> int:
    """Make a record of a piece that is linked to nothing and not in the tree yet."""
    space = state.space[0]
    p: int = space.spare
    if p == NONE:
        p = space.pieces
        space.pieces += 1
    else:
        space.spare = state.pieces[p].after
    space.priority = space.priority * MULTIPLIER % MODULUS
    piece = state.pieces[p]
    piece.address, piece.size_bytes, piece.storage, piece.area = address, size_bytes, FREE, area
    piece.before, piece.after, piece.left, piece.right = NONE, NONE, NONE, NONE
    piece.priority, piece.mark = space.priority, 0
    piece.asked_bytes, piece.stamp = 0, 0
    return p


@kernel
def open_area(state: State) -> int:
    """Make an area without pieces; give its head."""
    head = new_piece(state, NONE, 0, 0)
    piece = state.pieces[head]
    piece.storage, piece.area = HEAD, head
    piece.before = piece.after = head
    return head


@kernel
def link(state: State, p: int, before: int) -> None:
    """Put a piece behind another by address."""
    after = state.pieces[before].after
    state.pieces[p].before, state.pieces[p].after = before, after
    state.pieces[before].after = p
    state.pieces[after].before = p


@kernel
def forget(state: State, p: int) -> None:
    """Take a piece, in no tree, from between its neighbors and keep its record for another."""
    before, after = state.pieces[p].before, state.pieces[p].after
    state.pieces[before].after = after
    state.pieces[after].before = before
    state.pieces[p].after = state.space[0].spare
    state.space[0].spare = p


@kernel
def add_bytes(state: State, area: int, address: int, size_bytes: int) -> int:
    """Give an area bytes beyond its last piece, as a free piece."""
    p = new_piece(state, area, address, size_bytes)
    link(state, p, state.pieces[area].before)
    insert(state, p)
    return p


@kernel
def _precedes(state: State, p: int, q: int) -> bool:
    """Say whether a piece stands before another in the order of the tree."""
    one, other = state.pieces[p], state.pieces[q]
    if one.size_bytes != other.size_bytes:
        return one.size_bytes < other.size_bytes  # type: ignore[no-any-return]
    return one.address < other.address  # type: ignore[no-any-return]


@kernel
def _child(state: State, p: int, side: int) -> int:
    return state.pieces[p].left if side == LEFT else state.pieces[p].right  # type: ignore[no-any-return]


@kernel
def _set_child(state: State, p: int, side: int, child: int) -> None:
    if side == LEFT:
        state.pieces[p].left = child
    else:
        state.pieces[p].right = child


@shared_kernel
def insert(state: State, p: int) -> None:
    """Put a free piece into the tree of its area."""
    piece = state.pieces[p]
    owner, side = piece.area, LEFT
    node = _child(state, owner, side)
    while node != NONE and state.pieces[node].priority >= piece.priority:
        owner, side = node, RIGHT if _precedes(state, node, p) else LEFT
        node = _child(state, owner, side)
    _set_child(state, owner, side, p)
    # What stood there is split into what precedes the piece and what follows it.
    low, low_side, high, high_side = p, LEFT, p, RIGHT
    while node != NONE:
        if _precedes(state, node, p):
            _set_child(state, low, low_side, node)
            low, low_side = node, RIGHT
            node = state.pieces[node].right
        else:
            _set_child(state, high, high_side, node)
            high, high_side = node, LEFT
            node = state.pieces[node].left
    _set_child(state, low, low_side, NONE)
    _set_child(state, high, high_side, NONE)


@shared_kernel
def remove(state: State, p: int) -> None:
    """Take a free piece out of the tree of its area."""
    owner, side = state.pieces[p].area, LEFT
    node = _child(state, owner, side)
    while node != p:
        owner, side = node, RIGHT if _precedes(state, node, p) else LEFT
        node = _child(state, owner, side)
    low, high = state.pieces[p].left, state.pieces[p].right
    while low != NONE and high != NONE:
        if state.pieces[low].priority >= state.pieces[high].priority:
            _set_child(state, owner, side, low)
            owner, side, low = low, RIGHT, state.pieces[low].right
        else:
            _set_child(state, owner, side, high)
            owner, side, high = high, LEFT, state.pieces[high].left
    _set_child(state, owner, side, low if low != NONE else high)


@kernel
def best_fit(state: State, area: int, size_bytes: int) -> int:
    """Find the smallest free piece of so many bytes, of equal ones the lowest; NONE if none is."""
    found, node = NONE, state.pieces[area].left
    while node != NONE:
        if state.pieces[node].size_bytes >= size_bytes:
            found, node = node, state.pieces[node].left
        else:
            node = state.pieces[node].right
    return found


@kernel
def next_larger(state: State, p: int) -> int:
    """Find the free piece that follows one in the tree of its area; NONE if none does."""
    found, node = NONE, state.pieces[state.pieces[p].area].left
    while node != NONE:
        if _precedes(state, p, node):
            found, node = node, state.pieces[node].left
        else:
            node = state.pieces[node].right
    return found


@kernel
def has_records(state: State, count: int) -> bool:
    """Say whether so many pieces more can be kept."""
    left = len(state.pieces) - state.space[0].pieces
    spare = state.space[0].spare
    while left < count and spare != NONE:
        left += 1
        spare = state.pieces[spare].after
    return left >= count  # type: ignore[no-any-return]


@kernel
def largest(state: State, area: int) -> int:
    """Find the largest free piece; NONE if none is."""
    found, node = NONE, state.pieces[area].left
    while node != NONE:
        found, node = node, state.pieces[node].right
    return found


@shared_kernel
def cut(state: State, p: int, size_bytes: int, side: int) -> None:
    """Take a free piece out of the tree, cut to size at one end; the rest is a free piece."""
    remove(state, p)
    piece = state.pieces[p]
    rest = piece.size_bytes - size_bytes
    if rest == 0:
        return
    piece.size_bytes = size_bytes
    if side == LOW:
        q = new_piece(state, piece.area, piece.address + size_bytes, rest)
        link(state, q, p)
    else:
        q = new_piece(state, piece.area, piece.address, rest)
        link(state, q, piece.before)
        piece.address += rest
    insert(state, q)


@shared_kernel
def set_free(state: State, p: int) -> int:
    """Free a piece: it merges with its free neighbors at once. Give the free piece, p itself."""
    piece = state.pieces[p]
    piece.storage = FREE
    after = piece.after
    if state.pieces[after].storage == FREE:
        remove(state, after)
        piece.size_bytes += state.pieces[after].size_bytes
        forget(state, after)
    before = piece.before
    if state.pieces[before].storage == FREE:
        remove(state, before)
        piece.address = state.pieces[before].address
        piece.size_bytes += state.pieces[before].size_bytes
        forget(state, before)
    insert(state, p)
    return p
