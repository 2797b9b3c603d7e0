"""The traces that ship: they load, they are small, and their README says what they are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rematsim
from rematsim.errors import UnknownNameError
from rematsim.opcodes import (
    BACKWARD,
    PHASE_BACKWARD,
    PHASE_FORWARD,
    PHASE_OPTIMIZER,
    TAG_RANDOM,
)
from rematsim.traces.bundled import bundled_path, bundled_traces
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import ARRAYS, TEXTS, Trace

NAMES = ["densenet", "gpt", "llama_7b", "lstm", "resnet32", "treelstm", "unet", "vit_2steps"]
README = Path(__file__).parents[2] / "traces" / "data" / "README.md"


def cells(name: str) -> list[str]:
    """What README's table says of a trace."""
    row = next(line for line in README.read_text().splitlines() if f"`{name}`" in line)
    return [cell.strip() for cell in row.split("|")]


def unlimited_peak(trace: Trace, mutation: str) -> int:
    """The peak of a replay that needs to evict nothing."""
    run = rematsim.simulate(trace, "h_LRU", mutation=mutation, deallocation="banish")
    return run.peak_bytes


def test_the_bundled_traces_are_listed_by_name() -> None:
    assert list(bundled_traces()) == NAMES
    assert bundled_path("bundled:unet") == bundled_path("unet") == bundled_traces()["unet"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'resnet20': unknown; known: densenet, gpt"):
        bundled_path("bundled:resnet20")


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_loads_and_is_small(name: str) -> None:
    path = bundled_path(name)
    trace = load_trace(path)
    assert path.stat().st_size < 50_000
    assert trace.name == name
    assert set(trace.call_phase.tolist()) == {PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER}
    assert min(trace.call_time_ns.tolist()) >= 0
    assert trace.modules
    assert "float32" in " ".join(trace.value_kinds)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_trace_has_one_backward_mark_a_step(name: str) -> None:
    trace = load_trace(bundled_path(name))
    marks = (trace.instructions[:, 0] == BACKWARD).sum()
    assert marks == (2 if name == "vit_2steps" else 1)


def test_the_steps_of_vit_2steps_call_the_same_operators() -> None:
    trace = load_trace(bundled_path("vit_2steps"))
    steps = trace.call_operator.reshape(2, -1)
    assert (steps[0] == steps[1]).all()


def test_times_are_measured_except_those_of_the_model_that_no_laptop_holds() -> None:
    for name in NAMES:
        assert load_trace(bundled_path(name)).times_estimated == (name == "llama_7b")
        assert ("estimated" in cells(name)[-2]) == (name == "llama_7b")


def test_dropout_is_tagged_as_random() -> None:
    """GPT draws; a model without dropout does not."""
    assert (load_trace(bundled_path("gpt")).call_tags & TAG_RANDOM).any()
    assert not (load_trace(bundled_path("unet")).call_tags & TAG_RANDOM).any()


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_gives_calls_constants_peak_and_size(name: str) -> None:
    """The peak of the capture is that of a replay with updates in place."""
    trace = load_trace(bundled_path(name))
    peak = unlimited_peak(trace, "inplace")
    size = bundled_path(name).stat().st_size
    figures = [trace.n_calls, trace.constant_bytes.sum(), peak, size]
    assert [f"{number:,}" for number in figures] == cells(name)[5:9]


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_says_where_updates_by_copy_peak_higher(name: str) -> None:
    peak = unlimited_peak(load_trace(bundled_path(name)), "copy")
    assert cells(name)[7] == f"{peak:,}" or f"`{name}` peaks at {peak:,}" in README.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_six_tenths_of_the_peak_are_enough(name: str) -> None:
    """Activations outweigh weights: a smaller budget means work, not failure."""
    row = rematsim.simulate(load_trace(bundled_path(name)), "h_DTR", "0.6x").row
    assert row["status"] == "ok"
    assert row["evictions"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("models")
def test_a_bundled_trace_is_what_its_script_captures_today(name: str) -> None:
    """But for the times that are measured: names, calls, sizes, releases are the same."""
    captured: Trace = import_module("capture_models").captured(name, repeat=1).trace
    bundled = load_trace(bundled_path(name))
    measured = set() if bundled.times_estimated else {"call_time_ns"}
    differ = [
        field
        for field in (*TEXTS, *ARRAYS)
        if field not in measured
        and not _are_same(getattr(captured, field), getattr(bundled, field))
    ]
    assert not differ, f"capture it anew: python examples/capture_models.py {name}"


def _are_same(column: Any, other: Any) -> bool:
    return column == other if isinstance(column, tuple) else np.array_equal(column, other)
