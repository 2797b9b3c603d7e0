"""What a table of runs says, in two forms at once: rows for programs, cells for a reader.

The work behind `rematsim summary`; the numbers are those of `summaries.py` and `gaps.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from ..errors import UnknownNameError
from .gaps import gap_table, gaps
from .summaries import curves, lowest_budget_table, lowest_budgets, overhead_table
from .tables import check_table


class Overview(NamedTuple):
    """One summary of a table.

    Attributes
    ----------
    rows : DataFrame
        Numbers, a row for each point.
    cells : DataFrame of str
        The same laid out for reading.
    legend : str
        What stands in the cells.
    """

    rows: pd.DataFrame
    cells: pd.DataFrame
    legend: str


_Summary = Callable[[pd.DataFrame], pd.DataFrame]
KINDS: dict[str, tuple[_Summary, _Summary, str]] = {
    "gap": (
        gaps,
        gap_table,
        "N%: how far the slowdown is above the lower bound; >= N: that bound",
    ),
    "slowdown": (curves, overhead_table, "the slowdown, 1 without a budget"),
    "lowest": (
        lowest_budgets,
        lowest_budget_table,
        "the lowest budget survived, as a part of the unlimited peak (the slowdown there); "
        "a/b: every tried one only from b on; -: none",
    ),
}


def overview(table: pd.DataFrame, kind: str = "gap") -> Overview:
    """Summarize a table of runs.

    Parameters
    ----------
    table : DataFrame
        Runs, as `rematsim.sweep` or `tables.read_table` returns them.
    kind : str, optional
        A key of `KINDS`.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    """
    if kind not in KINDS:
        raise UnknownNameError(f"unknown kind of summary {kind!r}; known: {', '.join(KINDS)}")
    table = check_table(table)
    rows, cells, legend = KINDS[kind]
    return Overview(rows(table), cells(table), legend)
