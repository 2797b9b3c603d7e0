"""Bytes of a log file, unpacked: gzip, Zstandard or plain, told apart by how they begin.

Nothing here knows what is inside. What unpacks to far more than any log could is refused before
it fills the memory.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from ..errors import TraceError
from .wording import reason

GZIP, ZSTD, ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", (b"PK\x03\x04", b"PK\x05\x06")
PACKED_SUFFIXES = (".gz", ".zst")
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
    """Unpack a log, as often as it is packed, up to twice.

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
    for _ in range(2):
        if data.startswith(GZIP):
            data = _collect(_gunzip(data, where), len(data), where)
        elif data.startswith(ZSTD):
            data = _collect(_unzstd(data, where), len(data), where)
    if data.startswith(ZIP):
        raise TraceError("a zip inside another file: unpack it first", where)
    return data.removeprefix(BYTE_ORDER_MARK)


def _collect(chunks: Iterator[bytes], packed_bytes: int, where: str) -> bytes:
    """Put chunks together as long as they are not too much."""
    parts: list[bytes] = []
    total = 0
    for chunk in chunks:
        total += len(chunk)
        check_size(total, packed_bytes, where)
        parts.append(chunk)
    return b"".join(parts)


def check_size(unpacked_bytes: int, packed_bytes: int, where: str) -> None:
    """Refuse what is too large for a log, or for what it was unpacked from."""
    if unpacked_bytes > max_bytes():
        hint = "set REMATSIM_MAX_LOG_BYTES to allow more"
        raise TraceError(f"larger than {max_bytes():,} bytes: too large for a log, {hint}", where)
    if unpacked_bytes > max(FREE_BYTES, MAX_RATIO * packed_bytes):
        sizes = f"{packed_bytes:,} bytes unpack to more than {unpacked_bytes:,}"
        raise TraceError(f"{sizes}: no log packs so well, it looks like a zip bomb", where)


def _gunzip(data: bytes, where: str) -> Iterator[bytes]:
    """Unpack gzip, of one part or several."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except EOFError:
        raise TraceError("gzip: the file ends too early, it is cut off", where) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"gzip: the file is damaged ({reason(error)})", where) from None


def _unzstd(data: bytes, where: str) -> Iterator[bytes]:
    """Unpack Zstandard, of one frame or several."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        for begin in range(0, len(data), ZSTD_CHUNK):
            rest = data[begin : begin + ZSTD_CHUNK]
            while rest:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(rest)
                rest = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise TraceError(f"zstd: the file is damaged ({reason(error)})", where) from None
    if not frame.eof:
        raise TraceError("zstd: the file ends too early, it is cut off", where)
