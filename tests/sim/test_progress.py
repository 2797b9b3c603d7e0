"""Lines about long work disturb nobody's work."""

from __future__ import annotations

import io
import sys
import time

import pytest
from hostile_names import HOSTILE, obeyed
from rematsim.cli import progress
from rematsim.cli.progress import Lines, Waiting


def test_progress_writes_nothing_that_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace's name may be anything, and as long as it likes."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    for name in HOSTILE:
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with Waiting("planning", None, name):
            give_up = time.monotonic() + 60
            while not stream.getvalue().endswith("s\n") and time.monotonic() < give_up:
                time.sleep(0.001)
        assert stream.getvalue()
        assert all(len(line) < 200 for line in stream.getvalue().splitlines())
        lines = Lines()
        lines.write(name)
        time.sleep(0.002)
        lines.write(name)
        assert not obeyed(stream.getvalue())


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_closed_stream_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    """A script that is captured may close it; long work goes on."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    lines = Lines()
    lines.write("first")
    assert "rematsim: first" in stream.getvalue()
    if is_closed:
        stream.close()
    lines.write("second")
    assert is_closed or "rematsim: second" in stream.getvalue()
