"""How a line looks: label, color, marker and dash of each method.

A marker of its own tells each line apart in black and white too. The first eight colors are Okabe
and Ito's, which the color-blind tell apart (grey stands in for yellow, too pale for a line on
white); the next eight are darker or duller than those, after Tol's.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#767676",
    "#882255",
    "#332288",
    "#999933",
    "#117733",
    "#AA4499",
    "#8C510A",
    "#44AA99",
    "#CC6677",
)

# Shapes and what is inside them. White ones are none that a rail marks failures with, and half ones
# are told from whole ones at the size of a legend.
MARKERS = (
    *((shape, "full") for shape in "os^vDP<>*phd"),
    *((shape, "white") for shape in "vDP<>*d"),
    *((shape, "left") for shape in "os^vDdh"),
)
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5.0, 1.5),
    (1.2, 1.2),
    (6.0, 1.5, 1.2, 1.5),
    (3.0, 1.2),
    (6.0, 1.2, 1.2, 1.2, 1.2, 1.2),
    (8.0, 1.2),
    (2.2, 1.2, 1.2, 1.2),
)

# A line with longer dashes looks solid between two markers that are close, and in the legend.
LONGEST_DASH = 4.0
BROKEN = (3.0, 1.2)

# How far the ground under a marker is on its way from the marker's color to white.
TINT = 0.6

# Places in the series of styles before a marker comes again.
PLACES = len(MARKERS)

# Methods that are drawn alike in every figure, each at its place in the series of styles: first
# heuristics, then planners, in an order in which those that are often together differ most.
_ABLATIONS = tuple(
    f"h_abl_{cost}{rest}"
    for cost in ("estar", "eq", "local", "one")
    for rest in ("", "_size", "_stale", "_size_stale")
    if cost + rest != "one"
)
METHODS = (
    *("h_DTR", "h_DTR_eq", "h_DTR_local", "h_MSPS", "h_LRU", "h_size", "h_rand"),
    *("h_DTR_neighborhood", "h_next_use", "h_next_use_hybrid", "h_last_step"),
    *("h_last_step_hybrid", "h_MegEngine"),
    *("keep-all", "chen-sqrt", "chen-greedy", "checkmate", "checkmate-lp-rounding", "rotor"),
    *("kusumoto", "optimal", "moccasin", "annealing", "revolve"),
    *("large-neighborhood", "knapsack", "joint", "every-kth", "m-of-n", "on-demand"),
    *("treewidth", "checkpoint-all", "pofo", "min-cut", "checkpoint-last", "capuchin"),
    *("poet", "offload-all"),
    *_ABLATIONS[:1],
    *(
        "Coop",
        "h_DTE",
        "h_DTR_offload",
        "h_next_use_offload",
    ),  # where the series has markers that no other heuristic has
    *_ABLATIONS[1:],
)
KNOWN = {method: place for place, method in enumerate(METHODS)} | {
    "ignore": 0,
    "eager": 1,
    "banish": 2,
    "size and staleness": 0,
    "staleness": 1,
    "size": 2,
    "neither": 3,
    "recompute": METHODS.index("optimal"),  # the best of those that move nothing, as one line
}

# Marks for the ways in which a run ends without a result.
STATUS_MARKS = {
    "oom": ("x", "out of memory"),
    "thrashed": ("o", "thrashed (over the slowdown limit)"),
    "infeasible": ("s", "infeasible"),
    "no_plan": ("_", "no plan found"),
    "refused": ("^", "plan refused"),
}

# The mark of what ended ok, but too slow to be in the picture.
TOO_SLOW = "too slow"
RAIL_MARKS = STATUS_MARKS | {TOO_SLOW: ("1", "slower than the axis goes")}


@dataclass(frozen=True)
class LineStyle:
    """The look of one line.

    Parameters
    ----------
    label : str
        What the legend calls it.
    color : str
        ``#RRGGBB``.
    marker : str
        A matplotlib marker.
    fill : {"full", "white", "left"}
        What is inside the marker: the color, white, or the color in its left half.
    dash : tuple of float
        On and off lengths in line widths; empty: a solid line.
    """

    label: str
    color: str
    marker: str
    fill: str
    dash: tuple[float, ...]

    def marker_options(self) -> dict[str, Any]:
        """Keyword arguments for a Line2D that shows the marker alone."""
        return {
            "color": self.color,
            "marker": self.marker,
            "fillstyle": "left" if self.fill == "left" else "full",
            "markerfacecolor": "white" if self.fill == "white" else self.color,
            "markerfacecoloralt": "white",
            "markeredgecolor": self.color,
            "markersize": 5.0 if self.marker in "*" else 3.6,
            "markeredgewidth": 0.8,
            "linestyle": "none",
        }

    def line_options(self) -> dict[str, Any]:
        """Keyword arguments for a Line2D that shows line and markers."""
        pattern = (0.0, self.dash) if self.dash else "solid"
        return {**self.marker_options(), "linestyle": pattern, "linewidth": 1.1}


def style_number(place: int, label: str) -> LineStyle:
    """Return the style at a place of the series; no two of the first 192 are equal.

    The first 24 differ in the marker (shape or filling), and the first 16 in the color.
    """
    lap, spot = divmod(place, PLACES)
    shape, fill = MARKERS[spot]
    return LineStyle(
        label=label,
        color=COLORS[place % len(COLORS)],
        marker=shape,
        fill=fill,
        dash=DASHES[(spot + 3 * (spot // len(DASHES)) + lap) % len(DASHES)],
    )


def line_styles(
    names: Iterable[str], planned: Collection[str] = (), table: Iterable[str] = ()
) -> dict[str, LineStyle]:
    """Give each of these names a style of its own.

    Parameters
    ----------
    names : iterable of str
        Methods, or other names of lines, that share a figure.
    planned : collection of str, optional
        Those that are planned in advance: their lines are broken, and those of the others solid.
    table : iterable of str, optional
        All names of the table: then a name has the same style in all of its figures.

    Returns
    -------
    dict
        Name -> style, in the order of `names`.

    Notes
    -----
    A name that `KNOWN` lists has the same style in every figure, also with options behind it
    (``h_LRU, banish``), unless an earlier name has taken it; another takes the place that its
    checksum picks among those whose color is used least.
    """
    names = list(dict.fromkeys(names))
    everything = list(dict.fromkeys([*names, *sorted(set(table))]))
    places: dict[str, int] = {name: KNOWN[name] for name in everything if name in KNOWN}
    for name in everything:
        claimed = KNOWN.get(name.split(", ")[0])
        if claimed is not None and claimed not in places.values():
            places[name] = claimed
    for name in sorted(set(everything) - set(places)):
        places[name] = _free_place(name, set(places.values()))
    styles = {name: style_number(places[name], name) for name in names}
    return {
        name: replace(style, dash=_broken(style.dash) if name in planned else ())
        for name, style in styles.items()
    }


def tint(color: str) -> str:
    """Lighten a color so that black text can be read on it.

    Examples
    --------
    >>> tint("#0072B2")
    '#99c7e0'
    """
    parts = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + TINT * (255 - part)):02x}" for part in parts)


def _broken(dash: tuple[float, ...]) -> tuple[float, ...]:
    """Return a dash that nobody takes for a solid line."""
    return dash if dash and max(dash) <= LONGEST_DASH else BROKEN


def _free_place(name: str, taken: set[int]) -> int:
    """Pick a place by a name's checksum, among the free ones whose color is used least."""
    laps = 1 + len(taken) // PLACES
    free = [place for place in range(laps * PLACES) if place not in taken]
    uses = Counter(style_number(place, "").color for place in taken)
    fewest = min(uses[style_number(place, "").color] for place in free)
    free = [place for place in free if uses[style_number(place, "").color] == fewest]
    return free[zlib.crc32(name.encode()) % len(free)]
