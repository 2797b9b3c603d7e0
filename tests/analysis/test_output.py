"""Figures are saved whole or not at all, and the same bytes each time."""

from __future__ import annotations

import pytest
from rematsim.analysis.figures import overhead_figure, save_figure
from rematsim.errors import OutputError, UnknownNameError

BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_the_suffix_decides_and_the_bytes_never_change(table, tmp_path, suffix):
    one = save_figure(overhead_figure(table), tmp_path / f"one{suffix}")
    other = save_figure(overhead_figure(table), tmp_path / f"other{suffix.upper()}")
    assert one.read_bytes().startswith(BEGINNINGS[suffix])
    assert one.read_bytes() == other.read_bytes()


def test_an_unknown_suffix_is_refused(table, tmp_path):
    with pytest.raises(UnknownNameError, match=r"x\.gif: unknown kind of figure \('.gif'\)"):
        save_figure(overhead_figure(table), tmp_path / "x.gif")
    assert not list(tmp_path.iterdir())


def test_an_unwritable_place_is_said_and_nothing_left(table, tmp_path):
    (tmp_path / "folder.png").mkdir()
    figure = overhead_figure(table)
    for path in (tmp_path / "no" / "x.png", tmp_path / "folder.png"):
        with pytest.raises(OutputError, match=path.name):
            save_figure(figure, path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_failure_while_drawing_leaves_the_old_file(table, tmp_path, monkeypatch):
    figure = overhead_figure(table)
    path = save_figure(figure, tmp_path / "x.png")
    before = path.read_bytes()

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        save_figure(figure, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
