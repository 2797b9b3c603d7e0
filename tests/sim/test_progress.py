"""Lines about long work disturb nobody's work."""

from __future__ import annotations

import io
import sys

import pytest
from rematsim.cli import progress
from rematsim.cli.progress import Lines


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
