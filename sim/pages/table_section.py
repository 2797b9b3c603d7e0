"""What a report says of a table of runs: curves with bounds, and the rows behind them.

The numbers are those of `rematsim summary` and `rematsim plot` (`analysis/`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.gaps import gaps, lower_bounds, share_bounds, with_bounds
from ..analysis.style import line_styles
from ..analysis.summaries import curves, line_order, lowest_budgets, trace_order
from ..analysis.tables import read_table
from ..result import COLUMNS, NO_LINK
from ..texts import format_bytes, format_count
from .content import MOST_ROWS, Column, Fact, Section, Table, shown
from .packing import floats

if TYPE_CHECKING:
    import pandas as pd

UNITS = (("_bytes", "bytes"), ("_ns", "ns"))
RATIOS = ("slowdown", "bound_slowdown", "predicted_slowdown", "slowdown_limit")


def table_section(path: str | Path) -> Section:
    """Make the section of a table of runs.

    Parameters
    ----------
    path : str or Path
        The .sqlite or .csv of a sweep.

    Returns
    -------
    Section
    """
    table = share_bounds(read_table(path))
    return Section(
        kind="table",
        title=shown(Path(path).name),
        facts=_facts(table),
        provenance=_provenance(table),
        tables=[_points(table), _lowest(table), _rows(table)],
        chart={"traces": _traces(table)},
        told=table,
    )


def _facts(table: pd.DataFrame) -> list[Fact]:
    """Say what was run, and how it ended."""
    ended = table["status"].value_counts()
    return [
        ("runs", format_count(len(table))),
        ("ended", ", ".join(f"{format_count(n)} {status}" for status, n in ended.items())),
        ("traces", format_count(table["trace"].nunique())),
        ("methods", format_count(table["method"].nunique())),
        ("budgets", format_count(table["budget_bytes"].nunique())),
    ]


def _provenance(table: pd.DataFrame) -> list[Fact]:
    """Say what the runs were of, and with which options."""
    found = []
    if "trace_digest" in table:
        for trace, digest in table[["trace", "trace_digest"]].drop_duplicates().to_numpy():
            found.append((f"digest of {shown(trace)}", shown(digest)))
    for name in ("deallocation", "mutation", "memory", "slowdown_limit", "seed", "link",
                 "time_limit", "times"):  # fmt: skip
        if name in table:
            values = table[name].drop_duplicates().map(_value)
            found.append((name, ", ".join(sorted(values))))
    return found


def _value(value: object) -> str:
    """Write a value of a table exactly."""
    if value is None or value != value:
        return "-"
    return shown(int(value) if isinstance(value, float) and value.is_integer() else value)


def _traces(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Lay out the curves of each trace."""
    bounds = lower_bounds(table)
    points = with_bounds(curves(table), bounds)
    planned = set(points.loc[points["planned"], "line"])
    lines = line_order(points["line"])
    styles = line_styles(lines, planned)
    bounds = bounds[bounds["link"].eq(NO_LINK)]
    found = []
    for trace in trace_order(points["trace"]):
        own, below = points[points["trace"].eq(trace)], bounds[bounds["trace"].eq(trace)]
        peaks = own["budget_bytes"] / own["fraction"]
        peak = peaks[np.isfinite(peaks)]
        found.append(
            {
                "name": shown(trace),
                "note": f"1.0 = {format_bytes(round(peak.iloc[0]))}" if len(peak) else "",
                "lines": [
                    _line(own[own["line"].eq(name)], styles[name])
                    for name in lines
                    if own["line"].eq(name).any()
                ],
                "bounds": {key: below[key].tolist() for key in ("fraction", "bound")},
                "moves": bool(own["link"].ne(NO_LINK).any()),
            }
        )
    return found


def _line(points: pd.DataFrame, style: Any) -> dict[str, Any]:
    """Lay out one line: what has no budget has no fraction."""
    numbers = ("fraction", "median", "low", "high")
    return {
        "name": shown(style.label),
        "color": style.color,
        "marker": style.marker,
        "is_hollow": style.fill != "full",
        "is_planned": bool(style.dash),
        **{name: points[name].tolist() for name in numbers},
        "bytes": points["budget_bytes"].tolist(),
        "failure": points["failure"].tolist(),
        "is_optimal": points["is_optimal"].tolist(),
    }


def _points(table: pd.DataFrame) -> Table:
    """List each method at each budget, with its gap to the bound."""
    points = gaps(table)
    kept = points[:MOST_ROWS]
    columns = [
        Column("trace", "text", kept["trace"].map(shown).tolist()),
        Column("method", "text", kept["line"].map(shown).tolist()),
        Column("budget", "bytes", floats(kept["budget_bytes"])),
        Column("of the peak", "number", floats(kept["fraction"])),
        Column("status", "text", kept["status"].tolist()),
        Column("slowdown", "ratio", floats(kept["slowdown"])),
        Column("lower bound", "ratio", floats(kept["bound"])),
        Column("gap", "share", floats(kept["gap"])),
        Column("proven", "text", np.where(kept["is_optimal"], "optimal", "").tolist()),
    ]
    note = "Medians over seeds; the gap is how far a slowdown is above the lower bound."
    return Table("points", "Slowdown by budget", note, columns, len(points))


def _lowest(table: pd.DataFrame) -> Table:
    """List the lowest budget that each method survived."""
    rows = lowest_budgets(table)
    kept = rows[:MOST_ROWS]
    columns = [
        Column("trace", "text", kept["trace"].map(shown).tolist()),
        Column("method", "text", kept["line"].map(shown).tolist()),
        Column("lowest", "bytes", floats(kept["lowest_bytes"])),
        Column("of the peak", "number", floats(kept["lowest_fraction"])),
        Column("slowdown there", "ratio", floats(kept["slowdown"])),
        Column("safe from", "number", floats(kept["safe_fraction"])),
        Column("lowest tried", "number", floats(kept["tried_fraction"])),
    ]
    note = "Safe from: the fraction from which on every budget that was tried was survived."
    return Table("lowest", "Lowest budget survived", note, columns, len(rows))


def _rows(table: pd.DataFrame) -> Table:
    """List the runs themselves, column by column as in the file."""
    kept = table[:MOST_ROWS]
    columns = [_column(name, kept[name]) for name in COLUMNS if name in kept]
    note = "Every run with all of its columns (docs/columns.md)."
    return Table("rows", "All runs", note, columns, len(table))


def _column(name: str, values: pd.Series[Any]) -> Column:
    """Give a column of a table its unit."""
    if values.dtype.kind not in "iuf":
        return Column(name, "text", [_value(value) for value in values])
    kind = next((unit for suffix, unit in UNITS if name.endswith(suffix)), "number")
    return Column(name, "ratio" if name in RATIOS else kind, floats(values))
