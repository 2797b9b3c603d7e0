"""PyTorch execution traces: which nodes are calls, on which storages, and when these are freed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import profile_files as files
import pytest
from profile_files import STEP, execution_trace, node, tensor
from rematsim.errors import TraceError
from rematsim.opcodes import CALL, CONSTANT, RELEASE, TAG_COLLECTIVE
from rematsim.traces.contents import Content
from rematsim.traces.importers import et_nodes
from rematsim.traces.importers import execution_trace as reader
from rematsim.traces.importers.reader import Imported, Request
from rematsim.traces.trace import Trace

SCHEMAS = ["1.0.1", "1.0.2-chakra.0.0.4", "1.0.3", "1.0.4", "1.1.0", "1.1.1-chakra.0.0.4"]


def read(data: bytes, *beside: bytes) -> Imported:
    """Read an execution trace, with a Kineto trace beside it if one is given."""
    companions = tuple(Content.of_bytes(other, "kineto") for other in beside)
    return reader.read(Request(Content.of_bytes(data, "et"), "name", "et", companions))


def trace_of(nodes: Sequence[dict[str, Any]]) -> Trace:
    return read(execution_trace(list(nodes))).trace


def calls(trace: Trace) -> list[str]:
    return [trace.operators[k].split("::")[1] for k in trace.call_operator]


def events(trace: Trace) -> list[str]:
    """Calls by operator and releases by name, in order."""
    shown = []
    for code, a, _ in trace.instructions.tolist():
        if code == CALL:
            shown.append(calls(trace)[a])
        elif code == RELEASE:
            shown.append(f"-{trace.names[a]}")
    return shown


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_layout_of_a_step_is_the_same_trace(schema: str) -> None:
    assert read(execution_trace(schema=schema)).trace == read(execution_trace()).trace


def test_the_schemas_label_does_not_matter() -> None:
    """A file is read by what is in it: a flat one whose label says nested."""
    relabeled = execution_trace().replace(b'"1.0.1"', b'"9.9.9-unheard-of"')
    assert read(relabeled).trace == read(execution_trace()).trace


def test_a_call_is_counted_once_and_by_the_one_that_does_the_work() -> None:
    """linear is its t and addmm; addmm is more than the empty in it; relu_ is clamp_min_."""
    assert calls(trace_of(STEP)) == ["t", "addmm", "clamp_min_", "mm", "add_.Tensor"]


def test_the_order_of_nodes_in_the_file_does_not_matter() -> None:
    """Nodes are written when they end; ids say when they began."""
    assert trace_of(STEP[::-1]) == trace_of(STEP)


def test_sizes_views_and_updates_of_the_step() -> None:
    trace = trace_of(STEP)
    assert trace.constant_bytes.tolist() == [60, 20, 24]
    assert trace.result_bytes.tolist() == [0, 40, 60]
    assert trace.result_alias.tolist() == [0, -1, -1]
    assert trace.mutate_offsets.tolist() == [0, 0, 0, 1, 1, 2]
    assert trace.rebinding == "storage"
    assert trace.value_kinds[trace.result_kind[1]] == "float32[2,5]"
    assert trace.times_estimated


def test_what_is_made_inside_and_not_returned_is_workspace() -> None:
    assert trace_of(STEP).call_workspace_bytes.tolist() == [0, 40, 0, 0, 0]


def test_a_storage_id_that_is_used_again_is_another_storage() -> None:
    """Storage 4 is 40 bytes of scratch first and the gradient of w, 60 bytes, then."""
    again = node(20, 2, "aten::mm", files.MM, (files.GW, files.X), (tensor(120, 5, 7, 7),))
    trace = trace_of([*STEP, again])
    assert trace.result_bytes.tolist() == [0, 40, 60, 196]
    assert trace.result_alias.tolist() == [0, -1, -1, -1]


def test_a_storage_goes_after_its_last_use_and_a_gradient_stays() -> None:
    """y (x2) after mm; the gradient (x3) is its parameter's until the end."""
    assert events(trace_of(STEP)) == ["t", "addmm", "-x1", "clamp_min_", "mm", "-x2", "add_.Tensor"]


def test_a_gradient_goes_when_the_optimizer_drops_gradients() -> None:
    dropped = node(18, 2, "Optimizer.zero_grad#SGD.zero_grad")
    more = node(19, 2, "aten::mm", files.MM, (files.X, files.W), (tensor(130, 30, 2, 2),))
    assert events(trace_of([*STEP, dropped, more]))[-4:] == ["add_.Tensor", "-x3", "mm", "-x4"]


def test_a_storage_first_seen_as_an_operand_is_a_constant_before_all_calls() -> None:
    codes = trace_of(STEP).instructions[:, 0].tolist()
    assert codes[:3] == [CONSTANT] * 3
    assert CONSTANT not in codes[3:]


def test_phases_and_forward_calls_are_told_from_the_engine_and_the_optimizer() -> None:
    trace = trace_of(STEP)
    assert trace.call_phase.tolist() == [1, 1, 1, 2, 3]
    assert trace.call_forward.tolist() == [-1, -1, -1, 1, -1]


def test_an_operand_on_another_device_is_not_in_the_storage_of_that_id() -> None:
    """A Python number is a tensor on the CPU whose id may have been a GPU tensor's."""
    x, y = (tensor(k, k, 100, device="cuda:0") for k in (1, 2))
    number = tensor(9, 2, device="cpu")
    add = node(4, 1, "aten::add_", files.ADD_, (x, number), (x,))
    trace = trace_of([node(3, 1, "aten::mm", files.MM, (x,), (y,)), add])
    assert trace.constant_bytes.tolist() == [400, 0]
    assert [trace.names[k] for k in trace.arg_names] == ["c0", "c0", "c2"]


def test_a_kernel_without_a_schema_writes_all_that_it_is_given() -> None:
    x, y = tensor(1, 1, 4), tensor(2, 2, 4)
    triton = node(3, 1, "triton_poi_fused_0", "", (x, y), (), kernel_backend="triton")
    made = node(2, 1, "aten::mm", files.MM, (x,), (y,))
    trace = trace_of([made, triton])
    assert trace.mutate_args.tolist() == [0, 1]
    assert trace.operators == ("aten::mm", "triton_poi_fused_0")


def test_a_collective_is_one_call_and_marked() -> None:
    schema = "c10d::allreduce_(Tensor[] tensors, Any group) -> (Tensor[], Any)"
    x = tensor(1, 1, 4)
    outer = node(2, 1, "c10d::allreduce_", schema, (x,), (x,))
    trace = trace_of([outer, node(3, 2, "nccl:all_reduce", "", (x,))])
    assert calls(trace) == ["allreduce_"]
    assert trace.call_tags.tolist() == [TAG_COLLECTIVE]
    assert trace.mutate_args.tolist() == [0]


def test_batch_norm_in_training_writes_its_running_statistics() -> None:
    """Its schema does not say so."""
    schema = "aten::native_batch_norm(Tensor input, Tensor? w, Tensor? b, Tensor? m, Tensor? v, "
    schema += "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    tensors = [tensor(k, k, 4) for k in range(1, 6)]
    norm = node(2, 1, "aten::native_batch_norm", schema, tuple(tensors), (tensor(9, 9, 4),))
    data = json.loads(execution_trace([norm]))
    data["nodes"][0]["inputs"] += [True, 0.1, 1e-5]
    data["nodes"][0]["input_types"] += ["Bool", "Double", "Double"]
    data["nodes"][0]["input_shapes"] += [[], [], []]
    assert read(json.dumps(data).encode()).trace.mutate_args.tolist() == [3, 4]
    data["nodes"][0]["inputs"][5] = False
    assert read(json.dumps(data).encode()).trace.mutate_args.tolist() == []


def test_synchronized_batch_norm_always_writes_them() -> None:
    name = "aten::batch_norm_gather_stats_with_counts"
    schema = f"{name}(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, "
    schema += "Tensor? running_var, float m, float eps, Tensor counts) -> (Tensor, Tensor)"
    tensors = tuple(tensor(k, k, 4) for k in range(1, 6))
    trace = trace_of([node(2, 1, name, schema, tensors, (tensor(9, 9, 4),))])
    assert trace.mutate_args.tolist() == [3, 4]


def test_strides_tell_how_far_a_tensor_reaches() -> None:
    """An expanded tensor has more elements than its storage."""
    x = [1, 1, 0, 40, 4, "cpu"], [10, 4]
    data = json.loads(
        execution_trace([node(2, 1, "aten::mm", files.MM, (x,), (files.Y,))], "1.1.1")
    )
    data["nodes"][0]["inputs"]["strides"] = [[0, 1]]
    assert read(json.dumps(data).encode()).trace.constant_bytes.tolist() == [16]


def test_the_summary_says_what_was_taken_inferred_and_dropped() -> None:
    summary = read(execution_trace()).summary
    assert summary.taken == {
        "operator calls": 5,
        "constants": 3,
        "storages that calls make": 2,
    }
    assert summary.inferred == {
        "releases after last use": 1,
        "gradients held to the end": 1,
        "times from the cost model (h100)": 5,
        "workspaces from operators inside": 1,
    }
    assert summary.dropped == {
        "nodes that are no calls": 11,
        "operators without tensor results": 1,
    }


WHOLE = execution_trace()
BROKEN = {
    "cut off": (WHOLE[:-40], "et: JSON that ends in the middle: the file is cut off"),
    "no nodes": (b'{"schema": "1"}', "et: no array 'nodes' in the outermost object"),
    "nodes in a list": (b'[{"nodes": []}]', "et: no array 'nodes' in the outermost object"),
    "no operator": (b'{"nodes": []}', "et: no operator on tensors in it"),
    "a word for a node": (
        b'{"nodes": ["x"]}',
        "et: one of the nodes after the first 0 is no node of an execution trace "
        "(Expected `object`, got `str` - at `$[0]`)",
    ),
    "no id": (
        b'{"nodes": [{"name": "x"}]}',
        "et: one of the nodes after the first 0 is no node of an execution trace "
        "(Object missing required field `id` - at `$[0]`)",
    ),
    "a negative size": (
        WHOLE.replace(b"[101, 1, 0, 6, 4,", b"[101, 1, 0, -6, 4,"),
        "et: node 3: a tensor has ids or sizes that are no counts",
    ),
    "an attribute of the wrong type": (
        execution_trace(schema="1.1.1").replace(b'"value": 7', b'"value": "7"', 1),
        "et: node 3: attribute seq_id is '7'",
    ),
    "behind the array, garbage": (
        WHOLE[:-1] + b", x}",
        "et: not JSON (JSON is malformed: object keys must be strings (byte 40))",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_execution_trace_is_refused_with_its_message(what: str) -> None:
    data, message = BROKEN[what]
    with pytest.raises(TraceError) as caught:
        read(data)
    assert str(caught.value).split(" (")[0] == message.split(" (")[0]


def test_it_is_recognized_by_content() -> None:
    assert reader.recognizes(WHOLE)
    assert reader.recognizes(b"\n " + execution_trace(schema="1.1.1"))
    for other in (files.kineto(), b'{"nodes": []}', b"", b"\xff{", files.chakra()):
        assert not reader.recognizes(other)


def test_what_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_limits(monkeypatch, read, execution_trace(), len(STEP), et_nodes)
