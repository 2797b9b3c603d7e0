"""What a fuzzer or hypothesis feeds with bytes: nothing but a TraceError may come out."""

from __future__ import annotations

import gzip
import io
import itertools
import zipfile

from broken_logs import BROKEN
from dtr_logs import log, valid_lines
from rematsim.errors import TraceError
from rematsim.traces.archives import Archive
from rematsim.traces.importers import dtr_log
from rematsim.traces.importers.dtr_writer import encoded, refuse_inexpressible
from rematsim.traces.trace import Trace
from rematsim.traces.unpacking import ZIP, unpack


def check(data: bytes) -> None:
    """Read bytes in every way there is, and hold the results against each other."""
    try:
        logs = [data]
        if data.startswith(ZIP):
            archive = Archive(data, "fuzz.zip")
            logs = [archive.read(member.path) for member in archive.members]
        logs = [unpack(log, "fuzz") for log in logs]
    except TraceError as error:
        assert_one_line(error)
        return
    for content in logs:
        check_log(content)


def check_log(data: bytes) -> None:
    """Read a log in columns and line by line, and write and read it again."""
    in_columns, one_by_one = outcome(data), outcome_one_by_one(data)
    assert in_columns == one_by_one, f"{in_columns} in columns, {one_by_one} line by line"
    if isinstance(in_columns, Trace):
        assert in_columns.call_line.tolist() == one_by_one.call_line.tolist()
        again = outcome(b"".join(encoded(in_columns)))
        assert again == in_columns, f"{in_columns} was written and read as {again}"
        refuse_inexpressible(in_columns)


def outcome(data: bytes) -> Trace | str:
    """Read a log as usual: the trace, or the message."""
    try:
        return dtr_log.read(data, "fuzz", "fuzz")
    except TraceError as error:
        assert_one_line(error)
        return str(error)


def outcome_one_by_one(data: bytes) -> Trace | str:
    """Read a log without the quick way."""
    usual, dtr_log.decode_block = dtr_log.decode_block, lambda data, begin, end: None
    try:
        return outcome(data)
    finally:
        dtr_log.decode_block = usual


def assert_one_line(error: TraceError) -> None:
    """Check that a message can be printed on one line of moderate length."""
    text = str(error)
    assert text.isprintable() or text.isascii(), ascii(text)
    assert "\n" not in text, text
    assert len(text) < 1_000, text[:1_000]


def seeds() -> list[bytes]:
    """Give inputs to start from."""
    small = [data for data, _ in BROKEN.values() if len(data) < 4_000]
    whole = log(*valid_lines())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("manifest.json", '{"models": [{"name": "a", "log": "b.log"}]}')
        archive.writestr("b.log", whole)
    cut = itertools.accumulate(whole.splitlines(keepends=True))
    return [whole, gzip.compress(whole), buffer.getvalue(), *small, *cut]
