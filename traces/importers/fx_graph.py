"""Reader of FX graphs as ``fx_dump.py`` writes them: the joint graph of a compiled training step.

Such a graph is static and in order. Values are released after their last use, outputs are kept;
times are those in the file, or else a cost model's.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...errors import InputError, TraceError
from ...opcodes import PHASES
from ..builder import TraceBuilder
from ..costs import TensorKind, operator_ns
from ..devices import DEFAULT, Device, device
from ..trace import MAX_VALUE
from ..wording import reason, show
from .liveness import PlannedCall, emit
from .reader import Imported, Request, Summary

FORMAT = "FX graph"
MARK, VERSION = "rematsim fx graph", 1
MAX_DIMENSIONS = 64
MAX_BYTES = 48 << 20  # decoded, it takes up to fifteen times as much


class Tensor(msgspec.Struct):
    """A value: its dtype and shape, and the bytes of its elements."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int

    def kind(self) -> TensorKind:
        """Give what it is made of.

        Raises
        ------
        InputError
            Its shape is none, or too large to reckon with.
        """
        elements = 1
        for size in self.shape[: MAX_DIMENSIONS + 1]:
            elements = elements * size if 0 <= size <= MAX_VALUE else MAX_VALUE + 1
            if elements > MAX_VALUE or len(self.shape) > MAX_DIMENSIONS:
                shape = f"{show(self.shape)} of {show(self.name)}"
                raise InputError(f"shape {shape}: not up to {MAX_DIMENSIONS} sizes, 2^53 elements")
        return TensorKind(self.dtype, tuple(self.shape))


class Input(Tensor):
    """A value that no node makes; ``label`` is what the model calls it."""

    label: str = ""


class Result(Tensor):
    """A value that a node makes; ``alias`` is the operand that it is a view of, or -1."""

    alias: int = -1


class Node(msgspec.Struct):
    """A call."""

    name: str
    target: str
    args: list[str]
    results: list[Result]
    mutates: list[int] = []
    phase: str = ""
    module: str = ""
    tags: int = 0
    time_ns: int = -1


class Graph(msgspec.Struct):
    """What the file holds."""

    format: str
    version: int
    inputs: list[Input]
    nodes: list[Node]
    outputs: list[str]


def recognizes(head: bytes) -> bool:
    """Say whether it begins as the dumper writes."""
    return head.lstrip()[:100].replace(b" ", b"").startswith(b'{"format":"rematsimfxgraph"')


def read(request: Request) -> Imported:
    """Read a graph."""
    where = request.where
    graph = _decode(request)
    is_timed = bool(graph.nodes) and all(node.time_ns >= 0 for node in graph.nodes)
    chosen = None if is_timed else device(request.device or DEFAULT)
    builder = TraceBuilder(
        request.name, where, rebinding="storage", times_estimated=chosen is not None
    )
    names = _input_names(graph)
    kinds: dict[str, TensorKind] = {}
    try:
        for value in graph.inputs:
            kinds[value.name] = value.kind()
            builder.constant(names[value.name], value.bytes, kind=value.kind().text())
        calls = list(_calls(graph, names, kinds, chosen))
    except InputError as error:
        raise error if isinstance(error, TraceError) else TraceError(str(error), where) from None
    kept = {*(names.get(output, output) for output in graph.outputs), *names.values()}
    released = emit(builder, calls, kept)
    taken = {"nodes": len(calls), "inputs": len(graph.inputs), "outputs": len(graph.outputs)}
    inferred = {"releases after last use": released}
    if chosen:
        inferred[f"times from the cost model of {chosen.name}"] = len(calls)
    return Imported(builder.build(), Summary(taken, inferred))


def _decode(request: Request) -> Graph:
    """Decode the file."""
    data = request.data.bytes(MAX_BYTES)
    try:
        graph = msgspec.json.decode(data, type=Graph)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        hint = ", it may be cut off" if "truncated" in str(error) else ""
        raise TraceError(f"no FX graph ({reason(error)}){hint}", request.where) from None
    if (graph.format, graph.version) != (MARK, VERSION):
        rule = f"this rematsim reads version {VERSION} of {MARK!r}"
        raise TraceError(f"{show(graph.format)}, version {graph.version}: {rule}", request.where)
    return graph


def _input_names(graph: Graph) -> dict[str, str]:
    """Name the inputs after what the model calls them, where no two have the same name."""
    labels = {value.name: value.label or value.name for value in graph.inputs}
    results = {result.name for node in graph.nodes for result in node.results}
    if len({*labels.values()}) == len(labels) and results.isdisjoint(labels.values()):
        return labels
    return {name: name for name in labels}


def _calls(
    graph: Graph, names: dict[str, str], kinds: dict[str, TensorKind], chosen: Device | None
) -> Iterator[PlannedCall]:
    """Turn nodes into calls."""
    for node in graph.nodes:
        for name in node.args:
            if name not in kinds:
                raise InputError(f"node {show(node.name)}: no value {show(name)} before it")
        results = [result.kind() for result in node.results]
        kinds.update(zip((result.name for result in node.results), results, strict=True))
        time_ns = node.time_ns
        if chosen is not None:
            time_ns = operator_ns(node.target, [kinds[name] for name in node.args], results, chosen)
        if node.phase not in PHASES:
            raise InputError(f"node {show(node.name)}: phase {show(node.phase)} is not one")
        yield PlannedCall(
            node.target,
            [names.get(name, name) for name in node.args],
            [(result.name, result.bytes, result.alias) for result in node.results],
            time_ns,
            mutates=node.mutates,
            phase=PHASES.index(node.phase),
            module=node.module,
            tags=node.tags,
            kinds=[kind.text() for kind in results],
        )
