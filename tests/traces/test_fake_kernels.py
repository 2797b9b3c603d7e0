"""Fake captures for the CPU equal real ones: operators, storages, sizes, the order of frees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from rematsim import traces
from rematsim.traces.recording import Death, RecordedCall

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, on what is asked of it

STATISTICS = ("LayerNorm", "GroupNorm", "BatchNorm1d", "RMSNorm")
LOSSES = (
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "soft_margin_loss",
    "l1_loss",
    "kl_div",
    "poisson_nll_loss",
    "binary_cross_entropy_with_logits",
)


def events_of(log: Any) -> list[Any]:
    """What happened, without times; deaths between two calls in the order of their numbers.

    Autocast drops its copies of the weights in the order of their addresses.
    """
    events: list[Any] = []
    plain = (
        event._replace(time_ns=0, autograd_node=0) if isinstance(event, RecordedCall) else event
        for event in log.recording.events
    )
    for are_deaths, group in groupby(plain, lambda event: isinstance(event, Death)):
        run: list[Any] = list(group)
        events.extend(sorted(run) if are_deaths else run)
    return events


def assert_fake_is_real(
    torch: Any, model: Callable[[], Any], loss: Callable[[Any, Any], Any]
) -> None:
    """Capture a step both ways and compare all but the times."""

    def make() -> Any:
        trained = model()
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        x = torch.rand(32, 16)

        def step() -> None:
            optimizer.zero_grad()
            loss(trained, x).backward()
            optimizer.step()

        return step, trained, optimizer

    step, trained, optimizer = make()
    step()
    with traces.capture(trained, optimizer) as real:
        step()
    fake = traces.capture_fake(make)
    assert events_of(fake) == events_of(real)
    assert fake.recording.constants == real.recording.constants


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(torch: Any, name: str, reduction: str) -> None:
    """Some keep the memory of a number for each element in their result."""
    function = getattr(torch.nn.functional, name)

    def loss(model: Any, x: Any) -> Any:
        return function(model(x), x, reduction=reduction)

    assert_fake_is_real(torch, lambda: torch.nn.Linear(16, 16), loss)


def test_a_loss_of_probabilities_and_of_broadcast_operands(torch: Any) -> None:
    f = torch.nn.functional
    linear = lambda: torch.nn.Linear(16, 16)  # noqa: E731
    assert_fake_is_real(torch, linear, lambda m, x: f.binary_cross_entropy(m(x).sigmoid(), x))
    assert_fake_is_real(torch, linear, lambda m, x: f.mse_loss(m(x), x[:1]))


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", STATISTICS)
def test_norms(torch: Any, name: str, precision: str) -> None:
    """Under autocast their statistics are as precise as their scale."""
    sizes = (4, 16) if name == "GroupNorm" else (16,)

    def model() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(16, 16), getattr(torch.nn, name)(*sizes))

    def loss(model: Any, x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            return model(x).square().mean()

    assert_fake_is_real(torch, model, loss)


def test_columns_and_bags(torch: Any) -> None:
    """Their kernels take more memory than the result has elements."""
    f = torch.nn.functional

    def columns(model: Any, x: Any) -> Any:
        return f.unfold(model(x).view(2, 4, 8, 8), 3).square().sum()

    assert_fake_is_real(torch, lambda: torch.nn.Linear(16, 16), columns)
    for mode in ("sum", "mean", "max"):
        assert_fake_is_real(
            torch,
            lambda mode=mode: torch.nn.EmbeddingBag(9, 4, mode=mode),
            lambda model, x: model((x * 0).long()).sum(),
        )


def test_sequences_of_known_lengths(torch: Any) -> None:
    """Packing, a recurrent layer over the packed, and a loss over sequences."""
    rnn = torch.nn.utils.rnn

    def packed(model: Any, x: Any) -> Any:
        lengths = torch.tensor([4, 3, 3, 1])
        rows = rnn.pack_padded_sequence(x.view(4, 8, 16), lengths, batch_first=True)
        return model(rows)[0].data.square().sum()

    def sequences(model: Any, x: Any) -> Any:
        scores = model(x).view(8, 4, 16).log_softmax(-1)
        lengths = torch.full((4,), 8), torch.tensor([3, 2, 1, 3])
        return torch.nn.functional.ctc_loss(scores, torch.ones(4, 3).long(), *lengths)

    assert_fake_is_real(torch, lambda: torch.nn.GRU(16, 8, bidirectional=True), packed)
    assert_fake_is_real(torch, lambda: torch.nn.Linear(16, 16), sequences)
