"""Least recently used."""

from __future__ import annotations

from ..state import State
from .registry import heuristic
from .terms import last_access


@heuristic("h_LRU", reference="Kirisame et al., ICLR 2021, section 4.1")
def lru(state: State, s: int) -> float:
    """Clock reading of the last access: the oldest goes."""
    return last_access(state, s)
