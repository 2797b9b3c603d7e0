"""ONNX models: their graph, and the backward pass made up for it."""

from __future__ import annotations

import subprocess
import sys

import profile_files as files
import pytest
from rematsim.errors import TraceError
from rematsim.opcodes import CALL, RELEASE
from rematsim.traces.contents import Content
from rematsim.traces.importers import onnx_graph
from rematsim.traces.importers import onnx_model as reader
from rematsim.traces.importers.reader import Imported, Request

needs_onnx = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("onnx"),
    reason="onnx is not installed (the extra 'onnx')",
)


def read(data: bytes) -> Imported:
    return reader.read(Request(Content.of_bytes(data, "model"), "name", "model"))


@needs_onnx
def test_the_graph_is_the_forward_pass() -> None:
    """h = x w; r = relu(h); y = r + h: a batch of 1, 3 numbers in, 5 out, of 4 bytes."""
    trace = read(files.onnx_model()).trace
    forward = [trace.operators[k] for k in trace.call_operator[trace.call_phase == 1]]
    assert forward == ["ai.onnx::MatMul", "ai.onnx::Relu", "ai.onnx::Add"]
    assert trace.names[:5] == ("x", "w", "h", "r", "y")
    assert trace.constant_bytes.tolist() == [12, 60]
    assert trace.result_bytes[:3].tolist() == [20, 20, 20]
    assert trace.times_estimated


@needs_onnx
def test_the_backward_pass_reads_what_derivatives_need_and_adds_up_gradients() -> None:
    """h is used twice: two gradients of it are made, and added."""
    trace = read(files.onnx_model()).trace
    shown = []
    for code, a, _ in trace.instructions.tolist():
        if code == CALL and trace.call_phase[a] == 2:
            shown.append(trace.operators[trace.call_operator[a]].split("::")[1])
        elif code == RELEASE:
            shown.append(f"-{trace.names[a]}")
    assert shown == [
        "-h",
        "loss_gradient",
        "Add.backward",
        "-gradient 1 of y",
        "Relu.backward",
        "add_",
        "-gradient 4 of h",
        "-gradient 2 of r",
        "-r",
        "MatMul.backward",
        "-gradient 3 of h",
    ]
    assert trace.call_forward.tolist() == [-1, -1, -1, -1, 2, 1, -1, 0]


@needs_onnx
def test_the_summary_says_that_the_backward_pass_is_synthetic() -> None:
    summary = read(files.onnx_model()).summary
    assert summary.taken == {"operator calls": 3, "constants": 2}
    assert summary.inferred["calls of a synthetic backward pass"] == 5
    assert summary.inferred["sizes that have only a name, taken as 1"] > 0


@needs_onnx
@pytest.mark.parametrize("data", [b"\x08\x07\x3a\xff\xff\xff", b"\x08\x07", b"", b"\xff" * 50])
def test_what_is_no_model_is_refused_in_a_line(data: bytes) -> None:
    with pytest.raises(TraceError, match=r"^model: [^\n]*$"):
        read(data)


@needs_onnx
def test_a_model_on_which_onnx_ends_its_process_is_refused_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Onnx 1.23 aborts on some damaged models; a process that fails at once stands for it here."""
    monkeypatch.setattr(onnx_graph, "_CHILD", "rematsim.no_such_module")
    with pytest.raises(TraceError) as caught:
        read(files.onnx_model())
    ended = "the process that reads it ended with 1: it is damaged or too large"
    assert str(caught.value) == f"model: {ended}"


@needs_onnx
def test_names_with_line_ends_are_quoted_in_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    vertex = onnx_graph.Vertex("ai.onnx::a\nb", ["c\nd"], ["e"], False)
    graph = onnx_graph.Graph([vertex], [], [], [], {}, {})
    monkeypatch.setattr(onnx_graph, "_ask", lambda data, where: onnx_graph.Answer(graph))
    with pytest.raises(TraceError) as caught:
        read(b"")
    said = r"model: 'ai.onnx::a\nb' reads 'c\nd' before a node makes it: not in order"
    assert str(caught.value) == said


def test_without_onnx_the_message_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from rematsim.errors import MissingExtraError\n"
        "from rematsim.traces.importers.onnx_graph import load\n"
        "try: load(b'x', 'model')\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "model: an ONNX model; reading it needs onnx: pip install onnx\n"
    assert done.stdout == expected


def test_it_is_recognized_by_content_without_onnx() -> None:
    assert reader.recognizes(b"\x08\x07\x12\x04test")
    for other in (files.chakra(), files.execution_trace(), b"", b"\x08", b"\x08\xff\xff"):
        assert not reader.recognizes(other)
