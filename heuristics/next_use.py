"""Heuristics that know more than the paper's, because a training step repeats: next use.

h_DTR_eq with the time to a storage's next use in the place of staleness, or beside it: read from
the trace (offline), or learned from the step before (online).
"""

from __future__ import annotations

from collections.abc import Callable

from ..jit import inlineable
from ..state import State
from .parameters import Number
from .registry import family
from .terms import class_cost, next_use, own_cost, ratio, size, staleness

Score = Callable[[State, int], float]
EXPONENT = Number(0, 16)  # of larger ones, powers of a long time are no float64


def _by_next_use(exponent: float) -> Score:
    def score(state: State, s: int) -> float:
        cost = own_cost(state, s) + class_cost(state, s)
        return ratio(ratio(cost, next_use(state, s) ** exponent), size(state, s))

    return score


@inlineable
def _by_both(state: State, s: int) -> float:
    cost = own_cost(state, s) + class_cost(state, s)
    by_next_use = ratio(cost, next_use(state, s) ** 0.5)
    return ratio(ratio(by_next_use, staleness(state, s) ** 0.5), size(state, s))


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
    needs=("classes", "next_use"),
    offline=True,
    monotone=True,
    reference="ours",
)
def h_next_use_hybrid() -> Score:
    """(c + cost of ẽ*) / (m sqrt(s u)): the geometric mean of staleness and next use."""
    return _by_both


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


@family("h_last_step_hybrid", needs=("classes", "last_step"), monotone=True, reference="ours")
def h_last_step_hybrid() -> Score:
    """(c + cost of ẽ*) / (m sqrt(s u)), u as in the step before; staleness if unknown."""
    return _by_both
