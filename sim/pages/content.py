"""What a report holds: facts, tables and charts, before anybody decides how they look.

The page and the terminal show the same of it. Names from traces are made harmless here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..texts import format_bytes, format_count, format_ns
from ..traces.wording import name_cell

MOST_NAME = 120  # letters of a name in a report
MOST_ROWS = 20_000  # of a table, the rest left out and counted

Fact = tuple[str, str]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title : str
    kind : str
        ``text``, ``bytes``, ``ns``, ``count``, ``ratio`` (a slowdown), ``number`` or ``share``.
    values : sequence
        None or NaN where there is none. Of a text with `texts`: places in it.
    texts : sequence of str, optional
        What the values are places in; -1 is none.
    """

    title: str
    kind: str
    values: Any
    texts: Sequence[str] | None = None

    def cell(self, row: int) -> str:
        """Write one value for a reader.

        Examples
        --------
        >>> Column("size", "bytes", [1536, None]).cell(0)
        '1.50 KiB'
        >>> Column("name", "text", [1], ["a", "b"]).cell(0)
        'b'
        """
        value = self.values[row]
        if self.texts is not None:
            return self.texts[value] if value >= 0 else "-"
        if value is None or value != value:
            return "-"
        return str(FORMATS[self.kind](value)) or "-"


FORMATS: dict[str, Any] = {
    "text": str,
    "bytes": lambda value: format_bytes(int(value)),
    "ns": lambda value: format_ns(int(value)),
    "count": lambda value: format_count(int(value)),
    "ratio": "{:.4f}".format,
    "number": "{:.6g}".format,
    "share": "{:.1%}".format,
}


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    key : str
        Tells it from the other tables of its section.
    title, note : str
    columns : list of Column
    rows_in_all : int
        More than there are rows here where the rest was left out.
    events : ndarray of int or None
        By row, where it is told of events: the row of the event log, to be looked at.
    """

    key: str
    title: str
    note: str
    columns: list[Column]
    rows_in_all: int
    events: Any = None

    @property
    def n_rows(self) -> int:
        """Rows that are here."""
        return len(self.columns[0].values) if self.columns else 0


@dataclass(frozen=True)
class Section:
    """What a report says of one file.

    Attributes
    ----------
    kind : str
        ``run`` or ``table``.
    title : str
    facts : list of (str, str)
        The few numbers that matter most.
    provenance : list of (str, str)
        What it was made of, exactly.
    tables : list of Table
    chart : dict
        What the page's scripts draw: arrays, texts and numbers by name.
    told : Any
        What the section was made from: an `Explanation`, or a DataFrame.
    """

    kind: str
    title: str
    facts: list[Fact]
    provenance: list[Fact]
    tables: list[Table]
    chart: dict[str, Any]
    told: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class Report:
    """All of it."""

    title: str
    sections: list[Section]
    provenance: list[Fact]


def shown(text: object, most: int = MOST_NAME) -> str:
    r"""Make a text that others wrote harmless for a reader.

    Examples
    --------
    >>> print(shown("a\x1b[31mb"), shown(None), shown("ab" * 99999)[-3:])
    a\x1b[31mb - bab
    """
    return "-" if text is None else name_cell(str(text), most)
