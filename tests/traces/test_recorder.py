"""What a capture records, and what it refuses; ``test_capture_truth.py`` has the numbers.

Needs torch; without it only the message that says so is tested.
"""

from __future__ import annotations

import sys
import threading
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
from rematsim.traces.loading import load_trace
from rematsim.traces.recording import BackwardEntered, Constant, Death


@pytest.mark.parametrize("name", ["capture", "capture_steps", "capture_fake"])
def test_without_torch_the_message_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """In Python, and on the command line."""
    from rematsim.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    for module in [key for key in sys.modules if key.startswith("rematsim.traces.")]:
        if any(hasattr(sys.modules[module], key) for key in ("torch", "Session", "Capture")):
            monkeypatch.delitem(sys.modules, module)
    with pytest.raises(MissingExtraError, match=r"pip install torch"):
        getattr(traces, name)
    (tmp_path / "train.py").touch()
    assert main(["capture", "train.py"]) == 1
    assert "pip install torch" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mlp", "treelstm"])
def test_two_captures_have_the_same_sequence(models: dict[str, Any], name: str) -> None:
    """``capture_steps`` refuses repeats that differ; the replay's peak is the captured one."""
    made = models[name]()
    log = traces.capture_steps(made.step, made.model, made.optimizer, repeat=2, name=name)
    assert log.trace.n_calls == log.ops
    assert rematsim.simulate(log.trace, "h_LRU").row["unlimited_peak_bytes"] == log.peak_bytes


def test_what_is_saved_is_what_is_loaded(torch: Any, tmp_path: Path) -> None:
    """The DTR log has no place for dtypes and shapes; everything else is there."""
    linear = torch.nn.Linear(4, 2)
    with traces.capture(linear, name="linear") as log:
        linear(torch.ones(3, 4)).sum().backward()
    log.save(tmp_path / "linear.log.gz")
    loaded = load_trace(tmp_path / "linear.log.gz")
    assert loaded.name == "linear"
    assert loaded.names == log.trace.names
    assert loaded.instructions.tolist() == log.trace.instructions.tolist()
    assert loaded.call_time_ns.tolist() == log.trace.call_time_ns.tolist()
    assert loaded.call_forward.tolist() == log.trace.call_forward.tolist()
    assert loaded.modules == log.trace.modules


def test_dtypes_and_shapes_are_recorded(torch: Any) -> None:
    linear = torch.nn.Linear(4, 2)
    x = torch.ones(3, 4)
    with traces.capture(linear) as log:
        y = linear(x)
    trace = log.trace
    kinds = dict(
        zip(trace.names, [trace.value_kinds[k] for k in trace.constant_kind], strict=False)
    )
    assert kinds["param:weight"] == "float32[2,4]"
    assert trace.value_kinds[trace.result_kind[-1]] == "float32[3,2]"
    assert y.shape == (3, 2)


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


def test_batch_norm_writes_the_statistics_that_there_are_and_in_training_alone(torch: Any) -> None:
    data, one = torch.randn(8, 4), torch.ones(4)
    with traces.capture() as log:
        for running, trains in (((None, None), True), ((one, one + 1), False)):
            torch.native_batch_norm(data, None, None, *running, trains, 0.1, 1e-5)
        torch.native_batch_norm(data, one, None, one, one + 1, True, 0.1, 1e-5)
    calls = [call for call in log.recording.calls if call.operator == "native_batch_norm"]
    assert [call.written for call in calls] == [(), (), (2, 3)]


def test_so_are_those_of_synchronized_batch_norm(torch: Any) -> None:
    """Which trains whenever it runs; of its operators, the CPU has one."""
    mean, variance = torch.zeros(4), torch.ones(4)
    with traces.capture() as log:
        torch.batch_norm_update_stats(torch.randn(8, 4), mean, variance, 0.1)
    assert mean.any()
    written = [c.written for c in log.recording.calls if c.operator == "batch_norm_update_stats"]
    assert written == [(1, 2)]


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


def test_steps_with_sparse_gradients_can_be_repeated(torch: Any) -> None:
    """The gradient that a step finds was made by autograd in other operators than captured."""
    embed = torch.nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(embed.parameters())
    rows = torch.tensor([1, 2])

    def step() -> None:
        optimizer.zero_grad()
        embed(rows).sum().backward()
        optimizer.step()

    assert traces.capture_steps(step, embed, optimizer, repeat=2).recording.repeats == 2


def phases_of(log: Any) -> list[tuple[int, str]]:
    return [(call.phase, call.operator) for call in log.recording.calls]


def test_what_is_done_to_gradients_and_weights_is_the_optimizers(torch: Any) -> None:
    """Clipping before the step, an average of the weights after it."""
    model = torch.nn.Linear(4, 2)
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(3, 4)
    with traces.capture(model, optimizer) as log:
        model(x).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for mean, weight in zip(average, model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)
            model(x).exp()
            x.neg()
    phases = {operator: phase for phase, operator in phases_of(log)}
    for operator in ("_foreach_norm", "_foreach_mul_", "add_", "lerp_"):
        assert phases[operator] == PHASE_OPTIMIZER, operator
    assert phases["exp"] == phases["neg"] == PHASE_FORWARD


def test_an_optimizer_that_steps_in_the_backward_pass_is_the_optimizer(torch: Any) -> None:
    model = torch.nn.Linear(4, 2)
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    with traces.capture(model) as log:
        model(torch.ones(3, 4)).sum().backward()
    updates = [phase for phase, operator in phases_of(log) if operator == "add_"]
    assert updates == [PHASE_OPTIMIZER] * 2


def test_a_closure_in_a_step_is_forward_and_backward(torch: Any) -> None:
    """And its backward calls know their forward calls."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).square().mean()
        loss.backward()
        return loss

    with traces.capture(model, optimizer) as log:
        optimizer.step(closure)
    phases = {operator: phase for phase, operator in phases_of(log)}
    assert phases["addmm"] == PHASE_FORWARD
    assert phases["mm"] == PHASE_BACKWARD
    assert phases["dot"] == PHASE_OPTIMIZER
    trace = log.trace
    products = [n for n, k in enumerate(trace.call_operator) if trace.operators[k] == "mm"]
    assert all(trace.call_forward[n] >= 0 for n in products)


def test_zeros_without_memory_have_no_bytes(torch: Any) -> None:
    """Forward-mode autograd makes them where a tangent is zero."""
    x = torch.ones(100)

    def shifted(x: Any) -> Any:
        return torch.cat([x, torch.ones(50)]) @ torch.ones(150)

    with traces.capture() as log:
        torch.func.jvp(shifted, (x,), (x,))
    zeros = [call for call in log.recording.calls if call.operator == "_efficientzerotensor"]
    assert zeros
    assert all(size == 0 for call in zeros for _, size in call.bytes_after)


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

    monkeypatch.setattr(recorder.StorageTable, "add", fail)
    done = []
    with pytest.raises(TraceError, match="broken recorder"), traces.capture():
        done.append(torch.ones(2).sum())
    assert done[0] == 2


def test_what_the_program_still_held_is_counted_until_it_goes(torch: Any) -> None:
    """No call of the block uses the 400 bytes, but they are freed in it."""
    held = [torch.ones(100)]
    with traces.capture() as log:
        torch.ones(2)
        held.clear()
        torch.ones(3)
    constants = list(log.recording.constants.values())
    assert constants == [Constant("held:0", 400)]
    assert log.peak_bytes == 400 + 8


def test_what_stays_and_is_not_used_is_left_out(torch: Any) -> None:
    bystander = torch.ones(100)
    with traces.capture() as log:
        torch.ones(2)
    assert log.peak_bytes == 8
    assert bystander.sum() == 100


def test_a_block_of_repeats_becomes_one_step(torch: Any) -> None:
    """Its optimizer marks the ends; the first lacks what the loop does after a step."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(3, 4)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with traces.capture(model, optimizer, repeat=4) as log:
        for _ in range(4):
            step()
    assert [call.operator for call in log.recording.calls].count("addmm") == 1
    labels = {constant.label for constant in log.recording.constants.values()}
    assert {"param:weight", "state:weight.momentum_buffer"} <= labels
    assert "grad:weight" not in labels  # each step makes and drops its own
    assert log.recording.repeats == 4


@pytest.mark.parametrize("set_to_none", [True, False])
def test_two_repeats_with_gradients_dropped_last_are_equal(torch: Any, set_to_none: bool) -> None:
    """What stands behind the last mark is the last step's, as it is in a block of one."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(3, 4)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)

    step()
    with traces.capture(model, optimizer) as one:
        step()
    with traces.capture(model, optimizer, repeat=2) as two:
        step()
        step()
    assert [c.operator for c in two.recording.calls] == [c.operator for c in one.recording.calls]
    assert two.recording.constants == one.recording.constants


def test_marks_of_the_program_count_before_those_of_an_optimizer(torch: Any) -> None:
    """Gradients are accumulated over two passes; a step is said to be both."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(3, 4)
    with traces.capture(model, optimizer, repeat=2) as log:
        for _ in range(2):
            for _ in range(2):
                model(x).sum().backward()
                optimizer.step()
            optimizer.zero_grad()
            traces.mark_step()
    operators = [call.operator for call in log.recording.calls]
    assert operators.count("addmm") == 2


def test_too_few_marks_are_an_error(torch: Any) -> None:
    message = r"0 steps instead of 3 .*mark_step\(\)"
    with pytest.raises(TraceError, match=message), traces.capture(repeat=3):
        torch.ones(2)


def test_accumulated_gradients_are_updated_in_place(torch: Any) -> None:
    model = torch.nn.Linear(4, 2)
    x = torch.ones(3, 4)
    with traces.capture(model) as log:
        for _ in range(2):
            model(x).sum().backward()
    updates = [c for c in log.recording.calls if c.written and c.phase == PHASE_BACKWARD]
    assert {call.operator for call in updates} == {"add_"}
    assert [event for event in log.recording.events if isinstance(event, BackwardEntered)] == [
        BackwardEntered()
    ] * 2


def test_mixed_precision_shows_its_copies(torch: Any) -> None:
    """Autocast copies weights to bfloat16; the copies are storages of their own."""
    model = torch.nn.Linear(4, 2)
    with traces.capture(model) as log, torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.ones(3, 4)).float().sum()
        loss.backward()
    copies = [call for call in log.recording.calls if call.operator == "_to_copy"]
    assert any(call.results[0].geometry.kind.text() == "bfloat16[2,4]" for call in copies)


def test_double_backward_is_two_backward_passes(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x = torch.ones(3, 4, requires_grad=True)
    with traces.capture(model) as log:
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.norm().backward()
    marks = [event for event in log.recording.events if isinstance(event, BackwardEntered)]
    assert len(marks) == 2
    assert log.recomputed_ops == 0
    peak = rematsim.simulate(log.trace, mutation="inplace").row["unlimited_peak_bytes"]
    assert peak == log.peak_bytes


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputation_by_checkpointing_is_told_apart(torch: Any, use_reentrant: bool) -> None:
    """Each of two layers runs again in the backward pass; the trace says so in its modules."""
    from torch.utils.checkpoint import checkpoint

    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(2)]
    model = torch.nn.Sequential(*layers)
    x = torch.ones(3, 8, requires_grad=True)
    with traces.capture(model) as log:
        y = x
        for layer in model:
            y = checkpoint(layer, y, use_reentrant=use_reentrant)
        y.sum().backward()
    again = [call.operator for call in log.recording.calls if call.is_recomputed]
    assert again.count("addmm") == 2
    assert log.recomputed_ops == len(again)
    assert "Sequential.0.0 (recomputed)" in log.trace.modules
    with traces.capture(model) as plain:
        model(x).sum().backward()
    assert plain.recomputed_ops == 0


def test_a_module_in_another_thread_is_refused(torch: Any) -> None:
    model = torch.nn.Linear(4, 2)
    with (
        pytest.raises(TraceError, match=r"module Linear ran in thread 'worker': only the thread"),
        traces.capture(model),
    ):
        thread = threading.Thread(target=model, args=(torch.ones(3, 4),), name="worker")
        thread.start()
        thread.join()


def test_what_another_thread_computed_is_refused(torch: Any) -> None:
    """The product of a thread without modules; numpy's memory is an input, as ever."""
    weight = torch.ones(4, 4, requires_grad=True)
    results: list[Any] = []
    with (
        pytest.raises(TraceError, match=r"that MmBackward0 belongs to was computed out of sight"),
        traces.capture(),
    ):
        thread = threading.Thread(target=lambda: results.append(weight @ weight))
        thread.start()
        thread.join()
        results[0].exp()


def test_what_was_there_before_may_have_been_computed(torch: Any) -> None:
    """And what a function of autograd fetches from numpy is an input."""

    class Doubled(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return torch.from_numpy(x.detach().numpy() * 2)

    before = torch.ones(4, requires_grad=True) * 2
    with traces.capture() as log:
        before.exp() + Doubled.apply(before).exp()
    assert log.ops > 2


def test_a_compiled_model_is_refused_before_anything_runs(torch: Any) -> None:
    compiled = torch.compile(torch.nn.Linear(4, 2), backend="eager")
    with pytest.raises(InputError, match=r"the model is compiled .*TORCHDYNAMO_DISABLE"):  # noqa: SIM117
        with traces.capture(compiled):
            raise AssertionError("it ran")
    inner = torch.nn.Sequential(torch.nn.Linear(4, 2))
    inner[0].compile(backend="eager")
    with (
        pytest.raises(InputError, match="module '0' of Sequential is compiled"),
        traces.capture(inner),
    ):
        pass


def test_a_compiled_function_is_noticed(torch: Any) -> None:
    double = torch.compile(lambda x: 2 * x, backend="eager")
    with pytest.raises(TraceError, match="a compiled function was called"), traces.capture():
        result = double(torch.ones(2))
    assert result.sum() == 4


def test_a_layout_whose_memory_is_hidden_is_refused(torch: Any) -> None:
    x = torch.ones(4, 4)
    with pytest.raises(TraceError, match="a tensor of layout _mkldnn"), traces.capture():
        y = x.to_mkldnn()
    assert y.to_dense().sum() == 16


def test_garbage_collection_is_as_before(torch: Any) -> None:
    import gc

    assert gc.isenabled()
    with traces.capture():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), traces.capture():
        _ = 1 / 0
    assert gc.isenabled()


def test_a_storage_dies_after_the_call_that_uses_it_last(torch: Any) -> None:
    with traces.capture() as log:
        _ = torch.ones(2).sum().exp()
    events = log.recording.events
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["RecordedCall", "RecordedCall", "Death", "RecordedCall", "Death"]
    assert [event.storage for event in events if isinstance(event, Death)] == [0, 1]
