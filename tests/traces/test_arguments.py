"""What captures are given is checked before anything runs: a line for each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rematsim import traces
from rematsim.cli.main import main
from rematsim.errors import InputError
from rematsim.traces.loading import load_trace

pytestmark = pytest.mark.usefixtures("torch")

ran: list[str] = []


def step() -> None:
    ran.append("step")


def make() -> Any:
    ran.append("make")
    return step


def block(**options: Any) -> None:
    with traces.capture(**options):
        step()


COUNT = "{} {}: expected a whole number"


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        *(
            (call, {what: value}, COUNT.format(what, shown))
            for call, what in (
                ("block", "repeat"),
                ("capture_steps", "repeat"),
                ("capture_steps", "warmup"),
                ("capture_fake", "steps"),
                ("capture_fake", "warmup"),
            )
            for value, shown in (("x", "'x'"), (1.5, "1.5"), (None, "null"), (True, "true"))
        ),
        ("block", {"repeat": 0}, "repeat 0: at least 1"),
        ("capture_steps", {"warmup": -1}, "warmup -1: at least 0"),
        ("capture_fake", {"warmup": -1}, "warmup -1: at least 0"),
        ("capture_fake", {"steps": 0}, "steps 0: at least 1"),
        ("block", {"name": 3}, "name 3: expected some text"),
        ("capture_steps", {"name": ""}, "name '': expected some text"),
        ("capture_fake", {"name": None}, "name null: expected some text"),
        ("block", {"model": step}, "model function: expected a torch.nn.Module"),
        ("capture_steps", {"model": "x"}, "model str: expected a torch.nn.Module"),
        ("capture_steps", {"optimizer": 1}, "optimizer int: expected a torch.optim.Optimizer"),
        ("capture_fake", {"target": "tpu"}, "target 'tpu': unknown; known: cpu, cuda"),
        ("capture_fake", {"target": []}, "target []: unknown; known: cpu, cuda"),
        (
            "capture_fake",
            {"device_name": "tpu"},
            "device 'tpu': unknown; known: a100, h100, h200, rtx4090, cpu",
        ),
        (
            "capture_fake",
            {"device_name": []},
            "device []: unknown; known: a100, h100, h200, rtx4090, cpu",
        ),
    ],
)
def test_an_argument_that_cannot_be_is_refused_before_anything_runs(
    call: str, options: dict[str, Any], message: str
) -> None:
    ran.clear()
    first = {"block": (), "capture_steps": (step,), "capture_fake": (make,)}[call]
    capture = block if call == "block" else getattr(traces, call)
    with pytest.raises(InputError) as told:
        capture(*first, **options)
    assert str(told.value) == message
    assert not ran


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "null: expected a function without arguments"),
        (3, "3: expected a function without arguments"),
        (
            lambda batch: batch,
            "missing a required argument: 'batch'; expected a function without arguments",
        ),
    ],
)
def test_what_is_to_be_run_must_be_a_function_without_arguments(given: Any, told: str) -> None:
    log = traces.capture_steps(step)
    for call in (
        traces.capture_steps,
        traces.capture_fake,
        lambda given: traces.measure_workspaces(log, given),
    ):
        with pytest.raises(InputError, match=told):
            call(given)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (3, r"make\(\) returned int: expected the function that runs a step"),
        ((), r"make\(\) returned a tuple of 0: expected the function"),
        ((step, None, None, None), r"make\(\) returned a tuple of 4: expected the function"),
        ((step, 3), "model int: expected a torch.nn.Module"),
        ((step, None, 3), "optimizer int: expected a torch.optim.Optimizer"),
        (lambda batch: batch, r"the step that make\(\) returned: missing a required argument"),
    ],
)
def test_what_the_function_of_a_fake_capture_makes_is_checked(made: Any, told: str) -> None:
    ran.clear()
    with pytest.raises(InputError, match=told):
        traces.capture_fake(lambda: made)
    assert not ran


def test_workspaces_are_measured_of_a_capture_and_saved_under_a_name() -> None:
    with pytest.raises(InputError, match="log 3: expected a Capture"):
        traces.measure_workspaces(3, step)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path 3: expected the name of a file"):
        traces.capture_steps(step).save(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--skip", "x"], "Invalid value for '--skip': 'x' is not a valid integer range"),
        (["--repeat", "0"], "Invalid value for '--repeat': 0 is not in the range x>=1"),
        (["--name", ""], "name '': expected some text"),
        (["--out", ""], "the name ends in .trace"),
        (["--fake", "--device", ""], "device '': unknown; known: a100"),
        (["--fake", "--target", "tpu"], "'tpu' is not one of 'cpu', 'cuda'"),
        (["--device", "h100"], "--device needs --fake"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_the_script_runs(
    options: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('it runs')\n")
    assert main(["capture", *options, "train.py"])
    said = capsys.readouterr()
    assert told in said.err
    assert not said.out


def test_a_name_that_is_no_text_in_a_file_is_escaped_there(torch: Any, tmp_path: Path) -> None:
    """A script's name may have bytes that are no UTF-8; so may what a trace is called after it."""
    log = traces.capture_steps(lambda: torch.ones(2), name="\udcff")
    log.save(tmp_path / "a.trace")
    assert load_trace(tmp_path / "a.trace") == log.trace
