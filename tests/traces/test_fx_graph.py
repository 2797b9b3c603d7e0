"""FX graphs: what the dumper writes of a joint graph, and what the reader makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fuzz_formats import FX
from rematsim.errors import InputError, TraceError
from rematsim.opcodes import RELEASE, TAG_RANDOM
from rematsim.simulation import simulate
from rematsim.traces.importing import Import, import_trace
from rematsim.traces.loading import load_trace


def read(tmp_path: Path, values: object, **options: Any) -> Import:
    (tmp_path / "g.json").write_text(json.dumps(values))
    return import_trace([tmp_path / "g.json"], **options)


def changed(path: str, value: Any) -> dict[str, Any]:
    values = json.loads(json.dumps(FX))
    *places, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner: Any = values
    for place in places:
        inner = inner[place]
    inner[last] = value
    return values  # type: ignore[no-any-return]


def test_a_graph_is_read_as_worked_out_by_hand(tmp_path: Path) -> None:
    found = read(tmp_path, FX)
    trace = found.trace
    assert trace.names == ("weight", "mm", "t")
    assert trace.operators == ("aten.mm.default", "aten.t.default")
    assert trace.constant_bytes.tolist() == [16]
    assert trace.result_bytes.tolist() == [16, 0]
    assert trace.result_alias.tolist() == [-1, 0]
    assert trace.mutate_args.tolist() == [0]
    assert trace.call_phase.tolist() == [1, 2]
    assert trace.modules == ("a.b",)
    assert trace.value_kinds == ("float32[2,2]",)
    assert trace.times_estimated
    released = [trace.names[a] for code, a, _ in trace.instructions if code == RELEASE]
    assert released == ["mm"], "weights and outputs are kept"
    assert found.summary.inferred["times from the cost model of h100"] == 2


def test_measured_times_are_taken_if_all_are_there(tmp_path: Path) -> None:
    half = changed("nodes/0/time_ns", 100)
    assert read(tmp_path, half).trace.times_estimated
    half["nodes"][1]["time_ns"] = 7
    trace = read(tmp_path, half).trace
    assert not trace.times_estimated
    assert trace.call_time_ns.tolist() == [100, 7]


def test_a_device_can_be_chosen(tmp_path: Path) -> None:
    slow, fast = (read(tmp_path, FX, device=name).trace for name in ("rtx4090", "h200"))
    assert slow.compute_ns > 0
    assert fast.compute_ns > 0
    with pytest.raises(InputError, match="device 'abacus': unknown"):
        read(tmp_path, FX, device="abacus")


BROKEN: list[tuple[str, object, str]] = [
    (
        "version",
        2,
        "'rematsim fx graph', version 2: this rematsim reads version 1 of 'rematsim fx graph'",
    ),
    ("nodes/0/args", ["y"], "node 'mm': no value 'y' before it"),
    ("nodes/0/phase", "x", "node 'mm': phase 'x' is not one"),
    (
        "nodes/0/results/0/bytes",
        -1,
        "CALL 'aten.mm.default': size of 'mm', -1 is not an integer from 0 to 2^53",
    ),
    (
        "nodes/0/results/0/shape",
        [-1],
        "shape [-1] of 'mm': not up to 64 sizes, 2^53 elements",
    ),
    (
        "nodes/0/results/0/shape",
        [2**30] * 2,
        "shape [1073741824, 1073741824] of 'mm': not up to 64 sizes, 2^53 elements",
    ),
    ("nodes/0/results/0/dtype", "x", "dtype 'x': its size is not known"),
    (
        "nodes/0/args",
        3,
        "no FX graph (Expected `array`, got `int` - at `$.nodes[0].args`)",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), BROKEN)
def test_a_broken_graph_is_refused_with_its_message(
    tmp_path: Path, path: str, value: object, message: str
) -> None:
    with pytest.raises(TraceError) as caught:
        read(tmp_path, changed(path, value))
    assert str(caught.value) == f"{tmp_path}/g.json: {message}"


def model() -> tuple[Any, tuple[Any, Any]]:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.norm = torch.nn.BatchNorm2d(4)
            self.linear = torch.nn.Linear(4, 10)
            self.dropout = torch.nn.Dropout(0.1)

        def forward(self, x: Any, y: Any) -> Any:
            h = torch.relu(self.norm(self.conv(x))).mean((2, 3))
            a, b = self.linear(self.dropout(h)).split(5, 1)
            return torch.nn.functional.cross_entropy(torch.cat([b, a], 1), y)

    return Net(), (torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,)))


def test_a_joint_graph_is_dumped_and_read(tmp_path: Path) -> None:
    """Views have no bytes, gradients and the loss are outputs, dropout is random."""
    net, args = model()
    from rematsim.traces.fx_dump import dump_joint_graph

    dump_joint_graph(net, args, tmp_path / "g.json.gz")
    trace = load_trace(tmp_path / "g.json.gz")
    assert {"model.conv.weight", "model.norm.running_mean"} <= set(trace.names)
    phases = trace.call_phase.tolist()
    assert phases == sorted(phases), "forward, then backward"
    by_name = {trace.operators[op]: k for k, op in enumerate(trace.call_operator)}
    assert trace.call_tags[by_name["aten.native_dropout.default"]] == TAG_RANDOM
    assert trace.call_phase[by_name["aten.convolution.default"]] == 1
    assert trace.call_phase[by_name["aten.convolution_backward.default"]] == 2
    split = by_name["aten.split.Tensor"]
    assert trace.result_alias[slice(*trace.result_offsets[split : split + 2])].tolist() == [0, 0]
    released = {trace.names[a] for code, a, _ in trace.instructions if code == RELEASE}
    constants = trace.n_constants
    kept = [name for name in trace.names[constants:] if name not in released]
    assert len(kept) == 10, "3 statistics, the loss, 6 gradients"
    held = sum(parameter.nbytes for parameter in net.parameters())
    assert simulate(trace).unlimited_peak_bytes > held
    assert trace.constant_bytes.sum() == held + sum(
        value.nbytes for value in (*net.buffers(), *args)
    )


def test_a_loss_can_be_given(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from rematsim.traces.fx_dump import dump_joint_graph

    x = torch.randn(4, 8)
    dump_joint_graph(torch.nn.Linear(8, 2), (x,), tmp_path / "g.json", loss=lambda out: out.sum())
    trace = load_trace(tmp_path / "g.json")
    assert set(trace.call_phase.tolist()) == {1, 2}


def test_writes_and_attributes_of_a_forward_graph_are_dumped(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from rematsim.traces.fx_dump import dump_graph
    from torch.fx.experimental.proxy_tensor import make_fx

    weight = torch.ones(4)

    def work(x: Any) -> Any:
        return x.add_(weight).view(2, 2), torch.topk(x, 2)

    traced = make_fx(work)(torch.randn(4))
    times = {node.name: 5 for node in traced.graph.nodes}
    dump_graph(traced, tmp_path / "g.json", times_ns=times)
    trace = load_trace(tmp_path / "g.json")
    assert trace.constant_bytes.tolist() == [16, 16]
    assert not trace.times_estimated
    assert trace.mutate_args.tolist() == [0]
    assert set(trace.call_phase.tolist()) == {1}
    assert len(trace.result_bytes) == 4


def test_a_graph_without_values_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from rematsim.traces.fx_dump import dump_graph

    traced = torch.fx.symbolic_trace(torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match=r"no meta\['val'\]"):
        dump_graph(traced, tmp_path / "g.json")
    assert list(tmp_path.iterdir()) == []
