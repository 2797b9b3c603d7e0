"""Bytes of a log file, unpacked: gzip, Zstandard or plain, told apart by how they begin.

Nothing here knows what is inside. What unpacks to far more than any log could is refused before
it fills the memory.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from ..errors import TraceError
from .wording import reason

GZIP, ZSTD, ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", (b"PK\x03\x04", b"PK\x05\x06")
PACKED_SUFFIXES = (".gz", ".zst")
# What is refused by name: how it begins, or what stands in the head of a tar archive.
OTHER_PACKINGS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
}
TAR, TAR_AT = b"ustar", 257
LONGEST_MARK = TAR_AT + len(TAR)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DEFAULT_MAX_BYTES = 2 << 30
MAX_RATIO = 250  # logs pack to a thirtieth; only what is made to burst packs to so little
FREE_BYTES = 64 << 20  # up to here the ratio does not matter
CHUNK = 1 << 20
ZSTD_CHUNK = 1 << 10  # each byte can become 32 KiB


def stem(path: str) -> str:
    """Name a trace after its file: without folder, suffix, and suffix of packing.

    >>> stem("logs/a-1.0.log.gz")
    'a-1.0'
    """
    name = PurePosixPath(path.replace("\\", "/")).name
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return PurePosixPath(name).stem


def max_bytes() -> int:
    """Give the largest size of a log, unpacked: $REMATSIM_MAX_LOG_BYTES, or 2 GiB."""
    given = os.environ.get("REMATSIM_MAX_LOG_BYTES", "")
    return int(given) if given.isdecimal() else DEFAULT_MAX_BYTES


def unpack(data: bytes, where: str) -> bytes:
    """Unpack a file, as often as it is packed, up to twice.

    Parameters
    ----------
    data : bytes
    where : str
        The file, for messages.

    Raises
    ------
    TraceError
        The data are cut off, damaged, too large, or a zip inside something.
    """
    return b"".join(unpack_stream(iter([data]), where))


def unpack_stream(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Unpack a file chunk by chunk; otherwise as ``unpack``, and in no more memory than a chunk."""
    for _ in range(2):
        packed = _Counted(chunks)
        begin, chunks = _peek(packed)
        if begin.startswith(GZIP):
            chunks = _bounded(_gunzip(chunks, where), packed, where)
        elif begin.startswith(ZSTD):
            chunks = _bounded(_unzstd(chunks, where), packed, where)
    begin, chunks = _peek(chunks)
    other = _other_packing(begin)
    if other:
        raise TraceError(f"{other}: unpack it first", where)
    yield next(chunks, b"").removeprefix(BYTE_ORDER_MARK)
    yield from chunks


def _other_packing(begin: bytes) -> str:
    """Say what else a file is packed as, if it is."""
    if begin.startswith(ZIP):
        return "a zip inside another file"
    if begin.startswith(TAR, TAR_AT):
        return "a tar archive"
    for mark, name in OTHER_PACKINGS.items():
        if begin.startswith(mark):
            return f"packed as {name}"
    return ""


class ChunkFile(io.RawIOBase):
    """Chunks of bytes as a file that can only be read forward."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._pending = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Give what is left of a chunk, or the next one."""
        while not self._pending:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._pending = memoryview(chunk)
        size = min(len(self._pending), len(buffer))
        buffer[:size], self._pending = self._pending[:size], self._pending[size:]
        return size


class _Counted:
    """Chunks that count their bytes as they are taken."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.n_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.n_bytes += len(chunk)
            yield chunk


def _peek(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Look at the first bytes, without taking them."""
    rest, begin = iter(chunks), b""
    while len(begin) < LONGEST_MARK and (chunk := next(rest, None)) is not None:
        begin = begin + chunk if begin else chunk
    return begin[:LONGEST_MARK], chain([begin], rest)


def _bounded(chunks: Iterator[bytes], packed: _Counted, where: str) -> Iterator[bytes]:
    """Hand chunks on as long as they are not too much."""
    total = 0
    for chunk in chunks:
        total += len(chunk)
        check_size(total, packed.n_bytes, where)
        yield chunk


def check_size(
    unpacked_bytes: int, packed_bytes: int, where: str, max_ratio: int = MAX_RATIO
) -> None:
    """Refuse what is too large for a log, or for what it was unpacked from."""
    if unpacked_bytes > max_bytes():
        hint = "set REMATSIM_MAX_LOG_BYTES to allow more"
        raise TraceError(f"larger than {max_bytes():,} bytes: too large for a log, {hint}", where)
    if unpacked_bytes > max(FREE_BYTES, max_ratio * packed_bytes):
        sizes = f"{packed_bytes:,} bytes unpack to more than {unpacked_bytes:,}"
        raise TraceError(f"{sizes}: no log packs so well, it looks like a zip bomb", where)


def _gunzip(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Unpack gzip, of one part or several."""
    try:
        with gzip.GzipFile(fileobj=io.BufferedReader(ChunkFile(chunks), CHUNK)) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except EOFError:
        raise TraceError("gzip: the file ends too early, it is cut off", where) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"gzip: the file is damaged ({reason(error)})", where) from None


def _unzstd(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Unpack Zstandard, of one frame or several."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        for rest in _slices(chunks):
            while rest:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(rest)
                rest = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise TraceError(f"zstd: the file is damaged ({reason(error)})", where) from None
    if not frame.eof:
        raise TraceError("zstd: the file ends too early, it is cut off", where)


def _slices(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut chunks so short that none can burst."""
    for chunk in chunks:
        for begin in range(0, len(chunk), ZSTD_CHUNK):
            yield chunk[begin : begin + ZSTD_CHUNK]
