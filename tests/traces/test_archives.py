"""Zips of logs: which logs there are, what they are called, and which one is meant."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable

import pytest
from rematsim.errors import TraceError
from rematsim.traces.archives import Archive


def archive(paths: Iterable[str], manifest: str = "") -> Archive:
    """Make a zip of logs that hold their own number."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for number, path in enumerate(paths):
            file.writestr(zipfile.ZipInfo(path), str(number))
        if manifest:
            file.writestr("manifest.json", manifest)
    return Archive(buffer.getvalue(), "x.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_path_are_refused() -> None:
    """Only one could be read, and nobody could say which."""
    with pytest.raises(TraceError) as caught:
        archive(["a.log", "b.log", "a.log"])
    assert str(caught.value) == "x.zip: two files in the zip have the path 'a.log'"
    assert len(archive(["logs/", "logs/", "logs/a.log"]).members) == 1


def test_logs_of_one_stem_are_named_by_their_paths() -> None:
    """Without suffixes where that tells them apart; other logs keep their short names."""
    named = archive(["one/a.log", "two/a.log.gz", "two/b-1.0.log", "c.log", "c.json"]).members
    assert [member.name for member in named] == ["one/a", "two/a", "b-1.0", "c.log", "c.json"]


def test_a_stem_that_two_logs_have_is_ambiguous() -> None:
    """The message lists the paths; each can be asked for by path and by name."""
    logs = archive(["one/a.log", "two/a.log", "b.log"])
    with pytest.raises(TraceError) as caught:
        logs.find("a")
    expected = "x.zip: 'a' is ambiguous: one/a.log, two/a.log; take one by its path"
    assert str(caught.value) == expected
    assert [logs.find(wanted).path for wanted in ("two/a", "one/a.log", "b")] == [
        "two/a.log",
        "one/a.log",
        "b.log",
    ]


def test_a_log_that_the_manifest_names_twice_is_not_ambiguous() -> None:
    """Both names mean the same file."""
    models = '{"models": [{"name": "x", "log": "a.log"}, {"name": "y", "log": "a.log"}]}'
    logs = archive(["a.log"], models)
    assert [logs.find(wanted).name for wanted in ("x", "y", "a", "a.log")] == ["x", "y", "x", "x"]


def test_many_ambiguous_paths_are_listed_in_part() -> None:
    """A message stays one line of moderate length."""
    with pytest.raises(TraceError, match=r"f9/a.log, \.\.\.; take one"):
        archive([f"f{number}/a.log" for number in range(50)]).find("a")
