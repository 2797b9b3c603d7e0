"""Where a real allocator's memory lay: before a profile's first event, and as its events go on.

A profile mostly starts in the middle of a process. What was there then is worked out from what the
profile says; where that is not enough, nothing is said of it, rather than something wrong.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .allocator_settings import DEFAULTS, MIB, AllocatorSettings
from .traces.memory_events import (
    ALLOC,
    FREE,
    MAP,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    UNMAP,
    MemoryEvents,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

SMALL = MIB  # bytes; what has more is in the large pool
SMALL_SEGMENT = 2 * MIB


class Block(NamedTuple):
    """Bytes from an address on."""

    address: int
    size: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


@dataclass
class Segment:
    """Memory that was taken from the device at once, and the blocks in it that are held."""

    block: Block
    is_small: bool
    held: list[Block] = field(default_factory=list)

    def free(self) -> Iterable[Block]:
        """Give what is between the blocks that are held."""
        starts = [self.block.address, *(held.end for held in self.held)]
        ends = [*(held.address for held in self.held), self.block.end]
        for start, end in zip(starts, ends, strict=True):
            if start < end:
                yield Block(start, end - start)


@dataclass
class Layout:
    """What there was.

    Attributes
    ----------
    segments : list of Segment
        By address.
    source : str
        ``"segments"``: all of it, from the segments at the end and the events, undone;
        ``"addresses"``: what events name of it; ``"nothing"``.
    """

    segments: list[Segment]
    source: str

    @property
    def held_bytes(self) -> int:
        """Bytes of blocks that were held."""
        return sum(held.size for segment in self.segments for held in segment.held)

    @property
    def reserved_bytes(self) -> int:
        """Bytes of segments."""
        return sum(segment.block.size for segment in self.segments)


NOTHING = "nothing"


def unsplit(settings: AllocatorSettings, size: int, rest: int) -> int:
    """Give what a block has besides its size because so much is not split off.

    Parameters
    ----------
    settings : AllocatorSettings
    size : int
        Rounded.
    rest : int
        Of the free block that it was taken from.
    """
    is_whole = size > SMALL and (rest <= SMALL or size >= settings.max_split_bytes)
    return rest if is_whole else 0


def starting_layout(events: MemoryEvents, settings: AllocatorSettings = DEFAULTS) -> Layout:
    """Work out what there was before the first event.

    Parameters
    ----------
    events : MemoryEvents
    settings : AllocatorSettings
        Of the allocator, for sizes of blocks.

    Returns
    -------
    Layout
        Without segments where they cannot be known: expandable ones, or events that contradict
        what there is at the end.

    Notes
    -----
    With the segments at the end (snapshots) events are undone from the last to the first. The
    allocator merges free neighbors at once, so that what is not held is known to be free, and in
    pieces that are known. A free says what was asked for; a block also has what lies between it and
    the next one if that is too little to be split off.

    Without them (Kineto traces) addresses that events name were there, free where no event shows
    that they were held: ranges that touch are one segment. What lies between and is never named
    stays unknown, though it may have been free.
    """
    found = _undone(events, settings) if events.has_segments else _named(events)
    if found is None or not all(map(_is_sound, found)) or _overlap([s.block for s in found]):
        return Layout([], NOTHING)
    return Layout(found, "segments" if events.has_segments else "addresses")


def _is_sound(segment: Segment) -> bool:
    """Say whether the blocks of a segment lie in it, each for itself, and none is empty."""
    whole = segment.block
    is_inside = all(
        whole.address <= held.address and held.end <= whole.end and held.size > 0
        for held in segment.held
    )
    return is_inside and whole.address >= 0 and whole.size > 0 and not _overlap(segment.held)


def _overlap(blocks: list[Block]) -> bool:
    """Say whether of blocks in order of address two have bytes in common."""
    return any(one.end > other.address for one, other in pairwise(blocks))


def _undone(events: MemoryEvents, settings: AllocatorSettings) -> list[Segment] | None:
    """Undo events, from the segments at the end."""
    sizes = dict(map(tuple, events.segments.tolist()))
    held: dict[int, int] = dict(map(tuple, events.held.tolist()))
    rows = zip(events.kinds.tolist(), events.addresses.tolist(), events.sizes.tolist(), strict=True)
    for kind, address, size in reversed(list(rows)):
        if kind in (MAP, UNMAP):
            return None
        table = held if kind in (ALLOC, FREE) else sizes
        if kind in (ALLOC, SEGMENT_ALLOC):
            if table.pop(address, None) is None:
                return None
        elif address in table:
            return None
        else:
            table[address] = size if kind == SEGMENT_FREE else settings.rounded(size)
    return _filled(sizes, held, settings)


def _filled(
    sizes: dict[int, int], held: dict[int, int], settings: AllocatorSettings
) -> list[Segment] | None:
    """Put blocks into segments; None if one has none."""
    segments = [
        Segment(Block(address, size), size <= SMALL_SEGMENT)
        for address, size in sorted(sizes.items())
    ]
    starts = [segment.block.address for segment in segments]
    for address, size in sorted(held.items()):
        place = bisect_right(starts, address) - 1
        if place < 0:
            return None
        segments[place].held.append(Block(address, size))
    for segment in segments:
        ends = [block.address for block in segment.held[1:]] + [segment.block.end]
        segment.held = [
            Block(address, size + unsplit(settings, size, end - address - size))
            for (address, size), end in zip(segment.held, ends, strict=False)
        ]
    return segments


def _named(events: MemoryEvents) -> list[Segment]:
    """Collect the addresses that events name."""
    live: set[int] = set()
    held: list[Block] = []
    named: dict[bool, list[Block]] = {True: [], False: []}
    rows = zip(events.kinds.tolist(), events.addresses.tolist(), events.sizes.tolist(), strict=True)
    for kind, address, size in rows:
        block = Block(address, size)
        named[size <= SMALL].append(block)
        if kind == ALLOC:
            live.add(address)
        elif address in live:
            live.remove(address)
        else:
            held.append(block)
    segments = [
        Segment(block, is_small)
        for is_small, blocks in named.items()
        for block in _united(sorted(blocks))
    ]
    for segment in segments:
        segment.held = sorted(
            block
            for block in held
            if (block.size <= SMALL) == segment.is_small
            and segment.block.address <= block.address < segment.block.end
        )
    return sorted(segments, key=lambda segment: segment.block)


def _united(blocks: list[Block]) -> list[Block]:
    """Unite blocks that touch or overlap."""
    united: list[Block] = []
    for block in blocks:
        if united and block.address <= united[-1].end:
            start = united[-1].address
            united[-1] = Block(start, max(united[-1].end, block.end) - start)
        else:
            united.append(block)
    return united


class FreeBlocks:
    """What is known to be free, as real events go on, and what the best fit in it is.

    Parameters
    ----------
    start : Layout
    settings : AllocatorSettings
    """

    def __init__(self, start: Layout, settings: AllocatorSettings) -> None:
        self.settings = settings
        self._taken: int | None = None
        self._has_edges = start.source == "segments"
        self._held = {b.address: b for segment in start.segments for b in segment.held}
        self._pools = {True: _Pool(), False: _Pool()}
        for segment in start.segments:
            pool = self._pools[segment.is_small]
            pool.edges.add(segment.block.address)
            for block in segment.free():
                pool.add(block)

    def best_fit(self, size: int) -> int | None:
        """Say at which address a request would be placed; None: at none of these.

        What no free block serves is placed in a segment that has just been taken.
        """
        rounded, limit = self.settings.rounded(size), self.settings.max_split_bytes
        block = self._pools[rounded <= SMALL].best_fit(rounded)
        if block is None or rounded < limit <= block.size:
            return self._taken
        most = rounded + self.settings.max_non_split_rounding_bytes
        return self._taken if rounded >= limit and block.size >= most else block.address

    def take(self, address: int, size: int) -> None:
        """Note where a request was placed, known to be free or not.

        Where segments are known, it also has what would have been too little to be split off.
        """
        block = Block(address, self.settings.rounded(size))
        pool = self._pools[block.size <= SMALL]
        rest = pool.free_after(block)
        if self._has_edges:
            block = Block(address, block.size + unsplit(self.settings, block.size, rest))
        pool.take(block)
        self._held[address], self._taken = block, None

    def free(self, address: int, size: int) -> None:
        """Note that a block was freed."""
        block = self._held.pop(address, None) or Block(address, self.settings.rounded(size))
        self._pools[block.size <= SMALL].add(block)

    def take_segment(self, address: int, size: int) -> None:
        """Note that memory was taken from the device."""
        pool = self._pools[size <= SMALL_SEGMENT]
        pool.edges.add(address)
        pool.add(Block(address, size))
        self._taken = address

    def give_back_segment(self, address: int, size: int) -> None:
        """Note that memory was given back to the device."""
        pool = self._pools[size <= SMALL_SEGMENT]
        pool.take(Block(address, size))
        pool.edges.discard(address)
        if self._taken == address:
            self._taken = None


class _Pool:
    """Free blocks in two orders: by address, and by size and address.

    Attributes
    ----------
    edges : set of int
        Addresses across which free blocks do not become one: where segments begin.
    """

    def __init__(self) -> None:
        self.edges: set[int] = set()
        self._by_address: list[tuple[int, int]] = []
        self._by_size: list[tuple[int, int]] = []

    def best_fit(self, size: int) -> Block | None:
        """Find the smallest that is large enough, of equal ones the lowest."""
        place = bisect_left(self._by_size, (size, 0))
        if place == len(self._by_size):
            return None
        found, address = self._by_size[place]
        return Block(address, found)

    def add(self, block: Block) -> None:
        """Add a block: it becomes one with those that it touches."""
        for other in self._touching(block, 0):
            if {block.address, block.end} & {other.address, other.end} & self.edges:
                continue
            self._remove(other)
            start, end = min(block.address, other.address), max(block.end, other.end)
            block = Block(start, end - start)
        insort(self._by_address, block)
        insort(self._by_size, (block.size, block.address))

    def take(self, block: Block) -> None:
        """Take a block's bytes away, as far as they are here."""
        for other in self._touching(block, 1):
            self._remove(other)
            if other.address < block.address:
                self.add(Block(other.address, block.address - other.address))
            if other.end > block.end:
                self.add(Block(block.end, other.end - block.end))

    def free_after(self, block: Block) -> int:
        """Count the bytes behind a block in the free one that it lies in, or would."""
        place = bisect_right(self._by_address, (block.address + 1, 0)) - 1
        address, size = self._by_address[place] if place >= 0 else (0, 0)
        return max(address + size - block.end, 0)

    def _touching(self, block: Block, common: int) -> list[Block]:
        """Find what has so many bytes in common with a block; none: what touches it."""
        place = max(bisect_right(self._by_address, (block.address, 0)) - 1, 0)
        found = []
        for address, size in self._by_address[place:]:
            if address > block.end - common:
                break
            if address + size >= block.address + common:
                found.append(Block(address, size))
        return found

    def _remove(self, block: Block) -> None:
        del self._by_address[bisect_left(self._by_address, tuple(block))]
        del self._by_size[bisect_left(self._by_size, (block.size, block.address))]
