"""Writer of rematsim's own trace files: everything that a Trace holds, packed.

The same trace gives the same bytes. The layout is described in docs/trace-format.md.
"""

from __future__ import annotations

import os
from typing import Any

from ...files import write_atomically
from ..trace import Trace
from .trace_columns import TEXT, number_layouts, text_layout
from .trace_header import Column, Header, encode_header
from .trace_wire import NUMBERS, TEXTS, columns_of

LEVEL = 12
QUICK_LEVEL, QUICK_BYTES = 3, 64 << 20  # large columns are packed quickly
ABOUT = "columns of a training step, Zstandard frames one after the other: docs/trace-format.md"


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace file.

    Parameters
    ----------
    trace : Trace
    path : str or path

    Raises
    ------
    OutputError
        The file cannot be written; there is none then, or the old one.
    """
    parts = encoded_trace(trace)
    with write_atomically(os.path.realpath(path)) as file:
        file.writelines(parts)


def encoded_trace(trace: Trace) -> list[bytes]:
    """Give the parts of a trace file: its head, and each column packed."""
    described, frames = packed_columns(columns_of(trace))
    header = Header(
        name=_encodable(trace.name),
        source=_encodable(trace.source),
        rebinding=trace.rebinding,
        times_estimated=trace.times_estimated,
        digest=trace.digest,
        columns=described,
        writer="rematsim",
        about=ABOUT,
        provenance=trace.provenance,
    )
    return [encode_header(header), *frames]


def _encodable(text: str) -> str:
    """Escape what UTF-8 cannot say: the bytes of a file's name that is none."""
    return text.encode(errors="backslashreplace").decode()


def packed_columns(columns: dict[str, Any]) -> tuple[list[Column], list[bytes]]:
    """Pack columns, and describe them for the header."""
    described, frames = [], []
    for name, values in columns.items():
        encoding, raw, frame = _packed_texts(values) if name in TEXTS else _packed_numbers(values)
        kind = TEXT if name in TEXTS else NUMBERS[name][0]
        described.append(Column(name, kind, len(values), encoding, len(raw), len(frame)))
        frames.append(frame)
    return described, frames


def _packed_numbers(values: Any) -> tuple[str, bytes, bytes]:
    """Pack integers in the way that takes least room."""
    ways = [(encoding, raw, _pack(raw)) for encoding, raw in number_layouts(values).items()]
    return min(ways, key=lambda way: len(way[2]))


def _packed_texts(texts: tuple[str, ...]) -> tuple[str, bytes, bytes]:
    encoding, raw = text_layout(texts)
    return encoding, raw, _pack(raw)


def _pack(raw: bytes) -> bytes:
    """Pack the bytes of a column: one frame, with its size and a checksum."""
    import zstandard

    level = QUICK_LEVEL if len(raw) > QUICK_BYTES else LEVEL
    packed: bytes = zstandard.ZstdCompressor(level=level, write_checksum=True).compress(raw)
    return packed
