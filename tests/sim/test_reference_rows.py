"""Every reference row, replayed: the same evictions in the same order, and the same figures.

The logs and the rows are not part of the repository; where they lie beside it (``../shared``)
every row must be met exactly.
"""

from __future__ import annotations

import csv
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
from oracle import REFERENCE_FIGURES
from rematsim.simulation import simulate
from rematsim.traces.loading import load_trace

SHARED = Path(__file__).resolve().parents[3] / "shared"
TABLES = ("dtr-runs.csv", "dtr-runs-more.csv", "corpus-runs.csv")
IN_ZIP = {"densenet121": "tv_densenet121", "unrolled_gan": "unroll_gan"}

Row = dict[str, str]


def reference_rows() -> dict[str, list[Row]]:
    """Give the rows of all tables, by log; none where the tables are absent."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for table in TABLES:
        path = SHARED / "reference" / table
        if path.exists():
            with path.open(newline="") as lines:
                for row in csv.DictReader(lines):
                    rows[row["log"]].append(row)
    return rows


def find_log(name: str) -> str:
    """Give what to load for the log of a row."""
    corpus = SHARED / "corpus" / f"{name}.log.gz"
    if corpus.exists():
        return str(corpus)
    archive = SHARED / "reference" / "dtr-logs.zip"
    return f"{archive}::{in_zip(name)}"


def in_zip(name: str) -> str:
    """Give the stem of a log in the zip."""
    with zipfile.ZipFile(SHARED / "reference" / "dtr-logs.zip") as archive:
        stems = [Path(path).stem for path in archive.namelist()]
    return next(stem for stem in stems if stem.startswith(IN_ZIP.get(name, name)))


def contradictions(log: str, rows: list[Row]) -> list[str]:
    """Replay a log's rows; describe each that comes out different."""
    trace = load_trace(find_log(log))
    found = []
    for row in rows:
        result = simulate(
            trace,
            row["heuristic"],
            int(row["budget_bytes"]),
            deallocation=row["deallocation"],
        )
        different = {
            figure: (row[figure], str(result.row[figure]))
            for figure in REFERENCE_FIGURES
            if row[figure] != str(result.row[figure])
        }
        if different:
            what = f"{row['heuristic']} {row['deallocation']} at {row['ratio']}"
            found.append(f"{what}: (expected, got) {different}")
    return found


ROWS = reference_rows()


def test_the_reference_rows_are_there() -> None:
    """All 1,611 rows are checked, or the reason why not is given."""
    if not ROWS:
        pytest.skip(f"no reference rows: {SHARED} is absent")
    assert sum(len(rows) for rows in ROWS.values()) == 1611


@pytest.mark.parametrize("log", sorted(ROWS) or [pytest.param("", id="absent")])
def test_every_row_of_a_log_is_met(log: str) -> None:
    """Status, compute, clock, peak and evictions are equal, row by row."""
    if not ROWS:
        pytest.skip(f"no reference rows: {SHARED} is absent")
    different = contradictions(log, ROWS[log])
    assert not different, f"{len(different)} of {len(ROWS[log])} rows differ: {different[:3]}"
