"""Lines against budgets: one panel a trace, one line a method, failures on a rail over the plot.

Draws what `summaries.curves` returns; the figures themselves are in `figures.py`. A line breaks
where a budget fails, and the failure stands on the rail at its budget, a row per method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from ..result import NO_LINK
from .labels import NOTE_SIZE, bytes_text
from .layout import GRID_COLOR, NOTE_COLOR, Panel, Sheet
from .marks import (
    BOUND_COLORS,
    bound_entry,
    dotted_entry,
    dotted_options,
    failure_options,
    kind_entries,
    line_entries,
    ring_entry,
    ring_options,
)
from .scales import LEAST_RATIO, LOG_FROM, BudgetScale, log_axis, plain_axis
from .style import RAIL_MARKS, LineStyle, line_styles

X_LABEL = "budget / unlimited peak"

# Panels share their range if their spans differ by no more than this factor.
MOST_SHARED, MOST_SHARED_BUDGETS = 6.0, 3.0

# A slowdown below every axis, and above 0 for those that are logarithmic.
BELOW_ALL = 0.5


@dataclass(frozen=True)
class Quantity:
    """What the vertical axis shows.

    Parameters
    ----------
    label : str
        Its name.
    floor : float or None
        Where the axis starts; None: at the lowest value.
    is_log : bool
        Whether the axis is logarithmic in any case.
    ceiling : float or None
        Lower bounds above it do not make the axis longer; None: all of them are in the picture.
    """

    label: str
    floor: float | None
    is_log: bool = False
    ceiling: float | None = None


SLOWDOWN = Quantity("slowdown", floor=1.0)
ACCESSES = Quantity("metadata accesses", floor=None, is_log=True)


@dataclass(frozen=True)
class PanelOfLines:
    """What one panel shows: a title, a note, the points of its lines, and bounds under them.

    Parameters
    ----------
    title, note : str
        What stands over it.
    points : DataFrame
        As `summaries.curves` returns them; where a column `is_optimal` says so, a point is ringed.
        A column `static_plan` is a dotted line beside each: the same quantity of the best address
        plan known.
    bounds : DataFrame or None
        As `gaps.lower_bounds` returns them, of one trace.
    """

    title: str
    note: str
    points: pd.DataFrame
    bounds: pd.DataFrame | None = None


def lines_figure(
    panels: Sequence[PanelOfLines],
    quantity: Quantity,
    names: Sequence[str],
    *,
    x_label: str = X_LABEL,
    columns: int = 0,
    headings: Sequence[str] = (),
) -> Figure:
    """Draw panels of lines with one legend.

    Parameters
    ----------
    panels : sequence of PanelOfLines
        What they show; each is given bounds, or none.
    quantity : Quantity
        What `median`, `low` and `high` of the points are.
    names : sequence of str
        The lines, in the order of the legend and of the rail's rows.
    x_label : str, optional
        Name of the horizontal axis.
    columns : int, optional
        Panels side by side; 0 lets their number decide.
    headings : sequence of str, optional
        A heading over each row of panels.
    """
    points = pd.concat([panel.points for panel in panels], ignore_index=True)
    planned = set(points.loc[points["planned"], "line"])
    styles = line_styles(names, planned)
    failing = [name for name in names if _failures(points[points["line"].eq(name)]).any()]
    rows = {name: row for row, name in enumerate(failing)}
    figure, places = Sheet(
        titles=[(panel.title, panel.note) for panel in panels],
        legends=[*line_entries(styles, planned), _mark_entries(points, panels)],
        x_label=x_label,
        y_label=quantity.label,
        columns=columns,
        rail_rows=len(rows),
        headings=headings,
    ).draw()
    scales = _budget_scales(panels)
    for place, panel, scale in zip(places, panels, scales, strict=True):
        _draw_panel(place, panel.points, scale, (styles, rows))
        if panel.bounds is not None and not panel.bounds.empty:
            _draw_bounds(place.axes, panel.bounds, scale)
    step = columns if headings else len(panels)
    for start in range(0, len(panels), step):
        group = slice(start, start + step)
        _scale_values(places[group], panels[group], quantity)
    return figure


def trace_note(points: pd.DataFrame) -> str:
    """Say how large the unlimited peak is, where all rows agree on it."""
    limited = points[np.isfinite(points["fraction"]) & points["fraction"].gt(0)]
    peaks = limited["budget_bytes"] / limited["fraction"]
    if peaks.empty or peaks.max() > peaks.min() * 1.0001:
        return ""
    return f"1.0 = {bytes_text(float(peaks.iloc[0]))}"


def _budget_scales(panels: Sequence[PanelOfLines]) -> list[BudgetScale]:
    """Give all panels the same budgets, or each its own where their ranges differ much."""
    common = BudgetScale.of(pd.concat([panel.points for panel in panels], ignore_index=True))
    own = [common if panel.points.empty else BudgetScale.of(panel.points) for panel in panels]
    spans = [scale.high - scale.low for scale in own if scale.high > scale.low]
    if not spans or max(spans) <= MOST_SHARED_BUDGETS * min(spans):
        return [common] * len(panels)
    return own


def _failures(points: pd.DataFrame) -> pd.Series[bool]:
    """Mark the points where at least one seed failed."""
    return points["failure"].ne("")


def _draw_panel(
    place: Panel,
    points: pd.DataFrame,
    scale: BudgetScale,
    looks: tuple[Mapping[str, LineStyle], Mapping[str, int]],
) -> None:
    """Draw lines and failures of one panel."""
    styles, rows = looks
    points = points.assign(x=scale.x(points["fraction"]), fails=_failures(points))
    for name, line in points.groupby("line", sort=False):
        style = styles[str(name)]
        _draw_line(place.axes, line, style, zorder=3 - 0.01 * list(styles).index(style.label))
        if place.rail is not None and line["fails"].any():
            _draw_failures(place, line[line["fails"]], rows[str(name)], style)
    scale.apply(place.axes, place.width)
    if place.rail is not None:
        place.rail.set_xlim(*scale.limits())
    place.axes.grid(color=GRID_COLOR, linewidth=0.5)
    place.axes.set_axisbelow(True)
    if points["median"].isna().all():
        center: dict[str, Any] = {
            "ha": "center",
            "va": "center",
            "size": NOTE_SIZE,
            "color": NOTE_COLOR,
        }
        place.axes.text(0.5, 0.5, "no run ended ok", transform=place.axes.transAxes, **center)


def _draw_line(axes: Axes, line: pd.DataFrame, style: LineStyle, zorder: float) -> None:
    """Draw one line; the median of a failure is NaN, which breaks it there."""
    limited = np.isfinite(line["fraction"])
    options = style.line_options() | {"label": style.label, "zorder": zorder}
    for part in (line[limited], line[~limited]):
        axes.add_line(Line2D(part["x"], part["median"], **options))
    if "static_plan" in line:
        dots = dotted_options(style.color) | {"zorder": zorder - 1}
        axes.add_line(Line2D(line["x"], line["static_plan"].where(line["median"].notna()), **dots))
    if "is_optimal" in line:
        proven = line[line["is_optimal"]]
        rings = ring_options(style.color) | {"zorder": zorder}
        axes.add_line(Line2D(proven["x"], proven["median"], **rings))
    spread = line[line["high"].gt(line["low"])]
    if not spread.empty:
        axes.vlines(spread["x"], spread["low"], spread["high"], style.color, lw=0.8, zorder=2)


def _draw_bounds(axes: Axes, bounds: pd.DataFrame, scale: BudgetScale) -> None:
    """Shade what is below the bounds; each holds for its budget and for every smaller one."""
    x = np.append(scale.limits()[0], bounds["fraction"])
    y = np.append(bounds["bound"].iloc[0], bounds["bound"])
    face, edge = BOUND_COLORS
    axes.fill_between(x, BELOW_ALL, y, step="pre", color=face, linewidth=0, zorder=0.2)
    axes.add_line(Line2D(x, y, drawstyle="steps-pre", color=edge, linewidth=0.8, zorder=1.5))


def _draw_failures(place: Panel, failures: pd.DataFrame, row: int, style: LineStyle) -> None:
    """Mark a line's failures in its row of the rail; smaller where only some seeds failed."""
    rail = place.rail
    assert rail is not None, "failures are drawn on a rail"
    rail.axhline(row, color=GRID_COLOR, linewidth=0.5, zorder=1)
    key = Line2D([-0.07 / place.width], [row], **style.marker_options())
    key.set_transform(rail.get_yaxis_transform())
    key.set_clip_on(False)
    rail.add_line(key)
    columns = zip(failures["failure"], failures["status"], failures["x"], strict=True)
    places: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
    for failure, status, x in columns:
        places[failure, status == "ok"].append(x)
    for (failure, is_partial), xs in places.items():
        options = failure_options(failure, style.color, is_partial=is_partial)
        rail.add_line(Line2D(xs, [row] * len(xs), clip_on=False, zorder=3, **options))


def _mark_entries(points: pd.DataFrame, panels: Sequence[PanelOfLines]) -> list[Artist]:
    """Legend entries of what occurs: the two kinds of lines, bounds, rings, failures, ranges."""
    entries: list[Artist] = []
    if points["planned"].any() and not points["planned"].all():
        entries += kind_entries()
    if any(panel.bounds is not None and not panel.bounds.empty for panel in panels):
        entries.append(bound_entry(beside_moves=bool(points["link"].ne(NO_LINK).any())))
    if "is_optimal" in points and points["is_optimal"].eq(True).any():
        entries.append(ring_entry())
    if "static_plan" in points:
        entries.append(dotted_entry())
    return entries + _failure_entries(points)


def _failure_entries(points: pd.DataFrame) -> list[Artist]:
    """Legend entries of failures, and of what several seeds give."""
    failures = points[_failures(points)]
    entries: list[Artist] = [
        Line2D([], [], label=meaning, **failure_options(status, "black"))
        for status, (_, meaning) in RAIL_MARKS.items()
        if failures["failure"].eq(status).any()
    ]
    partial = failures[failures["status"].eq("ok")]
    if len(partial):
        small = failure_options(str(partial["failure"].iloc[0]), "black", is_partial=True)
        entries.append(Line2D([], [], label="small: fewer than half of the seeds", **small))
    if points["high"].gt(points["low"]).any():
        bar = Line2D([], [], color="black", marker="|", markersize=7, lw=0, mew=0.8)
        bar.set_label("range over seeds")
        entries.append(bar)
    return entries


def _scale_values(places: Sequence[Panel], shown: Sequence[PanelOfLines], axis: Quantity) -> None:
    """Give vertical axes the smallest common range, or each its own where they differ much."""
    values = [_values(panel, axis) for panel in shown]
    spans = [own.max() - own.min() for own in values if own.max() > own.min() * LEAST_RATIO]
    if spans and (axis.is_log or max(spans) <= MOST_SHARED * min(spans)):
        values = [np.concatenate(values)] * len(values)
    for place, own in zip(places, values, strict=True):
        if axis.is_log or own.max() > LOG_FROM:
            log_axis(place.axes.yaxis, own)
        else:
            plain_axis(place.axes, own.min(), max(own.max(), own.min() * LEAST_RATIO))


def _values(panel: PanelOfLines, axis: Quantity) -> NDArray[np.float64]:
    """All values that a panel has to show, and the floor of the axis."""
    floor = [] if axis.floor is None else [axis.floor]
    bounds = np.array([]) if panel.bounds is None else panel.bounds["bound"].to_numpy(float)
    if axis.ceiling is not None:
        bounds = np.minimum(bounds, axis.ceiling)
    points = panel.points
    names = [name for name in ("median", "low", "high", "static_plan") if name in points]
    values = np.concatenate([*(points[name] for name in names), bounds, floor])
    values = values[~np.isnan(values)]
    return values if values.size else np.ones(1)
