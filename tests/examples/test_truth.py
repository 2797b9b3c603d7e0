"""Does the simulator tell the truth? One small model and three choices; peaks, not times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_peaks_of_checkpointed_runs_are_what_the_simulator_says() -> None:
    """The script ends with 0 where all peaks are within 0.5%, and none is above its prediction."""
    pytest.importorskip("torch", reason="capture needs torch: pip install torch")
    command = [sys.executable, str(ROOT / "examples" / "truth.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 pairs: peak within 0.0" in done.stdout
    assert "0 said to fit that do not" in done.stdout
