"""The table of a sweep as one SQLite file: a row per cell, each written as its run ends.

It knows rows and keys, not how they are made (`sweeps.py`). A file killed at any moment is
opened again and continued; a file that is not one of ours is refused and left as it is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from .errors import InputError, OutputError
from .result import COLUMNS

APPLICATION_ID = 0x524D5349  # "RMSI" in the header of the file
VERSION = 3
BUSY_SECONDS = 30.0
BUSY_PAUSE = 0.01

# What SQLite says of a file that is ours by its header and does not hold what we put there.
DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
)

INTEGER_COLUMNS = frozenset(
    [
        *("budget_bytes", "unlimited_peak_bytes", "seed", "model_ns", "remat_ns", "stall_ns"),
        *("search_ns", "clock", "peak_bytes", "evictions", "pressure_evictions"),
        *("rematerializations", "evaluations", "metadata_accesses", "base_compute_ns"),
        *("failed_at", "predicted_peak_bytes", "calls", "reserved_peak_bytes"),
        *("largest_hole_bytes", "search_steps", "retries", "offloaded_bytes"),
        *("prefetched_bytes", "host_peak_bytes"),
    ]
)
REAL_COLUMNS = frozenset(
    [
        *("slowdown_limit", "budget_fraction", "slowdown", "run_seconds", "bound_slowdown", "gap"),
        *("solve_seconds", "predicted_slowdown", "time_limit", "fragmentation"),
    ]
)

Row: TypeAlias = dict[str, object]


class CellKey(NamedTuple):
    """What names a cell, and what its row was made from.

    Parameters
    ----------
    identity : str
        Digest of what was asked: trace, method, budget, options, seed. One row for each.
    content : str
        Digest of that and of the sources that answered: a row with another one is out of date.
    counted : str
        The digest of a row that has the counts of accesses too, which does as well.
    """

    identity: str
    content: str
    counted: str = ""

    def fits(self, content: str | None) -> bool:
        """Say whether a row that was made from this content answers what is asked."""
        return content is not None and content in (self.content, self.counted)


def column_type(column: str) -> str:
    """Return the SQLite type of a column."""
    if column in INTEGER_COLUMNS:
        return "INTEGER"
    return "REAL" if column in REAL_COLUMNS else "TEXT"


class Store:
    """The rows of one or more sweeps, in a SQLite file or in memory.

    Parameters
    ----------
    path : str or Path or None
        File to create or to continue; None keeps the rows in memory.

    Raises
    ------
    InputError
        If the file is not a table of this version of rematsim.
    OutputError
        If the file cannot be opened or written.

    Notes
    -----
    Table ``cells`` holds what was asked, in the order of asking, and is written before the first
    run; table ``runs`` takes its ``position`` from there, so its order never depends on which
    run ended first. Both are changed in transactions only. Several processes may write to one
    file: the first row of a cell stays.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        with self._reporting():
            self._connection = sqlite3.connect(
                ":memory:" if self.path is None else self.path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
            )
        try:
            with self._reporting():
                self._open_at_last()
        except BaseException:
            self._connection.close()
            raise

    def plan(self, keys: Sequence[CellKey]) -> set[CellKey]:
        """Give each cell its place in the table; return those that have an up-to-date row.

        Parameters
        ----------
        keys : sequence of CellKey
            The cells of a sweep, in its order.
        """
        with self._reporting(), self._transaction():
            self._connection.executemany(
                "INSERT OR IGNORE INTO cells (identity) VALUES (?)",
                [(key.identity,) for key in keys],
            )
            contents = dict(self._connection.execute("SELECT identity, content FROM runs"))
        return {key for key in keys if key.fits(contents.get(key.identity))}

    def rename(self, names: Mapping[str, str]) -> None:
        """Give the rows of each trace digest the name that the trace has now."""
        with self._reporting(), self._transaction():
            self._connection.executemany(
                "UPDATE runs SET trace = ?2 WHERE trace_digest = ?1 AND trace <> ?2",
                [(digest, _storable(name)) for digest, name in names.items()],
            )

    def add(self, key: CellKey, row: Row) -> None:
        """Write the row of a planned cell; one already there stays unless it is out of date."""
        columns = ", ".join(COLUMNS)
        marks = ", ".join("?" * len(COLUMNS))
        values = [_storable(row[column]) for column in COLUMNS]
        with self._reporting(), self._transaction():
            self._connection.execute(
                "DELETE FROM runs WHERE identity = ? AND content NOT IN (?, ?)", key
            )
            self._connection.execute(
                f"INSERT OR IGNORE INTO runs (position, identity, content, {columns}) "
                f"SELECT position, identity, ?, {marks} FROM cells WHERE identity = ?",
                [key.content, *values, key.identity],
            )

    def rows(self, keys: Iterable[CellKey]) -> list[Row]:
        """Return the rows of those cells, in the given order; cells without one are left out."""
        with self._reporting():
            found = {row[0]: row[1:] for row in self._select("identity")}
        return [
            dict(zip(COLUMNS, found[key.identity], strict=True))
            for key in keys
            if key.identity in found
        ]

    def close(self) -> None:
        """Close the file; what was added stays."""
        if self.path is not None:
            # One plain file again, which can be read where nothing may be written; refused while
            # another sweep has it open, which will do this when it ends.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _select(self, *first: str) -> sqlite3.Cursor:
        columns = ", ".join([*first, *COLUMNS])
        return self._connection.execute(f"SELECT {columns} FROM runs ORDER BY position")

    def _open_at_last(self) -> None:
        """Open the file, however often another sweep gets in between.

        SQLite waits for locks, but not where waiting could be for ever: it says "busy" at once
        when another connection changes the journal mode in the same moment, as each sweep does
        when it opens the file and when it closes it.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._open()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(BUSY_PAUSE)

    def _open(self) -> None:
        """Refuse a foreign file before anything is changed in it, then make what is missing."""
        self._check_kind()
        if self.path is not None:
            # A commit appends to the write-ahead log: no waiting for the disk after each row,
            # and a kill at any moment leaves a file of whole rows.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            if self._is_empty():
                self._create()
        self._check_kind()

    def _is_empty(self) -> bool:
        return (
            not self._pragma("application_id")
            and not self._connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        )

    def _check_kind(self) -> None:
        if self._is_empty():
            return
        if self._pragma("application_id") != APPLICATION_ID:
            raise InputError(f"{self.path}: not a table of rematsim sweeps; left as it is")
        is_ours = self._pragma("user_version") == VERSION
        columns = self._columns("runs")
        if is_ours and not (columns and self._columns("cells")):
            raise _damaged(self.path)
        if not is_ours or columns[3:] != list(COLUMNS):
            raise InputError(
                f"{self.path}: a table of another version of rematsim (file version "
                f"{self._pragma('user_version')}, here {VERSION}); left as it is, write to another"
            )

    def _create(self) -> None:
        columns = ", ".join(f"{column} {column_type(column)}" for column in COLUMNS)
        self._connection.execute(
            "CREATE TABLE cells (position INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)"
        )
        self._connection.execute(
            "CREATE TABLE runs (position INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, "
            f"content TEXT NOT NULL, {columns})"
        )
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _columns(self, table: str) -> list[str]:
        """Name the columns of a table; none if it is not there."""
        return [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Turn SQLite's errors into ours, with the file and what it means for the rows."""
        try:
            yield
        except sqlite3.Error as error:
            raise _explained(self.path, error) from error
        except UnicodeDecodeError as error:  # names in the file that are no UTF-8
            raise _damaged(self.path) from error


def _storable(value: object) -> object:
    """Escape what UTF-8 cannot say: pieces of file names that are no text."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's result code, less what narrows it down."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_damage(error: sqlite3.Error) -> bool:
    """Say whether an error in a statement of ours, which is right, means that the file is wrong.

    Python's own complaint about text that is no UTF-8 has no code.
    """
    code = _code(error)
    return code in DAMAGE or (not code and isinstance(error, sqlite3.OperationalError))


def _damaged(path: Path | None) -> InputError:
    # SQLite may have written to the header before it met the damage: no "left as it is" here.
    return InputError(f"{path}: a damaged table of rematsim sweeps; write to a new file")


def _explained(path: Path | None, error: sqlite3.Error) -> InputError | OutputError:
    """Say what an SQLite error means for the user's file."""
    code = _code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return InputError(f"{path}: not an SQLite file; left as it is")
    if _is_damage(error):
        return _damaged(path)
    reasons = {
        sqlite3.SQLITE_BUSY: f"another program has kept it locked for {BUSY_SECONDS:g} s",
        sqlite3.SQLITE_FULL: "the disk is full; the rows written before are kept",
        sqlite3.SQLITE_IOERR: "the disk is full or failing; the rows written before are kept",
        sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened or made there",
    }
    return OutputError(f"{path}: {reasons.get(code, error)}")
