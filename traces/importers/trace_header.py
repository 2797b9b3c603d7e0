"""The head of a trace file: what it says of itself, before any column.

A line for people and programs to tell the format by, then one of JSON that lists the columns.
The layout is described in docs/trace-format.md.
"""

from __future__ import annotations

import zlib

import msgspec

from ...errors import TraceError
from ..provenance import Provenance
from ..wording import reason
from .trace_columns import NUMBER_ENCODINGS, TEXT, TEXT_ENCODINGS
from .trace_wire import NUMBERS, TEXTS

MAGIC = b"rematsim trace "
VERSION = 1
MAX_HEADER_BYTES = 1 << 16
# "rematsim trace 1 00000834 9f3c12ab\n": version, bytes of the next line and their CRC-32.
FIRST_LINE_BYTES = len(MAGIC) + len("1 00000000 00000000\n")


class Column(msgspec.Struct):
    """What the header says of one column."""

    name: str
    type: str
    rows: int
    encoding: str
    bytes: int
    packed_bytes: int


class Header(msgspec.Struct, omit_defaults=True):
    """What the second line holds."""

    name: str
    source: str
    rebinding: str
    times_estimated: bool
    digest: str
    columns: list[Column]
    writer: str = ""
    about: str = ""
    provenance: Provenance | None = None


def encode_header(header: Header) -> bytes:
    """Give the two lines."""
    line = msgspec.json.encode(header) + b"\n"
    return MAGIC + f"{VERSION} {len(line):08d} {zlib.crc32(line):08x}\n".encode() + line


def decode_header(data: bytes, where: str) -> tuple[Header, int]:
    """Read the two lines.

    Returns
    -------
    header : Header
        Its columns are those that this version knows, with sizes that can be.
    end : int
        Where the first column begins.

    Raises
    ------
    TraceError
        They are damaged, cut off, or another version's.
    """
    first = data[:FIRST_LINE_BYTES]
    version, *rest = first[len(MAGIC) :].split() or [b""]
    if version.isdigit() and version != b"%d" % VERSION:
        hint = f"this rematsim reads version {VERSION}"
        raise TraceError(f"a trace file of version {version.decode()[:9]}: {hint}", where)
    if len(first) < FIRST_LINE_BYTES:
        raise TraceError("trace file: it ends in its first line, it is cut off", where)
    if not first.endswith(b"\n") or len(rest) != 2 or not rest[0].isdigit():
        raise TraceError("trace file: the first line is damaged", where)
    end = FIRST_LINE_BYTES + int(rest[0])
    if int(rest[0]) > MAX_HEADER_BYTES:
        raise TraceError(f"trace file: a header of {int(rest[0]):,} bytes is too long", where)
    line = data[FIRST_LINE_BYTES:end]
    if len(data) < end:
        raise TraceError("trace file: it ends in its header, it is cut off", where)
    if b"%08x" % zlib.crc32(line) != rest[1]:
        raise TraceError("trace file: the header is damaged (its checksum differs)", where)
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TraceError(f"trace file: no header ({reason(error)})", where) from None
    fault = _fault(header)
    if fault:
        raise TraceError(f"trace file: {fault}", where)
    return header, end


def _fault(header: Header) -> str:
    """Say what is wrong with what a header says, if anything is."""
    return _fault_of_columns(header) or _fault_of_provenance(header.provenance)


def _fault_of_provenance(provenance: Provenance | None) -> str:
    """Say what could not be shown on a line, or counts nothing."""
    if provenance is None:
        return ""
    summary = provenance.summary
    counts = [*summary.taken.items(), *summary.inferred.items(), *summary.dropped.items()]
    texts = [provenance.format, *provenance.files, *(what for what, _ in counts)]
    if not provenance.files or not all(text.isprintable() for text in texts):
        return "its provenance names no file, or is no text of one line"
    return "its provenance counts less than nothing" if any(n < 0 for _, n in counts) else ""


def _fault_of_columns(header: Header) -> str:
    """Say what is wrong with the columns that a header lists, if anything is."""
    expected = [*NUMBERS, *TEXTS]
    if [column.name for column in header.columns] != expected:
        return f"its columns are not those of version {VERSION}"
    rows: dict[str, int] = {}
    for column in header.columns:
        table = NUMBERS[column.name][1] if column.name in NUMBERS else column.name
        if rows.setdefault(table, column.rows) != column.rows:
            return f"column {column.name}: {column.rows:,} rows, where {rows[table]:,} go before"
        if column.name in TEXTS:
            kind, encodings, width = TEXT, TEXT_ENCODINGS, 0
        else:
            kind, encodings = NUMBERS[column.name][0], NUMBER_ENCODINGS
            width = int(kind.removeprefix("u").removeprefix("int")) // 8
        if column.type != kind or column.encoding not in encodings:
            return f"column {column.name}: its type or encoding is not one of version {VERSION}"
        if min(column.rows, column.bytes, column.packed_bytes) < 0:
            return f"column {column.name}: a negative size"
        if width and column.bytes != column.rows * width:
            return f"column {column.name}: {column.bytes:,} bytes are not {column.rows:,} rows"
    return ""
