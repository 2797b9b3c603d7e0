"""The DTR paper's own heuristics: recomputation cost over size and staleness."""

from __future__ import annotations

from ..state import State
from .registry import heuristic
from .terms import class_cost, neighborhood_cost, own_cost, ratio, size, staleness

PAPER = "Kirisame et al., ICLR 2021"


@heuristic(
    "h_DTR",
    needs=("ancestors", "descendants"),
    monotone=True,
    reference=f"{PAPER}, section 3.2",
)
def dtr(state: State, s: int) -> float:
    """(c + cost of e*) / (m s): own and evicted neighborhood's cost, per byte and staleness."""
    cost = own_cost(state, s) + neighborhood_cost(state, s)
    return ratio(cost, size(state, s) * staleness(state, s))


@heuristic("h_DTR_eq", needs=("classes",), monotone=True, reference=f"{PAPER}, section 3.2")
def dtr_eq(state: State, s: int) -> float:
    """(c + cost of ẽ*) / (m s): as h_DTR, with equivalence classes for the neighborhood."""
    cost = own_cost(state, s) + class_cost(state, s)
    return ratio(cost, size(state, s) * staleness(state, s))


@heuristic("h_DTR_local", reference=f"{PAPER}, section 3.2")
def dtr_local(state: State, s: int) -> float:
    """c / (m s): own cost, per byte and staleness."""
    return ratio(own_cost(state, s), size(state, s) * staleness(state, s))
