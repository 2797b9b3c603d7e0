"""Marks that figures share, and their entries in legends: lines, failures, what is proven.

How the line of each method looks is in `style.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .labels import literal, shorten, told_apart
from .style import BROKEN, RAIL_MARKS, LineStyle

LABEL_LETTERS = 56
DOTS = (1.0, 1.2)
BOUND_COLORS = ("#EFEFEF", "#8C8C8C")  # of the area under it, and of its edge


def failure_options(status: str, color: str, *, is_partial: bool = False) -> dict[str, Any]:
    """Keyword arguments for a Line2D of the marks of one status."""
    return {
        "color": color,
        "marker": RAIL_MARKS[status][0],
        "markerfacecolor": "none",
        "markersize": 2.0 if is_partial else 3.6,
        "markeredgewidth": 0.9,
        "linestyle": "none",
    }


def ring_options(color: str) -> dict[str, Any]:
    """Keyword arguments for a Line2D of rings around points that are proven to be optimal."""
    return {
        "color": color,
        "marker": "o",
        "markerfacecolor": "none",
        "markersize": 7.5,
        "markeredgewidth": 0.8,
        "linestyle": "none",
    }


def line_entries(
    styles: Mapping[str, LineStyle], planned: Iterable[str] = ()
) -> list[list[Artist]]:
    """Legend entries of the lines: those of heuristics, and those of planners."""
    labels = told_apart(styles, lambda name: shorten(name, LABEL_LETTERS))
    is_planned = set(planned)
    entries: tuple[list[Artist], list[Artist]] = [], []
    for label, (name, style) in zip(labels, styles.items(), strict=True):
        line = Line2D([], [], label=literal(label), **style.line_options())
        entries[name in is_planned].append(line)
    return list(entries)


def kind_entries() -> list[Artist]:
    """Legend entries that say what solid and broken lines are."""
    looks = {"solid: decided while running": "solid", "broken: planned": (0.0, BROKEN)}
    return [Line2D([], [], color="black", lw=1.1, ls=ls, label=text) for text, ls in looks.items()]


def ring_entry(label: str = "proven optimal") -> Artist:
    """Legend entry of the rings."""
    return Line2D([], [], label=label, **ring_options("black"))


def dotted_options(color: str) -> dict[str, Any]:
    """Keyword arguments for a Line2D of what a static address plan would do."""
    marker = {"marker": ".", "markersize": 2.0}  # so that one alone is seen
    return {"color": color, "linestyle": (0.0, DOTS), "linewidth": 1.3, **marker}


def dotted_entry() -> Artist:
    """Legend entry of the dotted lines."""
    label = "dotted: a static address plan of the same run"
    return Line2D([], [], label=label, **dotted_options("black"))


def bound_entry(beside_moves: bool = False) -> Artist:
    """Legend entry of the area that no run can reach; beside runs that move data, none without."""
    face, edge = BOUND_COLORS
    label = "below the lower bound" + (" without a link" if beside_moves else "")
    return Patch(facecolor=face, edgecolor=edge, lw=0.8, label=label)
