"""What fuzzing the readers of profiles checks, and what it begins with."""

from __future__ import annotations

import unittest.mock
from importlib.util import find_spec

import msgspec
import profile_files
from rematsim.allocation_layout import starting_layout
from rematsim.errors import InputError, MissingExtraError, TraceError
from rematsim.traces import curves
from rematsim.traces.contents import Content
from rematsim.traces.importers import (
    chakra,
    execution_trace,
    kineto,
    memory_snapshot,
    memory_timeline,
    onnx_graph,
    onnx_model,
    onnx_process,
    snapshot_process,
)
from rematsim.traces.importers.reader import Request
from rematsim.traces.limiting import memory_limited
from rematsim.traces.trace import Trace

TRACE_READERS = {"execution": execution_trace, "chakra": chakra, "onnx": onnx_model}
EVENT_READERS = {"kineto": kineto, "snapshot": memory_snapshot}
CURVE_READERS = {"kineto": kineto, "snapshot": memory_snapshot, "timeline": memory_timeline}
TIMELINE = b"[[1,2,3],[[1,2],[3,4],[0,0]]]"
MESSAGES = ("chakra", "onnx")  # kinds that are messages of Protocol Buffers
RAW_TIMELINE = b"[[-1,1,8,0],[5,2,16,3],[6,3,16,3],[9,4,-16,3]]"


def seeds() -> dict[str, list[bytes]]:
    """Good files of each kind; ONNX models where they can be read."""
    onnx = {"onnx": [profile_files.onnx_model()]} if find_spec("onnx") else {}
    return onnx | {
        "execution": [
            profile_files.execution_trace(schema=schema)
            for schema in ("1.0.1", "1.0.2-chakra.0.0.4", "1.1.1-chakra.0.0.4")
        ],
        "kineto": [profile_files.kineto(), profile_files.kineto([])],
        "chakra": [profile_files.chakra()],
        "snapshot": [profile_files.snapshot()],
        "timeline": [TIMELINE, RAW_TIMELINE],
    }


def check_events(kind: str, data: bytes) -> None:
    """Read the events of what has a curve: they come out, and a start of them, or one line."""
    if kind not in EVENT_READERS:
        return
    try:
        events = EVENT_READERS[kind].read_events(Content.of_bytes(data, "fuzzed"), None)  # type: ignore[attr-defined]
    except TraceError as error:
        assert "\n" not in str(error)
        return
    assert len(events.kinds) == len(events.allocated_bytes) > 0
    assert (events.sizes > 0).all() and (events.addresses >= 0).all()
    assert starting_layout(events).held_bytes >= 0


def check(kind: str, data: bytes) -> Trace | curves.Curve | None:
    """Read bytes as one kind of profile: a value comes out, or one line that says why not."""
    content = Content.of_bytes(data, "fuzzed")
    try:
        if kind in CURVE_READERS:
            with unittest.mock.patch.object(memory_snapshot, "_ask", unpickle_here):
                curve: curves.Curve = CURVE_READERS[kind].read_curve(content, None)  # type: ignore[attr-defined]
                check_events(kind, data)
            assert len(curve.time_ns) == len(curve.allocated_bytes) > 0
            return curve
        with unittest.mock.patch.object(onnx_graph, "_ask", read_here):
            return TRACE_READERS[kind].read(Request(content, "fuzzed", "fuzzed")).trace
    except (TraceError, InputError, MissingExtraError) as error:
        assert "\n" not in str(error), str(error)
        assert str(error).startswith("fuzzed"), str(error)
        assert len(str(error)) < 600, str(error)
    return None


def unpickle_here(data: bytes, _: str) -> memory_snapshot.Answer:
    """Read a snapshot in this process: quick, and good enough for what damage makes of one."""
    with memory_limited(1 << 30):
        return snapshot_process.answer_to(data)


def read_here(data: bytes, _: str) -> onnx_graph.Answer:
    """Read an ONNX model in this process: quick, and without inference, which might end it."""
    import onnx

    try:
        model = onnx.load_model_from_string(data)
    except Exception:
        return onnx_graph.Answer(fault="no ONNX model")
    answer = msgspec.json.encode(onnx_process.described(model.graph))
    return msgspec.json.decode(answer, type=onnx_graph.Answer)


def check_joined(trace: bytes, profile: bytes) -> Trace | None:
    """Read an execution trace with a Kineto trace beside it."""
    companion = Content.of_bytes(profile, "fuzzed profile")
    request = Request(Content.of_bytes(trace, "fuzzed"), "fuzzed", "fuzzed", (companion,))
    try:
        return execution_trace.read(request).trace
    except TraceError as error:
        assert "\n" not in str(error), str(error)
        assert str(error).startswith("fuzzed"), str(error)
    return None


def recognize_all(head: bytes) -> list[str]:
    """Ask every reader about a head; none of them may raise."""
    readers = TRACE_READERS | CURVE_READERS
    return [kind for kind, reader in readers.items() if reader.recognizes(head)]
