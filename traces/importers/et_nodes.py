"""Nodes of a PyTorch execution trace, whatever its schema, in one form.

Fields are taken where they are, flat (1.0.1) or nested (from 1.0.2 on): the schema's label does
not say which there are. What the nodes mean is in ``et_operators.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import msgspec

from ...errors import TraceError
from ..wording import reason, show
from .et_schemas import RUNNING_STATISTICS as VALUES_MATTER

MAX_BYTES = 256 << 20  # of a file; read, it takes up to four times as much
MAX_NODES = 1_000_000  # some hundred bytes each, however little the file says of them
MAX_COUNT = 2**53  # of ids, elements and bytes
MAX_DIMENSIONS = 64
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


# Without a schema, but what they are given matters.
ACCUMULATE = "torch::autograd::AccumulateGrad"
KERNELS = ("nccl:", "gloo:", "mpi:", "triton")
ON_TENSORS = (ACCUMULATE, *KERNELS)
MAX_VALUES = 16  # of the inputs of operators whose other inputs matter, too


# Files have many of these: structs are made several times as fast as named tuples.
class Tensor(msgspec.Struct):
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
    argument : int
        Position of the argument or result that it is, or is in a list of.
    kind : str
        Element type and shape, ``float32[64,3]``, or nothing.
    shape : list or None
    """

    tensor: int
    storage: int
    nbytes: int
    end_bytes: int
    device: str
    argument: int
    kind: str
    shape: Any


class Node(msgspec.Struct):
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
    values: list[Any]  # the first inputs as they stand, where other things than tensors matter


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
    kernel_backend: str = ""


_NOTHING = _Io()
_DECODER = msgspec.json.Decoder(list[_Raw])
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
_ATTRIBUTES: dict[str, type] = dict.fromkeys(("rf_id", "seq_id", "scope", "tid", "fw_tid"), int)
_ATTRIBUTES |= dict.fromkeys(("op_schema", "kernel_backend"), str)


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
        done += len(raws)
        check_count(done, where)
        for raw in raws:
            yield _node(raw, where)


def check_count(n_nodes: int, where: str) -> None:
    """Raise a TraceError if a file has so many nodes that they would fill the memory."""
    if n_nodes > MAX_NODES:
        raise TraceError(f"more than {MAX_NODES:,} nodes: record fewer steps", where)


def _node(raw: _Raw, where: str) -> Node:
    """Put a node of either layout into the one form."""
    inputs, outputs = raw.inputs, raw.outputs
    if isinstance(inputs, list):
        inputs = _Io(inputs, raw.input_shapes, raw.input_types)
    if isinstance(outputs, list):
        outputs = _Io(outputs, raw.output_shapes, raw.output_types)
    values = inputs.values
    for attribute in raw.attrs:
        wanted = _ATTRIBUTES.get(attribute.name)
        if wanted is None:
            continue
        if not isinstance(attribute.value, wanted):
            what = f"attribute {attribute.name} is {show(attribute.value)}"
            raise TraceError(f"node {raw.id}: {what}", where)
        setattr(raw, attribute.name, attribute.value)
    parent = raw.ctrl_deps if raw.parent is None else raw.parent
    if not raw.op_schema and not raw.kernel_backend and not raw.name.startswith(ON_TENSORS):
        inputs = outputs = _NOTHING
    return Node(
        raw.id,
        parent or 0,
        raw.name,
        raw.op_schema,
        raw.tid,
        raw.fw_tid,
        raw.rf_id,
        raw.seq_id,
        raw.scope,
        _tensors(inputs, raw.id, where),
        _tensors(outputs, raw.id, where),
        raw.kernel_backend,
        values[:MAX_VALUES] if raw.name in VALUES_MATTER else [],
    )


def tensors_of(values: list[Any], shapes: list[Any], types: list[Any]) -> list[Tensor]:
    """Find the tensors among the values of inputs or outputs.

    Raises
    ------
    ValueError
        One of them has ids or sizes that are no counts.
    """
    return _tensors(_Io(values, shapes, types), 0, "")


def _tensors(io: _Io, node: int, where: str) -> list[Tensor]:
    """Find the tensors among values, also in lists."""
    found: list[Tensor] = []
    columns = zip_longest(io.values, io.shapes, io.strides, io.types)
    for position, (value, shape, stride, kind) in enumerate(columns):
        if value.__class__ is not list:
            continue
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


def _tensor(value: list[Any], shape: Any, stride: Any, written_type: Any, position: int) -> Any:
    """Read a tensor; None if it is none."""
    tensor, storage, offset, numel, itemsize, device = value
    for count in (tensor, storage, offset, numel, itemsize):
        if count.__class__ is not int or not 0 <= count <= MAX_COUNT:
            return None
    sizes = tuple(shape) if shape.__class__ is list else None
    steps = tuple(stride) if stride.__class__ is list else ()
    try:
        kind = _kind(written_type, sizes)
        end = _end(offset, numel, sizes, steps)
    except TypeError:  # lists for sizes or for types
        kind, end = "", offset + numel
    return Tensor(tensor, storage, numel * itemsize, end * itemsize, device, position, kind, shape)


@lru_cache(maxsize=4096)
def _kind(written_type: Any, sizes: tuple[Any, ...] | None) -> str:
    """Give element type and shape."""
    inner = str(written_type).partition("Tensor(")[2].partition(")")[0]
    element = DTYPES.get(inner, "")
    if not element or sizes is None or len(sizes) > MAX_DIMENSIONS:
        return ""
    return f"{element}[{','.join(map(str, sizes))}]"


@lru_cache(maxsize=4096)
def _end(offset: int, numel: int, sizes: tuple[Any, ...] | None, steps: tuple[Any, ...]) -> int:
    """Give how far a tensor reaches, in elements; as if it were dense where strides are none."""
    dense = offset + numel
    if not numel or not sizes or len(sizes) != len(steps):
        return dense
    last = offset
    for size, step in zip(sizes, steps, strict=True):
        if size.__class__ is not int or step.__class__ is not int or size < 1 or step < 0:
            return dense
        last += (size - 1) * step
    return min(last, MAX_COUNT) + 1
