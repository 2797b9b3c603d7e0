"""h_DTR with the evicted neighborhood taken as one set, also for its staleness."""

from __future__ import annotations

from ..state import State
from .registry import heuristic
from .terms import own_cost, ratio, set_cost, set_staleness, size


@heuristic(
    "h_DTR_neighborhood",
    needs=("set",),
    reference="the DTR authors' simulator; docs/semantics.md, section 4",
)
def dtr_neighborhood(state: State, s: int) -> float:
    """(c + cost of the set e*) / (m s), s since the last access of {S} and e*."""
    cost = own_cost(state, s) + set_cost(state, s)
    return ratio(cost, size(state, s) * set_staleness(state, s))
