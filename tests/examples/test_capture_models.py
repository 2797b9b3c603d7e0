"""The scripts that make the bundled traces, and that measure what capture costs, run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rematsim.traces.loading import load_trace

ROOT = Path(__file__).resolve().parents[2]


def test_a_model_is_captured_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="capture needs torch: pip install torch")
    script = str(ROOT / "examples" / "capture_models.py")
    command = [sys.executable, script, "mlp", "--repeat", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trace = load_trace(tmp_path / "mlp.trace")
    assert f"mlp.trace: {trace.n_calls} calls" in done.stdout
    assert "param:0.weight" in trace.names


def test_what_capture_costs_is_measured_and_written(tmp_path: Path) -> None:
    """The benchmark itself checks that a captured step computes the same bits."""
    pytest.importorskip("torch", reason="capture needs torch: pip install torch")
    script, out = str(ROOT / "benchmarks" / "capture.py"), tmp_path / "cost.json"
    command = [sys.executable, script, "mlp", "--repeats", "1", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert row["calls"] == 163
