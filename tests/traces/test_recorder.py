"""Capture against the truth: PyTorch's own allocator events, and a second capture.

Needs torch; without it only the message that says so is tested.
"""

from __future__ import annotations

import runpy
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rematsim
from rematsim import traces
from rematsim.errors import InputError, MissingExtraError, TraceError
from rematsim.opcodes import (
    PHASE_BACKWARD,
    PHASE_FORWARD,
    PHASE_OPTIMIZER,
    TAG_DATA_DEPENDENT,
    TAG_RANDOM,
)
from rematsim.traces.bundled import bundled_path
from rematsim.traces.loading import load_trace
from rematsim.traces.recording import Death, RecordedCall, Recording

EXAMPLE = Path(__file__).parents[2] / "examples" / "capture_models.py"


@pytest.fixture
def torch() -> Any:
    """Give torch, one thread and a seed; skip where it is absent."""
    module = pytest.importorskip(
        "torch", reason="capture needs torch: pip install rematsim[capture]"
    )
    module.set_num_threads(1)
    module.manual_seed(0)
    return module


@pytest.fixture
def models(torch: Any) -> dict[str, Callable[[], Any]]:
    """Give the models of the bundled traces."""
    made: dict[str, Callable[[], Any]] = runpy.run_path(str(EXAMPLE))["MODELS"]
    return made


def test_without_torch_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("capturing", "recorder"):
        monkeypatch.delitem(sys.modules, f"rematsim.traces.{name}", raising=False)
        monkeypatch.delattr(traces, name, raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'rematsim\[capture\]'"):
        _ = traces.capture


def curve(recording: Recording) -> list[int]:
    """Return the bytes made in the block and alive when each call begins."""
    sizes: dict[int, int] = {}
    found = []
    for event in recording.events:
        if isinstance(event, Death):
            sizes.pop(event.storage, 0)
        elif isinstance(event, RecordedCall):
            found.append(sum(sizes.values()))
            sizes.update(event.bytes_after)
    return found


@pytest.mark.parametrize("name", ["mlp", "unet", "resnet32"])
def test_live_bytes_are_those_of_the_allocator(
    torch: Any, models: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every call; scalars that PyTorch makes on its own, 8 bytes each, are left aside."""
    from rematsim.traces.recorder import Recorder

    starts: list[int] = []
    begin = Recorder._begin

    def stamped(self: Any, *call: Any) -> Any:
        starts.append(time.time_ns())
        return begin(self, *call)

    monkeypatch.setattr(Recorder, "_begin", stamped)
    made = models[name]()
    made.step()
    with (
        torch.profiler.profile(profile_memory=True) as profile,
        traces.capture(made.model, made.optimizer) as log,
    ):
        made.step()
    events = sorted(
        (event.start_ns(), event.nbytes())
        for event in profile.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    totals = [0]
    for _, change in events:
        totals.append(totals[-1] + change)
    times = [at for at, _ in events]
    truth = [totals[bisect_right(times, start)] for start in starts]
    assert max(truth) > 0
    assert max(abs(a - b) for a, b in zip(curve(log.recording), truth, strict=True)) <= 64


@pytest.mark.parametrize("name", ["mlp", "treelstm"])
def test_two_captures_have_the_same_sequence(models: dict[str, Any], name: str) -> None:
    """``capture_steps`` refuses repeats that differ; the replay's peak is the captured one."""
    made = models[name]()
    log = traces.capture_steps(made.step, made.model, made.optimizer, repeat=2, name=name)
    assert log.trace.n_calls == log.ops
    assert rematsim.simulate(log.trace, "h_LRU").row["unlimited_peak_bytes"] == log.peak_bytes


def test_a_bundled_trace_can_be_captured_again(torch: Any, models: dict[str, Any]) -> None:
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the bundled traces are of torch 2.13, this is {torch.__version__}")
    made = models["mlp"]()
    log = traces.capture_steps(made.step, made.model, made.optimizer, repeat=1, name="mlp")
    shipped = load_trace(bundled_path("mlp"))
    assert log.trace.names == shipped.names
    assert log.trace.operators == shipped.operators
    assert log.trace.result_bytes.tolist() == shipped.result_bytes.tolist()


def test_what_is_saved_is_what_is_loaded(torch: Any, tmp_path: Path) -> None:
    linear = torch.nn.Linear(4, 2)
    with traces.capture(linear, name="linear") as log:
        linear(torch.ones(3, 4)).sum().backward()
    log.save(tmp_path / "linear.log.gz")
    loaded = load_trace(tmp_path / "linear.log.gz")
    assert loaded.name == "linear"
    assert loaded == log.trace


def test_labels_phases_and_modules_are_recorded(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(8, 4)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with traces.capture(model, optimizer) as log:
        step()
    labels = {constant.label for constant in log.recording.constants.values()}
    assert {"param:0.weight", "buffer:1.running_mean", "state:0.weight.momentum_buffer"} <= labels
    phases = {call.operator: call.phase for call in log.recording.calls}
    assert phases["addmm"] == PHASE_FORWARD
    assert phases["mm"] == phases["native_batch_norm_backward"] == PHASE_BACKWARD
    assert phases["mul_"] == PHASE_OPTIMIZER
    modules = {call.operator: call.module for call in log.recording.calls}
    assert modules["native_batch_norm"] == modules["native_batch_norm_backward"] == "Sequential.1"


def test_the_hidden_writes_of_batch_norm_are_known(torch: Any) -> None:
    norm = torch.nn.BatchNorm1d(4)
    with traces.capture(norm) as log:
        norm(torch.ones(8, 4))
        norm.eval()(torch.ones(8, 4))
    written = [c.written for c in log.recording.calls if c.operator == "native_batch_norm"]
    assert written == [(3, 4), ()]


def test_random_and_data_dependent_calls_are_tagged(torch: Any) -> None:
    with traces.capture() as log:
        torch.rand(4).sum().item()
    tags = {call.operator: call.tags for call in log.recording.calls}
    assert tags == {"rand": TAG_RANDOM, "sum": 0, "_local_scalar_dense": TAG_DATA_DEPENDENT}


def test_a_tensor_made_from_numbers_is_no_constant(torch: Any) -> None:
    with traces.capture() as log:
        _ = torch.tensor([1.0, 2.0]) + 1
    assert not log.recording.constants
    assert [call.operator for call in log.recording.calls][0] == "lift_fresh"


def test_an_optimizer_over_lists_is_recorded_tensor_by_tensor(torch: Any) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    with traces.capture(model, optimizer) as log:
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    updates = [call for call in log.recording.calls if call.operator == "_foreach_add_"]
    assert [len(call.arguments) for call in updates] == [2, 2]


def test_the_peak_is_the_largest_sum_of_live_bytes(torch: Any) -> None:
    """An input of 8 bytes; 16 and 32 are alive together, then 32 and 4."""
    x = torch.ones(2)
    with traces.capture() as log:
        a = torch.cat([x, x])
        b = torch.cat([a, a])
        del a
        _ = b.sum()
    assert log.peak_bytes == 8 + 16 + 32


def test_an_operand_that_grows_is_resized(torch: Any) -> None:
    with traces.capture() as log:
        out = torch.empty(0)
        torch.mul(torch.ones(4), 2, out=out)
    assert log.recording.calls[-1].bytes_after[-1][1] == 16


def test_sparse_gradients_are_recorded_by_their_parts(torch: Any) -> None:
    embed = torch.nn.Embedding(10, 4, sparse=True)
    with traces.capture(embed) as log:
        embed(torch.tensor([1, 2])).sum().backward()
    assert log.trace.n_calls > 0


def test_captures_do_not_nest(torch: Any) -> None:
    with (
        traces.capture(name="outer"),
        pytest.raises(InputError, match="'outer' is running; nesting is refused"),
        traces.capture(name="inner"),
    ):
        pass
    with traces.capture(name="again"):
        pass


def test_a_capture_that_runs_has_nothing_to_show(torch: Any) -> None:
    with traces.capture(name="open") as log, pytest.raises(TraceError, match="still running"):
        _ = log.peak_bytes


def test_an_exception_of_the_program_passes(torch: Any) -> None:
    with pytest.raises(RuntimeError, match="shape"), traces.capture():
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_a_failure_to_record_does_not_disturb_the_program(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rematsim.traces import recorder

    def fail(*_: Any) -> None:
        raise ValueError("broken recorder")

    monkeypatch.setattr(recorder, "geometry", fail)
    done = []
    with pytest.raises(TraceError, match="broken recorder"), traces.capture():
        done.append(torch.ones(2).sum())
    assert done[0] == 2
