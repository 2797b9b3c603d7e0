"""How a line looks: label, colour, marker and dash of each method.

Colours are Okabe and Ito's, which the colour-blind tell apart (grey stands in for yellow, too pale
for a line on white); a marker of its own tells each line apart in black and white too.
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
)
MARKERS = ("o", "s", "^", "v", "D", "P", "<", ">", "*", "p", "h", "d")
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

# Places in the series of styles before a marker comes again.
PLACES = 2 * len(MARKERS)

# Methods that are drawn alike in every figure; the number is the place in the series of styles.
KNOWN = {
    "h_DTR": 0,
    "h_DTR_eq": 1,
    "h_DTR_local": 2,
    "h_MSPS": 3,
    "h_LRU": 4,
    "h_size": 5,
    "h_rand": 6,
    "h_DTR_neighborhood": 7,
    "h_next_use": 8,
    "h_next_use_hybrid": 9,
    "h_last_step": 10,
    "h_last_step_hybrid": 11,
    "h_MegEngine": 12,
    "keep-all": 13,
    "chen-sqrt": 14,
    "chen-greedy": 15,
    "checkmate": 16,
    "checkmate-lp-rounding": 17,
    "rotor": 18,
    "kusumoto": 19,
    "optimal": 20,
    "moccasin": 21,
    "annealing": 22,
    "revolve": 23,
    "ignore": 0,
    "eager": 1,
    "banish": 2,
    "size and staleness": 0,
    "staleness": 1,
    "size": 2,
    "neither": 3,
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
    filled : bool
        Whether the marker is filled with the colour, or white inside.
    dash : tuple of float
        On and off lengths in line widths; empty: a solid line.
    """

    label: str
    color: str
    marker: str
    filled: bool
    dash: tuple[float, ...]

    def marker_options(self) -> dict[str, Any]:
        """Keyword arguments for a Line2D that shows the marker alone."""
        return {
            "color": self.color,
            "marker": self.marker,
            "markerfacecolor": self.color if self.filled else "white",
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

    The first 24 differ in the marker (shape or filling), whatever the colour.
    """
    lap, spot = divmod(place, PLACES)
    turn, shape = divmod(spot, len(MARKERS))
    hue_lap = spot // len(COLORS)
    return LineStyle(
        label=label,
        color=COLORS[(spot + lap) % len(COLORS)],
        marker=MARKERS[shape],
        filled=turn == 0,
        dash=DASHES[(spot + 3 * hue_lap + 2 * lap) % len(DASHES)],
    )


def line_styles(names: Iterable[str], planned: Collection[str] = ()) -> dict[str, LineStyle]:
    """Give each of these names a style of its own.

    Parameters
    ----------
    names : iterable of str
        Methods, or other names of lines, that share a figure.
    planned : collection of str, optional
        Those that are planned in advance: where there are others too, their lines are broken, and
        those of the others solid.

    Returns
    -------
    dict
        Name -> style, in the order of `names`.

    Notes
    -----
    A name that `KNOWN` lists, also with options behind it (``h_LRU, banish``), has the same style
    in every figure, unless an earlier name has taken it; another takes the place that its checksum
    picks among those whose colour is used least.
    """
    names = list(dict.fromkeys(names))
    places: dict[str, int] = {}
    for name in names:
        claimed = KNOWN.get(name.split(", ")[0])
        if claimed is not None and claimed not in places.values():
            places[name] = claimed
    for name in sorted(set(names) - set(places)):
        places[name] = _free_place(name, set(places.values()))
    styles = {name: style_number(places[name], name) for name in names}
    if not set(names).intersection(planned) or set(names).issubset(planned):
        return styles
    return {
        name: replace(style, dash=_broken(style.dash) if name in planned else ())
        for name, style in styles.items()
    }


def _broken(dash: tuple[float, ...]) -> tuple[float, ...]:
    """Return a dash that nobody takes for a solid line."""
    return dash if dash and max(dash) <= LONGEST_DASH else BROKEN


def _free_place(name: str, taken: set[int]) -> int:
    """Pick a place by a name's checksum, among the free ones whose colour is used least."""
    laps = 1 + len(taken) // PLACES
    free = [place for place in range(laps * PLACES) if place not in taken]
    uses = Counter(style_number(place, "").color for place in taken)
    fewest = min(uses[style_number(place, "").color] for place in free)
    free = [place for place in free if uses[style_number(place, "").color] == fewest]
    return free[zlib.crc32(name.encode()) % len(free)]
