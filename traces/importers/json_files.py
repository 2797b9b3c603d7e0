"""JSON files as plain values, and the values as what they should be; every fault in one line."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...errors import TraceError
from ..wording import reason, show
from .reader import Content

MAX_BYTES = 32 << 20  # decoded, it takes up to twenty times as much
NS_IN = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def decoded(content: Content, what: str) -> dict[str, Any]:
    """Decode a file that is one JSON object.

    Parameters
    ----------
    content : Content
    what : str
        What the file is taken for, for messages.

    Raises
    ------
    TraceError
        It is no JSON, no object, or too large.

    Notes
    -----
    What Python writes for what is no number, NaN and Infinity, is read, though JSON has none: what
    takes a number can then name the one that is none.
    """
    data = content.bytes(MAX_BYTES)
    try:
        values = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        values = _as_python_writes(data)
        if values is None:
            hint = ", it may be cut off" if "truncated" in str(error) else ""
            raise TraceError(f"{what}: not JSON ({reason(error)}){hint}", content.where) from None
    if not isinstance(values, dict):
        raise TraceError(f"{what}: {show(values)} is no JSON object", content.where)
    return values


def _as_python_writes(data: bytes) -> Any:
    """Decode what Python's own writer would have written; None if it would not."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def field_of(values: Any, key: str, kind: Any, place: tuple[str, str]) -> Any:
    """Give what an object has under a key.

    Parameters
    ----------
    values : object
    key : str
    kind : type or tuple of types
    place : tuple of str
        What the object is, and the file, for messages.

    Raises
    ------
    TraceError
        It is no object, has no such key, or what is there is of another kind.
    """
    what, where = place
    if not isinstance(values, dict):
        raise TraceError(f"{what}: {show(values)} is no JSON object", where)
    if key not in values:
        raise TraceError(f"{what}: no {show(key)}", where)
    value = values[key]
    is_bool = isinstance(value, bool) and kind is not bool
    if is_bool or not isinstance(value, kind):
        raise TraceError(f"{what}: {key} {show(value)} is not what it should be", where)
    return value
