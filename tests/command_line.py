"""The command line, run in this process, for tests of what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from rematsim.cli.main import main

NET = "synthetic:chain:9"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command: its exit code, and what it writes to each stream; never a traceback."""
    capsys.readouterr()
    code = main(list(arguments))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return code, shown.out, shown.err


def save_chain(folder: Path) -> str:
    """Save a run of `NET` that had to evict; give the path."""
    path = str(folder / "chain.run")
    assert main(["replay", NET, "--budget", "6", "-H", "h_LRU", "--save-run", path]) == 0
    return path
