"""What an audit derives of addresses under ``caching``: PyTorch's allocator, slow and obvious.

It is written from the rules in ``docs/caching.md``, by whose numbers they are called here, sentence
by sentence, and shares no code with the kernels: lists that are searched from end to end, nothing
kept that can be worked out. `tests/worked/test_caching.py` works each rule by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .allocator_settings import NO_LIMIT, AllocatorSettings
from .audit_extents import Extents

MIB = 1 << 20
ENDLESS = 1 << 44


@dataclass(eq=False)
class Block:
    """A piece of a segment: ``free``, ``allocated``, or ``unmapped`` (not backed by memory)."""

    address: int
    size: int
    segment: Segment
    use: str = "free"
    free_since: int = 0

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


@dataclass(eq=False)
class Segment:
    """A range of addresses that was taken from the device, in blocks."""

    address: int
    size: int
    pool: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size

    def neighbors(self, block: Block) -> tuple[Block | None, Block | None]:
        """Give the blocks before and after one."""
        place = self.blocks.index(block)
        before = self.blocks[place - 1] if place else None
        after = self.blocks[place + 1] if place + 1 < len(self.blocks) else None
        return before, after


class PlainCaching:
    """The allocator of one device and one stream, by its rules alone.

    Parameters
    ----------
    limit : int or None
        Bytes that may be reserved.
    settings : AllocatorSettings
    """

    keeps_failures = True  # a request that fails may have reserved, or given back, something
    goes_by_windows_alone = False  # segments that are empty make room as well

    def __init__(self, limit: int | None, settings: AllocatorSettings) -> None:
        self.settings = settings
        self.limit = limit
        self.segments: list[Segment] = []
        self.requests = {"small": 0, "large": 0}
        self.retries = 0
        self.reserved_peak_bytes = 0
        self._placed: dict[int, Block] = {}

    # As the audit asks.

    def place(self, size_bytes: int, is_high: bool = False) -> int | None:
        """Give the address of a new block for so many bytes; None if memory has run out."""
        block = self.allocate(size_bytes)
        if block is None:
            return None
        self._placed[block.address] = block
        return block.address

    def free(self, address: int) -> None:
        """Free what lies there: rule 6."""
        self.settle(self._placed.pop(address), "free")

    def touch(self) -> None:
        """Do nothing: what is reserved stays reserved, whether a call fits or not."""

    def stretches(self, size_bytes: int) -> tuple[int, list[Extents]]:
        """Give how much a request takes, and each segment of its pool, where a window may lie.

        A free block that is large enough, and yet did not serve, counts as in use.
        """
        size = self.rounded(size_bytes)
        pool = "small" if size <= MIB else "large"
        found = []
        for segment in self.segments:
            if segment.pool == pool:
                part = Extents(segment.address, segment.end)
                for block in segment.blocks:
                    if block.use != "free" or block.size >= size:
                        part.add(block.address, block.end)
                found.append(part)
        return size, found

    # What can be seen.

    def blocks(self, use: str, pool: str | None = None) -> list[Block]:
        """Blocks of a use, by size and then by address."""
        found = [
            block
            for segment in self.segments
            if pool in (None, segment.pool)
            for block in segment.blocks
            if block.use == use
        ]
        return sorted(found, key=lambda block: (block.size, block.address))

    @property
    def allocated_bytes(self) -> int:
        """Bytes of blocks in use."""
        return sum(block.size for block in self.blocks("allocated"))

    @property
    def reserved_bytes(self) -> int:
        """Bytes that were taken from the device and not given back."""
        return self.allocated_bytes + sum(block.size for block in self.blocks("free"))

    @property
    def free_bytes(self) -> int:
        """All that is not in use, reserved or not."""
        return (NO_LIMIT if self.limit is None else self.limit) - self.allocated_bytes

    @property
    def largest_hole(self) -> int:
        """The largest request for which there is a place, as if oversize blocks served all."""
        sizes = [min(block.size, MIB) for block in self.blocks("free", "small")]
        sizes += [block.size for block in self.blocks("free", "large")]
        unit, least = (20, 20) if self.settings.expandable_segments else (2, 10)
        if self.limit is None:
            return NO_LIMIT
        left = self.limit - self.reserved_bytes
        if left >= least * MIB:
            sizes.append(left // (unit * MIB) * unit * MIB)
        elif left >= 2 * MIB:
            sizes.append(MIB)
        return max(sizes, default=0)

    # Requests.

    def allocate(self, request: int) -> Block | None:
        """Find a block for a request and take it; None if memory has run out."""
        size = self.rounded(request)
        pool = "small" if size <= MIB else "large"
        self.requests[pool] += 1
        block = self.best_fit(pool, size)
        if block is None:
            self.collect_garbage()
            block = self.grow(pool, size)
        if block is None and self.give_back_oversize(pool, size):
            block = self.grow(pool, size)
        if block is None:
            reserved = self.reserved_bytes
            self.give_back_all()
            self.retries += self.reserved_bytes < reserved
            block = self.grow(pool, size)
        if block is None:
            return None
        self.split(block, size)
        block.use = "allocated"
        return block

    def rounded(self, request: int) -> int:
        """Rule 1."""
        size = max(request, 1)
        if size >= 512:
            place = min(max(size.bit_length() - 1 - 20, 0), 15)
            divisions = self.settings.roundup_divisions[place]
            if divisions > 1 and size > 512 * divisions:
                below = 1 << (size.bit_length() - 1)
                part = below // divisions
                return -(-size // part) * part
        return -(-size // 512) * 512

    def best_fit(self, pool: str, size: int) -> Block | None:
        """Rules 4, 7 and 10."""
        candidates = [b for b in self.blocks("free", pool) if b.size >= size]
        if not candidates:
            return None
        block = candidates[0]
        if self.settings.expandable_segments:
            for after in candidates[1:]:
                if self.room(after) >= self.room(block):
                    break
                block = after
        limit = self.settings.max_split_bytes
        if size < limit <= block.size:
            return None
        if size >= limit and block.size >= size + self.settings.max_non_split_rounding_bytes:
            return None
        return block

    def room(self, block: Block) -> int:
        """Give what a block can grow to."""
        _, after = block.segment.neighbors(block)
        return block.size + (after.size if after is not None and after.use == "unmapped" else 0)

    def split(self, block: Block, size: int) -> None:
        """Rules 5, 7 and 10."""
        rest = block.size - size
        if block.segment.pool == "small" or self.settings.expandable_segments:
            is_split = rest >= 512
        else:
            is_split = rest > MIB and size < self.settings.max_split_bytes
        if is_split:
            self.cut(block, size)

    def cut(self, block: Block, size: int) -> Block:
        """Cut a block in two; the second has the use of the first."""
        blocks = block.segment.blocks
        second = Block(block.address + size, block.size - size, block.segment, block.use)
        second.free_since = self.requests[block.segment.pool]
        blocks.insert(blocks.index(block) + 1, second)
        block.size = size
        return second

    def settle(self, block: Block, use: str) -> Block:
        """Give a block a use and merge it with neighbors of the same use: rule 6."""
        block.use = use
        block.free_since = self.requests[block.segment.pool]
        before, after = block.segment.neighbors(block)
        for other in (before, after):
            if other is not None and other.use == use:
                block.address = min(block.address, other.address)
                block.size += other.size
                block.segment.blocks.remove(other)
        return block

    # Segments.

    def fits(self, more: int) -> bool:
        """Whether so much more may be reserved."""
        return self.limit is None or self.reserved_bytes + more <= self.limit

    def grow(self, pool: str, size: int) -> Block | None:
        """Give a block that is free and large enough, in memory that is new: rules 3 and 10."""
        block = (self.expand if self.settings.expandable_segments else self.extend)(pool, size)
        self.reserved_peak_bytes = max(self.reserved_peak_bytes, self.reserved_bytes)
        return block

    def extend(self, pool: str, size: int) -> Block | None:
        """Take a new segment: rule 3."""
        if pool == "small":
            bytes_ = 2 * MIB
        elif size < 10 * MIB:
            bytes_ = 20 * MIB
        else:
            bytes_ = -(-size // (2 * MIB)) * 2 * MIB
        if not self.fits(bytes_):
            return None
        return self.new_segment(pool, bytes_, "free").blocks[0]

    def new_segment(self, pool: str, size: int, use: str) -> Segment:
        """Take a range of addresses: the lowest."""
        address = 0
        for other in self.segments:
            if other.address - address >= size:
                break
            address = other.end
        segment = Segment(address, size, pool)
        segment.blocks.append(Block(address, size, segment, use, self.requests[pool]))
        self.segments.append(segment)
        self.segments.sort(key=lambda one: one.address)
        return segment

    def expand(self, pool: str, size: int) -> Block | None:
        """Rule 10: back pages behind the first place where the request then fits."""
        page = self.page(pool)
        place = self.expandable_place(pool, size)
        if place is None:
            room = ENDLESS if self.limit is None else min(self.limit + self.limit // 8, ENDLESS)
            if -(-room // page) * page < size:
                return None
            place = self.new_segment(pool, -(-room // page) * page, "unmapped").blocks[0]
        while place.use == "unmapped" or place.size < size:
            if place.use == "unmapped":
                target, missing = place, min(place.size, size)
            else:
                after = place.segment.neighbors(place)[1]
                assert after is not None and after.use == "unmapped"
                target, missing = after, min(after.size, size - place.size)
            pages = min(-(-missing // page) * page, target.size)
            if not self.fits(pages):
                return None
            if pages < target.size:
                self.cut(target, pages)
            place = self.settle(target, "free")
        return place

    def expandable_place(self, pool: str, size: int) -> Block | None:
        """Find the first unbacked block, or the free one before it, from which there is room."""
        for unmapped in sorted(self.blocks("unmapped", pool), key=lambda block: block.address):
            start = unmapped
            before, _ = unmapped.segment.neighbors(unmapped)
            if before is not None and before.use == "free":
                start = before
            room = 0
            for block in unmapped.segment.blocks[unmapped.segment.blocks.index(start) :]:
                if block.use == "allocated" or room >= size:
                    break
                room += block.size
            if room >= size:
                return start
        return None

    def page(self, pool: str) -> int:
        """Give the unit in which an expandable segment is backed."""
        return 2 * MIB if pool == "small" else 20 * MIB

    # Giving back.

    def whole(self, pool: str | None = None) -> Iterator[Block]:
        """Free blocks that are all of their segment, by size and address."""
        for block in self.blocks("free", pool):
            if len(block.segment.blocks) == 1:
                yield block

    def collect_garbage(self) -> None:
        """Rule 9."""
        share = self.settings.garbage_collection_threshold
        if not share or self.limit is None or self.settings.expandable_segments:
            return
        excess = self.reserved_bytes - int(share * self.limit)
        now = self.requests["large"]
        while excess > 0:
            blocks = list(self.whole("large"))
            if not blocks:
                return
            mean = sum(now - block.free_since for block in blocks) / len(blocks)
            for block in blocks:
                if now - block.free_since >= mean:
                    excess -= block.size
                    self.segments.remove(block.segment)

    def give_back_oversize(self, pool: str, size: int) -> bool:
        """Rule 8, first half; whether enough was given back."""
        limit = self.settings.max_split_bytes
        if limit == NO_LIMIT or self.settings.expandable_segments:
            return False
        wanted = max(size, limit)
        blocks = self.blocks("free", pool)
        enough = [block for block in blocks if block.size >= wanted]
        if enough:
            self.segments.remove(enough[0].segment)
            return True
        given = 0
        for block in reversed(blocks):
            if given >= wanted or block.size < limit:
                break
            given += block.size
            self.segments.remove(block.segment)
        return given >= wanted

    def give_back_all(self) -> None:
        """Rule 8, second half, and the end of rule 10."""
        if not self.settings.expandable_segments:
            for block in list(self.whole()):
                self.segments.remove(block.segment)
            return
        for pool in ("large", "small"):
            for block in self.blocks("free", pool):
                self.unmap(block, self.page(pool))

    def unmap(self, block: Block, page: int) -> None:
        """Take the pages that lie wholly inside a free block."""
        segment = block.segment
        start = segment.address + -(-(block.address - segment.address) // page) * page
        end = segment.address + (block.end - segment.address) // page * page
        if end <= start:
            return
        if end < block.end:
            self.cut(block, end - block.address)
        if start > block.address:
            block = self.cut(block, start - block.address)
        self.settle(block, "unmapped")
        if len(segment.blocks) == 1:
            self.segments.remove(segment)
