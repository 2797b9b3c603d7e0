"""What pays, keeping, computing again or moving to the host: lines at each link, and who wins.

Works on a table whose column ``link`` varies. What a row belongs to, the row says itself: with a
link its method moves data, without one it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ..errors import InputError
from ..result import NO_LINK, OPTIONS
from .link_names import link_label, rate
from .summaries import curves, line_order, trace_order
from .tables import check_table, link_of, require_alike

# What a method may do with a value, the simplest first.
RECOMPUTE = "recompute"
FAMILIES = ("keep", RECOMPUTE, "offload", "combined")
KEEP, OFFLOAD = "keep-all", "offload-all"

# Of methods whose slowdowns are within so much of the best, the simplest wins.
TIE = 1e-3


def families(table: pd.DataFrame) -> pd.Series[str]:
    """Say of each row which of `FAMILIES` its method belongs to."""
    method, moves = table["method"].astype(str), link_of(table).ne(NO_LINK)
    family = pd.Series(RECOMPUTE, index=table.index).mask(moves, "combined")
    return family.mask(method.eq(KEEP), "keep").mask(moves & method.eq(OFFLOAD), "offload")


def points_by_link(table: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
    """Lay out what there is at each link: what moves nothing is the same at all of them.

    Parameters
    ----------
    table : DataFrame
        Runs of several links, as `rematsim.sweep` returns them.

    Returns
    -------
    dict of dict
        Trace -> link, ``none`` first, then from the slowest on -> points as of `curves`, a line
        for each method, with a column `family`. A method that was run with a link and without is
        two: the other is called ``METHOD, no link``.

    Raises
    ------
    InputError
        If no run has a link, or the runs differ in an option, which the lines would mix.
    """
    table = check_table(table)
    require_alike(table, OPTIONS, "link")
    table = table.assign(link=link_of(table), family=families(table), line=_lines(table))
    if table["link"].eq(NO_LINK).all():
        raise InputError("table: no run with a link: sweep methods that move data with --device")
    found: dict[str, dict[str, pd.DataFrame]] = {}
    for trace in trace_order(table["trace"]):
        runs = table[table["trace"].eq(trace)]
        stays = runs[runs["link"].eq(NO_LINK)]
        found[trace] = {}
        for link in sorted(set(runs["link"]) | {NO_LINK}, key=_speed):
            own = runs[runs["link"].eq(link)]
            there = own if link == NO_LINK else pd.concat([stays, own])
            if not there.empty:
                names = there.drop_duplicates("line").set_index("line")["family"]
                points = curves(there)
                found[trace][link] = points.assign(family=points["line"].map(names))
    return found


def _lines(table: pd.DataFrame) -> pd.Series[str]:
    """Name methods; what one with a link does without it is no further seed of it, but a line."""
    method, moves = table["method"].astype(str), link_of(table).ne(NO_LINK)
    return method.mask(~moves & method.isin(method[moves]), method + f", {link_label(NO_LINK)}")


def with_best_recomputing(places: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Put the best of the methods that move nothing, budget by budget, in the place of them all.

    Parameters
    ----------
    places : sequence of DataFrame
        Points of one trace and link each, as `points_by_link` returns them.

    Returns
    -------
    list of DataFrame
        The same with a line `RECOMPUTE`, in whose name stands which methods are best somewhere; it
        is planned if all of these are.
    """
    best = [_best_recomputing(points) for points in places]
    every = pd.concat(best, ignore_index=True)
    chosen = every[every["status"].eq("ok")]
    words = " and ".join(line_order(chosen["line"]))
    name = f"{RECOMPUTE}, best of {words}" if " " in words else f"{RECOMPUTE}, {words}"
    line = name if words else RECOMPUTE
    is_planned = bool((every if chosen.empty else chosen)["planned"].all())
    return [
        pd.concat(
            [points[points["family"].ne(RECOMPUTE)], rows.assign(line=line, planned=is_planned)],
            ignore_index=True,
        )
        for points, rows in zip(places, best, strict=True)
    ]


def _best_recomputing(points: pd.DataFrame) -> pd.DataFrame:
    """Choose the best at each budget of what moves nothing; what failed if all have."""
    ranked = points[points["family"].eq(RECOMPUTE)].sort_values(
        ["fraction", "median"], kind="stable", na_position="last"
    )
    return ranked.drop_duplicates("budget_bytes")


def winners(table: pd.DataFrame) -> pd.DataFrame:
    """Find which method is fastest at each link and budget of each trace.

    Parameters
    ----------
    table : DataFrame
        Runs of several links.

    Returns
    -------
    DataFrame
        trace, link, budget_bytes, fraction, method and family (of the winner; empty if no method
        ended ok), slowdown (its median), and the best slowdown of each of `FAMILIES` (NaN: none).

    Notes
    -----
    Of methods within `TIE` of the best, the first of the simplest family wins.
    """
    rows = [
        {"trace": trace, "link": link, "budget_bytes": budget, **_winner(group)}
        for trace, links in points_by_link(table).items()
        for link, points in links.items()
        for budget, group in points[np.isfinite(points["fraction"])].groupby("budget_bytes")
    ]
    if not rows:
        raise InputError("table: no run with a budget")
    return pd.DataFrame(rows)


def _winner(group: pd.DataFrame) -> dict[str, object]:
    """Choose among the methods at one place."""
    found: dict[str, object] = {"fraction": group["fraction"].iloc[0]}
    ok = group[group["status"].eq("ok")]
    medians = [ok.loc[ok["family"].eq(family), "median"].min() for family in FAMILIES]
    found |= dict(zip(FAMILIES, medians, strict=True))
    if ok.empty:
        return found | {"method": "", "family": "", "slowdown": np.nan}
    close = ok[ok["median"].le(ok["median"].min() * (1 + TIE))]
    simplest = min(close["family"], key=FAMILIES.index)
    close = close[close["family"].eq(simplest)].set_index("line")
    method = line_order(close.index)[0]
    return found | {"method": method, "family": simplest, "slowdown": close.loc[method, "median"]}


def _speed(text: str) -> tuple[float, str]:
    """Order links by the slower of their ways."""
    return rate(text), text


def shares_of_peak(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Give how often a link could move the unlimited peak one way while the model computes once.

    Returns
    -------
    dict
        (trace, link) -> a number by which links of traces of unlike machines can be compared;
        nothing for tables that do not say how long the model computes.
    """
    if "base_compute_ns" not in table:
        return {}
    table = check_table(table)
    table = table.assign(link=link_of(table)).drop_duplicates(["trace", "link"])
    return dict(_shares(table[table["base_compute_ns"].notna()]))


def _shares(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str], float]]:
    columns = ("trace", "link", "base_compute_ns", "unlimited_peak_bytes")
    for trace, link, compute, peak in zip(*(table[name] for name in columns), strict=True):
        yield (trace, link), rate(link) * float(compute) / 1e9 / float(peak)
