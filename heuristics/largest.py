"""Largest first."""

from __future__ import annotations

from ..state import State
from .registry import heuristic
from .terms import ratio, size


@heuristic("h_size", reference="Kirisame et al., ICLR 2021, section 4.1 (GreedyRemat)")
def largest(state: State, s: int) -> float:
    """1 / m: the largest goes."""
    return ratio(1.0, size(state, s))
