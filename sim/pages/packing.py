"""From values and arrays to one text that a page can hold: nothing in it can become markup.

Arrays lie behind a JSON text in one run of bytes, which is compressed and written in base64.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import numpy as np

ALIGNMENT = 8
CODES = {"float64": "f8", "int32": "i4", "uint8": "u1"}


class Packer:
    """Puts arrays behind each other, and says of each where it is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def place(self, array: np.ndarray) -> dict[str, list[Any]]:
        """Take an array; give what stands for it in the JSON text."""
        code = CODES[array.dtype.name]
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        where = [code, self._size, len(array)]
        self._parts.append(data + bytes(-len(data) % ALIGNMENT))
        self._size += len(self._parts[-1])
        return {"array": where}

    def pack(self, value: Any) -> str:
        """Write a value with its arrays.

        Examples
        --------
        >>> text = Packer().pack({"n": np.array([1.0, 2.0])})
        >>> unpacked = zlib.decompress(base64.b64decode(text))
        >>> length = struct.unpack("<I", unpacked[:4])[0]
        >>> json.loads(unpacked[4 : 4 + length])
        {'n': {'array': ['f8', 0, 2]}}
        """
        text = json.dumps(self._plain(value), allow_nan=False).encode()
        head = struct.pack("<I", len(text)) + text
        head += bytes(-len(head) % ALIGNMENT)
        whole = head + b"".join(self._parts)
        return base64.b64encode(zlib.compress(whole, 6)).decode()

    def _plain(self, value: Any) -> Any:
        """Give a value as JSON knows it, arrays placed; what is no number is null."""
        if isinstance(value, np.ndarray):
            return self.place(value)
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if isinstance(value, np.generic):
            value = value.item()
        return None if isinstance(value, float) and not np.isfinite(value) else value


def floats(values: Any) -> np.ndarray:
    """Give numbers as a page takes them: whole ones up to 2**53 are exact."""
    return np.asarray(values, np.float64)


def places(values: Any) -> np.ndarray:
    """Give places in something, and small codes, as a page takes them."""
    return np.asarray(values, np.int32)
