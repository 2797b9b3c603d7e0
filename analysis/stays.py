"""Who lay where, and when: an event log followed from address to address. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..opcodes import ACTIONS

PLACED = tuple(ACTIONS.index(name) for name in ("compute", "recompute", "prefetch"))
GONE = tuple(
    ACTIONS.index(name)
    for name in ("drop_duplicate", "evict", "deallocate", "banish", "take_over", "offload")
)


class Stay(NamedTuple):
    """A storage at an address, from one time to another, ns."""

    start: float
    end: float
    address: int
    size: int
    storage: int


def stays(events: Mapping[str, Any]) -> Iterator[Stay]:
    """Follow an event log: where each storage lay, and for how long; second copies as well."""
    names = ("action", "storage", "start_ns", "end_ns", "address", "bytes")
    rows = zip(*(np.asarray(events[name]).tolist() for name in names), strict=True)
    living: dict[tuple[int, int], tuple[float, int]] = {}
    for action, storage, start, end, address, size in rows:
        if action in PLACED and address >= 0 and size > 0:
            living[storage, address] = (float(start), size)
        elif action in GONE and (storage, address) in living:
            begun, held = living.pop((storage, address))
            yield Stay(begun, float(end), address, held, storage)
    last = float(np.max(events["end_ns"]))
    for (storage, address), (begun, held) in living.items():
        yield Stay(begun, last, address, held, storage)
