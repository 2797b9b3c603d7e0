"""An ONNX model's graph as plain values: operators, names, element types and shapes.

The package onnx ends its process on some damaged models, so it is asked in a process of its own
(``onnx_process.py``); what comes back is plain, and checked for its form.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import msgspec

from ...errors import MissingExtraError, TraceError
from .apart import ask

MAX_MODEL_BYTES = 512 << 20
MAX_SECONDS = 600
MAX_DIMENSIONS, MAX_ELEMENTS = 64, 2**50
_CHILD = f"{__package__}.onnx_process"


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
    unknown : dict of str to int
        What was not known, and is taken as something.
    """

    vertices: list[Vertex]
    inputs: list[str]
    weights: list[str]
    outputs: list[str]
    shapes: dict[str, Shape]
    unknown: dict[str, int]


class Answer(msgspec.Struct):
    """What the other process says: a graph, or what is wrong."""

    graph: Graph | None = None
    fault: str = ""
    is_missing: bool = False


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
    answer = Answer(is_missing=True) if find_spec("onnx") is None else _ask(data, where)
    if answer.is_missing:
        raise MissingExtraError(f"{where}: an ONNX model; reading it needs onnx: pip install onnx")
    if answer.graph is None:
        raise TraceError(answer.fault, where)
    return answer.graph


def _ask(data: bytes, where: str) -> Answer:
    """Have another process read the model."""
    return msgspec.json.decode(ask(_CHILD, data, where, MAX_SECONDS), type=Answer)
