"""Heuristics that know more than the paper's, because a training step repeats: next use.

h_DTR_eq with the time to a storage's next use in the place of staleness, or beside it: read from
the trace (offline), or learned from the step before (online).
"""

from __future__ import annotations

from collections.abc import Callable

from ..state import State
from .parameters import Number
from .registry import family
from .terms import class_cost, next_use, own_cost, ratio, size, staleness

Score = Callable[[State, int], float]
EXPONENT = Number(0, 16)  # of larger ones, powers of a long time are no float64
WEIGHT = Number(0, 1)


def _by_next_use(exponent: float, of_staleness: float = 0.0) -> Score:
    def score(state: State, s: int) -> float:
        cost = own_cost(state, s) + class_cost(state, s)
        by_next_use = ratio(cost, next_use(state, s) ** exponent)
        return ratio(ratio(by_next_use, staleness(state, s) ** of_staleness), size(state, s))

    return score


@family(
    "h_next_use",
    allowed={"exponent": EXPONENT},
    needs=("classes", "next_use"),
    offline=True,
    monotone=True,
    reference="after Belady, IBM Systems Journal 1966; ours",
)
def h_next_use(exponent: float = 1.0) -> Score:
    """(c + cost of ẽ*) / (m u^p), u the time to the next use in the trace."""
    return _by_next_use(exponent)


@family(
    "h_next_use_hybrid",
    allowed={"weight": WEIGHT},
    needs=("classes", "next_use"),
    offline=True,
    monotone=True,
    reference="ours",
)
def h_next_use_hybrid(weight: float = 0.5) -> Score:
    """(c + cost of ẽ*) / (m s^(1-w) u^w): a geometric mean of staleness and next use."""
    return _by_next_use(weight, 1.0 - weight)


@family(
    "h_last_step",
    allowed={"exponent": EXPONENT},
    needs=("classes", "last_step"),
    monotone=True,
    reference="ours",
)
def h_last_step(exponent: float = 1.0) -> Score:
    """(c + cost of ẽ*) / (m u^p), u as in the step before; staleness where nothing is known."""
    return _by_next_use(exponent)


@family(
    "h_last_step_hybrid",
    allowed={"weight": WEIGHT},
    needs=("classes", "last_step"),
    monotone=True,
    reference="ours",
)
def h_last_step_hybrid(weight: float = 0.5) -> Score:
    """(c + cost of ẽ*) / (m s^(1-w) u^w), u as in the step before; staleness if unknown."""
    return _by_next_use(weight, 1.0 - weight)
