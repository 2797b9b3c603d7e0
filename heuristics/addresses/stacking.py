"""stacking: a tree search from the lowest address up, below a capacity; can prove that none fits.

After MiniMalloc (Moffitt, ASPLOS 2023). Several orders of preference take turns; later ones are
disturbed at random, and prefer what lives where earlier searches failed: what one order never
finds, another has at once. Two series run side by side, each on a processor: one looks at more
nodes each time around, in the other all searches are short. The kernels are in ``stacking.py`` of
the package.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from ...buffers import Buffers, peak_in_life, sections, unit
from ...jit import Entry, entry
from ...stacking import search_tree
from ...stacking_state import (
    FAILED_FIELDS,
    FOUND,
    FRAME_FIELDS,
    IMPOSSIBLE,
    NO_ROOM,
    NONE,
    NOT_PLACED,
    PART_FIELDS,
    RUN_FIELDS,
    TRAIL_FIELDS,
    Stack,
    Tree,
)
from .fits import first_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .searching import Search

    Int64 = NDArray[np.int64]

MOST_BUFFERS = 3_000  # the stacks of a search grow with the square
FIRST_NODES, TURN_NODES = 2_000, 500
GROWTHS = (1.2, 1.0)  # of the nodes, each time around, in two series of searches
KNOWN_STATES = 1 << 18
NOISES, WEIGHTS = (0.1, 0.3, 0.6), (0.0, 1.0, 3.0)  # of disturbance, and of failures
FADING = 0.8  # what is left of earlier failures, search by search


@functools.cache
def search_entry() -> Entry:
    """Get `stacking.search_tree`."""
    return entry(search_tree, (Stack, Tree))


def stacking(search: Search) -> None:
    """Look for a plan at the target; where that is proven impossible, for a higher one."""
    if search.best is None:
        first_fit(search)
    while not search.is_over and len(search.buffers) <= MOST_BUFFERS:
        proven = stack_below(search, search.target)
        if not proven or search.is_done:
            return
        search.raise_bound(search.target + unit(search.buffers))


def stack_below(search: Search, capacity: int) -> bool:
    """Look for a plan no higher than that; say whether it was found, or is impossible."""
    solid = np.flatnonzero(search.buffers.size > 0)
    buffers = search.buffers.part(solid)
    series = [_Restarts(buffers, capacity, search.seed, growth) for growth in GROWTHS]
    with ThreadPoolExecutor(len(series)) as threads:
        while True:
            # In step, so that which is the first to find a plan does not depend on the machine.
            codes = list(threads.map(_Restarts.go_on, series))
            for one, code in zip(series, codes, strict=True):
                if code == FOUND:
                    address = np.zeros(len(search.buffers), np.int64)
                    address[solid] = one.tree.at
                    search.offer(address)
                if code in (FOUND, IMPOSSIBLE):
                    return True
            if NO_ROOM in codes or search.is_over:
                return False


_FEATURES = (
    ("life", "area", "load"),
    ("load", "area", "life"),
    ("load", "life", "area"),
    ("width", "surface", "load"),
    ("load", "surface", "width"),
    ("load", "width", "surface"),
    ("surface", "width", "load"),
)


class _Restarts:
    """Searches one after another, each in another order; one at a time, a turn at a time.

    Parameters
    ----------
    buffers : Buffers
        Of which none is empty.
    capacity, seed : int
    growth : float
        How many times as many nodes a search may look at each time around. Where that is 1, all
        are short, and the orders are disturbed from the start.

    Attributes
    ----------
    tree : Tree
        The search under way.
    """

    def __init__(self, buffers: Buffers, capacity: int, seed: int, growth: float) -> None:
        self._buffers, self._capacity, self._growth = buffers, capacity, growth
        self._orders, self._stack = _Orders(buffers, seed, growth > 1), _stack(buffers, seed)
        self._nodes, self._names = float(FIRST_NODES), list(_FEATURES)
        self._begin()

    def go_on(self) -> int:
        """Look at some more nodes, in another search if this one has had its share."""
        if self._left <= 0:
            self._orders.learn(self.tree.failures)
            self._begin()
        self._left -= TURN_NODES
        return int(search_entry().function(self._stack, self.tree, TURN_NODES))

    def _begin(self) -> None:
        """Begin with the next order."""
        if not self._names:
            self._names = list(_FEATURES)
            self._nodes *= self._growth
            self._orders.is_first = False
        order = self._orders.order(self._names.pop(0))
        self._stack.by_rank[:] = order
        self._stack.rank[order] = np.arange(len(order))
        self.tree = _tree(self._buffers, self._stack, self._capacity)
        self._left = int(self._nodes)


class _Orders:
    """Orders of preference, one after another; the first ones may be left as they are."""

    def __init__(self, buffers: Buffers, seed: int, is_first: bool) -> None:
        self._first, self._end, count = sections(buffers)
        life = (buffers.upper - buffers.lower).astype(float)
        width, size = (self._end - self._first).astype(float), buffers.size.astype(float)
        self._features = {"life": life, "width": width, "area": life * size}
        self._features |= {"surface": width * size, "load": peak_in_life(buffers).astype(float)}
        self._failures = np.zeros(count + 1)
        self._random = np.random.default_rng(seed)
        self.is_first = is_first  # these are not disturbed

    def learn(self, failures: Int64) -> None:
        """Take how often a search failed in each section."""
        self._failures = FADING * self._failures + failures / max(1, int(failures.sum()))

    def order(self, names: tuple[str, ...]) -> Int64:
        """Give an order by some features, the largest first."""
        weights = np.ones(len(self._first))
        noise = 0.0
        if not self.is_first:
            noise, weight = self._random.choice(NOISES), self._random.choice(WEIGHTS)
            worst = [self._failures[a:b].max() for a, b in zip(self._first, self._end, strict=True)]
            weights += weight * np.array(worst) / (self._failures.max() or 1.0)
        keys = [self._features[name] * weights * np.exp(noise * self._normal()) for name in names]
        return np.lexsort([-key for key in reversed(keys)])

    def _normal(self) -> NDArray[np.float64]:
        return self._random.standard_normal(len(self._first))


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
        by_bound=np.zeros(count, np.int32),
        floor=np.zeros(n_sections + 1, np.int64),
        failures=np.zeros(n_sections + 1, np.int64),
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
