"""Events of a real allocator: what was allocated and freed, where, and what it held after each.

The profiles that have addresses are read (``importers/kineto.py`` and ``memory_snapshot.py``), so
that a model of the allocator can replay them (``rematsim compare-memory PROFILE``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

ALLOC, FREE, SEGMENT_ALLOC, SEGMENT_FREE, MAP, UNMAP = range(6)
# What an event of each kind adds, for each of its bytes.
ALLOCATED_SIGNS = np.array([1, -1, 0, 0, 0, 0])
RESERVED_SIGNS = np.array([0, 0, 1, -1, 1, -1])


def _no_pairs() -> Int64:
    return np.zeros((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class MemoryEvents:
    """What an allocator did while a profile ran.

    Attributes
    ----------
    name, source, format, device : str
        As in ``Curve``.
    kinds : ndarray of int64
        ``ALLOC``, ``FREE``; of the device's memory ``SEGMENT_ALLOC``, ``SEGMENT_FREE``, ``MAP``,
        ``UNMAP``.
    addresses, sizes : ndarray of int64
        Where, and how many bytes.
    allocated_bytes : ndarray of int64
        After each event; from 0 at the first where the profile does not say.
    reserved_bytes : ndarray of int64 or None
        What the allocator had taken from the device, after each.
    counts_blocks : bool
        Whether bytes are those of blocks; otherwise those that were asked for.
    segments, held : ndarray of int64, shape (n, 2)
        Address and bytes of each segment, and of each block in use, after the last event; none
        where the profile does not say.
    settings : str
        The allocator's, as they were spelled.
    n_streams : int
        On which there were allocations.
    """

    name: str
    source: str
    format: str
    device: str
    kinds: Int64
    addresses: Int64
    sizes: Int64
    allocated_bytes: Int64
    reserved_bytes: Int64 | None = None
    counts_blocks: bool = True
    segments: Int64 = field(default_factory=_no_pairs)
    held: Int64 = field(default_factory=_no_pairs)
    settings: str = ""
    n_streams: int = 1

    @property
    def has_segments(self) -> bool:
        """Whether it is known what was reserved, and where."""
        return len(self.segments) > 0

    def without_empty(self) -> MemoryEvents:
        """Leave out events of no bytes, which have no place.

        Raises
        ------
        TraceError
            No others are left.
        """
        kept = self.sizes > 0
        if not kept.any():
            raise TraceError("no memory events of any bytes in it", self.source)
        columns = {name: getattr(self, name)[kept] for name in ("kinds", "addresses", "sizes")}
        reserved = None if self.reserved_bytes is None else self.reserved_bytes[kept]
        return replace(
            self, **columns, allocated_bytes=self.allocated_bytes[kept], reserved_bytes=reserved
        )


def load_events(path: str | os.PathLike[str], *, device: str | None = None) -> MemoryEvents:
    """Read the events of the allocator from a profile.

    Parameters
    ----------
    path : str or path
        A CUDA memory snapshot (.pickle), or a Kineto trace made with ``profile_memory``, as for
        ``load_curve``.
    device : str, optional
        Whose memory (``cuda:1``, ``cpu``); by default the one that holds most.

    Returns
    -------
    MemoryEvents

    Raises
    ------
    TraceError
        It is neither, is damaged, or its events have no addresses.
    """
    from .curves import reader_of
    from .loading import open_content

    content = open_content(path)
    reader = reader_of(content)
    if not hasattr(reader, "read_events"):
        known = "a CUDA memory snapshot or a Kineto trace"
        raise TraceError(f"no events of an allocator in it: it is not {known}", content.where)
    events: MemoryEvents = reader.read_events(content, device)
    return events
