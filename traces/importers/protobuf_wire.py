"""The wire format of Protocol Buffers, as far as reading profiles needs it.

It takes messages apart into numbered fields and knows no schema. Source: the encoding page of the
Protocol Buffers documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10
MAX_MESSAGE_BYTES = 64 << 20

Field = tuple[int, int, int | bytes]


class WireError(ValueError):
    """Bytes are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length; return it with the place after it.

    >>> varint(bytes([0xAC, 0x02]), 0)
    (300, 2)
    """
    value = shift = 0
    for place in range(at, min(len(data), at + MAX_VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), place + 1
        shift += 7
    raise WireError("a number is cut off, or longer than 10 bytes")


def signed(value: int) -> int:
    """Read an int64 or int32, which are written as 64 bits.

    >>> signed(2**64 - 1)
    -1
    """
    return value - 2**64 if value >= 2**63 else value


def fields(message: bytes) -> Iterator[Field]:
    """Take a message apart: number, wire type and value of each field.

    Raises
    ------
    WireError
        It is cut off, or uses a wire type that there is not.
    """
    at, size = 0, len(message)
    while at < size:
        key, at = varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = varint(message, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, at = varint(message, at)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise WireError(f"wire type {kind}")
        if at + length > size:
            raise WireError(f"field {number} is cut off")
        yield number, kind, message[at : at + length]
        at += length


def text(value: int | bytes) -> str:
    """Read a string."""
    if isinstance(value, int):
        raise WireError("a number where text is expected")
    return value.decode("utf-8", "replace")


def messages(file: IO[bytes]) -> Iterator[bytes]:
    """Read messages, each with its length before it.

    Raises
    ------
    WireError
        The last is cut off, or one is larger than any message of a profile.
    """
    while True:
        prefix = b""
        while not prefix or prefix[-1] >= 0x80:
            byte = file.read(1)
            if not byte and not prefix:
                return
            if not byte or len(prefix) >= MAX_VARINT_BYTES:
                raise WireError("a length is cut off, or longer than 10 bytes")
            prefix += byte
        length, _ = varint(prefix, 0)
        if length > MAX_MESSAGE_BYTES:
            raise WireError(f"a message of {length:,} bytes, more than {MAX_MESSAGE_BYTES:,}")
        message = file.read(length)
        if len(message) < length:
            raise WireError("a message is cut off")
        yield message
