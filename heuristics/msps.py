"""Memory saved per second of recomputation, after Capuchin."""

from __future__ import annotations

from ..state import State
from .registry import heuristic
from .terms import ancestor_cost, own_cost, ratio, size


@heuristic(
    "h_MSPS",
    needs=("ancestors",),
    monotone=True,
    reference="Peng et al., ASPLOS 2020; Kirisame et al., ICLR 2021, section 4.1",
)
def msps(state: State, s: int) -> float:
    """(c + cost of the ancestors' half of e*) / m: what one byte costs to bring back."""
    return ratio(own_cost(state, s) + ancestor_cost(state, s), size(state, s))
