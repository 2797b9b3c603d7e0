"""Contents of files: the same in memory and as a stream, and never more than is allowed."""

from __future__ import annotations

import gzip
import hashlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from rematsim.errors import TraceError
from rematsim.traces import contents, unpacking
from rematsim.traces.contents import HEAD_BYTES, Content
from rematsim.traces.importers.registry import find_reader

PLAIN = bytes(range(256)) * 2_000
PACKED = {
    "plain": PLAIN,
    "gz": gzip.compress(PLAIN),
    "zst": zstandard.ZstdCompressor().compress(PLAIN),
    "twice": gzip.compress(zstandard.ZstdCompressor().compress(PLAIN)),
    "parts": gzip.compress(PLAIN[:1000]) + gzip.compress(PLAIN[1000:]),
    "mark": b"\xef\xbb\xbf" + PLAIN,
}


@pytest.fixture(params=["memory", "stream"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small files stay in memory, large ones on disk; every chunk may be small."""
    if request.param == "stream":
        monkeypatch.setattr(contents, "IN_MEMORY_BYTES", 10)
        monkeypatch.setattr(contents, "CHUNK", 777)
        monkeypatch.setattr(unpacking, "CHUNK", 777)
    return str(request.param)


@pytest.mark.parametrize("kind", PACKED)
def test_a_file_is_read_whole_as_a_stream_and_by_its_head(
    tmp_path: Path, where: str, kind: str
) -> None:
    (tmp_path / "x").write_bytes(PACKED[kind])
    content = Content.of_file(str(tmp_path / "x"), "x")
    assert content.head == PLAIN[:HEAD_BYTES]
    for _ in range(2):
        assert content.bytes() == PLAIN
        with content.open() as file:
            parts = [file.read(5), file.read(100_000), file.read()]
        assert b"".join(parts) == PLAIN
        assert content.head == PLAIN[:HEAD_BYTES]
    assert content.packed_bytes() == PACKED[kind]
    assert content.digest() == hashlib.sha256(PACKED[kind]).hexdigest()


def test_the_whole_of_a_file_is_held_once() -> None:
    """What a small packed file becomes may be 2 GiB."""
    content = Content.of_bytes(PACKED["gz"] * 30, "x")
    tracemalloc.start()
    try:
        size = len(content.bytes())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 30 * len(PLAIN)
    assert peak < 1.5 * size


@pytest.mark.parametrize("kind", ["gz", "zst", "twice"])
def test_what_is_cut_off_is_refused_when_it_is_read(tmp_path: Path, where: str, kind: str) -> None:
    (tmp_path / "x").write_bytes(PACKED[kind][:-9])
    content = Content.of_file(str(tmp_path / "x"), "x")
    with pytest.raises(TraceError, match=r"^x: \w+: the file ends too early, it is cut off$"):
        content.open().read()


def test_a_limit_is_kept(tmp_path: Path, where: str) -> None:
    (tmp_path / "x").write_bytes(PACKED["gz"])
    content = Content.of_file(str(tmp_path / "x"), "x")
    assert content.bytes(len(PLAIN)) == PLAIN
    with pytest.raises(TraceError, match=r"^x: larger than 1,000 bytes: too large for its format$"):
        content.bytes(1_000)
    with content.open(len(PLAIN)) as file:
        assert file.read() == PLAIN
    with pytest.raises(TraceError, match=r"^x: larger than 1,000 bytes"):
        content.open(1_000).read()


def test_a_stream_of_a_bomb_ends_before_it_bursts(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(bytes(100 << 20), 9))
    file, size = Content.of_file(str(tmp_path / "x"), "x").open(), 0
    with pytest.raises(TraceError, match="looks like a zip bomb"):
        while chunk := file.read(1 << 20):
            size += len(chunk)
    assert size <= 64 << 20


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    import threading

    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(PACKED["gz"]))
    writer.start()
    content = Content.of_file(str(tmp_path / "pipe"), "pipe")
    assert content.bytes() == PLAIN
    writer.join()
    assert content.bytes() == PLAIN


def test_a_stream_without_end_is_refused_by_its_beginning() -> None:
    """As /dev/zero: no more is read than is needed to see that it is no trace."""
    taken = []

    def zeros() -> Iterator[bytes]:
        while len(taken) < 1000:
            taken.append(1)
            yield bytes(1 << 16)

    content = Content.of_stream(zeros(), "x")
    with pytest.raises(TraceError, match="none of the formats"):
        find_reader(content)
    assert len(taken) < 5


def test_a_stream_is_there_again_each_time() -> None:
    content = Content.of_stream(iter([b"ab", b"cd"]), "x")
    assert content.is_stream
    assert (content.packed_head(), content.packed_bytes(), content.bytes()) == (
        b"ab",
        b"abcd",
        b"abcd",
    )
