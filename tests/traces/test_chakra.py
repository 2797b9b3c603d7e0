"""Chakra execution traces: the same step as in PyTorch's, with durations."""

from __future__ import annotations

import profile_files as files
import pytest
from profile_files import STEP, chakra, node
from rematsim.errors import TraceError
from rematsim.traces.contents import Content
from rematsim.traces.importers import chakra as reader
from rematsim.traces.importers import protobuf_wire as wire
from rematsim.traces.importers.reader import Imported, Request

CALLS = [item for item in STEP if item["op_schema"]]


def read(data: bytes) -> Imported:
    return reader.read(Request(Content.of_bytes(data, "et"), "name", "et"))


def test_the_step_is_the_same_as_in_an_execution_trace() -> None:
    trace = read(chakra()).trace
    assert [name.split("::")[1] for name in trace.operators] == [
        "t",
        "addmm",
        "clamp_min_",
        "mm",
        "add_.Tensor",
    ]
    assert trace.constant_bytes.tolist() == [60, 20, 24]
    assert trace.result_bytes.tolist() == [0, 40, 60]
    assert trace.call_time_ns.tolist() == [3_000] * 5
    assert not trace.times_estimated


def test_the_parts_of_an_operator_are_put_together() -> None:
    """The converter cuts an operator at each kernel: one number, another id, a time each."""
    mm = next(item for item in CALLS if item["name"] == "aten::mm")
    parts = [item for item in CALLS if item is not mm]
    parts += [mm | {"rf_id": 13}, mm | {"id": 30, "rf_id": 13, "micros": 4}]
    trace = read(chakra(parts)).trace
    assert trace.n_calls == 5
    assert trace.call_time_ns.tolist() == [3_000, 3_000, 3_000, 7_000, 3_000]


def test_where_there_are_kernels_their_time_counts() -> None:
    kernels = [
        node(40, 6, "kernel of what is inside addmm", micros=11, is_cpu=False),
        node(41, 13, "kernel", micros=50, is_cpu=False),
        node(42, 99, "kernel of nobody", micros=1, is_cpu=False),
        node(43, 4, "kernel of addmm, waiting for t", micros=5, is_cpu=False, data=(5, 4)),
    ]
    imported = read(chakra([*CALLS, *kernels]))
    assert imported.trace.call_time_ns.tolist() == [0, 16_000, 0, 50_000, 0]
    summary = imported.summary
    assert summary.taken["kernels"] == 3
    assert summary.dropped["kernels that no call launched"] == 1
    assert summary.inferred["calls of 0 ns (views, and what launched no kernel)"] == 3


BROKEN = {
    "cut off": chakra()[:-5],
    "no operators": files.varint(2) + b"\x0a\x00",
    "a length without end": b"\xff" * 20,
    "a literal that is none": files.varint(3) + b"\x0a\x01a"
    + (lambda m: files.varint(len(m)) + m)(files.field(8, files.field(1, "os.getcwd()"))),
    "a literal nested deep": files.varint(3) + b"\x0a\x01a"
    + (lambda m: files.varint(len(m)) + m)(files.field(8, files.field(1, "[" * 10_000))),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_in_a_line(what: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(BROKEN[what])
    assert str(caught.value).startswith("et: n")
    assert "\n" not in str(caught.value)


def test_it_is_recognized_by_content() -> None:
    assert reader.recognizes(chakra())
    assert reader.recognizes(b"\x07\x0a\x050.0.4\x05\x08\x01")  # a version, and a node
    for other in (files.execution_trace(), files.kineto(), b"", b"\xff" * 20, b"\x08\x0a\x12"):
        assert not reader.recognizes(other)


def test_numbers_of_the_wire_format() -> None:
    """From the encoding page of Protocol Buffers: 150 is 96 01, -1 is ten bytes."""
    assert wire.varint(b"\x96\x01", 0) == (150, 2)
    assert wire.signed(wire.varint(b"\xff" * 9 + b"\x01", 0)[0]) == -1
    assert list(wire.fields(b"\x08\x96\x01\x12\x01x")) == [(1, 0, 150), (2, 2, b"x")]
    for bad in (b"\x08", b"\x12\x05x", b"\x0b", b"\xff" * 11):
        with pytest.raises(wire.WireError):
            list(wire.fields(bad))


def test_what_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_limits(monkeypatch, read, chakra(), len(STEP), reader)
