"""Reader of ONNX models: their graph as the forward pass, and a backward pass made up for it.

A model says how to infer, not how it was trained. The backward pass is synthetic: for each
operator, in reverse, one call that reads what its derivative needs and makes the gradients. Times
are estimated; the backward of an operator costs what it did, once for each gradient it makes.
"""

from __future__ import annotations

from collections import Counter

from ...errors import InputError, TraceError
from ...opcodes import PHASE_BACKWARD, PHASE_FORWARD, TAG_DATA_DEPENDENT, TAG_RANDOM
from ..builder import TraceBuilder
from ..costs import TensorKind, operator_ns
from ..devices import DEFAULT, Device
from ..devices import device as named
from ..trace import MAX_VALUE
from ..wording import show
from .onnx_graph import Graph, Shape, Vertex, load
from .protobuf_wire import BYTES, VARINT, WireError, varint
from .reader import Imported, Request, Summary

FORMAT = "ONNX model"
MAX_IR_VERSION = 100

# ModelProto's fields that may stand second, with their wire types: onnx.proto.
_SECOND = {2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES, 14: BYTES}

CONSTANTS = frozenset(["ai.onnx::Constant", "ai.onnx::ConstantOfShape"])
VIEWS = frozenset(
    f"ai.onnx::{name}" for name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
)
RANDOM = frozenset(
    f"ai.onnx::{name}" for name in ("RandomNormal", "RandomUniform", "Multinomial", "Bernoulli")
)
DATA_DEPENDENT = frozenset(["ai.onnx::NonZero", "ai.onnx::Unique", "ai.onnx::Compress"])
# What a derivative reads besides the gradient: inputs (i), outputs (o); of others, both.
READS = {
    "Add": "", "Sub": "", "Sum": "", "Neg": "", "Concat": "", "Transpose": "", "Pad": "",
    "ReduceSum": "", "ReduceMean": "", "GlobalAveragePool": "", "AveragePool": "", "Slice": "",
    "Relu": "o", "Sigmoid": "o", "Tanh": "o", "Softmax": "o", "LogSoftmax": "o", "Exp": "o",
    "Sqrt": "o", "Conv": "i", "Gemm": "i", "MatMul": "i", "Mul": "i", "Div": "i",
    "BatchNormalization": "i", "LayerNormalization": "i", "Gather": "i", "Erf": "i", "Gelu": "i",
}  # fmt: skip
# Inputs that have no gradient though they are numbers: running statistics.
WITHOUT_GRADIENT = {"ai.onnx::BatchNormalization": (3, 4)}
# ATen's operators of like cost.
COSTS = {"Conv": "aten::convolution", "Gemm": "aten::matmul", "MatMul": "aten::matmul"}


def recognizes(head: bytes) -> bool:
    """Say whether it begins like a ModelProto: the version of its format, then a known field."""
    try:
        if not head.startswith(b"\x08"):
            return False
        version, at = varint(head, 1)
        key, _ = varint(head, at)
    except WireError:
        return False
    return 0 < version < MAX_IR_VERSION and _SECOND.get(key >> 3) == key & 7


def read(request: Request) -> Imported:
    """Read a model.

    Raises
    ------
    MissingExtraError
        onnx is not installed.
    TraceError
        It is no model, or its nodes are not in the order of execution.
    """
    graph = load(request.data.bytes(), request.where)
    device = request.device or DEFAULT
    writer = _Writer(graph, request, named(device))
    writer.forward()
    writer.backward()
    trace = writer.builder.build()
    inferred = {
        f"times from the cost model ({device})": trace.n_calls,
        "calls of a synthetic backward pass": writer.n_backward,
        "releases after last use": writer.n_releases,
        **graph.unknown,
        **writer.unknown,
    }
    taken = {"operator calls": trace.n_calls - writer.n_backward, "constants": trace.n_constants}
    dropped = {"subgraphs": sum(vertex.has_subgraph for vertex in graph.vertices)}
    return Imported(
        trace,
        Summary(
            taken,
            {what: count for what, count in inferred.items() if count},
            {what: count for what, count in dropped.items() if count},
        ),
    )


class _Writer:
    """Writes the forward pass, then the backward pass."""

    def __init__(self, graph: Graph, request: Request, device: Device) -> None:
        self.builder = TraceBuilder(request.name, request.where, times_estimated=True)
        self.unknown: Counter[str] = Counter()
        self.n_backward = self.n_releases = 0
        self._graph, self._where, self._device = graph, request.where, device
        self._bound: set[str] = set()
        self._differentiable: set[str] = set()
        self._gradients: dict[str, str] = {}
        self._names = 0
        self._calls: list[int] = []
        self._vertices: list[Vertex] = []
        self._weights = list(graph.weights)
        self._last_use: dict[str, int] = {}

    def forward(self) -> None:
        """Write constants and the calls of the graph; outputs are released by nobody."""
        weights = self._weights
        for vertex in self._graph.vertices:
            if vertex.operator in CONSTANTS:
                weights += vertex.outputs
            else:
                self._vertices.append(vertex)
        for name in dict.fromkeys([*self._graph.inputs, *weights]):
            self._constant(name)
        self._differentiable.update(w for w in weights if self._is_float(w))
        backward = len(self._vertices)
        self._plan(backward)
        for place, vertex in enumerate(self._vertices):
            self._forward_call(vertex)
            self._release_after(place, [*vertex.inputs, *vertex.outputs])

    def _constant(self, name: str) -> None:
        if name in self._bound or not name:
            return
        self._bound.add(name)
        shape = self._graph.shapes.get(name)
        self.builder.constant(name, self._bytes(name), kind=shape.kind if shape else "")

    def _plan(self, n_forward: int) -> None:
        """Say when each value is used last, in the forward pass or in the backward pass."""
        for place, vertex in enumerate(self._vertices):
            for name in (*vertex.inputs, *vertex.outputs):
                self._last_use[name] = place
            if any(name in self._differentiable for name in vertex.inputs):
                self._differentiable.update(o for o in vertex.outputs if self._is_float(o))
        for place, vertex in enumerate(reversed(self._vertices)):
            for name in self._saved(vertex):
                self._last_use[name] = n_forward + place
        for name in (*self._graph.outputs, *self._graph.inputs, *self._weights):
            self._last_use[name] = 2 * n_forward

    def _saved(self, vertex: Vertex) -> list[str]:
        """Give the values that the derivative of a node reads."""
        if vertex.operator in VIEWS or not self._wanted(vertex):
            return []
        reads = READS.get(vertex.operator.removeprefix("ai.onnx::"), "io")
        names = vertex.inputs * ("i" in reads) + vertex.outputs * ("o" in reads)
        return [name for name in dict.fromkeys(names) if name and self._bytes(name)]

    def _wanted(self, vertex: Vertex) -> list[str]:
        """Give the inputs whose gradients a node's backward makes."""
        if not any(name in self._differentiable for name in vertex.outputs):
            return []
        fixed = WITHOUT_GRADIENT.get(vertex.operator, ())
        inputs = dict.fromkeys(n for k, n in enumerate(vertex.inputs) if k not in fixed)
        return [name for name in inputs if name in self._differentiable]

    def _forward_call(self, vertex: Vertex) -> None:
        args = [name for name in vertex.inputs if name]
        for name in args:
            if name not in self._bound:
                what = f"{show(vertex.operator)} reads {show(name)}"
                raise TraceError(f"{what} before a node makes it: not in order", self._where)
        outputs = [name for name in vertex.outputs if name]
        is_view = vertex.operator in VIEWS and bool(args) and len(outputs) == 1
        results = [(name, self._bytes(name), 0 if is_view else -1) for name in outputs]
        self._bound.update(outputs)
        tags = TAG_RANDOM * (vertex.operator in RANDOM)
        tags |= TAG_DATA_DEPENDENT * (vertex.operator in DATA_DEPENDENT)
        time = 0 if is_view else self._ns(vertex)
        kinds = [s.kind if (s := self._graph.shapes.get(name)) else "" for name in outputs]
        self._calls.append(
            self.builder.call(
                vertex.operator, args, results, time, phase=PHASE_FORWARD, tags=tags, kinds=kinds
            )
        )

    def backward(self) -> None:
        """Write the synthetic backward pass, and the gradients that it begins with."""
        self.builder.backward()
        for name in dict.fromkeys(self._graph.outputs):
            if name in self._differentiable and name in self._bound:
                self._gradient_call("rematsim::loss_gradient", [name], [name], 0, -1)
        n_forward = len(self._vertices)
        for place, vertex in enumerate(reversed(self._vertices)):
            call = self._calls[n_forward - 1 - place]
            self._backward_call(vertex, call)
            self._release_after(n_forward + place, [*vertex.inputs, *vertex.outputs])

    def _backward_call(self, vertex: Vertex, forward: int) -> None:
        """Write the backward of one node: gradients of its outputs in, of its inputs out."""
        given = [self._gradients[o] for o in vertex.outputs if o in self._gradients]
        wanted = self._wanted(vertex)
        if given and wanted:
            args = [*given, *self._saved(vertex)]
            operator = f"{vertex.operator}.backward"
            time = len(wanted) * (0 if vertex.operator in VIEWS else self._ns(vertex))
            self._gradient_call(operator, args, wanted, time, forward)
        for name in vertex.outputs:
            if name in self._gradients:
                self.builder.release(self._gradients.pop(name))
                self.n_releases += 1

    def _gradient_call(
        self, operator: str, args: list[str], wanted: list[str], time_ns: int, forward: int
    ) -> None:
        """Make gradients; one of what has a gradient already is added to it."""
        results, added = [], []
        for name in wanted:
            self._names += 1
            new = f"gradient {self._names} of {name}"
            results.append((new, self._bytes(name), -1))
            if name in self._gradients:
                added.append((self._gradients[name], new))
            else:
                self._gradients[name] = new
        shapes = [self._graph.shapes.get(name) for name in wanted]
        self.builder.call(
            operator,
            args,
            results,
            min(time_ns, MAX_VALUE),
            phase=PHASE_BACKWARD,
            forward=forward,
            kinds=[shape.kind if shape else "" for shape in shapes],
        )
        self.n_backward += 1 + len(added)
        for total, new in added:
            size = self._bytes(wanted[[r[0] for r in results].index(new)])
            time = round(3 * size / self._device.bandwidth * 1e9) + self._device.launch_ns
            self.builder.call(
                "aten::add_", [total, new], [], time, mutates=[0], phase=PHASE_BACKWARD
            )
            self.builder.release(new)
            self.n_releases += 1

    def _release_after(self, place: int, names: list[str]) -> None:
        """Release what is used for the last time."""
        for name in dict.fromkeys(names):
            if name in self._bound and self._last_use.get(name, -1) <= place:
                self._bound.discard(name)
                self.builder.release(name)
                self.n_releases += 1

    def _is_float(self, name: str) -> bool:
        shape = self._graph.shapes.get(name)
        return shape is not None and shape.is_float

    def _bytes(self, name: str) -> int:
        """Give a value's size; 0, counted, where it is not known."""
        shape = self._graph.shapes.get(name)
        if shape is None:
            self.unknown["values of unknown size, taken as 0 bytes"] += 1
            return 0
        return _kind(shape).nbytes()

    def _ns(self, vertex: Vertex) -> int:
        """Estimate the time of a node."""
        operator = COSTS.get(vertex.operator.removeprefix("ai.onnx::"), vertex.operator)
        shapes = self._graph.shapes
        operands = [_kind(shapes[name]) for name in vertex.inputs if name in shapes]
        results = [_kind(shapes[name]) for name in vertex.outputs if name in shapes]
        try:
            return min(operator_ns(operator, operands, results, self._device), MAX_VALUE)
        except InputError:
            return self._device.launch_ns


def _kind(shape: Shape) -> TensorKind:
    return TensorKind(shape.dtype, shape.sizes)
