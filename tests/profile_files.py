"""Small profiles made by hand, in every form that the readers know; used by their tests.

The step in them: ``y = relu_(addmm(b, x, w.t()))``, a backward of one product, an update of w. Its
storages and bytes can be followed with a pencil.
"""

from __future__ import annotations

import io
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from rematsim.errors import TraceError
from rematsim.traces.importers import et_nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ADDMM = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1) -> Tensor"
EMPTY = "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"
LINEAR = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
T = "aten::t(Tensor(a) self) -> Tensor(a)"
RELU_ = "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
CLAMP_ = "aten::clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
ITEM = "aten::_local_scalar_dense(Tensor self) -> Scalar"
ENGINE = "autograd::engine::evaluate_function"
ACCUMULATE = "torch::autograd::AccumulateGrad"


def tensor(number: int, storage: int, *shape: int, offset: int = 0, device: str = "cpu") -> Any:
    """A tensor of float32 as a node names it, with its shape beside it."""
    numel = 1
    for size in shape:
        numel *= size
    return [number, storage, offset, numel, 4, device], list(shape)


def node(
    number: int,
    parent: int,
    name: str,
    schema: str = "",
    inputs: tuple[Any, ...] = (),
    outputs: tuple[Any, ...] = (),
    **attributes: Any,
) -> dict[str, Any]:
    """A node in no layout yet."""
    return {
        "id": number,
        "parent": parent,
        "name": name,
        "op_schema": schema,
        "inputs": inputs,
        "outputs": outputs,
        **attributes,
    }


X, W, B = tensor(101, 1, 2, 3), tensor(102, 2, 5, 3), tensor(103, 3, 5)
WT = tensor(104, 2, 3, 5)
SCRATCH, Y = tensor(105, 4, 10), tensor(106, 5, 2, 5)
G = tensor(107, 6, 2, 5)
GW = tensor(108, 4, 5, 3)  # the id of the scratch storage, for another storage

STEP = [
    node(1, 0, "[pytorch|profiler|execution_trace|process]"),
    node(2, 1, "[pytorch|profiler|execution_trace|thread]"),
    node(3, 2, "aten::linear", LINEAR, (X, W, B), (Y,), seq_id=7),
    node(4, 3, "aten::t", T, (W,), (WT,)),
    node(5, 3, "aten::addmm", ADDMM, (B, X, WT), (Y,), seq_id=7),
    node(6, 5, "aten::empty", EMPTY, (), (SCRATCH,)),
    node(7, 5, "aten::empty", EMPTY, (), (Y,)),
    node(8, 2, "aten::relu_", RELU_, (Y,), (Y,)),
    node(9, 8, "aten::clamp_min_", CLAMP_, (Y,), (Y,)),
    node(10, 2, "aten::item", ITEM, (Y,), ()),
    node(11, 2, f"{ENGINE}: AddmmBackward0"),
    node(12, 11, "AddmmBackward0", "", (G,), (), seq_id=7),
    node(13, 12, "aten::mm", MM, (Y, X), (GW,)),
    node(14, 2, f"{ENGINE}: {ACCUMULATE}"),
    node(15, 14, ACCUMULATE, "", (GW,)),
    node(16, 2, "Optimizer.step#SGD.step"),
    node(17, 16, "aten::add_", ADD_, (W, GW), (W,)),
]
# Calls: t, addmm, relu_, mm, add_. Constants: w (60 bytes), b (20), x (24).


def execution_trace(nodes: list[dict[str, Any]] | None = None, schema: str = "1.0.1") -> bytes:
    """Write nodes in a layout: 1.0.1 is flat, 1.1.1 has strides, the others are nested."""
    make = _flat if schema == "1.0.1" else _nested
    written = [make(item, schema.startswith("1.1.1")) for item in nodes or STEP]
    return json.dumps({"schema": schema, "pid": 1, "nodes": written, "finish_ts": 2}).encode()


def _flat(item: dict[str, Any], _: bool) -> dict[str, Any]:
    known = {"rf_id": item["id"], "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0}
    flat = known | {k: v for k, v in item.items() if k not in ("inputs", "outputs")}
    for side in ("input", "output"):
        values = [value for value, _ in item[f"{side}s"]]
        flat[f"{side}s"] = values
        flat[f"{side}_shapes"] = [shape for _, shape in item[f"{side}s"]]
        flat[f"{side}_types"] = ["Tensor(float)"] * len(values)
    return flat


def _nested(item: dict[str, Any], has_strides: bool) -> dict[str, Any]:
    flat = _flat(item, False)
    nested = {"id": flat["id"], "name": flat["name"], "ctrl_deps": flat["parent"]}
    for side in ("input", "output"):
        io = {
            "values": flat[f"{side}s"],
            "shapes": flat[f"{side}_shapes"],
            "types": flat[f"{side}_types"],
        }
        if has_strides:
            io["strides"] = [_strides(shape) for shape in io["shapes"]]
        nested[f"{side}s"] = io
    names = ("rf_id", "seq_id", "scope", "tid", "fw_tid", "op_schema", "kernel_backend")
    nested["attrs"] = [{"name": n, "type": "", "value": flat[n]} for n in names if n in flat]
    return nested


def _strides(shape: list[int]) -> list[int]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.insert(0, step)
        step *= size
    return steps


def op_event(number: int, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """An operator in a Kineto trace."""
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 9,
        "tid": 9,
        "ts": ts,
        "dur": dur,
        "args": {"Ev Idx": number, **args},
    }


def memory_event(ts: float, size: int, address: int, total: int, gpu: bool = False) -> Any:
    """An allocation or a free."""
    args = {
        "Device Type": int(gpu),
        "Device Id": 0 if gpu else -1,
        "Addr": address,
        "Bytes": size,
        "Total Allocated": total,
        "Total Reserved": 0,
    }
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "tid": 9, "ts": ts} | {
        "args": args
    }


# The step: each operator of STEP for 10 us or the time of what is in it.
EVENTS = [
    op_event(0, "aten::linear", 100, 50, **{"Record function id": 3}),
    op_event(1, "aten::t", 105, 5, **{"Record function id": 4}),
    op_event(2, "aten::addmm", 115, 30, **{"Record function id": 5}),
    op_event(3, "aten::empty", 117, 2, **{"Record function id": 6}),
    memory_event(118, 40, 0x1000, 144),
    op_event(4, "aten::empty", 120, 2, **{"Record function id": 7}),
    memory_event(121, 40, 0x2000, 184),
    memory_event(140, -40, 0x1000, 144),
    op_event(5, "aten::relu_", 160, 10, **{"Record function id": 8}),
    op_event(6, "aten::clamp_min_", 162, 6, **{"Record function id": 9}),
    op_event(7, "aten::item", 175, 5, **{"Record function id": 10}),
    op_event(8, "aten::mm", 200, 40, **{"Record function id": 13}),
    memory_event(210, 60, 0x3000, 204),
    op_event(9, "aten::add_", 260, 20, **{"Record function id": 17}),
    memory_event(250, -40, 0x2000, 164),
    memory_event(290, -60, 0x3000, 104),
]


def kineto(events: list[Any] | None = None, **beside: Any) -> bytes:
    """Write a Kineto trace."""
    document = {"schemaVersion": 1, "deviceProperties": [], **beside}
    return json.dumps(document | {"traceEvents": EVENTS if events is None else events}).encode()


def by_order(events: list[Any]) -> list[Any]:
    """The same events without record-function ids."""
    plain = []
    for event in events:
        args = {k: v for k, v in event["args"].items() if k != "Record function id"}
        plain.append(event | {"args": args})
    return plain


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, number: int, value: int | str) -> bytes:
    """An attribute of a Chakra node."""
    return field(10, field(1, name) + field(number, value))


def chakra(nodes: list[dict[str, Any]] | None = None, micros: int = 3) -> bytes:
    """Write nodes as a Chakra execution trace, each with a duration."""
    messages = [field(2, field(1, "schema") + field(29, "1.0.1"))]
    for item in nodes or [n for n in STEP if n["op_schema"]]:
        flat = _flat(item, False)
        message = field(1, flat["id"]) + field(2, f"{flat['name']}(0)") + field(3, 4)
        message += field(4, varint(flat["parent"]))
        message += field(5, b"".join(map(varint, flat.get("data", ()))))
        message += field(7, flat.get("micros", micros))
        for number, side in ((8, "input"), (9, "output")):
            parts = (flat[f"{side}s"], flat[f"{side}_shapes"], flat[f"{side}_types"])
            message += field(number, b"".join(field(k + 1, repr(p)) for k, p in enumerate(parts)))
        message += attribute("is_cpu_op", 27, int(flat.get("is_cpu", True)))
        message += attribute("op_schema", 29, flat["op_schema"])
        for name in ("seq_id", "rf_id", "tid"):
            message += attribute(name, 9, flat[name])
        messages.append(message)
    return b"".join(varint(len(message)) + message for message in messages)


def snapshot(**changed: Any) -> bytes:
    """Write a CUDA memory snapshot: 100 bytes from before, then +1000, +500, -1000."""
    events = [
        {"action": "segment_alloc", "addr": 1, "size": 4096, "stream": 0, "time_us": 10},
        {"action": "alloc", "addr": 1, "size": 1000, "stream": 0, "time_us": 11},
        {"action": "alloc", "addr": 2, "size": 500, "stream": 0, "time_us": 12},
        {"action": "free_requested", "addr": 1, "size": 1000, "stream": 0, "time_us": 13},
        {"action": "free_completed", "addr": 1, "size": 1000, "stream": 0, "time_us": 14},
    ]
    segments = [{"device": 0, "total_size": 6144, "allocated_size": 600, "blocks": []}]
    return pickle.dumps({"segments": segments, "device_traces": [events, []]} | changed)


def onnx_model() -> bytes:
    """Write a model: y = relu(h) + h, h = x w; w is 3 by 5, x has a batch of unknown size."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    numpy = __import__("numpy")
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Add", ["r", "h"], ["y"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", floats, ["batch", 3])],
        [helper.make_tensor_value_info("y", floats, ["batch", 5])],
        [numpy_helper.from_array(numpy.zeros((3, 5), numpy.float32), "w")],
    )
    model = helper.make_model(graph)
    onnx.checker.check_model(model)
    stream = io.BytesIO()
    onnx.save(model, stream)
    return stream.getvalue()


def check_limits(
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[bytes], Any],
    data: bytes,
    n_nodes: int,
    limiting: ModuleType,
) -> None:
    """A file is refused by its bytes, and by its nodes, of which little may be said."""
    monkeypatch.setattr(et_nodes, "MAX_NODES", n_nodes)
    read(data)
    monkeypatch.setattr(et_nodes, "MAX_NODES", 3)
    with pytest.raises(TraceError, match="more than 3 nodes: record fewer steps$"):
        read(data)
    monkeypatch.setattr(limiting, "MAX_BYTES", len(data) - 1)
    with pytest.raises(TraceError, match=r"larger than [\d,]+ bytes: too large for its format$"):
        read(data)
