"""What a fuzzer or hypothesis feeds with bytes of any format: only a TraceError may come out.

``fuzz_target.py`` does more for DTR logs; this is for all readers, told apart by content.
"""

from __future__ import annotations

import gzip
import json
import zlib

import msgspec
import zstandard
from fuzz_target import assert_one_line
from rematsim.errors import InputError, TraceError
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.contents import Content
from rematsim.traces.importers.reader import Request
from rematsim.traces.importers.registry import find_reader
from rematsim.traces.importers.trace_columns import number_layouts, text_layout
from rematsim.traces.importers.trace_file import read_trace
from rematsim.traces.importers.trace_header import MAGIC, Column, Header, encode_header
from rematsim.traces.importers.trace_wire import NUMBERS, TEXTS, columns_of
from rematsim.traces.importers.trace_writer import encoded_trace
from rematsim.traces.provenance import Provenance, Summary
from rematsim.traces.trace import Trace

COLUMNS_MARK = b"columns:"  # what follows is a trace file's columns, unpacked
FILE_MARK = b"\n=== companion ===\n"  # what follows is a second file
SEPARATOR = b"\xfe\xfd\xfc"


def check(data: bytes) -> None:
    """Read bytes as whatever they look like; write what comes out, and read it again."""
    if data.startswith(COLUMNS_MARK):
        data = trace_file_of(data.removeprefix(COLUMNS_MARK))
    main, *others = data.split(FILE_MARK)
    companions = tuple(Content.of_bytes(other, "companion") for other in others)
    try:
        content = Content.of_bytes(main, "fuzz", "fuzz")
        reader = find_reader(content)
        trace = reader.read(Request(content, "fuzz", "fuzz", companions, time_unit="us")).trace
    except InputError as error:
        assert isinstance(error, TraceError), repr(error)
        assert_one_line(error)
        return
    assert isinstance(trace, Trace)
    again = read_trace(b"".join(encoded_trace(trace)), "fuzz", "fuzz")
    assert again == trace, f"{trace} was written and read as {again}"
    assert again.provenance == trace.provenance


def trace_file_of(data: bytes) -> bytes:
    """Pack columns into a trace file whose sizes and checksums are right."""
    sections = data.split(SEPARATOR)
    described, frames = [], []
    for k, name in enumerate((*NUMBERS, *TEXTS)):
        raw = sections[k] if k < len(sections) else b""
        encoding, kind, rows = "planes", NUMBERS.get(name, ("text",))[0], 0
        if name in TEXTS:
            encoding = "json" if raw[:1] == b"[" else "joined"
            rows = raw.count(b'","') + (raw != b"[]") if raw[:1] == b"[" else raw.count(b"\0") + 1
        else:
            width = int(kind.removeprefix("u").removeprefix("int")) // 8
            raw = raw[: len(raw) // width * width]
            rows = len(raw) // width
        frame = zstandard.ZstdCompressor(level=1).compress(raw)
        described.append(Column(name, kind, rows, encoding, len(raw), len(frame)))
        frames.append(frame)
    header = Header("fuzz", "", "listed", False, "", described)
    return encode_header(header) + b"".join(frames)


def columns_seed(trace: Trace) -> bytes:
    """Give the columns of a trace as ``trace_file_of`` takes them."""
    sections = []
    for name, values in columns_of(trace).items():
        raw = text_layout(values)[1] if name in TEXTS else number_layouts(values)["planes"]
        sections.append(raw)
    return COLUMNS_MARK + SEPARATOR.join(sections)


def small_trace() -> Trace:
    """Give a trace with everything in it."""
    builder = TraceBuilder("seed")
    builder.constant("w", 64, 1, kind="float32[16]")
    builder.call("f", ["w"], [("y", 16, -1), ("v", 0, -2)], 10, mutates=[0], module="m", tags=1)
    builder.copy("y2", "y")
    builder.copy_from("v", "w")
    builder.backward()
    builder.call("g", ["y2"], [("d", 8, -1)], 7, forward=0, kinds=["int8[8]"])
    builder.release("y")
    builder.release("d")
    made_of = Provenance("a log", ("x.json",), Summary({"calls": 2}, {"releases": 1}))
    return builder.build().made_from(made_of)


GRAPH = {
    "directed": True,
    "multigraph": False,
    "graph": {"node_output_cost_tag": "out_cost", "order": [0, 2, "x"]},
    "nodes": [
        {"out_cost": 7, "param_cost": 3, "cost_cpu": 2.5, "id": 0, "name": "a"},
        {"out_cost": 1, "cost_cpu": 5, "id": "x", "name": "a_backward", "backward": True},
        {"out_cost": 2, "cost_cpu": 1, "name": 2},
    ],
    "links": [{"source": 0, "target": 2}, {"0": 2, "1": "x"}],
}
TENSOR = {"dtype": "float32", "shape": [2, 2], "bytes": 16}
FX = {
    "format": "rematsim fx graph",
    "version": 1,
    "inputs": [{"name": "x", "label": "weight"} | TENSOR],
    "nodes": [
        {
            "name": "mm",
            "target": "aten.mm.default",
            "args": ["x", "x"],
            "results": [{"name": "mm", "alias": -1} | TENSOR],
            "phase": "fwd",
        },
        {
            "name": "t",
            "target": "aten.t.default",
            "args": ["mm"],
            "results": [{"name": "t", "alias": 0} | TENSOR],
            "mutates": [0],
            "phase": "bwd",
            "module": "a.b",
            "tags": 1,
        },
    ],
    "outputs": ["t"],
}
OPERATORS = b"""\
OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,InputSize,OutputSize,stage
1,aten::conv2d,[1; 2],[3],10,[8; 4],[16],forward
2,aten::relu_,[3],[3],2,[16],[16],backward
7,aten::_foreach_add_,[2; 7; 6; 8],[],1,[4; 2; 4; 2],[],optimizer
"""
TENSORS = b"""\
TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorStorgeid
1,"[2, 4]",8,4,11
3,[16],16,4,13
"""


def seeds() -> list[bytes]:
    """Give inputs to start from: small files of every format, packed and cut."""
    graph, fx = json.dumps(GRAPH).encode(), json.dumps(FX, separators=(",", ":")).encode()
    file = b"".join(encoded_trace(small_trace()))
    whole = [
        graph,
        fx,
        OPERATORS,
        TENSORS,
        OPERATORS + FILE_MARK + TENSORS,
        file,
        columns_seed(small_trace()),
        gzip.compress(graph),
        MAGIC + b"1 00000002 %08x\n{}" % zlib.crc32(b"{}"),
        msgspec.json.encode(GRAPH | {"edges": GRAPH["links"]}),
    ]
    return [*whole, *(data[: len(data) // 2] for data in whole)]
