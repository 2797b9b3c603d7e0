"""Memory that no operator makes, and what has none: resizes by hand, meta and nested tensors.

Needs torch.
"""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import rematsim
from rematsim import traces
from rematsim.errors import InputError, TraceError

MIB = 1 << 20


def running() -> list[Any]:
    """Give the captures that run; the module needs torch."""
    from rematsim.traces import sessions

    return list(sessions._running)


def peaks(run: Callable[[], Any]) -> tuple[int, int]:
    """Return the captured peak of a function, and that of the replay."""
    with traces.capture() as log:
        run()
    row = rematsim.simulate(log.trace, "h_LRU").row
    return log.peak_bytes, row["unlimited_peak_bytes"]


def test_a_storage_freed_by_hand_no_longer_counts(torch: Any) -> None:
    """Sharded training frees parameters so; 1 MiB goes before the next comes."""

    def run() -> None:
        x = torch.empty(MIB, dtype=torch.uint8)
        x.untyped_storage().resize_(0)
        torch.empty(MIB, dtype=torch.uint8)

    assert peaks(run) == (MIB, MIB)


def test_a_storage_that_grows_by_hand_counts_from_then_on(torch: Any) -> None:
    """8 bytes become 1 MiB, and a sum of 8 bytes is made beside it."""

    def run() -> None:
        x = torch.empty(8, dtype=torch.uint8)
        x.untyped_storage().resize_(MIB)
        x + 1

    assert peaks(run)[0] == MIB + 8


@pytest.mark.parametrize("is_used", [True, False])
def test_a_constant_that_is_resized_by_hand_counts_as_it_is(torch: Any, is_used: bool) -> None:
    """Used before or not: 1 KiB was there, is freed, and 1 MiB comes in its place."""
    weight = torch.zeros(1024, dtype=torch.uint8)

    def run() -> None:
        if is_used:
            weight.sum()
        weight.untyped_storage().resize_(0)
        weight.untyped_storage().resize_(MIB)
        weight.sum()

    captured, replayed = peaks(run)
    assert captured == MIB + 8
    assert captured <= replayed <= captured + 1024


def test_the_storages_method_is_put_back(torch: Any) -> None:
    with traces.capture():
        assert "resize_" in vars(torch.UntypedStorage)
    assert "resize_" not in vars(torch.UntypedStorage)


def test_meta_and_fake_tensors_have_no_memory(torch: Any) -> None:
    """Shape inference in a step; 16 bytes are real."""
    from torch._subclasses import FakeTensorMode

    def run() -> None:
        x = torch.empty(1 << 30, device="meta")
        x = x + 1
        with FakeTensorMode():
            _ = torch.ones(1 << 30) * 2
        torch.empty(4)

    assert peaks(run) == (16, 16)


def test_meta_tensors_have_no_memory_among_fakes_either(torch: Any) -> None:
    def run() -> None:
        x = torch.empty(1 << 30, device="meta")
        x.add_(1)
        torch.empty(4)

    assert traces.capture_fake(lambda: run, warmup=0).peak_bytes == 16


def test_nested_tensors_are_refused_in_words(torch: Any) -> None:
    with pytest.raises(TraceError, match="a nested tensor: its memory cannot be followed"):  # noqa: SIM117
        with traces.capture():
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2


@pytest.mark.parametrize("is_new", [True, False])
def test_operators_that_take_functions_run_and_are_refused(torch: Any, is_new: bool) -> None:
    """The program gets its result; the capture says why there is none."""
    x = torch.ones(3, requires_grad=True)

    def run() -> Any:
        y = torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))
        y.sum().backward()
        return y

    if not is_new:
        run()
    with pytest.raises(TraceError, match=r"a compiled function was called .*torch\.cond"):  # noqa: SIM117
        with traces.capture():
            result = run()
    assert result.tolist() == [2, 2, 2]
    with pytest.raises(TraceError, match="cond: an operator that takes functions"):
        traces.capture_fake(lambda: run, warmup=0)


@pytest.mark.parametrize("given", [(5,), ([],), ("model", "x"), ("model", 5), ("model", [])])
def test_what_is_no_model_or_optimizer_is_refused_and_nothing_is_left(
    torch: Any, given: tuple[Any, ...]
) -> None:
    """Garbage is collected as before, and another capture can begin."""
    model = torch.nn.Linear(2, 2)
    what = tuple(model if value == "model" else value for value in given)
    with pytest.raises(InputError, match=r"expected a torch\."), traces.capture(*what):
        pass
    assert gc.isenabled()
    assert not running()
    with traces.capture(model) as log:
        model(torch.ones(1, 2))
    assert log.ops


def test_an_opening_that_fails_leaves_nothing_behind(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails: here, the search for what is there already."""
    from rematsim.traces import recorder

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(recorder, "living_storages", fail)
    with pytest.raises(MemoryError), traces.capture():
        pass
    assert gc.isenabled()
    assert not running()
    monkeypatch.undo()
    with traces.capture() as log:
        torch.ones(2)
    assert log.ops == 1


def test_a_living_tensor_whose_subclass_refuses_everything_is_no_hindrance(torch: Any) -> None:
    class Stubborn(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise TypeError("no")

    kept = torch.Tensor._make_subclass(Stubborn, torch.ones(3))
    with traces.capture() as log:
        torch.ones(2) + 1
    assert log.ops == 2
    del kept


def test_a_fake_value_is_formatted_as_a_real_one(torch: Any) -> None:
    """A loss in a line of progress: the made-up value, 1."""
    seen = []
    traces.capture_fake(lambda: lambda: seen.append(f"{torch.rand(3).sum():.3f}"), warmup=0)
    assert seen == ["1.000"]


@pytest.mark.parametrize("name", ["numpy", "pickle"])
def test_what_needs_values_of_fakes_says_so(torch: Any, name: str) -> None:
    def run() -> None:
        x = torch.rand(2000)
        copy.copy(x)  # needs none
        if name == "pickle":
            pickle.dumps(x)
        x.numpy()

    with pytest.raises(TraceError, match=r"fake tensors (do not )?have.*without --fake"):
        traces.capture_fake(lambda: run, warmup=0)


def test_workers_of_a_loader_load_in_the_process_under_fakes(torch: Any, capfd: Any) -> None:
    """Fake tensors cannot be sent between processes."""
    from torch.utils.data import DataLoader, TensorDataset

    shapes = []

    def run() -> None:
        loader = DataLoader(TensorDataset(torch.ones(8, 4)), 2, num_workers=1, timeout=5)
        shapes.extend(tuple(batch.shape) for (batch,) in loader)
        assert loader.num_workers == 1

    traces.capture_fake(lambda: run, warmup=0)
    assert shapes == [(2, 4)] * 4
    assert not capfd.readouterr().err
