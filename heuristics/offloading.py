"""Eviction to the host: the engine decides which way a victim goes (docs/semantics.md, 8).

The cost of ẽ* is several times what dropping costs in the end, and that of a copy is what it takes:
were they compared as they are, storages would be chosen for their copies, and dropped for less.
"""

from __future__ import annotations

import math

from ..state import State
from .registry import heuristic
from .terms import (
    cheaper,
    class_cost,
    next_use,
    own_cost,
    ratio,
    size,
    staleness,
    time_from_host,
    time_to_host,
)

WEIGHT = 4.0  # of a nanosecond that is awaited, beside one of ẽ*


@heuristic("h_DTR_offload", needs=("classes",), monotone=True, moves="on demand", reference="ours")
def dtr_offload(state: State, s: int) -> float:
    """min(c + cost of ẽ*, 4 (time to the host and back)) / (m s)."""
    recompute = own_cost(state, s) + class_cost(state, s)
    move = time_to_host(state, s) + time_from_host(state, s)
    cost = cheaper(state, s, recompute, WEIGHT * move)
    return ratio(cost, size(state, s) * staleness(state, s))


@heuristic(
    "h_next_use_offload",
    needs=("classes", "next_use"),
    monotone=True,
    offline=True,
    moves="ahead",
    reference="ours",
)
def next_use_offload(state: State, s: int) -> float:
    """min(c + cost of ẽ*, time from the host if it is there) / (m u)."""
    until_use = next_use(state, s)
    recompute = own_cost(state, s) + class_cost(state, s)
    back = time_from_host(state, s) if time_to_host(state, s) == 0.0 else math.inf
    cost = cheaper(state, s, recompute, back)
    # Infinity over infinity, of what is being copied and not used again, would be no number.
    return ratio(ratio(cost, until_use), size(state, s)) if cost < math.inf else cost
