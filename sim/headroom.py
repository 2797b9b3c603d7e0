"""Headroom: the part of a budget that is left free for what no trace shows.

A device's context, workspaces, fragmentation: a share of the budget, or bytes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from .budgets import parse_bytes
from .errors import BudgetError

_SHARE = re.compile(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", re.ASCII)
ALLOWED = "headroom is a share of the budget below 100% (10%), or bytes (2GiB)"


@dataclass(frozen=True)
class Headroom:
    """What is left free of a budget: a share of it, and bytes.

    Attributes
    ----------
    share : Fraction
        Below 1.
    count : int
        Bytes.
    """

    share: Fraction = Fraction(0)
    count: int = 0

    def of(self, budget_bytes: int) -> int:
        """Give the bytes that stay free.

        Raises
        ------
        BudgetError
            If nothing is left.

        Examples
        --------
        >>> parse_headroom("10%").of(1001)
        101
        """
        free = math.ceil(self.share * budget_bytes) + self.count
        if free >= budget_bytes:
            raise BudgetError(f"headroom of {free:,} bytes: the budget has {budget_bytes:,}")
        return free

    def budget_for(self, needed_bytes: int) -> int:
        """Give the smallest budget that leaves so many bytes.

        Examples
        --------
        >>> parse_headroom("10%").budget_for(900), parse_headroom("100B").budget_for(900)
        (1000, 1000)
        """
        return math.ceil((needed_bytes + self.count) / (1 - self.share))


def parse_headroom(given: str | int | Headroom) -> Headroom:
    """Read a headroom.

    Raises
    ------
    BudgetError
        If it is none.
    """
    if isinstance(given, Headroom):
        return given
    match = _SHARE.fullmatch(given) if isinstance(given, str) else None
    if match is not None and (share := Fraction(match[1]) / 100) < 1:
        return Headroom(share)
    if given in (0, "0"):
        return Headroom()
    try:
        return Headroom(count=parse_bytes(given))
    except BudgetError:
        raise BudgetError(f"headroom {given!r}: {ALLOWED}") from None
