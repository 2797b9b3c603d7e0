"""Changes of Protocol Buffers messages as messages: fields dropped, doubled, moved or altered."""

from __future__ import annotations

import random

import profile_files
from rematsim.traces.importers.protobuf_wire import BYTES, VARINT, Field, WireError, fields

NUMBERS = [0, 1, 2, 7, 16, 23, 64, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
TEXTS = [b"", b"x", b"w", b"y", b"\xff\xfe", b"Loop", b"Reshape", b"a" * 70, b"line\nend", b"\0"]


def changed_message(message: bytes, chance: random.Random) -> bytes:
    """Change a few fields, somewhere inside; bytes that are no message come back as they are."""
    for _ in range(chance.randint(1, 4)):
        message = _changed(message, chance)
    return message


def _changed(message: bytes, chance: random.Random) -> bytes:
    try:
        parts = list(fields(message))
    except WireError:
        return message
    if not parts:
        return message
    k = chance.randrange(len(parts))
    number, kind, value = parts[k]
    match chance.randrange(8):
        case 0:
            del parts[k]
        case 1:
            parts.insert(k, chance.choice(parts))
        case 2:
            other = chance.randrange(len(parts))
            parts[k], parts[other] = parts[other], parts[k]
        case _:
            parts[k] = (number, kind, _other(kind, value, chance))
    return b"".join(map(_encoded, parts))


def _other(kind: int, value: int | bytes, chance: random.Random) -> int | bytes:
    """Give another value: of a message inside, that message with something changed."""
    if kind == VARINT:
        return chance.choice(NUMBERS)
    if isinstance(value, bytes) and kind == BYTES:
        inner = _changed(value, chance)
        return chance.choice(TEXTS) if inner == value else inner
    return value


def _encoded(part: Field) -> bytes:
    number, kind, value = part
    if isinstance(value, int) or kind == BYTES:
        return profile_files.field(number, value)
    return profile_files.varint(number << 3 | kind) + value
