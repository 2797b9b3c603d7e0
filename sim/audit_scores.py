"""The DTR paper's scores as their definitions read, for the auditor to check victims with.

They are computed from sets of storages, afresh for every storage, and share nothing with the
heuristics that they check.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from .audit_facts import Row, Storage
from .audit_ledger import Ledger

Score = Callable[[Ledger, Storage], float]


def _evicted(start: Storage, step: Callable[[Storage], set[Storage]]) -> set[Storage]:
    """Give what is reached in one direction through storages that are evicted."""
    found: set[Storage] = set()
    ahead = {start}
    while ahead:
        ahead = {s for one in ahead for s in step(one) if s.evicted} - found
        found |= ahead
    return found


def ancestors(storage: Storage) -> set[Storage]:
    """Give the ancestors' half of e*."""
    return _evicted(storage, Storage.parents)


def _descendants(storage: Storage) -> set[Storage]:
    """Give the descendants' half of e*."""
    return _evicted(storage, Storage.children)


def return_cost(storage: Storage) -> int:
    """Give what computing a storage again takes now, with what is evicted above it."""
    return storage.cost + _total(ancestors(storage))


def _total(storages: set[Storage]) -> int:
    """Sum the costs of storages."""
    return sum(s.cost for s in storages)


def _quotient(numerator: float, *factors: float) -> float:
    """Divide by a product in float64; by zero it is infinite."""
    product = 1.0
    for factor in factors:
        product *= float(factor)
    return float(numerator) / product if product else inf


COSTS: dict[str, Callable[[Ledger, Storage], int]] = {
    "estar": lambda _, s: s.cost + _total(ancestors(s)) + _total(_descendants(s)),
    "eq": lambda ledger, s: s.cost + ledger.classes.cost(s.evicted_neighbors()),
    "ancestors": lambda _, s: return_cost(s),
    "local": lambda _, s: s.cost,
    "one": lambda _, _s: 1,
}


def _score(ledger: Ledger, s: Storage, cost: str, by_size: bool, by_staleness: bool) -> float:
    """Give a cost, over the size or not, over the staleness or not."""
    size = s.size if by_size else 1
    staleness = ledger.clock - s.last_access if by_staleness else 1
    return _quotient(COSTS[cost](ledger, s), size, staleness)


def _neighborhood(ledger: Ledger, s: Storage) -> float:
    """Give the cost of the set e*, over the size and the staleness of all of it."""
    around = ancestors(s) | _descendants(s)
    latest = max([s.last_access, *(n.last_access for n in around)])
    return _quotient(s.cost + _total(around), s.size, ledger.clock - latest)


def _offload(ledger: Ledger, s: Storage) -> float:
    """Give the lower of h_DTR_eq's cost and four times that of moving, over size and staleness."""
    cost = ledger.cheaper(s, COSTS["eq"](ledger, s), 4)
    return _quotient(cost, s.size, ledger.clock - s.last_access)


def _variant(cost: str, by_size: bool, by_staleness: bool) -> Score:
    """Fix what a score is made of."""
    return partial(_score, cost=cost, by_size=by_size, by_staleness=by_staleness)


SCORES: dict[str, Score] = {
    "h_DTR": _variant("estar", True, True),
    "h_DTR_eq": _variant("eq", True, True),
    "h_DTR_local": _variant("local", True, True),
    "h_DTR_neighborhood": _neighborhood,
    "h_MSPS": _variant("ancestors", True, False),
    "h_DTR_offload": _offload,
    "h_LRU": lambda _, s: s.last_access,
    "h_size": _variant("one", True, False),
    **{
        f"h_abl_{cost}{'_size' * by_size}{'_stale' * by_staleness}": _variant(
            cost, by_size, by_staleness
        )
        for cost in ("estar", "eq", "local", "one")
        for by_size in (False, True)
        for by_staleness in (False, True)
        if cost != "one" or by_size or by_staleness
    },
}


def check_choice(scores: dict[Storage, float], row: Row, victim: Storage) -> None:
    """Compare a victim's score, and the victim with the rest of the pool, scored in its order.

    Raises
    ------
    Contradiction
        If it should have had another score, or another storage should have gone.
    """
    if not scores:
        return
    if row.columns["score"] != scores[victim]:
        message = f"its score is {scores[victim]!r}, the log has {row.columns['score']!r}"
        raise row.fail("SCORE_MISMATCH", message)
    lowest = min(scores.values())
    zeros = [s for s, value in scores.items() if value == 0]
    best = zeros[0] if zeros else [s for s in scores if scores[s] == lowest][-1]
    if best is not victim:
        message = f"storage {best.number} scores {scores[best]!r}, it {scores[victim]!r}"
        message += "; of equals the last to enter the pool goes, the first that scores 0"
        raise row.fail("NOT_THE_MINIMUM", message)
