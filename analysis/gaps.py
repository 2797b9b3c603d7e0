"""How far runs are from the best that there can be: lower bounds by budget, and gaps to them.

A bound is the best that any run of the table knows; whose it is, a table does not say. Bounds of
planners hold for the order of the trace and one computation of a call between two first ones, so
that a run may, rarely, end below one. What can go to the host need not be computed again: bounds of
runs without a link to it say nothing of runs with one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..result import NO_LINK
from .link_names import link_label
from .summaries import by_budget, curves, trace_order
from .tables import check_table, link_of

# A run whose slowdown is at most so much above the bound attains it.
ATTAINED = 1e-9

# What stands for a line in the row of bounds.
BOUND = "lower bound"

# What a bound is of.
_PLACES = ["trace", "link", "budget_bytes"]


def lower_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Find the lower bound of each budget on each trace, without and with each link.

    Parameters
    ----------
    table : DataFrame
        Runs; without a column `bound_slowdown` there are no bounds.

    Returns
    -------
    DataFrame
        trace, link, budget_bytes, fraction, bound (a slowdown); by trace, budgets ascending.

    Notes
    -----
    What bounds a budget bounds every smaller one too, so bounds never rise with the budget. A trace
    with runs that update in place has none: bounds are for copies.
    """
    table = check_table(table)
    columns = ["trace", "link", "budget_bytes", "fraction", "bound"]
    if "bound_slowdown" not in table:
        nothing = pd.DataFrame({name: [] for name in columns})
        return nothing.astype({"trace": str, "link": str})
    table = table.assign(
        link=link_of(table),
        fraction=table["budget_bytes"] / table["unlimited_peak_bytes"],
        bound=table["bound_slowdown"],
    )
    if "mutation" in table:
        in_place = table.loc[table["mutation"].eq("inplace"), "trace"]
        table = table[~table["trace"].isin(in_place)]
    known = table[table["bound"].notna() & table["budget_bytes"].notna()]
    best = known.groupby(_PLACES, as_index=False)[["fraction", "bound"]].max()
    best["bound"] = best[::-1].groupby(["trace", "link"])["bound"].cummax()
    return best[columns]


def share_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Give each run the best bound of its trace, link and budget; rows chosen later keep it.

    Parameters
    ----------
    table : DataFrame
        Runs.

    Returns
    -------
    DataFrame
        The same with another `bound_slowdown`, where there is one.
    """
    if "bound_slowdown" not in table:
        return table
    checked = check_table(table).assign(link=lambda rows: link_of(rows))
    shared = checked[_PLACES].merge(lower_bounds(table), on=_PLACES, how="left")
    bounds = pd.Series(shared["bound"].to_numpy(), index=table.index)
    return table.assign(bound_slowdown=bounds.fillna(table["bound_slowdown"]))


def with_bounds(points: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """Hold the points of lines against the bounds of their budgets.

    Parameters
    ----------
    points : DataFrame
        As `summaries.curves` returns them.
    bounds : DataFrame
        As `lower_bounds` returns them.

    Returns
    -------
    DataFrame
        With the columns bound (NaN: unknown), gap (`median` above it, as a fraction of it), and
        is_optimal: proven, as the planner says or as the bound is attained.
    """
    points = points.merge(bounds[[*_PLACES, "bound"]], on=_PLACES, how="left")
    points["gap"] = points["median"] / points["bound"] - 1
    attained = points["gap"].le(ATTAINED) & points["high"].eq(points["low"])
    points["is_optimal"] = points["status"].eq("ok") & (attained | points["proven"])
    return points


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Hold every line at every budget against the best lower bound that is known there.

    Returns
    -------
    DataFrame
        trace, line, budget_bytes, fraction, status, slowdown (the median), bound, gap (how far
        above the bound, as a fraction of it) and is_optimal (proven). Runs without a budget are
        left out. `lower_bounds` says what the bounds hold for.
    """
    points = with_bounds(curves(table), lower_bounds(table))
    points = points[np.isfinite(points["fraction"])].rename(columns={"median": "slowdown"})
    columns = ["trace", "line", "budget_bytes", "fraction", "status", "slowdown"]
    shown = pd.DataFrame(points, columns=[*columns, "bound", "gap", "is_optimal"])
    return shown.reset_index(drop=True)


def gap_table(table: pd.DataFrame) -> pd.DataFrame:
    """Lay `gaps` out for reading: a row per trace and line, a column per budget fraction.

    Returns
    -------
    DataFrame of str
        ``2.31%``, ``optimal`` where that is proven, or the status of a failure; empty if not tried.
        Over the lines of each trace stands the bound: ``>= 1.118``, a slowdown.
    """
    points = gaps(table)
    points["cell"] = [
        _gap_text(gap, status, is_optimal=is_optimal)
        for gap, status, is_optimal in zip(
            points["gap"], points["status"], points["is_optimal"], strict=True
        )
    ]
    bounds = lower_bounds(table)
    bounds = bounds[bounds["trace"].isin(points["trace"])]
    bounds = bounds.sort_values("link", key=lambda link: link.ne(NO_LINK), kind="stable")
    bounds["line"] = [
        BOUND if link == NO_LINK else f"{BOUND}, {link_label(link)}"
        for link in bounds["link"].tolist()
    ]
    bounds["cell"] = bounds["bound"].map(">= {:.3f}".format)
    parts = [
        part
        for trace in trace_order(points["trace"])
        for part in (bounds[bounds["trace"].eq(trace)], points[points["trace"].eq(trace)])
    ]
    return by_budget(pd.concat(parts, ignore_index=True))


def _gap_text(gap: float, status: str, *, is_optimal: bool) -> str:
    """Write a cell of `gap_table`."""
    if status != "ok":
        return status
    if is_optimal:
        return "optimal"
    return "no bound" if np.isnan(gap) else f"{gap:.2%}"
