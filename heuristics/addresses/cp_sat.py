"""cp-sat: a constraint program for small sets; part by part, from the best plan that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...buffers import AddressPlan, max_load, parts
from ..static.registry import INFEASIBLE, OPTIMAL
from ..static.solving import DONE, solve
from .addresses_program import improve
from .fits import first_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .searching import Search

    Int64 = NDArray[np.int64]


def cp_sat(search: Search) -> None:
    """Improve each part of time that is higher than another has to be, the highest load first."""
    if search.best is None:
        first_fit(search)
    if search.is_over or search.best is None:
        return
    address, bound = search.best.address.copy(), search.bound
    places = sorted(parts(search.buffers), key=lambda p: -max_load(search.buffers.part(p)))
    for place in places:
        part = search.buffers.part(place)
        plan = AddressPlan(part, address[place])
        if plan.height <= max(bound, search.capacity or 0) or search.clock.is_over:
            continue
        found, lower = _solve(search, plan, bound)
        address[place] = found
        bound = max(bound, lower)
    search.offer(address)
    search.raise_bound(bound)


def _solve(search: Search, plan: AddressPlan, floor: int) -> tuple[Int64, int]:
    """Solve one part; give its addresses, and what is proven of its height."""
    buffers = plan.buffers
    columns = [c.tolist() for c in (buffers.lower, buffers.upper, buffers.size, buffers.alignment)]
    least = max(floor, max_load(buffers), search.capacity or 0)
    ended = solve(
        improve.__module__,
        improve.__name__,
        columns,
        plan.address.tolist(),
        least,
        seconds=search.clock.limit,
    )
    found = plan.address
    for told in (*ended.told, ended.answer and ended.answer["address"]):
        if told is not None:
            found = np.array(told, np.int64)
    if ended.status != DONE:
        search.message = ended.message
        return found, floor
    status, bound = ended.answer["status"], ended.answer["bound"]
    is_proven = status in (OPTIMAL, INFEASIBLE) and least <= floor
    return found, AddressPlan(buffers, found).height if is_proven else min(bound, least)
