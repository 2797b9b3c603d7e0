"""Rows and columns of a linear program, as they are added one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Terms = list[tuple[int, float]]


class Rows:
    """A program: minimize ``objective @ x`` with ``low <= matrix @ x <= high``.

    Attributes
    ----------
    n_columns : int
    least, most : list of float
        Between which each column is.
    low, high : list of float
    """

    def __init__(self) -> None:
        self.n_columns = 0
        self.least: list[float] = []
        self.most: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self._entries: Terms = []
        self._entry_row: list[int] = []

    def column(self, most: float = 1.0, least: float = 0.0) -> int:
        """Add a column."""
        self.n_columns += 1
        self.least.append(least)
        self.most.append(most)
        return self.n_columns - 1

    def row(self, terms: Iterable[tuple[int, float]], low: float, high: float) -> None:
        """Add a row."""
        at = len(self.low)
        for term in terms:
            self._entries.append(term)
            self._entry_row.append(at)
        self.low.append(low)
        self.high.append(high)

    def objective(self) -> Any:
        """Give what each column costs."""
        raise NotImplementedError

    def matrix(self) -> Any:
        """Give the rows as a sparse matrix."""
        from scipy.sparse import csr_array

        columns, weights = zip(*self._entries, strict=True) if self._entries else ((), ())
        shape = (len(self.low), self.n_columns)
        return csr_array((weights, (self._entry_row, columns)), shape=shape)


def negated(terms: Iterable[tuple[int, float]]) -> Terms:
    """Give terms with the other sign."""
    return [(column, -weight) for column, weight in terms]
