"""The cache: what goes in comes out, and whatever goes wrong means only that nothing is cached."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from dtr_logs import log, valid_lines
from rematsim.traces import cache
from rematsim.traces.cache import cache_get, cache_put, cache_root
from rematsim.traces.importers import dtr_log
from rematsim.traces.loading import load_trace, load_traces
from rematsim.traces.random_dag import random_dag
from rematsim.traces.storing import store_trace, stored_trace

ALIGNED = np.dtype([("a", "i1"), ("b", "f8")], align=True)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REMATSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


ENTRY = {
    "long": np.arange(1000),
    "table": np.ones((3, 4), dtype=np.int32),
    "bytes": np.array([1, 2, 3], dtype=np.uint8),
    "empty": np.zeros((0, 3), dtype=np.int64),
    "number": np.array(2.5),
    "records": np.zeros(5, dtype=ALIGNED),
    "swapped": np.arange(3, dtype=">i4"),
    "transposed": np.arange(6).reshape(2, 3).T,
    "text": "some\0text",
    "no text": "",
    "texts": ["a", "", "b\n"],
}


def test_an_entry_comes_back_as_it_was() -> None:
    assert cache_put("key/../\0", ENTRY)
    found = cache_get("key/../\0")
    assert found is not None
    assert list(found) == list(ENTRY)
    for field, value in ENTRY.items():
        if isinstance(value, np.ndarray):
            again = found[field]
            assert isinstance(again, np.ndarray)
            assert again.dtype == value.dtype
            assert again.dtype.isalignedstruct == value.dtype.isalignedstruct
            assert again.shape == value.shape
            assert np.array_equal(again, value)
            assert again.flags.aligned
            assert not again.flags.writeable
        else:
            assert found[field] == value


def test_an_unknown_key_gives_nothing(root: Path) -> None:
    assert cache_get("key") is None
    cache_put("key", ENTRY)
    assert cache_get("another") is None
    assert cache_get("") is None


@pytest.mark.parametrize("length", [0, 5, 20, 40, 300, -1])
def test_a_file_cut_short_is_ignored_and_written_again(root: Path, length: int) -> None:
    cache_put("key", ENTRY)
    [path] = files(root)
    path.write_bytes(path.read_bytes()[:length])
    assert cache_get("key") is None
    assert cache_put("key", ENTRY)
    assert cache_get("key") is not None


def test_a_file_damaged_anywhere_is_ignored(root: Path) -> None:
    cache_put("key", {"x": np.arange(50), "t": "text"})
    [path] = files(root)
    good = path.read_bytes()
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        assert cache_get("key") is None, position


def test_the_file_of_another_key_is_ignored(root: Path) -> None:
    cache_put("key", {"x": np.arange(5)})
    [path] = files(root)
    cache_put("another", {"x": np.arange(6)})
    [other] = [found for found in files(root) if found != path]
    other.write_bytes(path.read_bytes())
    assert cache_get("another") is None


def test_arrays_of_objects_are_not_stored(root: Path) -> None:
    """Loading them would run code."""
    assert not cache_put("key", {"x": np.array([object()])})
    assert not cache_put("key", {"x": np.zeros(2, dtype=[("a", "O")])})
    assert not cache_put("key", {"x": object()})  # type: ignore[dict-item]
    assert files(root) == []


def test_a_root_that_cannot_be_used_means_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        monkeypatch.setenv("REMATSIM_CACHE_DIR", str(place))
        assert not cache_put("key", ENTRY)
        assert cache_get("key") is None


def test_no_home_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMATSIM_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert not cache_put("key", ENTRY)
    assert cache_get("key") is None


def test_the_root_is_where_the_system_has_its_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMATSIM_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_root() == Path("/somewhere/rematsim")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache" / "rematsim"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_root() == Path.home() / "Library" / "Caches" / "rematsim"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_root() == Path("/local/rematsim")


def test_the_least_recently_used_entries_go_when_the_cache_is_full(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 100_000)
    entry = {"x": np.zeros(2_000)}
    for k in range(5):
        cache_put(f"key {k}", entry)
        for path in files(root):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 1_000))
    assert cache_get("key 0") is not None, "used again, so it is the newest"
    cache_put("key 5", entry)
    cache_put("key 6", entry)
    left = [k for k in range(7) if cache_get(f"key {k}") is not None]
    assert {0, 5, 6} <= set(left)
    assert 1 not in left
    assert sum(path.stat().st_size for path in files(root)) <= 100_000


def test_an_entry_that_is_too_large_is_not_stored(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_ENTRY_BYTES", 1_000)
    assert not cache_put("key", {"x": np.zeros(1_000)})
    assert files(root) == []


def test_no_temporary_file_is_left(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    assert not cache_put("key", ENTRY)
    assert files(root) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_stored_trace_is_equal_and_complete(seed: int) -> None:
    trace = random_dag(seed)
    store_trace("key", trace)
    again = stored_trace("key", "name", "source")
    assert again is not None
    assert (again.name, again.source) == ("name", "source")
    assert "names" not in vars(again), "names wait until they are asked for"
    assert again.names == trace.names
    assert again.modules == trace.modules
    assert again.digest == trace.digest
    assert again.call_line.tolist() == trace.call_line.tolist()
    del vars(again)["digest"]
    assert again == trace


def test_names_that_hold_the_separator_are_stored_too(tmp_path: Path) -> None:
    data = log(*valid_lines()).replace(b'"y2"', b'"y\\u0000"').replace(b'"z"', b'""')
    (tmp_path / "a.log").write_bytes(data)
    first, second = load_trace(tmp_path / "a.log"), load_trace(tmp_path / "a.log")
    assert "y\0" in second.names
    assert "" in second.names
    assert first.names == second.names


def test_a_log_is_decoded_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its content: under another name it is found too, and changed content is read again."""
    (tmp_path / "a.log").write_bytes(log(*valid_lines()))
    first = load_trace(tmp_path / "a.log")
    (tmp_path / "b.log").write_bytes(log(*valid_lines()))

    def refuse(*_: object) -> None:
        raise AssertionError("a log was decoded")

    monkeypatch.setattr(dtr_log, "read", refuse)
    second = load_trace(tmp_path / "b.log")
    assert second == first
    assert (second.name, second.source) == ("b", str(tmp_path / "b.log"))
    assert load_traces([tmp_path / "a.log"]) == [first]
    (tmp_path / "a.log").write_bytes(log(*valid_lines()[:-1]))
    for path, cached in ((tmp_path / "a.log", True), (tmp_path / "b.log", False)):
        with pytest.raises(AssertionError, match="a log was decoded"):
            load_trace(path, cache=cached)


def test_what_another_version_of_the_readers_stored_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_bytes(log(*valid_lines()))
    load_trace(tmp_path / "a.log")
    monkeypatch.setattr("rematsim.traces.storing.reader_digest", lambda: "another version")
    monkeypatch.setattr(dtr_log, "read", lambda *_: random_dag(1))
    assert load_trace(tmp_path / "a.log") == random_dag(1)


def test_an_entry_used_again_keeps_its_time_for_a_while(root: Path) -> None:
    """Each use would be a write otherwise."""
    cache_put("key", ENTRY)
    [path] = files(root)
    recent = time.time() - 10
    os.utime(path, (recent, recent))
    cache_get("key")
    assert path.stat().st_mtime == pytest.approx(recent)
