"""A bounded cache on disk of what takes long to make: arrays, texts and lists of texts by a key.

Whatever goes wrong with it (no folder, no room, a broken file) means that nothing is cached, never
an error. It knows nothing of what it stores, and loading runs no code: there is no pickle in it.
But machine code is among what it keeps, and its user runs that (``jit.py``): the folder should be
the user's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Value = NDArray[Any] | str | list[str]

MAGIC = b"rematsim cache 1"
ALIGNMENT = 64
MAX_BYTES = 512 << 20
MAX_ENTRY_BYTES = MAX_BYTES // 4
TOUCH_SECONDS = 600  # an entry used again within this time keeps its old time of use
_HEAD_BYTES = len(MAGIC) + 12
_FAILURES = (OSError, RuntimeError, ValueError, TypeError, LookupError, msgspec.MsgspecError)


def cache_root() -> Path:
    """Give the folder of the cache: $REMATSIM_CACHE_DIR, or ``rematsim`` in the user's own cache.

    Raises
    ------
    RuntimeError
        The user has no home folder.
    """
    given = os.environ.get("REMATSIM_CACHE_DIR")
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rematsim"


def cache_get(key: str) -> dict[str, Value] | None:
    """Load an entry.

    Parameters
    ----------
    key : str

    Returns
    -------
    dict or None
        As it was put, arrays read-only; None if there is no such entry, or it is damaged.
    """
    try:
        path = _path(key)
        data = path.read_bytes()
        entry = _unpack(data, key)
        if time.time() - path.stat().st_mtime > TOUCH_SECONDS:
            with contextlib.suppress(OSError):  # a folder that is only read
                os.utime(path)
    except _FAILURES:
        return None
    return entry


def cache_put(key: str, entry: Mapping[str, Value]) -> bool:
    """Store an entry, and drop those not used for longest if the cache is full.

    Parameters
    ----------
    key : str
        Anything that changes when the entry has to.
    entry : mapping of str to ndarray, str or list of str
        Arrays of numbers, structured ones included.

    Returns
    -------
    bool
        Whether it was stored.
    """
    try:
        parts = _pack(entry, key)
        if sum(map(len, parts)) > MAX_ENTRY_BYTES:
            return False
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, parts)
        _prune(path.parent)
    except _FAILURES:
        return False
    return True


def _path(key: str) -> Path:
    """Name the file of an entry."""
    return cache_root() / "entries" / hashlib.sha256(key.encode()).hexdigest()


def _pack(entry: Mapping[str, Value], key: str) -> list[bytes]:
    """Turn an entry into bytes: head, description, and the arrays' own bytes, aligned."""
    described: dict[str, Any] = {}
    buffers: list[bytes] = []
    offset = 0
    for field, value in entry.items():
        described[field] = value
        if isinstance(value, np.ndarray):
            described[field] = [_describe(value.dtype), value.shape, offset]
            buffers += [value.tobytes(), bytes(-value.nbytes % ALIGNMENT)]
            offset += value.nbytes + len(buffers[-1])
        elif isinstance(value, list):
            described[field] = {"texts": value}
    header = msgspec.msgpack.encode([key, described])
    size = len(header)
    header += bytes(-(_HEAD_BYTES + size) % ALIGNMENT)
    crc = zlib.crc32(header)
    for buffer in buffers:
        crc = zlib.crc32(buffer, crc)
    return [MAGIC + size.to_bytes(8, "little") + crc.to_bytes(4, "little"), header, *buffers]


def _unpack(data: bytes, key: str) -> dict[str, Value]:
    """Undo ``_pack``; arrays are windows on ``data``, so nothing is copied."""
    body = memoryview(data)[_HEAD_BYTES:]
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    crc = int.from_bytes(data[len(MAGIC) + 8 : _HEAD_BYTES], "little")
    if not data.startswith(MAGIC) or zlib.crc32(body) != crc:
        raise ValueError("damaged")
    stored_key, described = msgspec.msgpack.decode(body[:size])
    if stored_key != key:
        raise ValueError("another entry")
    start = _HEAD_BYTES + size
    start += -start % ALIGNMENT
    entry: dict[str, Value] = {}
    for field, value in described.items():
        if isinstance(value, str):
            entry[field] = value
        elif isinstance(value, dict):
            entry[field] = value["texts"]
        else:
            dtype, shape, offset = _dtype(value[0]), value[1], value[2]
            count = math.prod(shape)
            window = np.frombuffer(data, dtype, count, start + offset) if count else ()
            array = np.asarray(window, dtype).reshape(shape)
            array.flags.writeable = False
            entry[field] = array
    return entry


def _describe(dtype: np.dtype[Any]) -> str | dict[str, Any]:
    """Describe the type of an array, alignment included: compiled code tells it apart."""
    if dtype.names is None:
        if dtype.hasobject or dtype.subdtype:
            raise TypeError(f"cannot store {dtype}")
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names] if dtype.fields else []
    return {
        "names": list(dtype.names),
        "formats": [_describe(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _dtype(described: str | dict[str, Any]) -> np.dtype[Any]:
    """Undo ``_describe``."""
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype(
        {
            "names": described["names"],
            "formats": [_dtype(field) for field in described["formats"]],
            "offsets": described["offsets"],
            "itemsize": described["itemsize"],
        },
        align=described["aligned"],
    )


def _write(path: Path, parts: list[bytes]) -> None:
    """Write a file beside its place, then move it there."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _prune(folder: Path) -> None:
    """Drop the entries not used for longest until a tenth of the cache is free."""
    found = []
    with os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):
                status = file.stat()
                found.append((status.st_mtime, status.st_size, file.path))
    total = sum(size for _, size, _ in found)
    if total <= MAX_BYTES:
        return
    for _, size, path in sorted(found):
        if total <= MAX_BYTES * 9 // 10:
            return
        with contextlib.suppress(OSError):
            Path(path).unlink()
        total -= size
