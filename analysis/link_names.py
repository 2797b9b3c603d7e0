"""Links in a few letters, and what orders them: their rates."""

from __future__ import annotations

import math

from ..links import find_link


def rate_text(rate: float) -> str:
    """Write bytes a second with a decimal unit, to three digits (``12.5 GB/s``)."""
    units = ["B/s", "kB/s", "MB/s", "GB/s"]
    while rate >= 1000 and len(units) > 1 and math.isfinite(rate):
        rate /= 1000
        units.pop(0)
    return f"{rate:.3g} {units[0]}" if math.isfinite(rate) else "infinitely fast"


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
