"""The largest batch: what is said to fit was run, and so was the next size up."""

from __future__ import annotations

import importlib.util
import json
import shlex
from pathlib import Path

import pytest
from rematsim.batch_search import METHODS, BatchAnswer, largest_batch, parse_batches
from rematsim.cli.fits_telling import print_batches
from rematsim.cli.main import main
from rematsim.errors import BudgetError, InputError, TraceError
from rematsim.traces.batches import BatchCaptures
from rematsim.traces.synthetic import chain
from rematsim.traces.trace import Trace
from rematsim.trials import Trials
from rematsim.workload import workload

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)

STEP = """
import os
import torch
from torch import nn

def make_step(batch):
    print("making", batch)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)))
    inputs = torch.randn(batch, 64)
    return lambda: model(inputs).sum().backward(), model

def broken(batch):
    raise ValueError("no such\\nthing")

def ends(batch):
    os._exit(7)
"""


def steps(batch: int) -> Trace:
    """Give a chain with a unit for each item: the larger the batch, the more memory."""
    return chain(batch)


def jumping(batch: int) -> Trace:
    """Give a step that takes more memory for batches from 5 to 8 than for larger ones."""
    return chain(12 if 5 <= batch <= 8 else min(batch, 6))


def check(answer: BatchAnswer, trace_of: object, budget: int) -> None:
    """Run again what is said to fit, and what is said not to."""
    for one in answer.found:
        for batch, fits in ((one.batch, True), (one.next_batch, False)):
            if batch is not None:
                assert callable(trace_of)
                trials = Trials(workload(trace_of(batch), cached=False), answer.slowdown)
                assert trials(one.method, budget).fits is fits, (one.method, batch)


@pytest.mark.parametrize("budget", [6, 9, 14])
def test_what_fits_was_run_and_the_next_size_up_does_not(budget: int) -> None:
    answer = largest_batch(steps, range(2, 21), budget, slowdown=1.4)
    check(answer, steps, budget)
    assert [one.method for one in answer.found] != [] and len(answer.found) == len(METHODS)
    for one in answer.found:
        assert one.batch is None or one.next_batch in (None, one.batch + 1)


def test_without_a_method_a_chain_needs_a_unit_a_link() -> None:
    """By pencil: a chain of n needs n + 1 units without rematerialization, so 8 allow 7 links."""
    answer = largest_batch(steps, range(2, 21), 8, slowdown=1.0)
    plain = next(one for one in answer.found if one.method.name == "keep-all")
    assert (plain.batch, plain.next_batch) == (7, 8)


def test_a_larger_batch_that_fits_though_a_smaller_does_not_is_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As the last of the range it is not called the largest of all."""
    answer = largest_batch(jumping, range(1, 17), 7, slowdown=1.0)
    check(answer, jumping, 7)
    assert answer.best is not None and (answer.best.batch, answer.best.next_batch) == (16, None)
    print_batches(answer, "mystep.py:jumping", None)
    assert "batch 16, the end of the range: " in capsys.readouterr().out


def test_where_not_even_the_smallest_fits_there_is_none() -> None:
    answer = largest_batch(steps, range(10, 21), 3)
    assert answer.best is None
    assert {(one.batch, one.next_batch) for one in answer.found} == {(None, 10)}


def test_few_sizes_are_captured() -> None:
    seen: list[int] = []

    def counted(batch: int) -> Trace:
        seen.append(batch)
        return chain(batch)

    answer = largest_batch(counted, range(2, 402), 12, slowdown=1.2)
    assert sorted(seen) == answer.tried and len(seen) < 50


@pytest.mark.parametrize(
    ("given", "sizes"),
    [("1:512", range(1, 513)), ("8:64:8", range(8, 65, 8)), ("3:3", range(3, 4))],
)
def test_batch_sizes_are_read(given: str, sizes: range) -> None:
    assert parse_batches(given) == sizes


@pytest.mark.parametrize("given", ["", "8", "0:4", "8:4", "1:x", "1:4:0", "1:2:3:4", "1:99999999"])
def test_what_are_no_batch_sizes_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="batch sizes"):
        parse_batches(given)


def test_a_budget_of_batches_is_bytes() -> None:
    with pytest.raises(BudgetError, match="it is bytes"):
        largest_batch(steps, range(2, 9), "0.5x")


@pytest.mark.parametrize("spec", ["", "module", ":f", "module:"])
def test_what_names_no_function_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="module:function"):
        BatchCaptures(spec)


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a file with functions that make steps, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mystep.py").write_text(STEP, encoding="utf-8")
    return "mystep.py"


@needs_torch
def test_the_largest_batch_of_a_model_is_told_with_its_command(
    step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--largest-batch", f"{step}:make_step", "--batch", "8:64:8", "--budget", "320KiB"]
    assert main(["fits", *asked, "--slowdown", "1.5", "-o", "best.trace", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    plain = next(one for one in answer["found"] if one["method"] == "keep-all")
    assert answer["largest_batch"] > plain["largest_batch"] > 0
    assert main(shlex.split(answer["command"])[1:]) == 0


@needs_torch
@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", "mystep.py:13: mystep:broken failed at batch 3: ValueError: no such thing"),
        ("ends", "mystep:ends at batch 3: its process ended with exit code 7"),
        ("none", "mystep:none at batch 3: no function 'none' there"),
    ],
)
def test_a_step_that_fails_is_one_line(step: str, function: str, message: str) -> None:
    with BatchCaptures(f"mystep:{function}") as captures, pytest.raises(TraceError) as caught:
        captures(3)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.log", "--largest-batch", "m:f", "--batch", "1:2"], "there is no TRACE"),
        (["--largest-batch", "m:f"], "needs --batch"),
        (["x.log", "--batch", "1:2"], "--batch: it goes with --largest-batch"),
        (["--largest-batch", "m:f", "--batch", "2"], "first:last"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["fits", *arguments, "--budget", "1GiB"]) == 2
    assert message in capsys.readouterr().err
