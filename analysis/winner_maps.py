"""Which method wins at each link and budget, as a map: a row per link, a column per budget.

Each cell has the color and the marker of its winner, so that it can be read in grey, too, and the
slowdown. The numbers are of `winners.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from .labels import LABEL_SIZE, NOTE_SIZE, TICK_SIZE, TITLE_SIZE, literal, text_width, wrap_all
from .layout import (
    GAP,
    NOTE_COLOR,
    NOTE_LINE,
    OUTER,
    TITLE_LINE,
    add_axes,
    legend_that_fits,
    place_legends,
    write,
)
from .lines import X_LABEL
from .link_names import link_label
from .style import LineStyle, line_styles, tint
from .summaries import fraction_text, line_order, trace_order
from .winners import TIE, shares_of_peak, winners

# Inches.
CELL_WIDTH, CELL_HEIGHT, WIDEST_LINK, LEAST_WIDTH = 0.62, 0.27, 1.7, 3.2
SHARE_WIDTH = 0.5
HEAD = TITLE_LINE + NOTE_LINE + 2 * GAP
MARKER_AT, TEXT_AT = 0.2, 0.64  # parts of a cell

SHARE = "peaks / step"
EXPLANATION = (
    f"Numbers: slowdown. –: no method fits. Of methods within {TIE:.1%} of the best the simplest",
    "wins: one that keeps, then one that computes again, one that offloads, one that does both.",
)
SHARE_EXPLANATION = f"{SHARE}: unlimited peaks that the link moves one way in the model's own time."


def winners_figure(table: pd.DataFrame) -> Figure:
    """Draw which method wins over links and budgets: a map per trace.

    Parameters
    ----------
    table : DataFrame
        Runs of several links, as `rematsim.sweep` or `tables.read_table` returns them.
    """
    won = winners(table)
    styles = line_styles(line_order(won.loc[won["method"].ne(""), "method"]))
    shares = shares_of_peak(table)
    traces = trace_order(won["trace"])
    maps = [won[won["trace"].eq(trace)] for trace in traces]
    notes = [*EXPLANATION, *([SHARE_EXPLANATION] if shares else [])]
    left = OUTER + GAP + _widest_link(won) + (SHARE_WIDTH if shares else 0.0)
    columns = max(cells["budget_bytes"].nunique() for cells in maps)
    longest = max(text_width(note, NOTE_SIZE) for note in notes)
    width = max(left + columns * CELL_WIDTH + OUTER, LEAST_WIDTH, longest + 2 * OUTER)
    figure = Figure(figsize=(width, 1.0))
    legends = [legend_that_fits(figure, entries) for entries in [_entries(styles)] if entries]
    foot = OUTER + sum(height + GAP for _, height in legends)
    bottom = foot + NOTE_LINE * len(notes) + 2 * GAP + TITLE_LINE
    body = sum(HEAD + CELL_HEIGHT * cells["link"].nunique() + 2 * GAP for cells in maps) - 2 * GAP
    figure.set_figheight(bottom + body + OUTER)
    place_legends(figure, legends)
    for line, note in enumerate(reversed(notes)):
        place = (OUTER, foot + NOTE_LINE * line)
        write(figure, place, note, ha="left", va="bottom", size=NOTE_SIZE, color=NOTE_COLOR)
    middle = left + columns * CELL_WIDTH / 2
    write(figure, (middle, bottom - TITLE_LINE - GAP), X_LABEL, va="bottom", size=LABEL_SIZE)
    top = figure.get_figheight() - OUTER
    titles = wrap_all(traces, width - left - OUTER, TITLE_SIZE, lines=1)
    for title, cells in zip(titles, maps, strict=True):
        write(figure, (left, top - GAP), title, ha="left", va="top", size=TITLE_SIZE)
        top = _draw_map(figure, (left, top), cells, (styles, shares))
    return figure


def _widest_link(won: pd.DataFrame) -> float:
    """Give the room that the names of links take."""
    lines = [line for name in _link_names(won).values() for line in name.split("\n")]
    return max(text_width(line, TICK_SIZE) for line in lines)


def _link_names(won: pd.DataFrame) -> dict[str, str]:
    """Name the links, in at most two lines each."""
    links = list(dict.fromkeys(won["link"]))
    names = wrap_all([link_label(link) for link in links], WIDEST_LINK, TICK_SIZE, lines=2)
    return dict(zip(links, names, strict=True))


def _entries(styles: Mapping[str, LineStyle]) -> list[Artist]:
    """Legend entries: each method's marker on its color."""
    return [
        Line2D([0], [0], label=literal(name), lw=8.0, **_cell_options(style))
        for name, style in styles.items()
    ]


def _cell_options(style: LineStyle) -> dict[str, Any]:
    """Keyword arguments for a Line2D with a method's marker, over its tint."""
    marker = {**style.marker_options(), "color": tint(style.color), "linestyle": "solid"}
    if style.fill == "full":
        marker["markerfacecolor"] = style.color
    return {**marker, "solid_capstyle": "butt"}


def _draw_map(
    figure: Figure,
    corner: tuple[float, float],
    cells: pd.DataFrame,
    looks: tuple[Mapping[str, LineStyle], Mapping[tuple[str, str], float]],
) -> float:
    """Draw one trace's map, its left upper corner at so many inches; return where the next is."""
    styles, shares = looks
    left, top = corner
    trace = str(cells["trace"].iloc[0])
    links = list(dict.fromkeys(cells["link"]))[::-1]  # the fastest on top
    budgets = sorted(cells["budget_bytes"].unique())
    names = _link_names(cells)
    width, height = CELL_WIDTH * len(budgets), CELL_HEIGHT * len(links)
    foot = top - HEAD - height
    axes = add_axes(figure, (left, foot, width, height))
    axes.set_xlim(0, len(budgets))
    axes.set_ylim(len(links), 0)
    axes.set_axis_off()
    for column, budget in enumerate(budgets):
        fraction = cells.loc[cells["budget_bytes"].eq(budget), "fraction"].iloc[0]
        place = (left + (column + 0.5) * CELL_WIDTH, foot + height + GAP / 2)
        write(figure, place, fraction_text(round(fraction, 4)), va="bottom", size=TICK_SIZE)
    _label_rows(figure, (left, foot + height), [(names[x], shares.get((trace, x))) for x in links])
    for cell in cells.to_dict("records"):
        place = (budgets.index(cell["budget_bytes"]), links.index(cell["link"]))
        _draw_cell(axes, place, cell, styles)
    return foot - 2 * GAP


def _label_rows(
    figure: Figure, corner: tuple[float, float], rows: list[tuple[str, float | None]]
) -> None:
    """Write what the rows are: the link, and how much of the peak it moves in a step."""
    x, top = corner[0] - GAP, corner[1]
    has_shares = any(share is not None for _, share in rows)
    if has_shares:
        write(figure, (x, top + GAP / 2), SHARE, ha="right", va="bottom", size=NOTE_SIZE)
    for row, (name, share) in enumerate(rows):
        y = top - (row + 0.5) * CELL_HEIGHT
        if share:
            write(figure, (x, y), f"{share:.2g}", ha="right", size=TICK_SIZE)
        end = x - (SHARE_WIDTH if has_shares else 0.0)
        write(figure, (end, y), name, ha="right", size=TICK_SIZE)


def _draw_cell(
    axes: Axes,
    place: tuple[int, int],
    cell: Mapping[Any, Any],
    styles: Mapping[str, LineStyle],
) -> None:
    """Fill one cell with its winner's color, marker and slowdown; white with a dash if none is."""
    column, row = place
    style = styles.get(str(cell["method"]))
    face = "white" if style is None else tint(style.color)
    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor="white", linewidth=1.5))
    looks: dict[str, Any] = {"ha": "center", "va": "center", "size": NOTE_SIZE}
    if style is None:
        axes.text(column + 0.5, row + 0.5, "–", **looks)
        return
    axes.add_line(Line2D([column + MARKER_AT], [row + 0.5], **style.marker_options()))
    axes.text(column + TEXT_AT, row + 0.5, f"{cell['slowdown']:.3f}", **looks)
