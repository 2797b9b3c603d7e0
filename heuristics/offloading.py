"""Eviction to the host: each storage goes the way whose return is expected to cost less.

h_DTR_eq, and h_next_use, with the cheaper of computing again and moving in the place of the cost.
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
    return_queue,
    size,
    staleness,
    time_from_host,
    time_to_host,
)


@heuristic("h_DTR_offload", needs=("classes",), monotone=True, moves="on demand", reference="ours")
def dtr_offload(state: State, s: int) -> float:
    """min(c + cost of ẽ*, time to the host and back) / (m s)."""
    recompute = own_cost(state, s) + class_cost(state, s)
    move = time_to_host(state, s) + time_from_host(state, s)
    return ratio(cheaper(state, s, recompute, move), size(state, s) * staleness(state, s))


@heuristic(
    "h_next_use_offload",
    needs=("classes", "next_use"),
    monotone=True,
    offline=True,
    moves="ahead",
    reference="ours",
)
def next_use_offload(state: State, s: int) -> float:
    """min(c + cost of ẽ*, time to the host and what of that back is not hidden) / (m u)."""
    until_use = next_use(state, s)
    recompute = own_cost(state, s) + class_cost(state, s)
    back = max(return_queue(state, s) + time_from_host(state, s) - until_use, 0.0)
    cost = cheaper(state, s, recompute, time_to_host(state, s) + back)
    # Infinity over infinity, of what is being copied and not used again, would be no number.
    return ratio(ratio(cost, until_use), size(state, s)) if cost < math.inf else cost
