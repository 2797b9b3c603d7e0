"""An ONNX model's graph as plain values: operators, names, element types and shapes.

It alone knows the package onnx, which is imported when a model is read. Shapes that the model does
not say are inferred by onnx; what stays unknown is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from ...errors import MissingExtraError, TraceError
from ..wording import reason

MAX_MODEL_BYTES = 512 << 20
MAX_ELEMENTS = 2**50

# ONNX element types that have a size, by their numbers: TensorProto.DataType of onnx.proto.
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
    15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn", 19: "float8_e5m2",
}  # fmt: skip


class Shape(NamedTuple):
    """Element type and sizes of a value."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def kind(self) -> str:
        """As a trace writes it: ``float32[1,3]``."""
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"

    @property
    def is_float(self) -> bool:
        """Whether a gradient of it means anything."""
        return "float" in self.dtype


class Vertex(NamedTuple):
    """One node: ``operator`` is the domain and the type, ``ai.onnx::Conv``."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    has_subgraph: bool


class Graph(NamedTuple):
    """A graph in the order of the file, which is that of its execution.

    Attributes
    ----------
    vertices : list of Vertex
    inputs, weights, outputs : list of str
    shapes : dict of str to Shape
        Of what is known.
    unknown : Counter
        What was not known, and is taken as something.
    """

    vertices: list[Vertex]
    inputs: list[str]
    weights: list[str]
    outputs: list[str]
    shapes: dict[str, Shape]
    unknown: Counter[str]


def load(data: bytes, where: str) -> Graph:
    """Read a model and infer its shapes.

    Raises
    ------
    MissingExtraError
        onnx is not installed.
    TraceError
        It is no model, or too large.
    """
    if len(data) > MAX_MODEL_BYTES:
        hint = "save it without its weights (external data)"
        raise TraceError(f"a model of more than {MAX_MODEL_BYTES:,} bytes: {hint}", where)
    try:
        import onnx
        from onnx import shape_inference
    except ImportError:
        raise MissingExtraError(
            f'{where}: an ONNX model; reading it needs onnx: pip install "rematsim[onnx]"'
        ) from None
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own, of which there are several
        raise TraceError(f"no ONNX model, or cut off ({reason(error)})", where) from None
    try:
        model = shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # C++ exceptions of every kind
        raise TraceError(f"shapes cannot be inferred ({reason(error)})", where) from None
    if not model.graph.node:
        raise TraceError("an ONNX model without nodes", where)
    return _graph(model.graph)


def _graph(graph: Any) -> Graph:
    """Take what matters out of the messages."""
    unknown: Counter[str] = Counter()
    shapes: dict[str, Shape] = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        shape = _shape(value.type.tensor_type, unknown)
        if shape is not None:
            shapes[value.name] = shape
    for tensor in graph.initializer:
        if tensor.data_type in DTYPES and all(size >= 0 for size in tensor.dims):
            shapes[tensor.name] = Shape(DTYPES[tensor.data_type], tuple(tensor.dims))
    weights = [tensor.name for tensor in graph.initializer]
    known = set(weights)
    return Graph(
        [_vertex(node) for node in graph.node],
        [value.name for value in graph.input if value.name not in known],
        weights,
        [value.name for value in graph.output],
        {name: shape for name, shape in shapes.items() if math.prod(shape.sizes) <= MAX_ELEMENTS},
        unknown,
    )


def _vertex(node: Any) -> Vertex:
    domain = node.domain or "ai.onnx"
    has_subgraph = any(a.HasField("g") or a.graphs for a in node.attribute)
    operator = f"{domain}::{node.op_type}"
    return Vertex(operator, list(node.input), list(node.output), has_subgraph)


def _shape(tensor: Any, unknown: Counter[str]) -> Shape | None:
    """Read a type; a size that has only a name is taken as 1."""
    dtype = DTYPES.get(tensor.elem_type)
    if dtype is None or not tensor.HasField("shape"):
        return None
    sizes = []
    for dimension in tensor.shape.dim:
        is_known = dimension.HasField("dim_value") and dimension.dim_value >= 0
        unknown["sizes that have only a name, taken as 1"] += not is_known
        sizes.append(dimension.dim_value if is_known else 1)
    return Shape(dtype, tuple(sizes))
