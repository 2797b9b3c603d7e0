"""The lowest budgets as a picture: a row per trace, a column per method, darker is lower.

A table to look at; `summaries.lowest_budgets` has the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..errors import InputError
from .labels import NOTE_SIZE, TICK_SIZE, text_width, wrap, wrap_all
from .layout import GAP, NOTE_COLOR, NOTE_LINE, OUTER, add_axes, write
from .summaries import line_order, lowest_budgets, lowest_text, trace_order

# Inches.
CELL_WIDTH, CELL_HEIGHT, HEAD_LINE, WIDEST_NAME = 0.72, 0.3, 0.12, 2.2

EXPLANATION = (
    "The lowest budget survived, as a fraction of the unlimited peak, and the slowdown there."
)
GAPS = "a/b: a is survived, but every tried budget only from b on (-: not even the largest)."


def lowest_budget_figure(table: pd.DataFrame) -> Figure:
    """Draw the lowest budget that each method survives on each trace.

    Parameters
    ----------
    table : DataFrame
        Runs, as `rematsim.sweep` or `tables.read_table` returns them.
    """
    lowest = lowest_budgets(table)
    if lowest.empty:
        raise InputError("table: no run with a budget")
    traces, lines = trace_order(lowest["trace"]), line_order(lowest["line"])
    names = wrap_all(traces, WIDEST_NAME, TICK_SIZE, lines=2)
    heads = wrap_all(lines, CELL_WIDTH - GAP, TICK_SIZE, lines=4)
    left = (
        OUTER + GAP + max(text_width(row, TICK_SIZE) for name in names for row in name.split("\n"))
    )
    width = left + max(len(lines) * CELL_WIDTH, 2.6) + OUTER
    has_gaps = lowest["lowest_fraction"].ne(lowest["safe_fraction"]) & lowest["slowdown"].notna()
    text = f"{EXPLANATION} {GAPS}" if has_gaps.any() else EXPLANATION
    note = wrap(text, width - 2 * OUTER, NOTE_SIZE, lines=9)
    bottom = OUTER + NOTE_LINE * (note.count("\n") + 1) + GAP
    body = len(traces) * CELL_HEIGHT
    head = HEAD_LINE * max(name.count("\n") + 1 for name in heads) + 2 * GAP
    figure = Figure(figsize=(width, bottom + body + head + OUTER))
    axes = add_axes(figure, (left, bottom, len(lines) * CELL_WIDTH, body))
    axes.set_xlim(0, len(lines))
    axes.set_ylim(len(traces), 0)
    axes.set_axis_off()
    for row, name in enumerate(names):
        y = bottom + body - (row + 0.5) * CELL_HEIGHT
        write(figure, (left - GAP, y), name, ha="right", size=TICK_SIZE)
    for column, name in enumerate(heads):
        x = left + (column + 0.5) * CELL_WIDTH
        write(figure, (x, bottom + body + GAP), name, va="baseline", size=TICK_SIZE)
    for cell in lowest.to_dict("records"):
        _draw_cell(axes, lines.index(cell["line"]), traces.index(cell["trace"]), cell)
    place = (OUTER, OUTER)
    write(figure, place, note, ha="left", va="bottom", size=NOTE_SIZE, color=NOTE_COLOR)
    return figure


def _draw_cell(axes: Axes, column: int, row: int, cell: dict[Any, Any]) -> None:
    """Fill one cell: the lower the budget, the darker; white with a dash if none is survived."""
    fraction = float(cell["lowest_fraction"])
    is_survived = not np.isnan(fraction)
    light = 0.55 + 0.42 * min(fraction, 1.0) if is_survived else 1.0
    color = (light**2, light, 0.5 + light / 2)  # blues that stay apart in grey
    axes.add_patch(
        Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white", linewidth=1.5)
    )
    text = lowest_text(fraction, float(cell["safe_fraction"]))
    if is_survived:
        text += f"\n{cell['slowdown']:.2f}×"
    looks: dict[str, Any] = {"ha": "center", "va": "center", "size": NOTE_SIZE}
    axes.text(column + 0.5, row + 0.5, text, linespacing=1.05, **looks)
