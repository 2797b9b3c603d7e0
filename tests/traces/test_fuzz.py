"""Arbitrary bytes and broken logs: only a TraceError comes out, and all ways to read agree."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator

import pytest
from broken_logs import BROKEN
from dtr_logs import call, constant, log, valid_lines
from fuzz_target import check, check_log
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rematsim.traces.importers import dtr_log
from rematsim.traces.importers.dtr_lines import Numbered
from rematsim.traces.importers.dtr_writer import encoded
from rematsim.traces.random_dag import random_dag
from rematsim.traces.synthetic import synthetic

LINES = [line for text in valid_lines() for line in text.split("\n")]
BROKEN_LINES = [line for data, _ in BROKEN.values() for line in data.splitlines()[:20]]
TOKENS = ["x", "y", "", "-1", "0", "1", "9007199254740993", "BACKWARD", "START", "MEMORY", "CALL"]


@given(st.binary(max_size=2_000))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes(data: bytes) -> None:
    check(data)


@given(
    st.binary(max_size=200), st.sampled_from([b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"])
)
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes_that_begin_like_something_packed(data: bytes, begin: bytes) -> None:
    check(begin + data)


@st.composite
def mutated_logs(draw: st.DrawFn) -> bytes:
    """A valid log with lines dropped, doubled, moved, taken from elsewhere, and tokens changed."""
    lines = [line.encode() for line in LINES]
    for _ in range(draw(st.integers(1, 4))):
        k = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["drop", "double", "swap", "insert", "token", "bytes"]))
        if kind == "drop" and len(lines) > 1:
            del lines[k]
        elif kind == "double":
            lines.insert(draw(st.integers(0, len(lines))), lines[k])
        elif kind == "swap":
            j = draw(st.integers(0, len(lines) - 1))
            lines[k], lines[j] = lines[j], lines[k]
        elif kind == "insert":
            lines.insert(k, draw(st.sampled_from(BROKEN_LINES)))
        elif kind == "token":
            parts = lines[k].split(b'"')
            place = draw(st.integers(0, len(parts) - 1))
            parts[place] = draw(st.sampled_from(TOKENS)).encode()
            lines[k] = b'"'.join(parts)
        else:
            place = draw(st.integers(0, len(lines[k])))
            lines[k] = lines[k][:place] + draw(st.binary(max_size=3)) + lines[k][place + 1 :]
    return b"\n".join(lines) + b"\n"


@given(mutated_logs())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_logs(data: bytes) -> None:
    check_log(data)


@given(st.integers(0, 10_000), st.integers(50, 1_000))
@settings(max_examples=30, deadline=None)
def test_blocks_may_end_anywhere(seed: int, block_bytes: int) -> None:
    """Wherever a log is cut into blocks, it is the same trace."""
    data = b"".join(encoded(random_dag(seed, 20, is_plain=True)))
    whole = dtr_log.read(data, "", "")
    usual, dtr_log.BLOCK_BYTES = dtr_log.BLOCK_BYTES, block_bytes
    try:
        in_blocks = dtr_log.read(data, "", "")
    finally:
        dtr_log.BLOCK_BYTES = usual
    assert in_blocks == whole
    assert in_blocks.call_line.tolist() == whole.call_line.tolist()


def test_every_place_to_cut_a_log() -> None:
    whole = log(*valid_lines())
    for length in range(len(whole)):
        check_log(whole[:length])


def test_every_place_to_cut_a_packed_log() -> None:
    packed = gzip.compress(log(*valid_lines()))
    for length in range(len(packed)):
        check(packed[:length])


def mismatched_zip() -> bytes:
    """A zip whose directory and header disagree about a long name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{'n' * 2_000}.log", log(*valid_lines()))
    data = buffer.getvalue()
    return data.replace(b"n" * 2_000, b"m" * 2_000, 1)


FOUND = {
    "an error of zipfile that quotes the file at length": mismatched_zip(),
    "a call without the lines of its results, the next one's are the last": log(
        constant("x"),
        call("f", ["x"], ["a", "b", "c"]).split("\n")[0],
        call("g", ["x"], ["d"]),
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_fuzzing_found(what: str) -> None:
    check(FOUND[what])


def test_the_reader_takes_a_long_chain_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick way is taken where it can be: nothing is left to be read line by line."""
    data = b"".join(encoded(synthetic("chain:3000")))
    left = []
    usual = dtr_log.decode_one_by_one

    def watched(data: bytes, line: int, source: str, begin: int) -> Iterator[Numbered]:
        left.append(data[begin:])
        return usual(data, line, source, begin)

    monkeypatch.setattr(dtr_log, "decode_one_by_one", watched)
    assert dtr_log.read(data, "", "") == synthetic("chain:3000")
    assert left == [b""]
