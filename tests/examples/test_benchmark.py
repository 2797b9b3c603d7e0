"""The benchmark runs and writes what it says; what it measures is no matter of tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_growth_is_measured_and_written(tmp_path: Path) -> None:
    """One short chain under each heuristic: calls, pool, memory, as a table and as JSON."""
    command = [sys.executable, str(ROOT / "benchmarks" / "replay.py"), "growth"]
    options = ["--calls", "1000", "--repeats", "1", "--json", str(tmp_path / "times.json")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "us a call" in done.stdout
    rows = json.loads((tmp_path / "times.json").read_text())["growth"]["rows"]
    assert {row["heuristic"] for row in rows} == {"h_DTR", "h_DTR_eq", "h_LRU"}
    # 4 sqrt(1000) = 126 units: t_0 and 125 others are there when one must go.
    assert all(row["pool, max"] == 125 and row["calls"] == 1000 for row in rows)


def test_formats_are_measured_and_written(tmp_path: Path) -> None:
    """One short chain: sizes and speeds, as a table and as JSON."""
    command = [sys.executable, str(ROOT / "benchmarks" / "formats.py"), "synthetic:chain:2000"]
    options = ["--repeats", "1", "--json", str(tmp_path / "times.json")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "read MB/s" in done.stdout
    [row] = json.loads((tmp_path / "times.json").read_text())
    assert row["calls"] == 4000
    assert row["kB file"] < row["kB log.gz"]


def test_parts_that_need_the_reference_are_left_out_without_it(tmp_path: Path) -> None:
    """Nothing fails where the paper's logs are absent."""
    command = [sys.executable, str(ROOT / "benchmarks" / "replay.py"), "engine", "allin", "read"]
    done = subprocess.run(
        [*command, "--reference", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("left out") == 3
