"""Tables of runs are read from three kinds of files, and refused with one line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rematsim.analysis.tables import check_table, read_run, read_table, select
from rematsim.errors import InputError


def write_sqlite(path: Path, table: pd.DataFrame) -> Path:
    with closing(sqlite3.connect(path)) as database:
        table.to_sql("runs", database, index=False)
    return path


def write_csv(path: Path, table: pd.DataFrame) -> Path:
    table.to_csv(path, index=False)
    return path


def test_csv_and_sqlite_give_the_same_table(table, tmp_path):
    one = read_table(write_csv(tmp_path / "a.csv", table))
    other = read_table(write_sqlite(tmp_path / "a.sqlite", table))
    assert len(one) == len(table) == 16
    pd.testing.assert_frame_equal(one, other, check_dtype=False)


def test_a_run_is_a_table_of_one_row(run, tmp_path):
    run().save(tmp_path / "tiny.run")
    table = read_table(tmp_path / "tiny.run")
    assert table[["trace", "budget_bytes"]].values.tolist() == [["tiny", 95.0]]
    assert read_run(tmp_path / "tiny.run").events is not None


def test_reading_a_sqlite_file_leaves_it_as_it_was(table, tmp_path):
    path = write_sqlite(tmp_path / "a.sqlite", table)
    before = path.read_bytes()
    path.chmod(0o444)
    read_table(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_empty_numbers_are_nan_and_names_stay_strings(rows):
    table = rows("7", "h_DTR", {0.5: "oom"}, budget_bytes=None, seed="")
    checked = check_table(table)
    assert checked["trace"].tolist() == ["7"]
    assert np.isnan(checked.loc[0, ["budget_bytes", "slowdown", "seed"]].astype(float)).all()


def test_traces_that_share_a_name_are_told_apart_by_digest(rows):
    table = pd.concat(
        [
            rows("net", "h_DTR", {0.5: 1.1}, trace_digest="a" * 64),
            rows("net", "h_DTR", {0.5: 1.2}, trace_digest="b" * 64),
            rows("other", "h_DTR", {0.5: 1.2}, trace_digest="c" * 64),
        ]
    )
    assert check_table(table)["trace"].tolist() == ["net (aaaaaaaa)", "net (bbbbbbbb)", "other"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("slowdown", "fast", "table, row 2: slowdown ('fast') is not a number"),
        ("slowdown", float("inf"), "table, row 2: slowdown (inf) is not finite"),
        ("slowdown", None, "table, row 2: slowdown (nan) is not positive in a run that ended ok"),
        ("budget_bytes", -1, "table, row 2: budget_bytes (-1.0) is negative"),
        ("unlimited_peak_bytes", 0, "table, row 2: unlimited_peak_bytes (0.0) is not positive"),
        ("trace", None, "table, row 2: trace (None) is empty"),
        ("trace", b"\0\xff", r"table, row 2: trace (b'\x00\xff') is binary, not text"),
        (
            "slowdown",
            1e308,
            "table, row 2: slowdown (1e+308) is no number of a run: 0, or between 2**-64 and 2**64",
        ),
        (
            "unlimited_peak_bytes",
            1e-300,
            "table, row 2: unlimited_peak_bytes (1e-300) is no number of a run: "
            "0, or between 2**-64 and 2**64",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_row(table, column, value, message):
    table[column] = table[column].astype(object)
    table.loc[1, column] = value
    with pytest.raises(InputError) as caught:
        check_table(table)
    assert str(caught.value) == message


@pytest.mark.parametrize("column", ["method", "deallocation", "trace_digest", "times"])
def test_a_blob_in_a_column_of_text_is_refused(table, tmp_path, column):
    """SQLite keeps whatever is written to a column; a name is text."""
    path = write_sqlite(tmp_path / "a.sqlite", table.assign(times="measured", trace_digest="d"))
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE runs SET {column} = x'00ff' WHERE rowid = 3")
        database.commit()
    with pytest.raises(InputError, match=rf"a\.sqlite, row 3: {column} \(b.*\) is binary"):
        read_table(path)


def test_text_that_is_no_utf8_is_refused_in_one_line(table, tmp_path):
    """A damaged file may hold any bytes where text should be."""
    path = write_sqlite(tmp_path / "a.sqlite", table)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE runs SET method = CAST(x'0aff' AS TEXT)")
        database.commit()
    with pytest.raises(InputError, match=r"a\.sqlite: not the file of a sweep") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_a_value_is_quoted_in_moderate_length(table):
    """A message stays one line that can be read."""
    table.loc[1, "status"] = "x" * 5_000
    with pytest.raises(InputError) as caught:
        check_table(table)
    assert len(str(caught.value)) < 250


def test_an_unknown_status_is_named_with_its_line_in_a_csv(table, tmp_path):
    table.loc[2, "status"] = "fine"
    path = write_csv(tmp_path / "a.csv", table)
    with pytest.raises(InputError, match=r"a\.csv:4: status \('fine'\) is none of ok, oom"):
        read_table(path)


def test_a_missing_column_is_named(table, tmp_path):
    path = write_csv(tmp_path / "a.csv", table.drop(columns="status"))
    with pytest.raises(InputError, match=r"a\.csv: no column 'status' \(columns: trace, method"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "not a comma-separated table"),
        ("a.csv", b"trace,method\n1,2\n1,2,3\n", "not a comma-separated table"),
        ("a.csv", b"\xff\xfe\x00trace", "not a comma-separated table"),
        ("a.csv", b"\n", "not a comma-separated table"),
        ("a.sqlite", b"x" * 2000, "not the file of a sweep"),
        ("a.sqlite", b"", "not the file of a sweep"),
        ("a.run", b"x", "not a saved run, or damaged"),
        ("a.txt", b"", r"unknown kind of file \('.txt'\): a table of runs ends in .csv, .sqlite"),
        ("a", b"", "unknown kind of file"),
        ("a.trace", b"", "of a trace, rematsim replay and rematsim sweep make one"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["none.csv", "none.sqlite", "none.run"])
def test_a_missing_file_is_said_to_be_missing(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read_table(tmp_path / name)


def test_a_table_without_rows_is_refused(table):
    with pytest.raises(InputError, match="table: no rows"):
        check_table(table.iloc[:0])


def test_selecting_keeps_the_values_asked_for(table):
    kept = select(table, {"trace": "resnet9", "method": ["h_DTR", "h_LRU"], "seed": None})
    assert len(kept) == 8
    with pytest.raises(InputError, match="no run with trace 'vgg'; there are: resnet10, resnet9"):
        select(table, {"trace": "vgg"})


def test_tables_need_no_matplotlib():
    program = (
        "import sys, rematsim.analysis.tables, rematsim.analysis.summaries;"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_trace_whose_times_are_estimated_says_so_where_it_is_shown(table, tmp_path):
    """In every figure's table, once; filters take the name as it is in the file."""
    table = table.assign(times="measured")
    table.loc[table["trace"] == "resnet9", "times"] = "estimated"
    read = read_table(write_csv(tmp_path / "a.csv", table))
    assert "resnet9" in set(read["trace"])
    shown = check_table(select(read, {"trace": "resnet9"}))
    assert set(shown["trace"]) == {"resnet9 (times estimated)"}
    assert set(check_table(shown)["trace"]) == {"resnet9 (times estimated)"}
