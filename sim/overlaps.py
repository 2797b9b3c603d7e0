"""Kernels: which buffers of an address plan overlap, for the judge of plans in ``buffers.py``.

Sweeps time with the living buffers known by their *rank*, their place by address. As long as these
do not overlap, a new one can only do so with its neighbors, which are found in logarithmic time.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .jit import Bundle, kernel

NONE = -1
BEFORE, BEHIND = 0, 1


class Sweep(Bundle):
    """Beginnings and ends of lives in order, and where buffers lie, by rank."""

    rank: Any
    begins: Any
    low: Any  # addresses
    high: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "rank": np.int32,
        "begins": np.bool_,
        "low": np.int64,
        "high": np.int64,
    }


class Living(Bundle):
    """How many live, by rank, in a binary tree: the leaves are the second half, node 1 the root."""

    count: Any
    found: Any  # the other one of a pair

    LAYOUT: ClassVar[dict[str, Any]] = {"count": np.int32, "found": np.int64}


@kernel
def add(living: Living, rank: int, change: int) -> None:
    """Take a rank in, or let it go."""
    node = rank + len(living.count) // 2
    while node > 0:
        living.count[node] += change
        node //= 2


@kernel
def neighbor(living: Living, rank: int, side: int) -> int:
    """Find the next rank that lives on one side; NONE if none does."""
    leaves = len(living.count) // 2
    node = rank + leaves
    while node > 1 and (node % 2 == side or living.count[node ^ 1] == 0):
        node //= 2
    if node <= 1:
        return NONE
    node ^= 1
    while node < leaves:
        nearer = 2 * node + 1 - side
        node = nearer if living.count[nearer] > 0 else nearer ^ 1
    return node - leaves


def first_overlap(sweep: Sweep, living: Living, count: int) -> int:
    """Follow so many events up to the first that overlaps; give its rank, or NONE if none does."""
    for event in range(count):
        rank = int(sweep.rank[event])
        if not sweep.begins[event]:
            add(living, rank, -1)
            continue
        for side in (BEFORE, BEHIND):
            other = neighbor(living, rank, side)
            if (
                other != NONE
                and sweep.low[other] < sweep.high[rank]
                and sweep.low[rank] < sweep.high[other]
            ):
                living.found[0] = other
                return rank
        add(living, rank, 1)
    return NONE
