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
    """

    rows: pd.DataFrame
    cells: pd.DataFrame


_Summary = Callable[[pd.DataFrame], pd.DataFrame]
KINDS: dict[str, tuple[_Summary, _Summary]] = {
    "gap": (gaps, gap_table),
    "slowdown": (curves, overhead_table),
    "lowest": (lowest_budgets, lowest_budget_table),
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
    rows, cells = KINDS[kind]
    return Overview(rows(table), cells(table))
