"""Nodes of a PyTorch execution trace, whatever its schema, in one form.

Fields are taken where they are, flat (1.0.1) or nested (from 1.0.2 on): the schema's label does
not say which there are. What the nodes mean is in ``et_operators.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from ...errors import TraceError
from ..wording import reason, show

MAX_LIST_DEPTH = 8  # of lists of tensors in lists; real ones have 2

# C++ names of element types, as the observer writes them.
DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long": "int64",
    "long int": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
}


class Tensor(NamedTuple):
    """A tensor as a node names it; ids are those of addresses, and used again.

    Attributes
    ----------
    tensor, storage : int
        Ids; storage 0 is an undefined tensor.
    nbytes : int
        Bytes of its elements.
    end_bytes : int
        How far into its storage it reaches, bytes.
    device : str
    kind : str
        Element type and shape, ``float32[64,3]``, or empty.
    argument : int
        Position of the argument or result that it is, or is in a list of.
    """

    tensor: int
    storage: int
    nbytes: int
    end_bytes: int
    device: str
    kind: str
    argument: int


class Node(NamedTuple):
    """One node: an operator, a function of autograd, a mark of the user's, ..."""

    id: int
    parent: int
    name: str
    schema: str
    tid: int
    fw_tid: int
    rf_id: int
    seq_id: int
    scope: int
    inputs: list[Tensor]
    outputs: list[Tensor]
    kernel: str  # who made a kernel that is no operator: "triton"
    values: list[Any]  # the inputs as they stand


class _Io(msgspec.Struct):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[Any] = []
    strides: list[Any] = []


class _Attribute(msgspec.Struct):
    name: str = ""
    value: Any = None


class _Raw(msgspec.Struct):
    id: int
    name: str = ""
    parent: int | None = None
    ctrl_deps: int | None = None
    op_schema: str = ""
    tid: int = 0
    fw_tid: int = 0
    rf_id: int = 0
    seq_id: int = -1
    scope: int = 0
    inputs: _Io | list[Any] = []
    input_shapes: list[Any] = []
    input_types: list[Any] = []
    outputs: _Io | list[Any] = []
    output_shapes: list[Any] = []
    output_types: list[Any] = []
    attrs: list[_Attribute] = []


_DECODER = msgspec.json.Decoder(list[_Raw])
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
_COUNTS = ("rf_id", "seq_id", "scope", "tid", "fw_tid")


def decode(blocks: Iterable[bytes], where: str) -> Iterator[Node]:
    """Decode runs of nodes, in the order of the file.

    Raises
    ------
    TraceError
        One of them is no node.
    """
    done = 0
    for block in blocks:
        try:
            raws = _DECODER.decode(block)
        except _FAILURES as error:
            what = f"one of the nodes after the first {done:,} is no node"
            raise TraceError(f"{what} of an execution trace ({reason(error)})", where) from None
        for raw in raws:
            yield _node(raw, where)
        done += len(raws)


def _node(raw: _Raw, where: str) -> Node:
    """Put a node of either layout into the one form."""
    inputs, outputs = raw.inputs, raw.outputs
    if isinstance(inputs, list):
        inputs = _Io(inputs, raw.input_shapes, raw.input_types)
    if isinstance(outputs, list):
        outputs = _Io(outputs, raw.output_shapes, raw.output_types)
    parent = raw.ctrl_deps if raw.parent is None else raw.parent
    found = {attribute.name: attribute.value for attribute in raw.attrs}
    rf_id, seq_id, scope, tid, fw_tid = (
        getattr(raw, name) if name not in found else _count(found[name], name, raw.id, where)
        for name in _COUNTS
    )
    schema, kernel = found.get("op_schema", raw.op_schema), found.get("kernel_backend", "")
    if not isinstance(schema, str) or not isinstance(kernel, str):
        raise TraceError(f"node {raw.id}: op_schema {show(schema)} is no string", where)
    return Node(
        raw.id,
        parent or 0,
        raw.name,
        schema,
        tid,
        fw_tid,
        rf_id,
        seq_id,
        scope,
        _tensors(inputs, raw.id, where),
        _tensors(outputs, raw.id, where),
        kernel,
        inputs.values,
    )


def _count(value: Any, name: str, node: int, where: str) -> int:
    """Give an attribute that is an integer."""
    if not isinstance(value, int):
        raise TraceError(f"node {node}: attribute {name} {show(value)} is no integer", where)
    return value


def _tensors(io: _Io, node: int, where: str) -> list[Tensor]:
    """Find the tensors among values, also in lists."""
    found: list[Tensor] = []
    shapes, strides, types = io.shapes, io.strides, io.types
    for position, value in enumerate(io.values):
        if value.__class__ is not list:
            continue
        shape = shapes[position] if position < len(shapes) else None
        stride = strides[position] if position < len(strides) else None
        kind = types[position] if position < len(types) else ""
        if len(value) == 6 and value[5].__class__ is str:
            found.append(_tensor(value, shape, stride, kind, position))
        elif kind.__class__ is str and "Tensor" in kind:
            _flatten((value, shape, stride), kind, position, found, 0)
    if None in found:
        raise TraceError(f"node {node}: a tensor has ids or sizes that are no counts", where)
    return found


def _flatten(
    values: tuple[Any, Any, Any], kind: str, position: int, found: list[Any], depth: int
) -> None:
    """Find the tensors in a list of tensors, or of lists of them."""
    value, shapes, strides = values
    for k, item in enumerate(value):
        if item.__class__ is not list or depth > MAX_LIST_DEPTH:
            continue
        shape = shapes[k] if shapes.__class__ is list and k < len(shapes) else None
        stride = strides[k] if strides.__class__ is list and k < len(strides) else None
        if len(item) == 6 and item[5].__class__ is str:
            found.append(_tensor(item, shape, stride, kind, position))
        else:
            _flatten((item, shape, stride), kind, position, found, depth + 1)


def _tensor(value: list[Any], shape: Any, stride: Any, kind: str, position: int) -> Any:
    """Read a tensor; None if it is none."""
    tensor, storage, offset, numel, itemsize, device = value
    for count in (tensor, storage, offset, numel, itemsize):
        if count.__class__ is not int or not 0 <= count < 2**62:
            return None
    end = (offset + numel) * itemsize
    if stride and numel and shape.__class__ is list and len(stride) == len(shape):
        try:
            last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        except TypeError:
            last = -1
        end = end if last < 0 else (offset + last + 1) * itemsize
    return Tensor(
        tensor, storage, numel * itemsize, end, device, _kind(kind, shape), position
    )


_ELEMENTS: dict[str, str] = {}


def _kind(kind: str, shape: Any) -> str:
    """Write element type and shape as the trace does."""
    element = _ELEMENTS.get(kind)
    if element is None:
        inner = str(kind).partition("Tensor(")[2].partition(")")[0]
        element = DTYPES.get(inner, "")
        if len(_ELEMENTS) < 1024:
            _ELEMENTS[kind] = element
    if not element or shape.__class__ is not list:
        return ""
    return f"{element}[{','.join(map(str, shape))}]" if len(shape) <= 32 else ""
