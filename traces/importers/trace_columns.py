"""Single columns of a trace file: arrays of integers and lists of texts, to bytes and back.

Nothing is known here of what a column means. The layout is described in docs/trace-format.md.
"""

from __future__ import annotations

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
    width = dtype.itemsize
    planes = np.frombuffer(data, dtype=np.uint8).reshape(width, -1)
    values = np.ascontiguousarray(planes.T).view(dtype.newbyteorder("<")).reshape(-1)
    values = values.astype(dtype, copy=False)
    return np.cumsum(values, dtype=dtype) if encoding == DELTA_PLANES else values


def text_layout(texts: Sequence[str]) -> tuple[str, bytes]:
    """Lay out texts: joined by null characters, or as a JSON array if a text holds one."""
    joined = SEPARATOR.join(texts)
    if texts and joined.count(SEPARATOR) == len(texts) - 1:
        return JOINED, joined.encode()
    return JSON, msgspec.json.encode(list(texts))


def texts_of(data: bytes, encoding: str, count: int) -> tuple[str, ...]:
    """Undo ``text_layout``.

    Raises
    ------
    ValueError
        These are not that many texts in Unicode; told before they take up memory.
    """
    if encoding == JOINED:
        if data.count(b"\0") + 1 != count:
            raise ValueError(f"not {count:,} texts")
        return tuple(data.decode().split(SEPARATOR))
    if data.count(b'","') + 1 != max(count, 1):
        raise ValueError(f"not {count:,} texts")
    texts: list[str] = msgspec.json.decode(data, type=list[str])
    if len(texts) != count:
        raise ValueError(f"not {count:,} texts")
    return tuple(texts)


def _planes(values: NDArray[Any]) -> bytes:
    """Give the bytes of values plane by plane."""
    return values.view(np.uint8).reshape(len(values), values.dtype.itemsize).T.tobytes()
