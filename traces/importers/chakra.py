"""Reader of Chakra execution traces (protobuf) that were converted from PyTorch's.

They hold the nodes of a PyTorch execution trace with durations, and the kernels that each
launched. The converter cuts an operator into one node for each kernel; they are put together
again. Then ``et_operators.py`` and what follows it do their work. The JSON form has no sizes and
is not read. Field numbers: ``schema/protobuf/et_def.proto`` of mlcommons/chakra.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from ...errors import TraceError
from ..wording import reason, show
from . import protobuf_wire as wire
from .reader import Imported, Request, Summary

if TYPE_CHECKING:
    from .et_nodes import Node
    from .et_operators import Run
    from .et_storages import Lives

FORMAT = "Chakra execution trace"

ID, NAME, CONTROL, DATA, DURATION, INPUTS, OUTPUTS, ATTRIBUTE = 1, 2, 4, 5, 7, 8, 9, 10
VALUES, SHAPES, TYPES = 1, 2, 3
ATTRIBUTE_NAME, INT64, BOOL, STRING = 1, 9, 27, 29

MAX_BYTES = 128 << 20  # of a file; read, it takes up to eight times as much
MAX_CLIMB = 300  # from a kernel to the call that launched it
MAX_MICROS = 2**43  # a duration; three months
# A version (field 1), and then the first attribute (field 2) with its name (its field 1).
_METADATA = re.compile(rb"\n.\d[\w.-]*(\x12.|\Z)|\x12.{1,2}\n.(schema|pid|time|version)", re.DOTALL)
_PART = re.compile(r"\(\d+\)$")
_FAILURES = (wire.WireError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


class Piece(NamedTuple):
    """One message: a node, its duration in microseconds, and whether it ran on the CPU."""

    node: Node
    micros: int
    is_cpu: bool


def recognizes(head: bytes) -> bool:
    """Say whether it begins with the global metadata: a version, or what PyTorch's file says."""
    try:
        length, at = wire.varint(head, 0)
    except wire.WireError:
        return False
    return bool(_METADATA.match(head[at : at + min(length, 4096)]))


def read(request: Request) -> Imported:
    """Read a Chakra execution trace.

    Raises
    ------
    TraceError
        It is cut off or none, or has no operators of PyTorch in it.
    """
    from ..builder import TraceBuilder
    from .et_operators import operators_of
    from .et_storages import date_releases, follow
    from .et_traces import WITHOUT_TIME, to_trace

    pieces = list(_pieces(request))
    nodes, micros = _whole(pieces)
    run = operators_of(nodes.values())
    lives = follow(run)
    if not lives.steps:
        raise TraceError("no operator of PyTorch on tensors in it", request.where)
    times, n_kernels = _times_ns(pieces, nodes, micros, lives)
    inferred = date_releases(lives, run)
    builder = TraceBuilder(request.name, request.where, rebinding="storage")
    workspaces = [step.operator.temporary_bytes for step in lives.steps]
    trace = to_trace(lives, builder, times, workspaces)
    inferred["workspaces from operators inside"] = sum(map(bool, workspaces))
    inferred[WITHOUT_TIME] = times.count(0)
    taken = {
        "operator calls": trace.n_calls,
        "constants": trace.n_constants,
        "storages that calls make": len(lives.storages) - trace.n_constants,
        "kernels": n_kernels,
    }
    dropped = _dropped(run, lives)
    n_others = sum(not piece.is_cpu for piece in pieces) - n_kernels
    dropped |= {"kernels that no call launched": n_others} if n_others else {}
    return Imported(trace, Summary(taken, {k: v for k, v in inferred.items() if v}, dropped))


def _dropped(run: Run, lives: Lives) -> dict[str, int]:
    """Count what is left out."""
    dropped = Counter({"nodes that are no calls": len(run.nodes) - len(run.operators)})
    dropped.update(lives.dropped)
    elsewhere = sum(storage.device != lives.device for storage in lives.storages)
    dropped[f"sizes of storages that are not on {lives.device}"] = elsewhere
    return {what: count for what, count in dropped.items() if count}


def _pieces(request: Request) -> Iterator[Piece]:
    """Read the messages behind the metadata."""
    from .et_nodes import check_count

    try:
        for number, message in enumerate(wire.messages(request.data.open(MAX_BYTES))):
            check_count(number, request.where)
            if number:
                yield _piece(message)
    except _FAILURES as error:
        if isinstance(error, TraceError) and error.where:
            raise
        raise TraceError(
            f"not a Chakra trace, or cut off ({reason(error)})", request.where
        ) from None


def _piece(message: bytes) -> Piece:
    """Read a node."""
    from .et_nodes import Node

    found: dict[int, Any] = {}
    attributes: dict[str, Any] = {}
    for number, _, value in wire.fields(message):
        if number == ATTRIBUTE and isinstance(value, bytes):
            name, attribute = _attribute(value)
            attributes[name] = attribute
        elif number not in (CONTROL, DATA):
            found[number] = value
        elif number not in found:
            found[number] = value if isinstance(value, int) else wire.varint(value + b"\0", 0)[0]
    inputs, values = _tensors(found.get(INPUTS, b""))
    outputs, _ = _tensors(found.get(OUTPUTS, b""))
    number = found.get(ID, 0)
    micros = found.get(DURATION, 0)
    if not isinstance(number, int) or not isinstance(micros, int) or micros > MAX_MICROS:
        raise wire.WireError(f"node {show(number)}: duration {show(micros)}")
    # A kernel's first data dependency launched it; its control dependency may be the call before.
    is_cpu = attributes.get("is_cpu_op", 1) != 0
    node = Node(
        number,
        found.get(CONTROL, 0) if is_cpu else found.get(DATA) or found.get(CONTROL, 0),
        _PART.sub("", wire.text(found.get(NAME, b""))),
        str(attributes.get("op_schema", "")),
        _integer(attributes, "tid", 0),
        _integer(attributes, "fw_tid", 0),
        _integer(attributes, "rf_id", 0),
        _integer(attributes, "seq_id", -1),
        _integer(attributes, "scope", 0),
        inputs,
        outputs,
        "",
        values,
    )
    return Piece(node, micros, is_cpu)


def _attribute(message: bytes) -> tuple[str, int | str]:
    """Read an attribute: a name and a value of one of many types."""
    name: str = ""
    value: int | str = 0
    for number, kind, found in wire.fields(message):
        if number == ATTRIBUTE_NAME:
            name = wire.text(found)
        elif number == STRING:
            value = wire.text(found)
        elif isinstance(found, int) and kind == wire.VARINT:
            value = wire.signed(found) if number == INT64 else found
    return name, value


def _integer(attributes: dict[str, Any], name: str, default: int) -> int:
    """Give an attribute that is a number."""
    value = attributes.get(name, default)
    return value if isinstance(value, int) else default


def _tensors(message: Any) -> tuple[list[Any], list[Any]]:
    """Read inputs or outputs: Python literals as text."""
    from .et_nodes import tensors_of

    if not isinstance(message, bytes) or not message:
        return [], []
    parts: dict[int, Any] = {VALUES: [], SHAPES: [], TYPES: []}
    for number, _, value in wire.fields(message):
        if number in parts:
            parts[number] = _literal(wire.text(value))
    if not all(isinstance(part, list) for part in parts.values()):
        raise wire.WireError("inputs or outputs that are no lists")
    return tensors_of(parts[VALUES], parts[SHAPES], parts[TYPES]), parts[VALUES]


@functools.lru_cache(maxsize=4096)
def _literal(text: str) -> Any:
    """Read a Python literal; what comes out is not to be changed, for it is given again."""
    return ast.literal_eval(text or "[]")


def _whole(pieces: list[Piece]) -> tuple[dict[int, Node], Counter[int]]:
    """Put the parts of each operator together: nodes by id, and their microseconds."""
    whole: dict[tuple[int, int, str], int] = {}
    same: dict[int, int] = {}
    nodes: dict[int, Node] = {}
    micros: Counter[int] = Counter()
    for node, duration, is_cpu in sorted(pieces, key=lambda piece: piece.node.id):
        if not is_cpu:
            continue
        key = (node.tid, node.rf_id or -node.id, node.name)
        first = same[node.id] = whole.setdefault(key, node.id)
        if first == node.id:
            nodes[first] = replace(node, parent=same.get(node.parent, node.parent))
        micros[first] += duration
    return nodes, micros


def _times_ns(
    pieces: list[Piece], nodes: dict[int, Node], micros: Counter[int], lives: Lives
) -> tuple[list[int], int]:
    """Give each call's time, and how many kernels they have.

    A call's time is that of the kernels it launched, or its own where there are none at all.
    """
    kernels = [piece for piece in pieces if not piece.is_cpu]
    if not kernels:
        return [micros[step.operator.node] * 1000 for step in lives.steps], 0
    place = {step.operator.node: k for k, step in enumerate(lives.steps)}
    first = {(node.tid, node.rf_id, node.name): node.id for node in nodes.values()}
    original = {piece.node.id: piece.node for piece in pieces if piece.is_cpu}
    times, n_kernels = [0] * len(lives.steps), 0
    for node, duration, _ in kernels:
        above = node.parent
        for _ in range(MAX_CLIMB):
            part = original.get(above)
            if part is None:
                break
            whole = first.get((part.tid, part.rf_id, part.name), part.id)
            if whole in place:
                times[place[whole]] += duration * 1000
                n_kernels += 1
                break
            above = part.parent
    return times, n_kernels
