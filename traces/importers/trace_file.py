"""Reader of rematsim's own trace files. ``trace_writer.py`` writes them.

It unpacks the columns that the header lists, makes a trace of them and has the rules checked: what
a file says is never trusted. The layout is described in docs/trace-format.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import TraceError
from ..builder import REBINDINGS
from ..trace import ARRAYS, TEXTS, Trace
from ..unpacking import check_size
from ..wording import reason
from .reader import Imported, Request, Summary
from .trace_columns import SEPARATOR, TEXT, numbers_of, texts_of
from .trace_header import MAGIC, Column, Header, decode_header
from .trace_rules import RuleError, check_shapes, check_values
from .trace_wire import Columns, fields_of, places_of

FORMAT = "rematsim trace file"
KEEPS_PROVENANCE = True
MAX_RATIO = 1000  # a chain of equal units packs to a 160th


def recognizes(head: bytes) -> bool:
    """Say whether it begins as trace files do."""
    return head.startswith(MAGIC)


def read(request: Request) -> Imported:
    """Read a trace file; nothing is inferred or dropped."""
    trace = read_trace(request.data.bytes(), request.name, request.where)
    taken = {"operator calls": trace.n_calls, "constants": trace.n_constants}
    return Imported(trace, Summary(taken))


def read_trace(data: bytes, name: str, where: str) -> Trace:
    """Read a trace file.

    Parameters
    ----------
    data : bytes
        The file.
    name : str
        What the trace is to be called.
    where : str
        The file, for messages; also the trace's source.

    Raises
    ------
    TraceError
        It is damaged, cut off, of a later version, or holds what is no trace.
    """
    header, begin = decode_header(data, where)
    check_size(sum(column.bytes for column in header.columns), len(data), where, MAX_RATIO)
    packed = dict(_slices(header, data, begin, where))
    columns: Columns = {}
    rows = {column.name: column.rows for column in header.columns}
    try:
        for column in header.columns:
            if column.type != TEXT:
                raw = _unpack(packed[column.name], column, where)
                columns[column.name] = numbers_of(raw, column.encoding, np.dtype(column.type))
        check_shapes(columns, rows)
        for column in header.columns:
            if column.type == TEXT:
                raw = _unpack(packed[column.name], column, where)
                columns[column.name] = _texts(raw, column, where)
        places = places_of(columns["codes"], columns["call_results"])
        fields = fields_of(columns, places)
        check_values(columns, fields, places)
    except RuleError as error:
        raise TraceError(f"trace file: {error}", where) from None
    return _trace(header, columns, fields, (name, where))


def _slices(header: Header, data: bytes, begin: int, where: str) -> Iterator[tuple[str, Any]]:
    """Find where each column lies in the file."""
    end = begin + sum(column.packed_bytes for column in header.columns)
    if len(data) != end:
        what = "it is cut off" if len(data) < end else "something was added to it"
        raise TraceError(f"trace file: {len(data):,} bytes instead of {end:,}, {what}", where)
    for column in header.columns:
        yield column.name, memoryview(data)[begin : begin + column.packed_bytes]
        begin += column.packed_bytes


def _unpack(frame: Any, column: Column, where: str) -> bytes:
    """Unpack one column, and no more than the header says that it is."""
    import zstandard

    what = f"trace file: column {column.name}"
    try:
        if zstandard.frame_content_size(frame) != column.bytes:
            raise TraceError(f"{what}: its size is not that in the header", where)
        unpacker = zstandard.ZstdDecompressor()
        data: bytes = unpacker.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise TraceError(f"{what} is damaged ({reason(error)})", where) from None
    return data


def _texts(raw: bytes, column: Column, where: str) -> str | tuple[str, ...]:
    """Take texts apart, but for names: there are many, and who replays a trace needs none."""
    try:
        texts = texts_of(raw, column.encoding, column.rows)
    except ValueError as error:
        what = f"trace file: column {column.name}"
        raise TraceError(f"{what} is damaged ({reason(error)})", where) from None
    if column.name == "names":
        return texts
    texts = tuple(texts.split(SEPARATOR)) if isinstance(texts, str) else texts
    if column.name in ("modules", "value_kinds") and "" in texts:
        raise TraceError(f"trace file: column {column.name}: a text is empty", where)
    return texts


def _trace(header: Header, columns: Columns, fields: Columns, names: tuple[str, str]) -> Trace:
    """Make the trace; its digest is computed from what was read."""
    name, where = names
    if header.rebinding not in REBINDINGS:
        raise TraceError(f"trace file: rebinding is none of {', '.join(REBINDINGS)}", where)
    for field in ARRAYS:
        fields[field].flags.writeable = False
    texts = {field: columns[field] for field in TEXTS}
    if isinstance(texts["names"], str):
        texts["packed_names"] = texts.pop("names")
    return Trace.restore(
        {
            **fields,
            **texts,
            "name": name,
            "source": where,
            "rebinding": header.rebinding,
            "times_estimated": header.times_estimated,
            "provenance": header.provenance,
        }
    )
