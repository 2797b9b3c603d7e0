"""Who lay where, and when: an event log followed from address to address. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..opcodes import ACTIONS

PLACED = (ACTIONS.index("compute"), ACTIONS.index("recompute"))
GONE = tuple(
    ACTIONS.index(name) for name in ("drop_duplicate", "evict", "deallocate", "banish", "take_over")
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
    names = ("action", "storage", "start_ns", "address", "bytes")
    rows = zip(*(np.asarray(events[name]).tolist() for name in names), strict=True)
    living: dict[int, list[tuple[float, int, int]]] = {}
    for action, storage, start, address, size in rows:
        if action in PLACED and address >= 0 and size > 0:
            living.setdefault(storage, []).append((float(start), address, size))
        elif action in GONE and living.get(storage):
            yield Stay(living[storage][-1][0], float(start), *living[storage].pop()[1:], storage)
    last = float(np.max(events["end_ns"]))
    for storage, copies in living.items():
        for start, address, size in copies:
            yield Stay(start, last, address, size, storage)
