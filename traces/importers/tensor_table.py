"""Reader of tables of tensors (CSV), which say for an operator table how large its tensors are.

A table of this kind is no trace: ``op_table.py`` reads it as a companion.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from ...errors import TraceError
from ..trace import MAX_VALUE
from ..wording import place, reason, show
from .reader import Content, Request

FORMAT = "table of tensors (CSV)"
IS_COMPANION = True
COLUMNS = ("TensorID", "TensorNumElement", "TensorEachByte", "TensorStorgeid")  # spelled like this
MAX_TABLE_BYTES = 16 << 20  # a million operators; read, it takes sixty times as much


class TensorRow(NamedTuple):
    """What the table says of a tensor: its storage, its own bytes, and how many elements."""

    storage: int
    size_bytes: int
    elements: int


def recognizes(head: bytes) -> bool:
    """Say whether the first line names the columns of such a table."""
    return has_columns(head, COLUMNS)


def read(request: Request) -> NoReturn:
    """Refuse: a table of tensors is no trace."""
    hint = "give the operator table too: rematsim import OPERATORS TENSORS -o x.trace"
    raise TraceError(f"a table of tensors is no trace by itself; {hint}", request.where)


def read_tensors(content: Content) -> dict[int, TensorRow]:
    """Read a table of tensors, by their ids; of rows with one id the first counts."""
    tensors: dict[int, TensorRow] = {}
    for line, row in rows_of(content, COLUMNS):
        where = place(content.where, line)
        tensor, count, width, storage = (
            number(text, column, where) for text, column in zip(row, COLUMNS, strict=True)
        )
        if count * width > MAX_VALUE:
            raise TraceError(f"tensor {tensor}: its bytes are more than 2^53", where)
        tensors.setdefault(tensor, TensorRow(storage, count * width, count))
    return tensors


def has_columns(head: bytes, columns: Sequence[str]) -> bool:
    """Say whether the first line of a CSV file names some columns."""
    first = head[: head.find(b"\n") + 1 or None]
    names = [name.strip(b' "\r\n') for name in first.split(b",")]
    return all(column.encode() in names for column in columns)


def rows_of(content: Content, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Give some columns of a CSV file, row by row, with the line.

    Raises
    ------
    TraceError
        A row has fewer columns than the first line, or it is no text.
    """
    text = content.bytes(MAX_TABLE_BYTES)
    try:
        lines = csv.reader(io.StringIO(text.decode(), newline=""))
        names = [name.strip() for name in next(lines, [])]
        if missing := [column for column in columns if column not in names]:
            raise TraceError(f"the first line names no column {missing[0]}", content.where)
        positions = [names.index(column) for column in columns]
        for row in lines:
            if not row:
                continue
            if len(row) != len(names):
                rule = f"{len(row)} columns, where the first line names {len(names)}"
                raise TraceError(f"{rule}; it may be cut off", place(content.where, lines.line_num))
            yield lines.line_num, [row[position] for position in positions]
    except csv.Error as error:
        raise TraceError(f"no table ({reason(error)})", content.where) from None
    except UnicodeDecodeError as error:
        raise TraceError(f"no text in UTF-8 ({reason(error)})", content.where) from None


def number(text: str, column: str, where: str) -> int:
    """Read an integer from 0 to 2^53."""
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdecimal()) or len(stripped) > 16:
        raise TraceError(f"{column} {show(text)} is not an integer from 0 to 2^53", where)
    value = int(stripped)
    if value > MAX_VALUE:
        raise TraceError(f"{column} {show(text)} is not an integer from 0 to 2^53", where)
    return value
