"""The picture of a comparison: memory of a replay and of a profile, on one axis.

Reads a table of curves; knows nothing of traces and profiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..errors import InputError
from .labels import NOTE_SIZE, TITLE_SIZE, bytes_text, wrap
from .layout import (
    FULL_WIDTH,
    GAP,
    NOTE_COLOR,
    NOTE_LINE,
    OUTER,
    TICK_LINE,
    TITLE_LINE,
    WIDE,
    WIDE_LEFT,
    add_axes,
    label_wide,
    legend_that_fits,
    place_legends,
    write,
)
from .scales import bytes_axis, number_axis
from .style import COLORS
from .tables import require_columns

LABELS = {
    "replay": "replay",
    "allocated": "recorded: allocated",
    "reserved": "recorded: reserved",
    "model_reserved": "model: reserved",
}
LINES: dict[str, dict[str, Any]] = {
    "replay": {"color": COLORS[1], "linewidth": 1.1, "zorder": 4},
    "allocated": {"color": COLORS[0], "linewidth": 1.1, "zorder": 3},
    "reserved": {"color": COLORS[7], "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 2},
    "model_reserved": {"color": COLORS[1], "linewidth": 1.0, "linestyle": (2, (4, 2)), "zorder": 2},
}
BINS = 900  # parts of the axis; each keeps its extremes

# Inches.
PLOT_HEIGHT = 2.3


def compared_memory_figure(table: pd.DataFrame) -> Figure:
    """Draw the memory of a replay over that of a profile.

    Parameters
    ----------
    table : DataFrame
        Columns curve (``replay``, ``allocated``, ``reserved``, ``model_reserved``), place (share of
        all bytes that the curve ever allocates, 0 to 1) and bytes; in ``attrs``, where known, the
        names of trace, profile and device.

    Returns
    -------
    Figure
        Steps; of many events the highest and lowest of each part are drawn. Peaks are
        in the legend.

    Raises
    ------
    InputError
        The table is empty, or lacks a column.
    """
    require_columns(table, ["curve", "place", "bytes"])
    if table.empty:
        raise InputError("table: no points of a curve in it")
    groups = dict(list(table.groupby("curve", sort=False)))
    shown = {name: groups[name] for name in LINES if name in groups}
    figure = Figure(figsize=(FULL_WIDTH, 1.0))
    entries: list[Artist] = [
        Line2D(
            [], [], label=f"{LABELS[name]}, peak {bytes_text(rows['bytes'].max())}", **LINES[name]
        )
        for name, rows in shown.items()
    ]
    legend, legend_height = legend_that_fits(figure, entries)
    bottom = OUTER + legend_height + 2 * GAP + TITLE_LINE + TICK_LINE
    figure.set_figheight(bottom + PLOT_HEIGHT + GAP + NOTE_LINE + TITLE_LINE + OUTER)
    place_legends(figure, [(legend, legend_height)])
    axes = add_axes(figure, (WIDE_LEFT, bottom, WIDE, PLOT_HEIGHT))
    for name, rows in shown.items():
        x, y = _thinned(rows["place"].to_numpy(float), rows["bytes"].to_numpy(float))
        axes.plot(np.append(x, 1.0), np.append(y, y[-1]), drawstyle="steps-post", **LINES[name])
    highest = float(table["bytes"].max()) or 1.0
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05 * highest)
    label_wide(axes, f"memory ({bytes_axis(axes.yaxis, 1.05 * highest)})")
    number_axis(axes.xaxis, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    _write_texts(figure, table, bottom)
    return figure


def _write_texts(figure: Figure, table: pd.DataFrame, bottom: float) -> None:
    """Write the title, the note under it, and what the horizontal axis is."""
    top = figure.get_figheight() - OUTER
    trace, profile, device = (table.attrs.get(name, "") for name in ("trace", "profile", "device"))
    width = FULL_WIDTH - 2 * OUTER
    title = wrap(str(trace) or "memory", width, TITLE_SIZE, lines=1)
    write(figure, (FULL_WIDTH / 2, top), title, va="top", size=TITLE_SIZE)
    if profile:
        note = wrap(f"against {profile}, {device}", width, NOTE_SIZE, lines=1)
        place = (FULL_WIDTH / 2, top - TITLE_LINE)
        write(figure, place, note, va="top", size=NOTE_SIZE, color=NOTE_COLOR)
    middle = WIDE_LEFT + WIDE / 2
    write(figure, (middle, bottom - TICK_LINE), "share of all bytes allocated", va="top")


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep, of many points, the highest, the lowest and the last in each part."""
    if len(x) <= 3 * BINS:
        return x, y
    parts = np.floor(x * (BINS - 1)).astype(np.int64)
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    by_value = np.lexsort((y, parts))
    ends = np.append(starts[1:], len(x)) - 1
    kept = np.unique(np.concatenate([by_value[starts], by_value[ends], ends]))
    return x[kept], y[kept]
