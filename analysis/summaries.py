"""What a table of runs says: medians over seeds, overheads, the lowest budgets that survive.

Works on tables as `tables.check_table` returns them. A failure counts as an infinite slowdown, so
that a median over seeds is a number only if more than half of the seeds end ok.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from ..result import NO_LINK, OPTIONS
from .link_names import link_label
from .tables import check_table, differs, heeds, is_plan, link_of

# What the runs of one point of a line have in common.
POINT = ["trace", "line", "budget_bytes"]

# The order in which lines are listed: the paper's heuristics first, planners as they do better,
# policies as they free more.
KNOWN_LINES = (
    "h_DTR",
    "h_DTR_eq",
    "h_DTR_local",
    "h_DTR_neighborhood",
    "h_MSPS",
    "h_LRU",
    "h_size",
    "h_rand",
    "h_next_use",
    "h_next_use_hybrid",
    "h_last_step",
    "h_last_step_hybrid",
    "h_MegEngine",
    "keep-all",
    "recompute",
    "offload-all",
    "checkpoint-last",
    "checkpoint-all",
    "every-kth",
    "m-of-n",
    "min-cut",
    "knapsack",
    "chen-sqrt",
    "chen-greedy",
    "revolve",
    "treewidth",
    "on-demand",
    "kusumoto",
    "rotor",
    "capuchin",
    "pofo",
    "poet",
    "joint",
    "annealing",
    "checkmate-lp-rounding",
    "checkmate",
    "moccasin",
    "optimal",
    "ignore",
    "eager",
    "banish",
)


def natural_key(name: str) -> list[tuple[int, str]]:
    """Sort key by which resnet9 comes before resnet32, whatever the case of letters."""
    pieces = re.split(r"(\d+)", name.lower())
    numbers = [piece.lstrip("0") for piece in pieces]  # no int(): it refuses thousands of digits
    pairs = zip(pieces, numbers, strict=True)
    return [(len(number), number) if piece.isdecimal() else (-1, piece) for piece, number in pairs]


def line_order(names: Iterable[str]) -> list[str]:
    """Order the names of lines: by method, then by options, known ones as in `KNOWN_LINES`."""

    def key(name: str) -> list[tuple[int, list[tuple[int, str]], str]]:
        known = {word: place for place, word in enumerate(KNOWN_LINES)}
        places = ((known.get(word.split("(")[0], len(known)), word) for word in name.split(", "))
        return [(place, natural_key(word), word) for place, word in places]

    return sorted(set(names), key=key)


def trace_order(names: Iterable[str]) -> list[str]:
    """Order the names of traces, numbers in them by value."""
    return sorted(set(names), key=lambda name: (natural_key(name), name))


def line_names(table: pd.DataFrame) -> pd.Series[str]:
    """Name the line that each row belongs to: its method, and the options that vary in the table.

    Returns
    -------
    Series of str
        ``h_DTR_eq``, or ``h_DTR_eq, banish`` where the table holds several deallocation policies;
        a plan has its memory model alone, and its link where a planner was given several.
    """
    names = table["method"].astype(str)
    for option in OPTIONS:
        if not differs(table, option):
            continue
        words = table[option].map(lambda value, option=option: _option_word(option, value))
        words = words.where(heeds(table, option), "")
        names = names + words.map(lambda word: f", {word}" if word else "")
    links = link_of(table)
    if links.groupby(table["method"]).nunique().gt(1).any():
        names = names + links.map(lambda link: "" if link == NO_LINK else f", {link_label(link)}")
    return names


def curves(table: pd.DataFrame, value: str = "slowdown") -> pd.DataFrame:
    """Take seeds together: one row for each trace, line and budget.

    Parameters
    ----------
    table : DataFrame
        Runs; a column `line`, where present, says which line a row belongs to.
    value : str, optional
        Column to summarize; rows that did not end ok count as infinite.

    Returns
    -------
    DataFrame
        trace, line, budget_bytes, fraction (of the unlimited peak; infinite: no budget), runs,
        ok_runs, status ("ok" if more than half are, else the most frequent other one),
        failure (the most frequent status other than ok, "" if all are), median (NaN unless the
        status is ok), low and high (extremes of the runs that ended ok), planned (whether it is of
        plans), proven (whether a planner says of all that they are optimal), link. Sorted by trace,
        line and fraction.
    """
    table = check_table(table)
    if "line" not in table:
        table["line"] = line_names(table)
    ok = table["status"].eq("ok")
    kept = table.assign(
        budget_bytes=table["budget_bytes"].fillna(np.inf),
        fraction=(table["budget_bytes"] / table["unlimited_peak_bytes"]).fillna(np.inf),
        failing=table[value].where(ok, np.inf),
        passing=table[value].where(ok),
        ok=ok,
        planned=is_plan(table),
        proven=_is_proven(table),
        link=link_of(table),
    )
    points = kept.groupby(POINT, sort=False).agg(
        fraction=("fraction", "first"),
        runs=("ok", "size"),
        ok_runs=("ok", "sum"),
        median=("failing", "median"),
        low=("passing", "min"),
        high=("passing", "max"),
        planned=("planned", "all"),
        proven=("proven", "all"),
        link=("link", "first"),
    )
    points["failure"] = _most_frequent(kept[~ok], "status").reindex(points.index).fillna("")
    points = points.reset_index()
    points["median"] = points["median"].replace(np.inf, np.nan)
    points["status"] = points["failure"].where(points["ok_runs"] * 2 <= points["runs"], "ok")
    return _sorted(points)


def lowest_budgets(table: pd.DataFrame) -> pd.DataFrame:
    """Find the lowest budget that each line survives on each trace.

    A budget is survived if more than half of its seeds end ok. Feasibility need not be monotone
    (a run may fail at a budget and survive a smaller one), so there are two answers.

    Returns
    -------
    DataFrame
        trace, line, lowest_bytes and lowest_fraction (the lowest budget survived), slowdown
        (there), safe_bytes and safe_fraction (the lowest at and above which every tried budget is
        survived), tried_fraction (the lowest that was tried). NaN where there is none; runs
        without a budget do not count.
    """
    points = curves(table)
    points = points[np.isfinite(points["fraction"])]
    rows = [
        {"trace": trace, "line": line, **_lowest(group)}
        for (trace, line), group in points.groupby(["trace", "line"], sort=False)
    ]
    columns = ["trace", "line", "lowest_bytes", "lowest_fraction", "slowdown"]
    columns += ["safe_bytes", "safe_fraction", "tried_fraction"]
    return pd.DataFrame(rows, columns=columns)


def lowest_budget_table(table: pd.DataFrame) -> pd.DataFrame:
    """Lay `lowest_budgets` out for reading: a row per trace, a column per line.

    Returns
    -------
    DataFrame of str
        ``0.2 (1.37)``: fraction of the unlimited peak and slowdown there; ``0.2/0.5 (1.85)``: the
        lowest survived is 0.2, but only from 0.5 on is every tried budget survived (``0.2/-``: not
        even the largest is); ``-``: none is survived; empty: none was tried.
    """
    lowest = lowest_budgets(table)
    lowest["cell"] = [_lowest_cell(row) for _, row in lowest.iterrows()]
    return _wide(lowest, "cell").fillna("")


def overhead_table(table: pd.DataFrame) -> pd.DataFrame:
    """Lay slowdowns out for reading: a row per trace and line, a column per budget fraction.

    Returns
    -------
    DataFrame of str
        The median slowdown with three decimals, or the status of a failure; empty if not tried.
    """
    points = curves(table)
    points["cell"] = points["median"].map("{:.3f}".format).where(points["status"].eq("ok"))
    points["cell"] = points["cell"].fillna(points["status"])
    return by_budget(points)


def by_budget(points: pd.DataFrame) -> pd.DataFrame:
    """Spread the column `cell` of points over a row per trace and line, a column per budget."""
    points = points.assign(budget=points["fraction"].map(fraction_text))
    columns = points.sort_values("fraction")["budget"].unique()
    wide = points.pivot_table(
        index=["trace", "line"], columns="budget", values="cell", aggfunc="first", sort=False
    )
    return wide.reindex(columns=columns).rename_axis(columns=None).fillna("")


def _is_proven(table: pd.DataFrame) -> pd.Series[bool]:
    """Mark the runs of plans that their planner has proven to be optimal."""
    if "planner_status" not in table:
        return pd.Series(False, index=table.index)
    is_said = table["planner_status"].eq("optimal").fillna(False).astype(bool)
    return is_said & table["status"].eq("ok")


def fraction_text(fraction: float) -> str:
    """Write a budget as a fraction of the unlimited peak, to four digits (``0.5``)."""
    return "unlimited" if np.isinf(fraction) else f"{fraction:.4g}"


def _option_word(option: str, value: object) -> str:
    """Say an option's value in a line's name; nothing for an empty one."""
    empty = value is None or value != value  # NaN is the one value that differs from itself
    if option == "slowdown_limit":
        return "no limit" if empty else f"limit {value:g}"
    return "" if empty else str(value)


def _most_frequent(rows: pd.DataFrame, column: str) -> pd.Series[str]:
    """Return the most frequent value of each point's rows, the first by name among equals."""
    counts = rows.groupby([*POINT, column]).size().rename("count").reset_index()
    counts = counts.sort_values(["count", column], ascending=[False, True], kind="stable")
    return counts.drop_duplicates(POINT).set_index(POINT)[column]


def _sorted(points: pd.DataFrame) -> pd.DataFrame:
    """Sort points by trace, line and budget, each in its own order."""
    traces = {name: place for place, name in enumerate(trace_order(points["trace"]))}
    lines = {name: place for place, name in enumerate(line_order(points["line"]))}
    keys = points.assign(
        trace=points["trace"].map(traces), line=points["line"].map(lines)
    ).sort_values(["trace", "line", "fraction"], kind="stable")
    return points.loc[keys.index].reset_index(drop=True)


def _lowest(points: pd.DataFrame) -> dict[str, float]:
    """Summarize one line on one trace; its points are in ascending order of budget."""
    survived = points["status"].eq("ok").to_numpy()
    fractions = points["fraction"].to_numpy()
    budgets = points["budget_bytes"].to_numpy()
    failed = np.flatnonzero(~survived)
    first = int(survived.argmax()) if survived.any() else -1
    safe = int(failed[-1]) + 1 if failed.size else 0
    nothing = float("nan")
    return {
        "lowest_bytes": budgets[first] if first >= 0 else nothing,
        "lowest_fraction": fractions[first] if first >= 0 else nothing,
        "slowdown": points["median"].iloc[first] if first >= 0 else nothing,
        "safe_bytes": budgets[safe] if safe < len(points) else nothing,
        "safe_fraction": fractions[safe] if safe < len(points) else nothing,
        "tried_fraction": fractions[0],
    }


def lowest_text(lowest: float, safe: float) -> str:
    """Write the two answers of `lowest_budgets`: ``0.2``, ``0.2/0.5``, ``0.2/-`` or ``-``."""
    if np.isnan(lowest):
        return "-"
    if lowest == safe:
        return fraction_text(lowest)
    return f"{fraction_text(lowest)}/{'-' if np.isnan(safe) else fraction_text(safe)}"


def _lowest_cell(row: pd.Series[float]) -> str:
    """Write one cell of `lowest_budget_table`."""
    budgets = lowest_text(row["lowest_fraction"], row["safe_fraction"])
    return budgets if np.isnan(row["slowdown"]) else f"{budgets} ({row['slowdown']:.2f})"


def _wide(cells: pd.DataFrame, value: str) -> pd.DataFrame:
    """Spread cells over a row per trace and a column per line."""
    wide = cells.pivot(index="trace", columns="line", values=value)
    wide = wide.reindex(index=trace_order(cells["trace"]), columns=line_order(cells["line"]))
    return wide.rename_axis(columns=None)
