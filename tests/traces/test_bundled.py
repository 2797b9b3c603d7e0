"""The traces that ship: they load, they are small, and their README says what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import rematsim
from rematsim.errors import UnknownNameError
from rematsim.opcodes import BACKWARD, PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER
from rematsim.traces.bundled import bundled_path, bundled_traces
from rematsim.traces.loading import load_trace

NAMES = ["convnet_3steps", "gpt", "mlp", "resnet32", "treelstm", "unet"]
README = Path(__file__).parents[2] / "traces" / "data" / "README.md"


def test_the_bundled_traces_are_listed_by_name() -> None:
    assert list(bundled_traces()) == NAMES
    assert bundled_path("bundled:mlp") == bundled_path("mlp") == bundled_traces()["mlp"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'resnet20': unknown; known: convnet_3steps, gpt"):
        bundled_path("bundled:resnet20")


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_loads_and_is_small(name: str) -> None:
    path = bundled_path(name)
    trace = load_trace(path)
    assert path.stat().st_size < 150_000
    assert trace.name == name
    assert set(trace.call_phase.tolist()) == {PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER}
    assert min(trace.call_time_ns.tolist()) >= 0
    assert trace.modules


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_has_one_backward_mark_a_step(name: str) -> None:
    trace = load_trace(bundled_path(name))
    marks = (trace.instructions[:, 0] == BACKWARD).sum()
    assert marks == (3 if name == "convnet_3steps" else 1)


def test_the_steps_of_convnet_3steps_call_the_same_operators() -> None:
    trace = load_trace(bundled_path("convnet_3steps"))
    steps = trace.call_operator.reshape(3, -1)
    assert (steps == steps[0]).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_gives_calls_constants_and_peak(name: str) -> None:
    trace = load_trace(bundled_path(name))
    peak = rematsim.simulate(trace, "h_LRU").row["unlimited_peak_bytes"]
    row = next(line for line in README.read_text().splitlines() if f"`{name}.log.gz`" in line)
    assert f"| {trace.n_calls:,} | {trace.constant_bytes.sum():,} | {peak:,} |" in row


@pytest.mark.parametrize("name", NAMES)
def test_half_of_the_peak_is_enough(name: str) -> None:
    """Activations outweigh weights: a budget of half the peak means work, not failure."""
    row = rematsim.simulate(load_trace(bundled_path(name)), "h_DTR_eq", "0.5x").row
    assert row["status"] == "ok"
    assert row["evictions"]
