"""The command line, run in this process, for tests of what it says."""

from __future__ import annotations

import pytest
from rematsim.cli.main import main


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command: its exit code, and what it writes to each stream; never a traceback."""
    capsys.readouterr()
    code = main(list(arguments))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return code, shown.out, shown.err
