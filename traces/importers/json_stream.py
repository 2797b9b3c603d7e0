"""Elements of one long array in a JSON document, read in pieces of bounded size.

Profiles are objects with one array of up to millions of events. This finds where events end, and
hands out runs of whole events as bytes, so that a file of any size is read in bounded memory.
Decoding them, and what they mean, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from ...errors import TraceError
from ..wording import reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

CHUNK_BYTES = 1 << 20
MAX_ELEMENT_BYTES = 64 << 20  # of one event: the largest real ones have some 100 kB
MAX_BESIDE_BYTES = 16 << 20  # of what stands beside the array
MAX_SPACE = 4096  # between a key and its array, with the key

QUOTE, BACKSLASH = ord('"'), ord("\\")
SPACES = b" \t\r\n"
INSIDE = 2  # depth of what stands between elements: the object, and the array in it

# What each byte does to the depth, and whether it matters at all.
_CHANGES = np.zeros(256, np.int64)
_CHANGES[list(b"[{")], _CHANGES[list(b"]}")] = 1, -1
_IS_MARK = bytes(int(code == QUOTE or _CHANGES[code] != 0) for code in range(256))


class _Piece(NamedTuple):
    """Bytes, the places of the brackets in them, and the depth after each."""

    data: bytes
    places: Int64
    depths: Int64

    def after(self, begin: int) -> _Piece:
        """Drop what stands before a place."""
        kept = self.places >= begin
        return _Piece(self.data[begin:], self.places[kept] - begin, self.depths[kept])


class ElementStream:
    """The elements of the array under one key of a document's outermost object.

    Parameters
    ----------
    file : IO of bytes
        The document.
    key : str
        The array's key.
    where : str
        The file, for messages.

    Attributes
    ----------
    rest : dict
        What stands beside the array, decoded; there once all blocks have been taken.
    """

    def __init__(self, file: IO[bytes], key: str, where: str) -> None:
        self.rest: dict[str, Any] = {}
        self._file, self._key, self._where = file, key, where
        self._scanner = _Scanner()
        self._beside: list[bytes] = []
        self._beside_bytes = 0
        self._tail = b""

    def blocks(self) -> Iterator[bytes]:
        """Give runs of whole elements, each as a JSON array that is not empty.

        Raises
        ------
        TraceError
            The document is cut off or has no such array, or an element is larger than any event.
        """
        stage, held = "before", b""
        while data := self._file.read(CHUNK_BYTES):
            piece = self._scanner.scan(data)
            if stage == "before":
                begin = self._opening(piece)
                self._keep(piece.data[:begin])
                if begin is None:
                    continue
                stage, piece = "inside", piece.after(begin)
            if stage == "inside":
                end, is_last = _end_of_elements(piece)
                held += piece.data[:end]
                if (end or is_last) and (block := held.strip(SPACES).removeprefix(b",")):
                    yield b"[" + block + b"]"
                held = b"" if end or is_last else held
                if is_last:
                    stage, piece = "after", piece.after(end)
                else:
                    held += piece.data[end:]
                    self._check(len(held), MAX_ELEMENT_BYTES, f"one element of {self._key!r}")
            if stage == "after":
                self._keep(piece.data)
        self._finish(stage)

    def _opening(self, piece: _Piece) -> int | None:
        """Find where the array's first element begins."""
        opened = np.flatnonzero(piece.depths == INSIDE)
        for place in piece.places[opened].tolist():
            if piece.data[place] != ord("["):
                continue
            before = piece.data[max(0, place - MAX_SPACE) : place]
            if len(before) < MAX_SPACE:
                before = self._tail + before
            before = before.rstrip(SPACES)
            if before.endswith(b":") and before[:-1].rstrip(SPACES).endswith(self._mark):
                return int(place) + 1
        return None

    @property
    def _mark(self) -> bytes:
        return f'"{self._key}"'.encode()

    def _keep(self, data: bytes) -> None:
        """Keep what stands beside the array."""
        self._beside.append(data)
        self._beside_bytes += len(data)
        self._tail = (self._tail + data[-MAX_SPACE:])[-MAX_SPACE:]
        self._check(self._beside_bytes, MAX_BESIDE_BYTES, f"what stands beside {self._key!r}")

    def _check(self, size: int, limit: int, what: str) -> None:
        """Refuse what would fill the memory."""
        if size > limit:
            raise TraceError(f"{what} is larger than {limit:,} bytes: no profile's is", self._where)

    def _finish(self, stage: str) -> None:
        """Decode what stands beside the array, which shows that the document is whole."""
        if self._scanner.is_open:
            raise TraceError("JSON that ends in the middle: the file is cut off", self._where)
        try:
            rest = msgspec.json.decode(b"".join(self._beside))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"not JSON ({reason(error)})", self._where) from None
        if stage == "before" or not isinstance(rest, dict):
            raise TraceError(f"no array {self._key!r} in the outermost object", self._where)
        self.rest = rest


def _end_of_elements(piece: _Piece) -> tuple[int, bool]:
    """Say up to where elements are whole, and whether the array ends there."""
    closed = np.flatnonzero(piece.depths < INSIDE)
    if len(closed):
        return int(piece.places[closed[0]]), True
    ends = np.flatnonzero(piece.depths == INSIDE)
    return (int(piece.places[ends[-1]]) + 1 if len(ends) else 0), False


class _Scanner:
    """Finds brackets outside strings; remembers between pieces where it is."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False  # the first byte of the next piece is

    @property
    def is_open(self) -> bool:
        """Whether something that was opened has not been closed."""
        return self._in_string or self._depth > 0

    def scan(self, data: bytes) -> _Piece:
        """Find the brackets of the next piece."""
        codes = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(np.frombuffer(data.translate(_IS_MARK), np.bool_))
        marks = codes[places]
        is_quote = marks == QUOTE
        ends_string = is_quote
        if self._is_escaped or BACKSLASH in data:
            ends_string = is_quote & ~self._escaped(codes)[places]
        in_string = (np.cumsum(ends_string) + self._in_string) & 1
        is_bracket = ~is_quote & (in_string == 0)
        depths = self._depth + np.cumsum(_CHANGES[marks[is_bracket]])
        if len(in_string):
            self._in_string = bool(in_string[-1])
        if len(depths):
            self._depth = int(depths[-1])
        return _Piece(data, places[is_bracket], depths)

    def _escaped(self, codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Mark the bytes that a backslash before them escapes: the second, fourth, ... of a run."""
        escaped = np.zeros(len(codes) + 1, np.bool_)
        escaped[0] = self._is_escaped
        places = np.flatnonzero(codes == BACKSLASH)
        if len(places):
            begins = np.where(np.diff(places, prepend=-2) != 1, places, 0)
            nth = places - np.maximum.accumulate(begins)
            if self._is_escaped and places[0] == 0:
                nth[: int(np.argmax(np.append(np.diff(places) != 1, True))) + 1] += 1
            escaped[places[nth % 2 == 0] + 1] = True
        self._is_escaped = bool(escaped[-1])
        return escaped[:-1]
