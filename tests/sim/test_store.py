"""The table of a sweep in its file: what is refused, what stays, in which order."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from rematsim import store as store_module
from rematsim.analysis.tables import read_table
from rematsim.errors import InputError, OutputError
from rematsim.result import COLUMNS
from rematsim.store import INTEGER_COLUMNS, REAL_COLUMNS, CellKey, Row, Store

KEYS = [CellKey(f"cell{i}", f"made{i}") for i in range(4)]


def row(trace: str, **values: object) -> Row:
    """Make a row of the documented columns, empty but for a few."""
    return dict.fromkeys(COLUMNS) | {"trace": trace, "trace_digest": "d", "evictions": 3} | values


def positions(path: Path) -> list[tuple[int, str]]:
    """Read the table as any other program would."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT position, trace FROM runs").fetchall()


def test_every_documented_column_has_a_type() -> None:
    """Numbers are stored as numbers; what is no number is text."""
    assert set(COLUMNS) >= INTEGER_COLUMNS | REAL_COLUMNS
    assert not INTEGER_COLUMNS & REAL_COLUMNS


def test_rows_stand_in_the_order_of_planning_not_of_writing(tmp_path: Path) -> None:
    """Runs that end early do not come first."""
    with Store(tmp_path / "t.sqlite") as store:
        store.plan(KEYS[:3])
        for i in (2, 0, 1):
            store.add(KEYS[i], row(f"t{i}"))
    assert positions(tmp_path / "t.sqlite") == [(1, "t0"), (2, "t1"), (3, "t2")]


def test_rows_are_returned_in_the_order_asked_for_and_missing_ones_left_out() -> None:
    """A table in memory knows the same as one in a file."""
    with Store(None) as store:
        store.plan(KEYS)
        store.add(KEYS[0], row("t0"))
        store.add(KEYS[1], row("t1", slowdown=1.25, seed=None))
        rows = store.rows([KEYS[1], KEYS[2], KEYS[0]])
    assert [found["trace"] for found in rows] == ["t1", "t0"]
    assert rows[0] == row("t1", slowdown=1.25)


def test_plan_returns_what_is_up_to_date_when_opened_again(tmp_path: Path) -> None:
    """A row counts as done for the same cell made from the same sources."""
    with Store(tmp_path / "t.sqlite") as store:
        assert store.plan(KEYS) == set()
        store.add(KEYS[1], row("t1"))
    newer = CellKey("cell1", "made from newer sources")
    with Store(tmp_path / "t.sqlite") as store:
        assert store.plan(KEYS) == {KEYS[1]}
        assert store.plan([newer]) == set()


def test_first_row_of_a_cell_stays_and_an_out_of_date_one_is_replaced(tmp_path: Path) -> None:
    """Two sweeps may write the same cell; new sources write it again, in its place."""
    with Store(tmp_path / "t.sqlite") as store:
        store.plan(KEYS[:2])
        store.add(KEYS[0], row("first"))
        store.add(KEYS[1], row("other"))
        store.add(KEYS[0], row("second"))
        assert positions(tmp_path / "t.sqlite") == [(1, "first"), (2, "other")]
        store.add(CellKey("cell0", "newer"), row("newer"))
    assert positions(tmp_path / "t.sqlite") == [(1, "newer"), (2, "other")]


def test_row_with_counts_answers_for_one_without_and_is_not_replaced(tmp_path: Path) -> None:
    """The other way round the counts are missing, and the cell is run again."""
    plain, counting = CellKey("cell", "plain", "counted"), CellKey("cell", "counted", "counted")
    with Store(tmp_path / "t.sqlite") as store:
        store.plan([plain])
        store.add(plain, row("plain"))
        assert store.plan([counting]) == set()
        store.add(counting, row("counted"))
        assert store.plan([plain]) == {plain}
        store.add(plain, row("plain"))
    assert positions(tmp_path / "t.sqlite") == [(1, "counted")]


def test_two_processes_worth_of_stores_may_share_a_file(tmp_path: Path) -> None:
    """Places are given out in transactions, so they never clash."""
    with Store(tmp_path / "t.sqlite") as one, Store(tmp_path / "t.sqlite") as two:
        one.plan(KEYS[:2])
        two.plan(KEYS[1:])
        two.add(KEYS[3], row("t3"))
        one.add(KEYS[0], row("t0"))
        two.add(KEYS[1], row("t1"))
        one.add(KEYS[1], row("again"))
    assert positions(tmp_path / "t.sqlite") == [(1, "t0"), (2, "t1"), (4, "t3")]


def test_a_renamed_trace_is_renamed_in_its_rows(tmp_path: Path) -> None:
    """The digest says which trace it is; the name is what the user calls it now."""
    with Store(tmp_path / "t.sqlite") as store:
        store.plan(KEYS[:1])
        store.add(KEYS[0], row("old"))
        store.rename({"d": "new", "e": "other"})
        assert store.rows(KEYS)[0]["trace"] == "new"


def test_a_name_that_is_no_text_is_escaped() -> None:
    """File names are bytes on some systems."""
    with Store(None) as store:
        store.plan(KEYS[:1])
        store.add(KEYS[0], row("a\udcff"))
        store.rename({"d": "b\udcff"})
        assert store.rows(KEYS)[0]["trace"] == r"b\udcff"


def test_a_closed_file_is_one_file(tmp_path: Path) -> None:
    """It can be copied or sent as it is."""
    with Store(tmp_path / "t.sqlite") as store:
        store.plan(KEYS)
    assert [path.name for path in tmp_path.iterdir()] == ["t.sqlite"]


@pytest.mark.parametrize("content", [b"trace,method\nresnet,h_DTR\n", b"\0" * 5000])
def test_a_file_of_another_kind_is_refused_and_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    """Nobody's notes are overwritten."""
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match="left as it is"):
        Store(path)
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """An SQLite file is not ours because it is one."""
    path = tmp_path / "photos.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs (distance REAL)")
        database.commit()
    before = path.read_bytes()
    with pytest.raises(InputError, match="not a table of rematsim"):
        Store(path)
    assert path.read_bytes() == before


def test_a_table_of_another_version_is_refused(tmp_path: Path) -> None:
    """Its columns may mean something else."""
    path = tmp_path / "t.sqlite"
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
        database.commit()
    with pytest.raises(InputError, match="file version 99"):
        Store(path)


def test_a_truncated_table_is_refused(tmp_path: Path) -> None:
    """A damaged file is reported, not continued."""
    path = tmp_path / "t.sqlite"
    with Store(path) as store:
        store.plan([CellKey(str(i), "") for i in range(2000)])
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(InputError, match="damaged"):
        Store(path)


DAMAGE = {
    "no table of cells": "DROP TABLE cells",
    "no table of runs": "DROP TABLE runs",
    "text that is no UTF-8": "UPDATE runs SET identity = CAST(x'ff' AS TEXT), content = identity",
    "no column of cells": "ALTER TABLE cells RENAME COLUMN identity TO other",
}


def use(path: Path) -> None:
    """Do everything that a sweep does with a table."""
    with Store(path) as store:
        store.plan(KEYS)
        store.rename({"d": "new"})
        store.add(KEYS[0], row("t0"))
        store.rows(KEYS)


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_a_table_damaged_in_whatever_way_is_refused_alike(tmp_path: Path, statement: str) -> None:
    """SQLite has many words for it; what the user can do is the same."""
    path = tmp_path / "t.sqlite"
    use(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()
    with pytest.raises(InputError) as caught:
        use(path)
    assert str(caught.value) == f"{path}: a damaged table of rematsim sweeps; write to a new file"


@pytest.mark.parametrize("filling", [b"\0", b"\xa7"])
def test_a_spoiled_page_is_damage_and_no_promise_is_made(tmp_path: Path, filling: bytes) -> None:
    """SQLite writes to the header before it reads that page."""
    path = tmp_path / "t.sqlite"
    with Store(path) as store:
        store.plan([CellKey(str(i), "") for i in range(2000)])
    content = path.read_bytes()
    path.write_bytes(content[:4096] + filling * (len(content) - 4096))
    with pytest.raises(InputError) as caught:
        use(path)
    assert str(caught.value) == f"{path}: a damaged table of rematsim sweeps; write to a new file"


@pytest.mark.parametrize("name", [b"CREATE TABLE cells", b"evict_sha"])
def test_a_name_in_a_table_that_is_no_utf8_is_damage(tmp_path: Path, name: bytes) -> None:
    """Python cannot even read SQLite's message, or the name of the column."""
    path = tmp_path / "t.sqlite"
    use(path)
    path.write_bytes(path.read_bytes().replace(name, name[:-1] + b"\xee"))
    with pytest.raises(InputError, match="a damaged table of rematsim sweeps; write to a new"):
        use(path)
    with pytest.raises(InputError, match="not the file of a sweep"):
        read_table(path)


def test_an_empty_file_is_a_new_table(tmp_path: Path) -> None:
    """A sweep killed while it made its file leaves one."""
    (tmp_path / "t.sqlite").touch()
    with Store(tmp_path / "t.sqlite") as store:
        assert store.plan(KEYS) == set()


@pytest.mark.parametrize("place", ["", "nowhere/t.sqlite", "file/t.sqlite"])
def test_a_place_where_no_file_can_be_is_an_error_of_ours(tmp_path: Path, place: str) -> None:
    """A folder, a folder that is not there, a file used as a folder."""
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be opened"):
        Store(tmp_path / place)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_read_only_file_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administrator may write everywhere, so SQLite is told that it is read-only."""
    path = tmp_path / "t.sqlite"
    Store(path).close()
    connect = sqlite3.connect
    monkeypatch.setattr(
        store_module.sqlite3,
        "connect",
        lambda path, **options: connect(f"file:{path}?mode=ro", uri=True, **options),
    )
    with pytest.raises(OutputError, match="read-only"):
        Store(path)


def test_a_locked_file_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's long transaction is waited for, not for ever."""
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.1)
    path = tmp_path / "t.sqlite"
    with Store(path) as store, closing(sqlite3.connect(path)) as other:
        store.plan(KEYS)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match="locked"):
            store.add(KEYS[0], row("t0"))
        other.rollback()
        store.add(KEYS[0], row("t0"))
        assert len(store.rows(KEYS)) == 1


def test_sweeps_that_open_and_close_one_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Opening and closing change the journal mode, where SQLite itself does not wait."""
    opening = (
        "import sys; from rematsim.store import Store\n"
        "for _ in range(600):\n    Store(sys.argv[1]).close()\n"
    )
    command = [sys.executable, "-c", opening, str(tmp_path / "t.sqlite")]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
