"""Captures of eight models against the truth: PyTorch's allocator, a replay, a fake capture.

Forward, backward and optimizer each time. A storage of some bytes that PyTorch makes on its own (a
scalar for autograd) is not seen by a capture; that is what the bound is for.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rematsim
from rematsim import traces
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER
from rematsim.traces.recording import Death, RecordedCall, Recording, live_bytes

NAMES = ("resnet32", "densenet", "unet", "lstm", "treelstm", "gpt", "vit_2steps", "mlp")


def curve(recording: Recording) -> list[int]:
    """Return the bytes that are alive when each call begins."""
    sizes = {storage: constant.bytes for storage, constant in recording.constants.items()}
    total = sum(sizes.values())
    found = []
    for event in recording.events:
        if isinstance(event, Death):
            total -= sizes.pop(event.storage)
        elif isinstance(event, RecordedCall):
            found.append(total)
            for storage, size in event.bytes_after:
                total += size - sizes.get(storage, 0)
                sizes[storage] = size
    return found


def allocated(profile: Any, moments: list[int]) -> list[int]:
    """Return what the allocator says is in use at some moments, above what was at the start."""
    events = sorted(
        (event.start_ns(), event.nbytes())
        for event in profile.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    times = [at for at, _ in events]
    totals = [0, *accumulate(change for _, change in events)]
    return [totals[bisect_right(times, moment)] for moment in moments]


def largest_error(torch: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any]:
    """Capture a step; return how far its live bytes are from the allocator's, and the capture.

    Of a call over lists its first part is compared.
    """
    from rematsim.traces.recorder import Recorder

    begins: list[tuple[int, int]] = []
    begin = Recorder._begin

    def stamped(self: Any, traits: Any, args: Any, kwargs: Any) -> Any:
        begins.append((time.time_ns(), len(args[0]) if traits.is_foreach else 1))
        return begin(self, traits, args, kwargs)

    monkeypatch.setattr(Recorder, "_begin", stamped)
    made.step()
    with (
        torch.profiler.profile(profile_memory=True) as profile,
        traces.capture(made.model, made.optimizer) as log,
    ):
        made.step()
    truth = allocated(profile, [moment for moment, _ in begins])
    widths = [width for _, width in begins]
    firsts = [0, *accumulate(widths)][:-1]
    totals = curve(log.recording)
    seen = [totals[first] for first in firsts]
    assert sum(widths) == log.ops
    assert max(truth) - min(truth) > 1e5
    error = np.array(seen) - np.array(truth) - (seen[0] - truth[0])
    return int(abs(error).max()), log


@pytest.mark.parametrize("name", NAMES)
def test_live_bytes_are_those_of_the_allocator_at_every_operator(
    torch: Any, models: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 64 bytes or 0.01% of the peak."""
    error, log = largest_error(torch, models[name](), monkeypatch)
    assert {call.phase for call in log.recording.calls} == {
        PHASE_FORWARD,
        PHASE_BACKWARD,
        PHASE_OPTIMIZER,
    }
    assert error <= max(64, 1e-4 * log.peak_bytes)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_states_that_checkpointing_saves_are_seen(
    torch: Any, use_reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the random generator, 5 kB for each block, which PyTorch makes without an operator."""
    from torch.utils.checkpoint import checkpoint

    blocks = torch.nn.ModuleList(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.1)) for _ in range(4)
    )
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)

    def step() -> None:
        x = torch.randn(512, 64, requires_grad=True)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=use_reentrant)
        x.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    made = SimpleNamespace(step=step, model=blocks, optimizer=optimizer)
    error, log = largest_error(torch, made, monkeypatch)
    assert error <= max(64, 1e-4 * log.peak_bytes)
    states = [call for call in log.recording.calls if call.operator == "get_rng_state"]
    assert {call.phase for call in states if not call.is_recomputed} <= {
        PHASE_FORWARD,
        PHASE_BACKWARD,
    }
    assert len(states) >= 4
    assert torch.get_rng_state is torch.random.get_rng_state


def trained(torch: Any, model: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(8, 256)).sum().backward()
    optimizer.step()


def accumulated(torch: Any, model: Any) -> None:
    for _ in range(3):
        model(torch.randn(8, 256)).sum().backward()


def clipped(torch: Any, model: Any) -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.randn(8, 256)).sum()).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def retained(torch: Any, model: Any) -> None:
    y = model(torch.randn(8, 256))
    y.sum().backward(retain_graph=True)
    y.mean().backward()


def exchanged(torch: Any, model: Any) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data.half()
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    trained(torch, model)


def resized(torch: Any, model: Any) -> None:
    shard, storage = model.weight.detach().clone(), model.weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    model.weight.data.copy_(shard)
    trained(torch, model)
    shard.copy_(model.weight.data)


def through_views(torch: Any, model: Any) -> None:
    x = torch.randn(256, 256)
    view = x.t()
    x.relu_()
    view.add_(1)
    x[:128] += x[128:]
    x[::2] += model.weight.detach()[::2]


def returned_too(torch: Any, model: Any) -> None:
    noise = torch.empty(256, 256)
    whole = noise.t()
    noise.zero_()
    torch.ops.aten.rrelu_with_noise(model.weight.detach(), noise, 0.1, 0.3, True)
    whole.mul_(2)


@pytest.mark.parametrize(
    "use",
    [accumulated, clipped, retained, exchanged, resized, through_views, returned_too],
    ids=lambda use: use.__name__,
)
def test_updates_in_place_never_count_twice(torch: Any, use: Any) -> None:
    """Whatever else means what is updated: a view, its base, ``.grad``."""
    model = torch.nn.Linear(256, 256)

    def step() -> None:
        use(torch, model)
        model.zero_grad()

    log = traces.capture_steps(step, model, repeat=1)
    run = rematsim.simulate(log.trace, "h_LRU", mutation="inplace", deallocation="banish")
    assert run.peak_bytes == log.peak_bytes


@pytest.mark.parametrize("name", NAMES)
def test_a_fake_capture_is_the_eager_one_and_both_replay_to_their_peak(
    models: dict[str, Any], name: str
) -> None:
    """Operators, storages, views, updates, sizes, deaths in their order: all but the times.

    The replay without a limit, updates in place, under banish, peaks where the capture did.
    """
    made = models[name]()
    made.step()
    with traces.capture(made.model, made.optimizer, name=name) as log:
        loss = made.step()
    fake = traces.capture_fake(models[name], name=name)
    assert fake.recording.constants == log.recording.constants
    assert timeless(fake.recording) == timeless(log.recording)
    assert fake.trace.times_estimated
    assert not log.trace.times_estimated
    assert loss is not None
    run = rematsim.simulate(
        log.trace, "h_LRU", mutation="inplace", deallocation="banish", event_log=True
    )
    assert run.peak_bytes == log.peak_bytes
    at_peak = int(np.argmax(run.events["memory_after_bytes"]))  # type: ignore[index]
    call = int(run.events["call"][at_peak])  # type: ignore[index]
    curve_bytes = list(live_bytes(log.recording))
    captured = log.recording.calls[curve_bytes.index(max(curve_bytes))]
    assert log.trace.operators[log.trace.call_operator[call]] == captured.operator
    assert log.trace.call_time_ns[call] == captured.time_ns


def timeless(recording: Recording) -> list[Any]:
    """Return the events without times and autograd's running numbers."""
    return [
        event._replace(time_ns=0, autograd_node=0) if isinstance(event, RecordedCall) else event
        for event in recording.events
    ]


@pytest.mark.parametrize("name", ["densenet", "gpt", "lstm"])
def test_a_captured_step_computes_the_same_bits(
    torch: Any, models: dict[str, Any], name: str
) -> None:
    """Loss, parameters and gradients, with a fixed seed (dropout included)."""

    def outcome(is_captured: bool) -> list[bytes]:
        torch.manual_seed(3)
        made = models[name]()
        made.step()
        if is_captured:
            with traces.capture(made.model, made.optimizer):
                loss = made.step()
        else:
            loss = made.step()
        tensors = [loss, *made.model.state_dict().values()]
        return [tensor.detach().numpy().tobytes() for tensor in tensors]

    assert outcome(is_captured=True) == outcome(is_captured=False)
