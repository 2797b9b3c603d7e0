"""The methods by name, and the one that tries them in turn."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from ...errors import UnknownNameError
from ..static.solving import load_solvers
from .cp_sat import cp_sat
from .fits import best_fit, first_fit, place_entry, place_in_time_entry
from .reordering import improve_entry, reordering
from .searching import Search
from .stacking import MOST_BUFFERS, search_entry, stack_below, stacking

Method = Callable[[Search], None]
# Of the time that is left; a capacity is mostly met by the tree, a height by all.
CAPACITY_SHARE, TREE_SHARE, ORDER_SHARE = 0.9, 0.3, 0.5


def prepare(name: str) -> None:
    """Compile, or load, what a method runs: that is not to count as its time."""
    if name == "cp-sat":
        load_solvers()
    place_entry()
    place_in_time_entry()
    improve_entry()
    search_entry()


def automatic(search: Search) -> None:
    """Fit in all orders, then search a tree at the target, then reorder; then lower trees."""
    first_fit(search)
    best_fit(search)
    if search.is_over:
        return
    with_part(search, stacking, TREE_SHARE if search.capacity is None else CAPACITY_SHARE)
    with_part(search, reordering, ORDER_SHARE)
    while not search.is_over and search.height is not None and len(search.buffers) <= MOST_BUFFERS:
        before = search.height
        with_part(search, stack_half_way, ORDER_SHARE)
        if search.height == before:
            return


def stack_half_way(search: Search) -> None:
    """Look for a plan half way between the best and what is proven."""
    half = (search.bound + (search.height or 0)) // 2
    if stack_below(search, half) and (search.height or 0) > half:
        search.raise_bound(half + 1)


def with_part(search: Search, method: Method, share: float) -> None:
    """Let a method have a share of the time that is left."""
    clock = search.clock
    search.clock = clock.part(share)
    method(search)
    search.clock = clock


METHODS: dict[str, Method] = {
    "auto": automatic,
    "first-fit": first_fit,
    "best-fit": best_fit,
    "reordering": reordering,
    "stacking": stacking,
    "cp-sat": cp_sat,
}


def get(name: str) -> Method:
    """Find a method.

    Raises
    ------
    UnknownNameError
        If there is none of that name.
    """
    if name in METHODS:
        return METHODS[name]
    close = difflib.get_close_matches(name, METHODS, 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise UnknownNameError(
        f"unknown method of addresses {name!r}{hint}; known: {', '.join(METHODS)}"
    )
