"""Real profiles of other people's runs: what is known of them comes out.

The judge of memory is the allocator: its events, added up here by other means than the reader's.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rematsim.opcodes import CALL, CONSTANT, RELEASE
from rematsim.simulation import simulate
from rematsim.traces.contents import Content
from rematsim.traces.curves import load_curve
from rematsim.traces.importers import chakra, execution_trace
from rematsim.traces.importers.kineto_join import FOUND
from rematsim.traces.importers.reader import Imported, Request
from rematsim.traces.importing import import_trace
from rematsim.traces.trace import Trace

FILES = Path(__file__).parents[3] / "shared" / "files"
pytestmark = pytest.mark.skipif(
    not FILES.exists(), reason=f"{FILES} is not there: it is not shipped"
)
UNET = FILES / "torch" / "unet_step.execution_trace.json"
UNET_PROFILE = FILES / "torch" / "unet_step.chrome_trace.json"
VGG = FILES / "h100" / "vgg13_b128.execution_trace.json.gz"
VGG_PROFILE = FILES / "h100" / "vgg13_b128.chrome_trace.json.gz"


def held_by_results(trace: Trace) -> list[int]:
    """Bytes of results that are in memory after each call; a slow and obvious walk."""
    owner: dict[int, int] = {}
    names: dict[int, int] = {}
    size: dict[int, int] = {}
    held, found = 0, []
    for code, a, _ in trace.instructions.tolist():
        if code == CONSTANT:
            owner[a], names[a], size[a] = a, 1, 0
        elif code == CALL:
            first = int(trace.result_offsets[a])
            for k in range(first, int(trace.result_offsets[a + 1])):
                name, alias = int(trace.result_names[k]), int(trace.result_alias[k])
                if alias == -1:
                    root = name
                    names[root], size[root] = 0, int(trace.result_bytes[k])
                    held += size[root]
                elif alias >= 0:
                    root = owner[int(trace.arg_names[trace.arg_offsets[a] + alias])]
                else:
                    root = owner[int(trace.result_names[first - alias - 2])]
                owner[name] = root
                names[root] += 1
            found.append(held)
        elif code == RELEASE:
            root = owner[a]
            names[root] -= 1
            held -= size[root] * (names[root] == 0)
        if found:
            found[-1] = held
    return found


def load_json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def test_live_bytes_are_the_allocators_after_every_call_of_a_cpu_step() -> None:
    """To 8 bytes: a number that Python handed over is no tensor of the execution trace."""
    imported = import_trace([UNET, UNET_PROFILE])
    profile = load_json(UNET_PROFILE)["traceEvents"]
    memory = sorted((e for e in profile if e["name"] == "[memory]"), key=lambda e: e["ts"])
    times = np.array([event["ts"] for event in memory])
    sums = np.cumsum([event["args"]["Bytes"] for event in memory])
    starts = {
        event["args"]["Record function id"]: event["ts"]
        for event in profile
        if event.get("cat") == "cpu_op"
    }
    begins = [starts[number] for number in called(UNET)]
    recorded = sums[np.searchsorted(times, [*begins[1:], np.inf]) - 1]
    ours = held_by_results(imported.trace)
    assert len(ours) == len(recorded) == imported.trace.n_calls
    assert np.abs(np.array(ours) - recorded).max() <= 8
    assert imported.summary.taken[FOUND] == 235


def called(path: Path) -> list[int]:
    """Record-function ids of the calls of an execution trace."""
    from rematsim.traces.importers import et_nodes, et_operators, et_storages, json_stream

    with path.open("rb") as file:
        stream = json_stream.ElementStream(file, "nodes", "")
        run = et_operators.operators_of(et_nodes.decode(stream.blocks(), ""))
    return [step.operator.rf_id for step in et_storages.follow(run).steps]


def test_the_replays_peak_is_the_allocators_peak_of_a_cpu_step() -> None:
    """Workspaces included, constants aside: to the byte."""
    trace = import_trace([UNET, UNET_PROFILE]).trace
    peak = simulate(trace, mutation="inplace").unlimited_peak_bytes
    recorded = load_curve(UNET_PROFILE)
    assert peak - int(trace.constant_bytes.sum()) == recorded.allocated_bytes.max() == 24_255_436


def test_a_gpu_step_is_joined_by_order_and_its_peak_is_that_of_its_own_allocations() -> None:
    """To 0.002%: the allocator rounds up to 512 bytes."""
    imported = import_trace([VGG_PROFILE, VGG])
    taken = imported.summary.taken
    assert taken["operators found by order"] == 742
    assert taken[FOUND] == 118
    assert imported.summary.dropped["frees of what was allocated before the profile"] == 28
    own, peak, held = set(), 0, 0
    events = [e for e in load_json(VGG_PROFILE)["traceEvents"] if e["name"] == "[memory]"]
    for event in sorted(events, key=lambda e: e["ts"]):
        size, address = event["args"]["Bytes"], event["args"]["Addr"]
        if event["args"]["Device Type"] != 1 or (size < 0 and address not in own):
            continue
        own.add(address) if size > 0 else own.discard(address)
        held += size
        peak = max(peak, held)
    trace = imported.trace
    ours = simulate(trace, mutation="inplace").unlimited_peak_bytes
    assert ours - int(trace.constant_bytes.sum()) == pytest.approx(peak, rel=2e-5)
    assert not trace.times_estimated


def test_alone_the_peak_of_a_gpu_step_is_near() -> None:
    """Without memory events: releases at last use, no workspaces; 3% below."""
    trace = import_trace([VGG]).trace
    joined = import_trace([VGG, VGG_PROFILE]).trace
    ours, measured = (simulate(t, mutation="inplace").unlimited_peak_bytes for t in (trace, joined))
    assert measured * 0.97 < ours < measured


def test_one_step_is_found_in_a_profile_of_forty() -> None:
    imported = import_trace(
        [
            FILES / "pytorch_et_1.0.1_linear.json",
            FILES / "kineto_linear_40steps.pt.trace.json.gz",
        ]
    )
    assert imported.summary.taken["occurrences of the run in the profile"] == 39
    assert imported.trace.n_calls == 342


def packed(name: str) -> bytes:
    """The one file in a .tar.gz."""
    with tarfile.open(FILES / name) as archive:
        member = next(entry for entry in archive if entry.isfile())
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def read(reader: Any, name: str) -> Imported:
    content = Content.of_bytes(packed(name), name)
    assert reader.recognizes(content.head)
    return reader.read(Request(content, name, name))


def test_three_steps_of_resnet_with_collectives() -> None:
    """53 convolutions and batch norms three times over; 81% of its storage ids are used again."""
    imported = read(execution_trace, "pytorch_et_1.1.1-chakra_resnet_1gpu.json.tar.gz")
    trace = imported.trace
    counts = dict(zip(trace.operators, np.bincount(trace.call_operator).tolist(), strict=True))
    assert counts["aten::cudnn_convolution"] == counts["aten::cudnn_batch_norm"] == 159
    assert counts["c10d::allreduce_"] == 15
    assert counts["aten::addmm"] == 3
    assert imported.summary.inferred["releases of gradients"] == 2 * 161
    assert imported.summary.inferred["gradients held to the end"] == 161


def test_a_chakra_trace_of_resnet() -> None:
    imported = read(chakra, "chakra_et_protobuf_rank0.tar.gz")
    assert imported.summary.taken["kernels"] == 1216, "all that are in the file"
    assert "kernels that no call launched" not in imported.summary.dropped
    assert imported.trace.compute_ns == 329_543_000, "the sum of the kernels' durations"
    convolutions = imported.trace.operators.index("aten::conv2d")
    assert (imported.trace.call_time_ns[imported.trace.call_operator == convolutions] > 0).all()


def test_the_peak_of_a_memory_timeline_is_that_of_the_imported_step() -> None:
    """Another run of the same step, 0.001% apart: 152 bytes of numbers that are constants here."""
    trace = import_trace([UNET, UNET_PROFILE]).trace
    ours = simulate(trace, mutation="inplace").unlimited_peak_bytes
    for name in ("unet_step.memory_timeline.json", "unet_step.memory_timeline.raw.json.gz"):
        recorded = load_curve(FILES / "torch" / name)
        assert ours == pytest.approx(int(recorded.allocated_bytes.max()), rel=1e-5)


def test_memory_events_of_2021_have_no_totals() -> None:
    curve = load_curve(FILES / "kineto_2021_resnet50_profile_memory.pt.trace.json.gz")
    assert curve.is_relative
    assert curve.allocated_bytes.max() == pytest.approx(2_791.6e6, rel=1e-4)


def test_an_inference_model_gets_a_backward_pass() -> None:
    pytest.importorskip("onnx", reason="onnx is not installed (the extra 'onnx')")
    imported = import_trace([FILES / "onnx_light_resnet50_inference.onnx"])
    assert imported.format == "ONNX model"
    assert imported.summary.taken["operator calls"] == 176
    assert imported.trace.operators.count("ai.onnx::Conv") == 1
