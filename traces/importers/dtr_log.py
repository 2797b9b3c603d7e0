"""Reader of the DTR log format: JSON, one instruction a line. ``dtr_writer.py`` writes it.

It turns instructions into events of a TraceBuilder and knows nothing else: whether a trace may do
that is checked by ``builder.py``, and lines that are no instructions by ``dtr_lines.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NoReturn

from ...errors import TraceError
from ...opcodes import PHASES
from ..builder import TraceBuilder
from ..trace import Trace
from ..wording import place, show
from .dtr_columns import complete, events_of
from .dtr_lines import (
    Alias,
    Call,
    Constant,
    Copy,
    CopyFrom,
    Instruction,
    Memory,
    Mutate,
    Numbered,
    Release,
    decode_block,
    decode_one_by_one,
    find_start,
)
from .dtr_writer import write_log

__all__ = ["read", "write_log"]

BLOCK_BYTES = 1 << 18


def read(data: bytes, name: str, source: str) -> Trace:
    """Read a log.

    Parameters
    ----------
    data : bytes
        The log, unpacked.
    name, source : str
        As in ``Trace``; errors start with ``source``.

    Returns
    -------
    Trace

    Raises
    ------
    TraceError
        At the first line that breaks a rule.

    Notes
    -----
    Blocks of lines are decoded and handed to the builder whole. From the first block that it
    refuses on, lines are taken one by one: that names the line at fault, if there is one.
    """
    begin, line, start = find_start(data)
    has_warm_up = line > 2
    estimated = start is not None and start.rematsim_times == "estimated"
    builder = TraceBuilder(name, source, times_estimated=estimated)
    begin, line, rest = _read_blocks(data, begin, line, builder)
    numbered = zip(range(line - len(rest), line), rest, strict=True)
    lines = chain(numbered, decode_one_by_one(data, line, source, begin))
    try:
        _OneByOne(lines, builder, source).read()
    except TraceError as error:
        if has_warm_up and str(error).endswith("is not defined"):
            hint = "what stands before the first START is warm-up, and skipped"
            raise TraceError(f"{error}; {hint}") from None
        raise
    return builder.build()


def _read_blocks(
    data: bytes, begin: int, line: int, builder: TraceBuilder
) -> tuple[int, int, list[Instruction]]:
    """Hand blocks of lines to the builder as long as it takes them.

    Returns
    -------
    begin, line : int
        Where the lines begin that are left.
    rest : list of Instruction
        Lines before those that are left too: a call whose results are not complete.
    """
    rest: list[Instruction] = []
    while begin < len(data):
        end = data.find(b"\n", begin + BLOCK_BYTES) + 1 or len(data)
        decoded = decode_block(data, begin, end)
        if decoded is None:
            break
        records = rest + decoded
        n_complete = complete(records)
        events = events_of(records[:n_complete], line - len(rest))
        if events is None or not builder.extend(events):
            break
        begin, line, rest = end, line + len(decoded), records[n_complete:]
    return begin, line, rest


class _OneByOne:
    """Hands lines to a builder one by one, so that the first at fault can be named."""

    def __init__(self, lines: Iterator[Numbered], builder: TraceBuilder, source: str) -> None:
        self._lines = lines
        self._builder = builder
        self._source = source

    def read(self) -> None:
        """Read all lines."""
        builder = self._builder
        for line, record in self._lines:
            if isinstance(record, Release):
                builder.release(record.name, line)
            elif isinstance(record, Copy):
                builder.copy(record.dst, record.src, line)
            elif isinstance(record, CopyFrom):
                builder.copy_from(record.dst, record.src, line)
            elif isinstance(record, Constant):
                what = f"CONSTANT {show(record.name)}"
                builder.constant(record.name, self._memory(record.name, what, line), line)
            elif isinstance(record, Call | Mutate):
                self._call(record, line)
            elif isinstance(record, Memory | Alias):
                what = f"{_kind(record)} of {show(record.name)}"
                self._fail(line, f"{what}: no CONSTANT or CALL before it that it belongs to")
            elif record.annotation == "BACKWARD":
                builder.backward(line)

    def _call(self, record: Call | Mutate, line: int) -> None:
        """Read a call with the lines that describe its results."""
        what = f"CALL {show(record.name)}"
        if isinstance(record, Call) and not record.result:
            self._fail(line, f"{what}: no RESULT; a call has at least one")
        results = [
            (name, self._memory(name, what, line), self._alias(name, what, line))
            for name in record.result
        ]
        self._builder.call(
            record.name,
            record.args,
            results,
            record.time,
            mutates=record.mutate,
            workspace_bytes=record.rematsim_workspace,
            phase=PHASES.index(record.phase),
            module=record.module,
            forward=record.rematsim_forward,
            tags=record.rematsim_tags,
            line=line,
        )

    def _memory(self, name: str, what: str, maker_line: int) -> int:
        """Read the line that gives the size of a tensor just made."""
        line, record = next(self._lines, (maker_line, None))
        if not isinstance(record, Memory) or record.name != name:
            self._missing(f"MEMORY of {show(name)}", record, line, f"{what} at line {maker_line}")
        return record.memory

    def _alias(self, name: str, what: str, maker_line: int) -> int:
        """Read the line that says what a result is a view of."""
        line, record = next(self._lines, (maker_line, None))
        if not isinstance(record, Alias) or record.name != name:
            self._missing(f"ALIAS of {show(name)}", record, line, f"{what} at line {maker_line}")
        return record.alias

    def _missing(self, wanted: str, found: Instruction | None, line: int, maker: str) -> NoReturn:
        """Say which line should follow a call or a constant."""
        if found is None:
            self._fail(line, f"{maker}: the log ends before {wanted}; it may be cut off")
        self._fail(line, f"{_kind(found)}, where {wanted} is expected: it follows {maker}")

    def _fail(self, line: int, message: str) -> NoReturn:
        """Reject the log."""
        raise TraceError(message, place(self._source, line))


def _kind(record: Instruction) -> str:
    """Name an instruction as the log does."""
    return str(record.__struct_config__.tag)
