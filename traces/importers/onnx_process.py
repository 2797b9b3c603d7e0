"""The process that asks the package onnx: a model on standard input, its graph on standard output.

``python -m rematsim.traces.importers.onnx_process``. It alone imports onnx; ``onnx_graph.py``
starts it. Shapes that the model does not say are inferred by onnx; what stays unknown is counted.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

import msgspec

from ..limiting import memory_limited
from ..wording import reason
from .onnx_graph import MAX_DIMENSIONS, MAX_ELEMENTS, Answer, Graph, Shape, Vertex

MEMORY_FACTOR = 8  # of a model, read and with its shapes inferred
MEMORY_BASE = 1 << 30

# ONNX element types that have a size, by their numbers: TensorProto.DataType of onnx.proto.
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
    15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 24: "float8_e8m0fnu",
}  # fmt: skip


def main() -> None:
    """Answer."""
    data = sys.stdin.buffer.read()
    try:
        import onnx
    except ImportError:
        answer = Answer(is_missing=True)
    else:
        with memory_limited(MEMORY_FACTOR * len(data) + MEMORY_BASE):
            answer = answer_to(data, onnx)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def answer_to(data: bytes, onnx: Any) -> Answer:
    """Read a model and infer its shapes; say what is wrong if that fails."""
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own, of which there are several
        return Answer(fault=f"no ONNX model, or cut off ({reason(error)})")
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # C++ exceptions of every kind
        return Answer(fault=f"shapes cannot be inferred ({reason(error)})")
    return described(model.graph)


def described(graph: Any) -> Answer:
    """Take what matters out of the messages."""
    if not graph.node:
        return Answer(fault="an ONNX model without nodes")
    try:
        return Answer(_graph(graph))
    except UnicodeDecodeError as error:
        return Answer(fault=f"a name in it is no text ({reason(error)})")


def _graph(graph: Any) -> Graph:
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
        {name: shape for name, shape in shapes.items() if _is_possible(shape)},
        dict(unknown),
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


def _is_possible(shape: Shape) -> bool:
    return len(shape.sizes) <= MAX_DIMENSIONS and math.prod(shape.sizes) <= MAX_ELEMENTS


if __name__ == "__main__":
    main()
