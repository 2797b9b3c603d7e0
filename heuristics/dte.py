"""DTE: as h_DTR_eq, with the free bytes beside a storage counted to its size."""

from __future__ import annotations

from ..state import State
from .registry import heuristic
from .terms import class_cost, free_neighbor_bytes, own_cost, ratio, size, staleness


@heuristic(
    "h_DTE",
    needs=("classes",),
    monotone=True,
    reference="MegTaiChi (Hu et al., ICS 2022), as in Coop's code",
)
def dte(state: State, s: int) -> float:
    """(c + cost of ẽ*) / ((m + free) s): the hole that an eviction leaves, not the bytes alone."""
    cost = own_cost(state, s) + class_cost(state, s)
    hole = size(state, s) + free_neighbor_bytes(state, s)
    return ratio(cost, hole * staleness(state, s))
