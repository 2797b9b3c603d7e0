"""Single columns of a trace file: arrays of integers and lists of texts, to bytes and back.

Nothing is known here of what a column means. The layout is described in docs/trace-format.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

TEXT = "text"
SEPARATOR = "\0"
# Ways to lay out the bytes of a column.
PLANES, DELTA_PLANES, JOINED, JSON = "planes", "delta planes", "joined", "json"
NUMBER_ENCODINGS, TEXT_ENCODINGS = (PLANES, DELTA_PLANES), (JOINED, JSON)

WORD_BYTES = 8
WORD_MASKS = np.array([2 ** (8 * n) - 1 for n in range(WORD_BYTES + 1)], dtype=np.uint64)
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with its bits spread
LONG_TEXT_BYTES = 1024


def number_layouts(values: NDArray[Any]) -> dict[str, bytes]:
    """Lay out integers in every way there is: the one that packs best is to be kept.

    Parameters
    ----------
    values : ndarray of integers, shape (n,)

    Returns
    -------
    dict of str to bytes
        By encoding. ``planes``: the lowest bytes of all values, then the second lowest, and so on;
        ``delta planes``: the same of each value less the one before, modulo the type's range.
    """
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    differences = np.diff(values, prepend=values.dtype.type(0))
    return {PLANES: _planes(values), DELTA_PLANES: _planes(differences)}


def numbers_of(data: bytes, encoding: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Undo ``number_layouts`` for one encoding; ``data`` has a whole number of values."""
    planes = np.frombuffer(data, dtype=np.uint8).reshape(dtype.itemsize, -1)
    count = planes.shape[1]
    is_even = [not count or bool((plane == plane[0]).all()) for plane in planes]
    even = bytes(plane[0] if count else 0 for plane in planes)
    values = np.full(count, np.frombuffer(even, dtype=dtype.newbyteorder("<")), dtype=dtype)
    places = values.view(np.uint8).reshape(count, dtype.itemsize)
    for k, plane in enumerate(planes):
        if not is_even[k]:  # most planes hold one byte throughout: small numbers
            places[:, k if sys.byteorder == "little" else -1 - k] = plane
    return np.cumsum(values, dtype=dtype) if encoding == DELTA_PLANES else values


def text_layout(texts: Sequence[str]) -> tuple[str, bytes]:
    """Lay out texts: joined by null characters, or as a JSON array if a text holds one."""
    joined = SEPARATOR.join(texts)
    if texts and joined.count(SEPARATOR) == len(texts) - 1:
        return JOINED, joined.encode()
    return JSON, msgspec.json.encode(list(texts))


def texts_of(data: bytes, encoding: str, count: int) -> str | tuple[str, ...]:
    """Undo ``text_layout``, but leave texts joined that are.

    Raises
    ------
    ValueError
        These are not that many texts in Unicode, or one is there twice.
    """
    if encoding == JOINED:
        if data.count(b"\0") + 1 != count:
            raise ValueError(f"not {count:,} texts")
        joined = data.decode()
        if not _are_surely_distinct(data) and len(set(joined.split(SEPARATOR))) != count:
            raise ValueError("a text is there twice")
        return joined
    if data.count(b'","') + 1 != max(count, 1):
        raise ValueError(f"not {count:,} texts")
    texts: list[str] = msgspec.json.decode(data, type=list[str])
    if len(texts) != count:
        raise ValueError(f"not {count:,} texts")
    if len(set(texts)) != count:
        raise ValueError("a text is there twice")
    return tuple(texts)


def _are_surely_distinct(joined: bytes) -> bool:
    """Say whether no two texts have the same hash: a quarter of the time of making a set.

    False means that they have to be compared. Eight bytes are hashed at a time.
    """
    data = np.frombuffer(joined + bytes(WORD_BYTES), dtype=np.uint8)
    ends = np.append(np.flatnonzero(data[:-WORD_BYTES] == 0), len(joined))
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    if lengths.max() > LONG_TEXT_BYTES:
        return False
    words = np.ndarray(len(joined) + 1, dtype="<u8", buffer=data, strides=(1,))
    hashes = (words[starts] & WORD_MASKS[np.minimum(lengths, WORD_BYTES)]) * FACTOR
    place, left = WORD_BYTES, np.flatnonzero(lengths > WORD_BYTES)
    while len(left):
        n_bytes = np.minimum(lengths[left] - place, WORD_BYTES)
        word = words[starts[left] + place] & WORD_MASKS[n_bytes]
        hashes[left] = (hashes[left] ^ word) * FACTOR
        place += WORD_BYTES
        left = left[lengths[left] > place]
    hashes.sort()
    return bool((hashes[1:] != hashes[:-1]).all())


def _planes(values: NDArray[Any]) -> bytes:
    """Give the bytes of values plane by plane."""
    return values.view(np.uint8).reshape(len(values), values.dtype.itemsize).T.tobytes()
