"""Links in a few letters, and what orders them: their rates.

Lines are named by their labels, so two links have the same one only if they are the same.
"""

from __future__ import annotations

import math
from decimal import Decimal

from ..links import find_link

UNITS = ("B/s", "kB/s", "MB/s", "GB/s")


def rate_text(rate: float) -> str:
    """Write bytes a second with a decimal unit, exactly (``12.5 GB/s``)."""
    if not math.isfinite(rate):
        return "infinitely fast"
    power = min((len(f"{rate:.0f}") - 1) // 3, len(UNITS) - 1)
    return f"{(Decimal(rate) / 1000**power).normalize():f} {UNITS[power]}"


def rate(text: str) -> float:
    """Give the bytes a second of a link, the lesser of both ways; 0 where there is none."""
    link = find_link(text)
    if link is None:
        return 0.0
    ways = (link.to_host, link.from_host)
    return min(math.inf if way is None else float(way) for way in ways)


def link_label(text: str) -> str:
    """Say what a link is in few letters: its rate, if it was given by hand and that is all."""
    link = find_link(text)
    if link is None:
        return "no link"
    plain = find_link(f"link(d2h={rate(text):.0f},h2d={rate(text):.0f})")
    return rate_text(rate(text)) if link == plain else text
