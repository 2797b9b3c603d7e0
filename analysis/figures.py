"""One function per figure: a table of runs in, a matplotlib Figure out.

Nothing is simulated, and nothing is shown on a screen. All figures can be had from here; those of
lowest budgets, of winners, of solving, of a single run and of the theory are drawn in `heat.py`,
`winner_maps.py`, `solving.py`, `timelines.py`, `stream_lanes.py`, `address_map.py`,
`plan_pictures.py` and `theory.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..errors import InputError
from ..result import NO_LINK, OPTIONS
from .address_map import address_figure as address_figure
from .gaps import lower_bounds, with_bounds
from .heat import lowest_budget_figure as lowest_budget_figure
from .labels import shorten
from .lines import ACCESSES, SLOWDOWN, X_LABEL, PanelOfLines, Quantity, lines_figure, trace_note
from .link_names import link_label
from .output import save_figure as save_figure
from .plan_pictures import plan_figure as plan_figure
from .solving import solving_figure as solving_figure
from .stream_lanes import lanes_figure as lanes_figure
from .stream_lanes import moves_data as moves_data
from .style import TOO_SLOW
from .summaries import curves, line_order, trace_order
from .tables import check_table, require_alike, require_columns
from .theory import operations_figure as operations_figure
from .theory import residency as residency
from .theory import residency_figure as residency_figure
from .timelines import memory_figure as memory_figure
from .winner_maps import winners_figure as winners_figure
from .winners import (
    FAMILIES,
    points_by_link,
    shares_of_peak,
    with_best_recomputing,
)

# The ablations: what stands in the numerator, and what else the score may look at.
ABLATION_COSTS = {
    "estar": "cost with e*",
    "eq": "cost with ẽ*",
    "local": "own cost",
    "one": "no cost",
}
ABLATION_LINES = {
    "_size_stale": "size and staleness",
    "_stale": "staleness",
    "_size": "size",
    "": "neither",
}
# Heuristics that are an ablation under another name.
ABLATION_SYNONYMS = {
    "h_abl_estar_size_stale": "h_DTR",
    "h_abl_eq_size_stale": "h_DTR_eq",
    "h_abl_local_size_stale": "h_DTR_local",
    "h_abl_one_size": "h_size",
    "h_abl_one": "h_rand",
}


def overhead_figure(table: pd.DataFrame, highest: float | None = None) -> Figure:
    """Draw slowdown against budget: a panel per trace, a line per method (the paper's Figure 2).

    Parameters
    ----------
    table : DataFrame
        Runs, as `rematsim.sweep` or `tables.read_table` returns them.
    highest : float, optional
        Slowdowns above it stand on the rail, so that a few do not make the others small.

    Returns
    -------
    Figure
        Budgets are fractions of the unlimited peak. Failures stand on the rail over each plot, a
        row per line. Of several seeds: the median, and a bar over the range of those that ended ok.
        Shaded is what lies below the lower bounds that the runs know, those without transfers.
        Among plans and beside them, rings mark what is proven to be optimal.
    """
    bounds = lower_bounds(table)
    points = with_bounds(curves(table), bounds)
    if not points["planned"].any():
        points = points.drop(columns="is_optimal")
    if highest is not None:
        points = _cut(points, highest)
    bounds = bounds[bounds["link"].eq(NO_LINK)]
    return _by_trace(points, replace(SLOWDOWN, ceiling=highest), bounds=bounds)


def links_figure(table: pd.DataFrame, highest: float | None = None) -> Figure:
    """Draw slowdown against budget at each link: keeping, recomputing, offloading, and both.

    Parameters
    ----------
    table : DataFrame
        Runs of several links.
    highest : float, optional
        As of `overhead_figure`.

    Returns
    -------
    Figure
        A panel per trace and link, the slowest link first. Methods that move nothing are one line:
        the best of them at each budget; the legend names those that are it somewhere.

    Raises
    ------
    InputError
        If no run has a link, or the runs differ in an option.
    """
    shares = shares_of_peak(table)
    by_trace = points_by_link(table)
    places = {
        (trace, link): points
        for trace, links in by_trace.items()
        for link, points in links.items()
        if link != NO_LINK
    }
    panels = []
    for (trace, link), points in zip(
        places, with_best_recomputing(list(places.values())), strict=True
    ):
        title = link_label(link) if len(by_trace) == 1 else f"{trace}, {link_label(link)}"
        share = shares.get((trace, link))
        note = "" if share is None else f"{share:.2g} peaks in a step"
        panels.append(
            PanelOfLines(title, note, points if highest is None else _cut(points, highest))
        )
    shown = pd.concat([panel.points for panel in panels], ignore_index=True)
    families = dict(zip(shown["line"], shown["family"], strict=True))
    names = sorted(line_order(families), key=lambda name: FAMILIES.index(families[name]))
    return lines_figure(panels, replace(SLOWDOWN, ceiling=highest), names)


def accesses_figure(table: pd.DataFrame) -> Figure:
    """Draw metadata accesses against budget, on a logarithmic axis: a panel per trace.

    Parameters
    ----------
    table : DataFrame
        Runs whose `metadata_accesses` have been counted; others are left out.

    Returns
    -------
    Figure
    """
    require_columns(table, ["metadata_accesses"])
    counted = table[table["metadata_accesses"].notna()]
    if counted.empty:
        raise InputError("table: no metadata_accesses in any row: sweep with --count-accesses")
    return _by_trace(curves(counted, "metadata_accesses"), ACCESSES)


def deallocation_figure(table: pd.DataFrame, method: str | None = None) -> Figure:
    """Compare deallocation policies under one method: a panel per trace, a line per policy.

    Parameters
    ----------
    table : DataFrame
        Runs; needs a column `deallocation`.
    method : str, optional
        The method to compare under; by default the one that was run with most policies.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the runs differ in another option too, which the lines would mix.
    """
    require_columns(table, ["deallocation"])
    table = check_table(table)
    if method is None:
        policies = table.groupby("method")["deallocation"].nunique()
        method = next(
            name for name in line_order(policies.index) if policies[name] == policies.max()
        )
    chosen = table[table["method"].eq(method)]
    if chosen.empty:
        raise InputError(f"table: no run with method {method!r}")
    require_alike(chosen, [name for name in OPTIONS if name != "deallocation"], "deallocation")
    points = curves(chosen.assign(line=chosen["deallocation"].astype(str)))
    label = f"{X_LABEL} ({shorten(method, 32)})"
    return _by_trace(points, SLOWDOWN, x_label=label)


def ablation_figure(table: pd.DataFrame) -> Figure:
    """Draw the ablation grid: a row of panels per trace, a panel per cost, a line per what is left.

    Parameters
    ----------
    table : DataFrame
        Runs of the ``h_abl_*`` heuristics; where one is missing and a named heuristic has the same
        formula (h_DTR, h_DTR_eq, h_DTR_local, h_size, h_rand), that one's runs stand in for it.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the runs differ in an option, which the lines would mix.
    """
    table = check_table(table)
    methods = set(table["method"])
    if not any(name.startswith("h_abl_") for name in methods):
        raise InputError("table: no run of an ablation (h_abl_...)")
    places = {}
    for cost in ABLATION_COSTS:
        for suffix, line in ABLATION_LINES.items():
            name = f"h_abl_{cost}{suffix}"
            places[name if name in methods else ABLATION_SYNONYMS.get(name, name)] = (cost, line)
    table = table[table["method"].isin(places)]
    require_alike(table, OPTIONS, "ablation")
    table = table.assign(
        cost=table["method"].map(lambda name: places[name][0]),
        line=table["method"].map(lambda name: places[name][1]),
    )
    traces = trace_order(table["trace"])
    points = {cost: curves(rows) for cost, rows in table.groupby("cost")}
    nothing = next(iter(points.values())).iloc[:0]
    panels = [
        PanelOfLines(title, "", _of_trace(points.get(cost, nothing), trace))
        for trace in traces
        for cost, title in ABLATION_COSTS.items()
    ]
    names = list(ABLATION_LINES.values())
    return lines_figure(panels, SLOWDOWN, names, columns=len(ABLATION_COSTS), headings=traces)


def _by_trace(
    points: pd.DataFrame,
    quantity: Quantity,
    *,
    x_label: str = X_LABEL,
    bounds: pd.DataFrame | None = None,
) -> Figure:
    """Draw a panel per trace."""
    panels = []
    for trace in trace_order(points["trace"]):
        shown = _of_trace(points, trace)
        below = None if bounds is None else _of_trace(bounds, trace)
        panels.append(PanelOfLines(trace, trace_note(shown), shown, below))
    return lines_figure(panels, quantity, line_order(points["line"]), x_label=x_label)


def _cut(points: pd.DataFrame, highest: float) -> pd.DataFrame:
    """Make failures of what is slower than so much."""
    is_slow = points["median"].gt(highest)
    points = points.assign(
        status=points["status"].mask(is_slow, TOO_SLOW),
        failure=points["failure"].mask(is_slow, TOO_SLOW),
        median=points["median"].mask(is_slow),
        high=points["high"].clip(upper=highest),
    )
    points.loc[points["low"].gt(highest), ["low", "high"]] = np.nan
    return points


def _of_trace(points: pd.DataFrame, trace: str) -> pd.DataFrame:
    """Points of one trace."""
    return points[points["trace"].eq(trace)]
