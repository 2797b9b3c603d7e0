"""The content of one file, unpacked: its head, the whole, or a stream for what is too large.

Readers are given this and never a path. Where the bytes lie (memory, a file) and how they are
packed is settled here; what they mean is not known.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO

from ..errors import TraceError
from .unpacking import CHUNK, ChunkFile, check_size, unpack_stream

HEAD_BYTES = 64 << 10
IN_MEMORY_BYTES = 64 << 20  # a packed file up to here is read once; a larger one stays on disk

Chunks = Iterator[builtins.bytes]


class Content:
    """One file, unpacked as it is read.

    Parameters
    ----------
    chunks : callable
        Gives the packed bytes, chunk by chunk, each time from the start.
    where : str
        How messages call the file.
    name : str, optional
        What a trace in it is called.

    Attributes
    ----------
    is_stream : bool
        Whether it can be read only once, from a pipe or a device.
    """

    def __init__(self, chunks: Callable[[], Chunks], where: str, name: str = "") -> None:
        self._packed = chunks
        self.where, self.name = where, name
        self.is_stream = False
        self._begun: Chunks | None = None
        self._head: builtins.bytes | None = None

    @classmethod
    def of_bytes(cls, data: builtins.bytes, where: str, name: str = "") -> Content:
        """Make it of packed bytes."""
        return cls(lambda: iter([data]), where, name)

    @classmethod
    def of_file(cls, path: str, where: str, name: str = "") -> Content:
        """Make it of a file: read at once if it is small, and each time anew if it is large.

        Raises
        ------
        TraceError
            It cannot be read.
        """
        size = _regular_size(path, where)
        if size is None:
            return cls.of_stream(_chunks_of(path, where), where, name)
        if size <= IN_MEMORY_BYTES:
            return cls.of_bytes(b"".join(_chunks_of(path, where)), where, name)
        return cls(lambda: _chunks_of(path, where), where, name)

    @classmethod
    def of_stream(cls, chunks: Chunks, where: str, name: str = "") -> Content:
        """Make it of what can be read only once: read as far as somebody looks, and kept."""
        content = cls(_Kept(chunks), where, name)
        content.is_stream = True
        return content

    def __repr__(self) -> str:
        """Show which file it is."""
        return f"Content({self.where!r})"

    @property
    def head(self) -> builtins.bytes:
        """The first 64 KiB, or all if it is shorter."""
        if self._head is None:
            chunks, taken, size = self._stream(), list[builtins.bytes](), 0
            while size < HEAD_BYTES and (chunk := next(chunks, None)) is not None:
                taken.append(chunk)
                size += len(chunk)
            self._begun = chain(taken, chunks)
            self._head = b"".join(taken)[:HEAD_BYTES]
        return self._head

    def bytes(self, limit: int | None = None) -> builtins.bytes:
        """Give all of it, unpacked; for what is known to be of moderate size.

        Parameters
        ----------
        limit : int, optional
            The most that it may be, bytes, if that is less than for all files.

        Raises
        ------
        TraceError
            It is damaged, cut off or too large.
        """
        whole = io.BytesIO()  # joining a list would hold all of it twice
        whole.writelines(self._chunks(limit))
        return whole.getvalue()

    def open(self, limit: int | None = None) -> IO[builtins.bytes]:
        """Open it for reading forward, unpacked; in bounded memory, whatever its size.

        Reading raises TraceError where it is damaged, cut off or too large; ``limit`` as in
        ``bytes``.
        """
        return io.BufferedReader(ChunkFile(self._chunks(limit)), CHUNK)

    def packed_head(self) -> builtins.bytes:
        """Give its first bytes as they are in the file."""
        return next(self._packed(), b"")[:HEAD_BYTES]

    def packed_bytes(self) -> builtins.bytes:
        """Give all of it as it is in the file."""
        return b"".join(self._packed())

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the file as it is."""
        digest = hashlib.sha256()
        for chunk in self._packed():
            digest.update(chunk)
        return digest.hexdigest()

    def _take(self) -> Chunks:
        """Go on where the head ended, or begin anew."""
        begun, self._begun = self._begun, None
        return self._stream() if begun is None else begun

    def _chunks(self, limit: int | None) -> Chunks:
        return self._take() if limit is None else self._limited(limit)

    def _limited(self, limit: int) -> Chunks:
        """Hand chunks on until they are too much."""
        size = 0
        for chunk in self._take():
            size += len(chunk)
            if size > limit:
                raise TraceError(
                    f"larger than {limit:,} bytes: too large for its format", self.where
                )
            yield chunk

    def _stream(self) -> Chunks:
        return unpack_stream(self._packed(), self.where)


class _Kept:
    """Chunks that are there again each time they are asked for."""

    def __init__(self, chunks: Chunks) -> None:
        self._rest = chunks
        self._taken: list[builtins.bytes] = []

    def __call__(self) -> Chunks:
        place = 0
        while True:
            if place == len(self._taken):
                chunk = next(self._rest, None)
                if chunk is None:
                    return
                self._taken.append(chunk)
            yield self._taken[place]
            place += 1


def _regular_size(path: str, where: str) -> int | None:
    """Give the size of a file; None for a pipe or a device, which can be read only once."""
    with _refusals(where):
        status = os.stat(path)  # noqa: PTH116 (a null character must not crash)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _chunks_of(path: str, where: str) -> Chunks:
    """Read a file, unless it is too much."""
    with _refusals(where), open(path, "rb") as file:  # noqa: PTH123
        yield from chunks_of(file, where)


def chunks_of(file: IO[builtins.bytes], where: str) -> Chunks:
    """Read all there is in chunks, unless it is too much."""
    size = 0
    while chunk := file.read(CHUNK):
        size += len(chunk)
        check_size(size, size, where)
        yield chunk


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Say in words why a file cannot be read."""
    try:
        yield
    except IsADirectoryError:
        raise TraceError("a folder; name the logs in it", where) from None
    except FileNotFoundError:
        raise TraceError("no such file", where) from None
    except OSError as error:
        raise TraceError(f"it cannot be read ({error.strerror})", where) from None
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"it cannot be read ({error})", where) from None
