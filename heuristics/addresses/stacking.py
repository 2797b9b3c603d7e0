"""stacking: a tree search from the lowest address up, below a capacity; can prove that none fits.

After MiniMalloc (Moffitt, ASPLOS 2023). Several orders of preference take turns, each time with
twice the nodes, and later ones are disturbed at random: what one order never finds, another has at
once. The kernels are in ``stacking.py`` of the package.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...buffers import Buffers, peak_in_life, sections
from ...jit import Entry, entry
from ...stacking import (
    FAILED_FIELDS,
    FOUND,
    FRAME_FIELDS,
    GOING_ON,
    IMPOSSIBLE,
    NONE,
    NOT_PLACED,
    PART_FIELDS,
    RUN_FIELDS,
    TRAIL_FIELDS,
    Stack,
    Tree,
    search_tree,
)
from .fits import first_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .searching import Search

    Int64 = NDArray[np.int64]

MOST_BUFFERS = 3_000  # the stacks of a search grow with the square
FIRST_NODES, CHUNK_NODES = 2_000, 500
KNOWN_STATES = 1 << 18
NOISE = 0.3  # how far features of a buffer are disturbed
UNDISTURBED = 2  # rounds


@functools.cache
def _search_tree() -> Entry:
    return entry(search_tree, (Stack, Tree))


def stacking(search: Search) -> None:
    """Look for a plan at the target; where that is proven impossible, for a higher one."""
    if search.best is None:
        first_fit(search)
    while not search.is_over and len(search.buffers) <= MOST_BUFFERS:
        proven = stack_below(search, search.target)
        if not proven or search.is_done:
            return
        search.raise_bound(search.target + _unit(search.buffers))


def stack_below(search: Search, capacity: int) -> bool:
    """Look for a plan no higher than that; say whether it was found, or is impossible."""
    solid = np.flatnonzero(search.buffers.size > 0)
    buffers = search.buffers.part(solid)
    stack = _stack(buffers, search.seed)
    nodes = FIRST_NODES
    for number, order in enumerate(_orders(buffers, search.seed)):
        if number % len(_FEATURES) == 0 and number:
            nodes *= 2
        stack.by_rank[:] = order
        stack.rank[order] = np.arange(len(order))
        tree = _tree(buffers, stack, capacity)
        code = _take_nodes(search, stack, tree, nodes)
        if code == FOUND:
            address = np.zeros(len(search.buffers), np.int64)
            address[solid] = tree.at
            search.offer(address)
        if code in (FOUND, IMPOSSIBLE):
            return True
        if search.is_over:
            return False
    raise AssertionError("there is always another order")


def _take_nodes(search: Search, stack: Stack, tree: Tree, nodes: int) -> int:
    """Look at so many nodes, fewer when time is over."""
    code = GOING_ON
    for _ in range(-(-nodes // CHUNK_NODES)):
        code = _search_tree().function(stack, tree, CHUNK_NODES)
        if code != GOING_ON or search.clock.is_over:
            break
    return code


def _unit(buffers: Buffers) -> int:
    """Give the number of which all sizes and alignments are multiples, and so all heights."""
    solid = buffers.size > 0
    return int(np.gcd(np.gcd.reduce(buffers.size[solid]), np.gcd.reduce(buffers.alignment[solid])))


_FEATURES = (
    ("life", "area", "load"),
    ("load", "area", "life"),
    ("load", "life", "area"),
    ("area", "life", "load"),
    ("size", "life", "load"),
)


def _orders(buffers: Buffers, seed: int) -> Iterator[Int64]:
    """Give orders without end."""
    life = (buffers.upper - buffers.lower).astype(float)
    size, load = buffers.size.astype(float), peak_in_life(buffers).astype(float)
    features = {"life": life, "size": size, "load": load, "area": life * size}
    random = np.random.default_rng(seed)
    turn = 0
    while True:
        spread = NOISE if turn >= UNDISTURBED else 0.0
        for names in _FEATURES:
            disturbed = [
                features[name] * np.exp(spread * random.standard_normal(len(buffers)))
                for name in names
            ]
            yield np.lexsort([-key for key in reversed(disturbed)])
        turn += 1


def _stack(buffers: Buffers, seed: int) -> Stack:
    first, end, _ = sections(buffers)
    lives_with = (first[:, None] < end) & (first < end[:, None])
    np.fill_diagonal(lives_with, False)
    count = len(buffers)
    codes = np.random.default_rng(seed).integers(1, 2**62, count) | 1
    return Stack(
        first=first.astype(np.int32),
        end=end.astype(np.int32),
        size=buffers.size,
        alignment=buffers.alignment,
        rank=np.zeros(count, np.int32),
        by_rank=np.zeros(count, np.int32),
        neighbor_pointer=np.concatenate([[0], np.cumsum(lives_with.sum(axis=1))]),
        neighbors=np.nonzero(lives_with)[1].astype(np.int32),
        code=codes,
    )


def _tree(buffers: Buffers, stack: Stack, capacity: int) -> Tree:
    """Make a search that stands at its root."""
    count, n_sections = len(buffers), sections(buffers)[2]
    change = np.zeros(n_sections + 1, np.int64)
    np.add.at(change, stack.first, buffers.size)
    np.subtract.at(change, stack.end, buffers.size)
    load = np.cumsum(change)
    tree = Tree(
        lowest=np.zeros(count, np.int64),
        bound=np.zeros(count, np.int64),
        at=np.full(count, NOT_PLACED, np.int64),
        load=load,
        floor=np.zeros(n_sections + 1, np.int64),
        cover=np.zeros(n_sections + 1, np.int32),
        left=np.zeros(count * (count + 11), np.int32),
        choices=np.zeros(count * (count + 11), np.int32),
        frames=np.zeros(3 * count + 11, FRAME_FIELDS).view(np.recarray),
        parts=np.zeros(3 * count + 11, PART_FIELDS).view(np.recarray),
        trail=np.zeros(len(stack.neighbors) + 1, TRAIL_FIELDS).view(np.recarray),
        failed=np.zeros(KNOWN_STATES, FAILED_FIELDS).view(np.recarray),
        run=np.zeros(1, RUN_FIELDS).view(np.recarray),
    )
    tree.run["capacity"], tree.run["is_entering"] = capacity, 1
    root = tree.frames[0]
    root.end, root.rank, root.next_part, root.back = n_sections, NONE, NONE, NONE
    root.left_end = count
    tree.left[:count] = stack.by_rank
    return tree
