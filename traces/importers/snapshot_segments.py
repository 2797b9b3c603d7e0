"""What the segments of a CUDA memory snapshot hold, and the rules that they keep.

PyTorch writes a segment as a list of blocks that cover it, one behind the other, in use or not. A
snapshot that says otherwise was changed by somebody, and nothing that it says can be believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ...errors import TraceError
from ..wording import show

MAX_BYTES = 2**53
MAX_ADDRESS = 2**62
NOWHERE = -1  # in place of an address that is none

HELD = "active_allocated"
AWAITING_FREE = ("active_awaiting_free", "active_pending_free")  # the second in older builds
STATES = (HELD, *AWAITING_FREE, "inactive")
SIZES = ("allocated_size", "active_size", "requested_size")  # of a segment, beside its own


class Block(NamedTuple):
    """A piece of a segment."""

    address: int
    size: int
    requested: int
    state: str


class Segment(NamedTuple):
    """Memory that was taken from the device at once.

    Attributes
    ----------
    name : str
        For messages.
    address, size : int
    sizes : dict
        Of what is in use, by `SIZES`; only those that the snapshot says.
    blocks : list of Block
        Empty where the snapshot says none.
    """

    name: str
    address: int
    size: int
    sizes: dict[str, int]
    blocks: list[Block]


def list_of(value: Any, what: str) -> list[Any]:
    """Give a list."""
    if not isinstance(value, list):
        raise TraceError(f"{what} is {show(value)}: a snapshot has a list there")
    return value


def count_of(part: dict[str, Any], key: str, what: str) -> int:
    """Give a number of bytes or of microseconds; 0 if there is none."""
    value = part.get(key, 0)
    if not isinstance(value, int) or not 0 <= value <= MAX_BYTES:
        raise TraceError(f"{key} {show(value)} of {what} is not from 0 to 2^53")
    return value


def address_of(value: Any) -> int:
    """Give an address, or `NOWHERE` for what is none."""
    return value if isinstance(value, int) and 0 <= value < MAX_ADDRESS else NOWHERE


def read_segments(value: Any, device: int) -> list[Segment]:
    """Read the segments of a device, by address.

    Raises
    ------
    TraceError
        A segment or a block breaks a rule; it is named.
    """
    found = []
    for place, segment in enumerate(list_of(value, "segments")):
        if not isinstance(segment, dict):
            raise TraceError(f"segment {place} is {show(segment)}: it is no dictionary")
        if segment.get("device") == device:
            found.append(_read_segment(segment, f"segment {place}"))
    found.sort(key=lambda segment: segment.address)
    for one, other in pairwise(found):
        if one.address != NOWHERE and one.address + one.size > other.address:
            raise TraceError(
                f"{other.name}: address ({other.address}): {one.name} lies there, with {one.size} "
                f"bytes from {one.address} on: segments do not overlap"
            )
    return found


def _read_segment(segment: dict[str, Any], name: str) -> Segment:
    """Read one."""
    size = count_of(segment, "total_size", name)
    sizes = {key: count_of(segment, key, name) for key in SIZES if key in segment}
    for key, value in sizes.items():
        if value > size:
            raise TraceError(f"{name}: {key} ({value}): it is at most total_size ({size})")
    address = address_of(segment.get("address"))
    blocks = list(_read_blocks(segment.get("blocks") or [], address, name))
    total = sum(block.size for block in blocks)
    if blocks and total != size:
        raise TraceError(f"{name}: total_size ({size}): its blocks have {total} bytes together")
    return Segment(name, address, size, sizes, blocks)


def _read_blocks(value: Any, address: int, name: str) -> Iterator[Block]:
    """Read the blocks of a segment; those of older builds have no addresses."""
    for place, block in enumerate(list_of(value, f"blocks of {name}")):
        what = f"block {place} of {name}"
        if not isinstance(block, dict):
            raise TraceError(f"{what} is {show(block)}: it is no dictionary")
        given, state = address_of(block.get("address", address)), block.get("state")
        if NOWHERE not in (given, address) and given != address:
            begin = "where the one before it ends" if place else "with its segment"
            raise TraceError(f"{what}: address ({given}): a block begins {begin}, at {address}")
        if state not in STATES:
            known = ", ".join(STATES)
            raise TraceError(f"{what}: state ({show(state)}): it is one of {known}")
        size, requested = count_of(block, "size", what), count_of(block, "requested_size", what)
        if size == 0:
            raise TraceError(f"{what}: size (0): a block has bytes")
        if state != "inactive" and requested > size:
            raise TraceError(f"{what}: requested_size ({requested}): it is at most size ({size})")
        yield Block(given, size, requested, state)
        address = NOWHERE if given == NOWHERE else given + size
