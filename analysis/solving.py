"""The picture of solving: how long planners took against the size of what they planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..errors import InputError
from .layout import GRID_COLOR, Sheet
from .marks import failure_options, line_entries, ring_entry, ring_options
from .scales import log_axis
from .style import LineStyle, line_styles
from .summaries import line_order
from .tables import check_table, is_plan, require_columns

# Ends of which the time says nothing, as nothing was solved: a budget below what one call needs
# is infeasible at a glance.
UNTRIED = ("not_installed", "not_applicable", "infeasible")

# Ends at a limit; some have a plan all the same.
STOPPED = ("time_limit", "memory_limit", "solver_failed")

# A planner that has used so much of its time was stopped by it.
NEARLY_ALL = 0.98

LEAST_SECONDS = 1e-4
LIMIT_COLOR = "#555555"

# Parts of the horizontal axis: beside its first and last size, and for the planners of one size.
MARGIN, SIDE_BY_SIDE = 0.06, 0.07

# Labels of sizes need so much of the axis between them.
LEAST_STEP = 0.16


def solving_figure(table: pd.DataFrame) -> Figure:
    """Draw seconds of solving against calls, on logarithmic axes: a point for each plan.

    Parameters
    ----------
    table : DataFrame
        Runs, as `rematsim.sweep` or `tables.read_table` returns them; those of planners are shown.

    Returns
    -------
    Figure
        A line goes through the medians of each planner, over budgets and traces of one size, where
        planners stand side by side. Rings mark what was proven to be optimal; crosses what ended
        without a plan because a limit was reached; grey lines the time limits, at which planners
        that go on as long as they may gather. Infeasible budgets are left out.

    Raises
    ------
    InputError
        If no planner was run.
    """
    points = solving_points(table)
    names = line_order(points["method"])
    styles = line_styles(names, planned=names, table=table["method"].astype(str))
    limits = sorted(points.loc[points["is_stopped"], "time_limit"].dropna().unique())
    [entries, _] = line_entries(styles)
    figure, [panel] = Sheet(
        [("", "")],
        [entries, _mark_entries(points, limits)],
        "calls of the trace",
        "seconds of solving",
    ).draw()
    axes = panel.axes
    sizes = np.sort(points["calls"].unique())
    span = max(np.log(sizes[-1] / sizes[0]), 1.0)
    for place, (name, style) in enumerate(styles.items()):
        beside = np.exp(SIDE_BY_SIDE * span * ((place + 0.5) / len(styles) - 0.5))
        rows = points[points["method"].eq(name)]
        _draw_method(axes, rows.assign(x=rows["calls"] * beside), style)
    for limit in limits:
        axes.axhline(limit, color=LIMIT_COLOR, linewidth=0.8, dashes=(4, 3), zorder=1)
    ends = np.exp(np.array([-1, 1]) * MARGIN * span) * sizes[[0, -1]]
    apart = np.diff(np.log(sizes)) > LEAST_STEP * span
    log_axis(axes.xaxis, ends, sizes.tolist() if apart.all() else ())
    log_axis(axes.yaxis, np.append(points["solve_seconds"], limits))
    axes.grid(color=GRID_COLOR, linewidth=0.5)
    axes.set_axisbelow(True)
    return figure


def solving_points(table: pd.DataFrame) -> pd.DataFrame:
    """Pick the rows of a table that say how long a planner took.

    Returns
    -------
    DataFrame
        method, calls, solve_seconds (at least `LEAST_SECONDS`, for the axis), time_limit,
        is_proven, is_stopped (time ran out), is_empty (a limit was reached and there is no plan).
    """
    require_columns(table, ["solve_seconds", "calls", "planner_status"])
    rows = solved_rows(check_table(table))
    if rows.empty:
        raise InputError("table: no row of a planner that says how long it took")
    limit = rows["time_limit"] if "time_limit" in rows else pd.Series(np.nan, index=rows.index)
    return pd.DataFrame(
        {
            "method": rows["method"],
            "calls": rows["calls"],
            "solve_seconds": rows["solve_seconds"].clip(lower=LEAST_SECONDS),
            "time_limit": limit,
            "is_proven": rows["planner_status"].eq("optimal"),
            "is_stopped": rows["solve_seconds"].ge(NEARLY_ALL * limit),
            "is_empty": rows["planner_status"].isin(STOPPED),
        }
    ).reset_index(drop=True)


def solved_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Pick the rows of planners that were timed while they solved something."""
    known = is_plan(table) & table["solve_seconds"].notna() & table["calls"].gt(0)
    return table[known & ~table["planner_status"].isin(UNTRIED)]


def _draw_method(axes: Axes, rows: pd.DataFrame, style: LineStyle) -> None:
    """Draw the points of one planner, and a line through their medians."""
    medians = rows.groupby("x")["solve_seconds"].median()
    line = style.line_options() | {"marker": "", "label": style.label}
    axes.add_line(Line2D(medians.index.to_numpy(), medians.to_numpy(), **line))
    marks: list[tuple[pd.DataFrame, dict[str, Any]]] = [
        (rows, style.marker_options()),
        (rows[rows["is_proven"]], ring_options(style.color)),
        (rows[rows["is_empty"]], _cross_options(style.color)),
    ]
    for chosen, options in marks:
        axes.add_line(Line2D(chosen["x"], chosen["solve_seconds"], **options))


def _cross_options(color: str) -> dict[str, Any]:
    """Keyword arguments for a Line2D of crosses over points without a plan."""
    return failure_options("oom", color) | {"markersize": 7.5}


def _mark_entries(points: pd.DataFrame, limits: list[float]) -> list[Artist]:
    """Legend entries of the marks that occur."""
    entries: list[Artist] = []
    if points["is_proven"].any():
        entries.append(ring_entry())
    if points["is_empty"].any():
        text = "no plan when a limit was reached"
        entries.append(Line2D([], [], label=text, **_cross_options("black")))
    if limits:
        look: dict[str, Any] = {"color": LIMIT_COLOR, "lw": 0.8, "dashes": (4, 3)}
        entries.append(Line2D([], [], label="time limit", **look))
    return entries
