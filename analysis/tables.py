"""Tables of runs: read from a file, checked, and in one form for everything that follows.

One row is one run, with the columns that `rematsim.sweep` writes. Nothing here draws or simulates;
`summaries.py` says what the rows mean together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..errors import InputError
from ..files import from_cell
from ..opcodes import STATUSES
from ..result import NO_LINK, OPTIONS_OF_PLANS, named, shared_names, told_apart

if TYPE_CHECKING:
    from ..result import RunResult

REQUIRED = ("trace", "method", "status", "budget_bytes", "unlimited_peak_bytes", "slowdown")

NUMBERS = (
    "budget_bytes",
    "budget_fraction",
    "unlimited_peak_bytes",
    "slowdown",
    "slowdown_limit",
    "seed",
    "evictions",
    "rematerializations",
    "evaluations",
    "metadata_accesses",
    "bound_slowdown",
    "solve_seconds",
    "time_limit",
    "calls",
)

# Columns of text, where a file has them.
TEXTS = (
    *("trace", "method", "status", "trace_digest", "deallocation", "mutation", "memory", "times"),
    *("kind", "planner_status", "link"),
)

# Bytes, counts and nanoseconds have 64 bits, so that no ratio of them lies outside these either.
LEAST, MOST = 2.0**-64, 2.0**64

# Letters of a value, and of another library's words, that a message shows.
LONGEST_VALUE, LONGEST_REASON = 60, 120

SUFFIXES = (".csv", ".sqlite", ".run")


def read_table(path: str | Path) -> pd.DataFrame:
    """Read the runs of a .csv, .sqlite or .run file.

    Parameters
    ----------
    path : str or Path
        A table as `rematsim sweep` writes it, or the file of a single run. The suffix decides.

    Returns
    -------
    DataFrame
        One row per run, as `check_table` leaves it.

    Raises
    ------
    InputError
        If there is no such file, it is of another kind, or a column or a value is wrong.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": _read_csv,
        ".sqlite": _read_sqlite,
        ".run": _read_run,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path}: unknown kind of file ({path.suffix or 'no suffix'!r}): "
            f"a table of runs ends in {', '.join(SUFFIXES)}; of a trace, rematsim replay and "
            "rematsim sweep make one"
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return check_table(reader(path), str(path), is_shown=False)


def read_run(path: str | Path) -> RunResult:
    """Read a .run file: one run, with its event log if it was made with one.

    Raises
    ------
    InputError
        If there is no such file, or it is of another kind.
    """
    from ..result import load_run

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return load_run(path)


def check_table(
    table: pd.DataFrame, where: str = "table", *, is_shown: bool = True
) -> pd.DataFrame:
    """Check a table of runs and return a copy in the form that this package works with.

    Parameters
    ----------
    table : DataFrame
        One row per run; needs the columns of `REQUIRED`, others are kept as they are.
    where : str, optional
        What to call the table in messages.
    is_shown : bool, optional
        Whether a reader sees it next: traces whose times are estimated then say so in their names.

    Returns
    -------
    DataFrame
        Index 0, 1, ...; `trace`, `method`, `status` are strings; the columns of `NUMBERS` are
        float64, empty ones NaN; traces that share a name are told apart by their digest.

    Raises
    ------
    InputError
        At the first missing column or wrong value, with its row.
    """
    require_columns(table, REQUIRED, where)
    if table.empty:
        raise InputError(f"{where}: no rows: there is nothing to show")
    table = table.reset_index(drop=True)
    for column in TEXTS:
        if column in table:
            is_binary = table[column].map(lambda value: isinstance(value, bytes)).astype(bool)
            _refuse(table, column, is_binary, "is binary, not text", where)
    for column in ("trace", "method", "status"):
        _refuse(table, column, table[column].isna(), "is empty", where)
        table[column] = table[column].astype(str)
    for column in NUMBERS:
        if column in table:
            table[column] = _numbers(table, column, where)
    _check_values(table, where)
    table = _distinct_traces(table)
    if is_shown and "times" in table:
        pairs = zip(table["trace"], table["times"], strict=True)
        table["trace"] = [named(trace, times) for trace, times in pairs]
    return table


def require_columns(table: pd.DataFrame, columns: Collection[str], where: str = "table") -> None:
    """Raise an InputError that names the first of these columns that the table lacks."""
    for column in columns:
        if column not in table:
            found = ", ".join(map(str, table.columns[:8])) or "none"
            more = ", ..." if len(table.columns) > 8 else ""
            raise InputError(f"{where}: no column {column!r} (columns: {found}{more})")


def is_plan(table: pd.DataFrame) -> pd.Series[bool]:
    """Tell the rows of plans."""
    if "kind" not in table:
        return pd.Series(False, index=table.index)
    return table["kind"].eq("static").fillna(False).astype(bool)


def link_of(table: pd.DataFrame) -> pd.Series[str]:
    """Give what connects device and host in each run; nothing, in tables that do not say."""
    if "link" not in table:
        return pd.Series(NO_LINK, index=table.index)
    return table["link"].fillna(NO_LINK).replace("", NO_LINK).astype(str)


def differs(table: pd.DataFrame, column: str) -> bool:
    """Whether the runs of a table that heed an option differ in it, if it has that column."""
    return column in table and table.loc[heeds(table, column), column].nunique(dropna=False) > 1


def heeds(table: pd.DataFrame, option: str) -> pd.Series[bool]:
    """Tell the rows that an option can change: plans heed few."""
    return ~is_plan(table) | (option in OPTIONS_OF_PLANS)


def require_alike(table: pd.DataFrame, columns: Collection[str], figure: str) -> None:
    """Raise an InputError if the runs differ in a column that the lines of a figure do not tell."""
    for column in columns:
        if differs(table, column):
            values = ", ".join(map(str, table[column].drop_duplicates().iloc[:4]))
            raise InputError(
                f"table: runs of different {column} ({values}): the {figure} figure shows those of "
                f"one; choose one, or leave the others out of the table"
            )


def select(table: pd.DataFrame, filters: Mapping[str, Any], where: str = "table") -> pd.DataFrame:
    """Keep the rows whose columns hold one of the values asked for.

    Parameters
    ----------
    table : DataFrame
        As `check_table` returns it.
    filters : mapping
        Column -> value, or a list of values. None asks for nothing.
    where : str, optional
        What to call the table in messages.

    Raises
    ------
    InputError
        If a column does not exist, or a value does not occur in it.
    """
    for column, wanted in filters.items():
        if wanted is None:
            continue
        require_columns(table, [column], where)
        values = list(wanted) if isinstance(wanted, (list, tuple, set)) else [wanted]
        kept = table[table[column].isin(values)]
        for value in values:
            if not kept[column].eq(value).any():
                known = ", ".join(sorted(map(str, table[column].dropna().unique()))[:12])
                raise InputError(f"{where}: no run with {column} {value!r}; there are: {known}")
        table = kept
    return table.reset_index(drop=True)


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a comma-separated table; every oddity of the file becomes one line."""
    try:
        table = pd.read_csv(path, dtype={"trace": str, "method": str, "seed": object})
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise InputError(f"{path}: not a comma-separated table ({reason})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for name in table.columns.intersection(["trace", "method", "message"]):
        table[name] = table[name].map(from_cell, na_action="ignore")
    return table


def _read_sqlite(path: Path) -> pd.DataFrame:
    """Read the table `runs` of a sweep's file, without a chance of changing it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            cursor = database.execute("SELECT * FROM runs ORDER BY rowid")
            columns = [column[0] for column in cursor.description]
            return pd.DataFrame(cursor.fetchall(), columns=columns)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # It quotes what is in the file.
        reason = ascii(str(error))[1:-1][:LONGEST_REASON]
        raise InputError(f"{path}: not the file of a sweep ({reason})") from None


def _read_run(path: Path) -> pd.DataFrame:
    """Read the row of a single run."""
    return pd.DataFrame([read_run(path).row])


def _numbers(table: pd.DataFrame, column: str, where: str) -> pd.Series[float]:
    """Return a column as float64, refusing what is neither a number nor empty."""
    numbers = pd.to_numeric(table[column], errors="coerce").astype("float64")
    filled = table[column].notna() & table[column].ne("")
    _refuse(table, column, numbers.isna() & filled, "is not a number", where)
    _refuse(table, column, numbers.isin([np.inf, -np.inf]), "is not finite", where)
    sizes = numbers.abs()
    unlike = sizes.gt(MOST) | (sizes.gt(0) & sizes.lt(LEAST))
    _refuse(table, column, unlike, "is no number of a run: 0, or between 2**-64 and 2**64", where)
    return numbers


def _check_values(table: pd.DataFrame, where: str) -> None:
    """Refuse unknown statuses and sizes or slowdowns that cannot be."""
    rule = f"is none of {', '.join(STATUSES)}"
    _refuse(table, "status", ~table["status"].isin(STATUSES), rule, where)
    unusable = ~table["unlimited_peak_bytes"].gt(0) & table["budget_bytes"].notna()
    _refuse(table, "unlimited_peak_bytes", unusable, "is not positive", where)
    _refuse(table, "budget_bytes", table["budget_bytes"].lt(0), "is negative", where)
    without = table["status"].eq("ok") & ~table["slowdown"].gt(0)
    _refuse(table, "slowdown", without, "is not positive in a run that ended ok", where)


def _refuse(
    table: pd.DataFrame, column: str, wrong: pd.Series[bool], rule: str, where: str
) -> None:
    """Raise for the first row marked wrong, naming its line in a .csv and its row elsewhere."""
    if not wrong.any():
        return
    row = int(wrong.to_numpy().argmax())
    place = f"{where}:{row + 2}" if where.endswith(".csv") else f"{where}, row {row + 1}"
    value = table[column].iloc[row]
    value = value.item() if isinstance(value, np.generic) else value
    shown = repr(value)
    shown = shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}..."
    raise InputError(f"{place}: {column} ({shown}) {rule}")


def _distinct_traces(table: pd.DataFrame) -> pd.DataFrame:
    """Put the start of the digest behind the name where different traces share one."""
    if "trace_digest" in table:
        digests = table["trace_digest"].astype("string").fillna("")
        traces = list(zip(table["trace"], digests, strict=True))
        shared = shared_names(traces)
        table["trace"] = [told_apart(name, digest, shared) for name, digest in traces]
    return table
