"""``rematsim capture`` on scripts that know nothing of it, and what it answers when it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rematsim.traces.loading import load_trace

TRAIN = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters())
for number in range(int(sys.argv[1])):
    optimizer.zero_grad()
    logits = model(torch.randn(4, 8))
    loss = nn.functional.cross_entropy(logits, torch.randint(2, (4,)))
    loss.backward()
    optimizer.step()
    print("step", number, loss.item() > 0)
"""

ACCUMULATES = TRAIN.replace("optimizer.step()", "if number % 2: optimizer.step()")
BY_HAND = """
import torch
from rematsim.traces import mark_step

weight = torch.ones(8, 8, requires_grad=True)
for _ in range(10):
    (torch.ones(4, 8) @ weight).sum().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
    mark_step()
"""


@pytest.fixture
def run(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that runs the command on a script's text."""
    from rematsim.cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(text: str, *options: str, arguments: tuple[str, ...] = ("20",)) -> int:
        Path("train.py").write_text(text, encoding="utf-8")
        return main(["capture", *options, "train.py", *arguments])

    return run


def test_a_script_is_captured_as_it_is(run: Any, capsys: Any) -> None:
    """Two steps are skipped, five recorded; the script ends where the next begins, not after 20."""
    assert run(TRAIN) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"step {number} True" for number in range(7)]
    trace = load_trace("train.trace")
    assert trace.name == "train"
    assert f"rematsim: train.trace: {trace.n_calls} operator calls" in err
    assert "(each call's median of 5; the recordings took " in err
    labels = set(trace.names)
    assert {"param:0.weight", "state:0.weight.exp_avg"} <= labels
    assert not any(label.startswith("grad:") for label in labels)  # the step before dropped them
    assert "replay with banish" not in err
    assert "held:" in " ".join(labels)  # the last step's loss and logits
    assert "Sequential.0" in trace.modules


def test_a_long_capture_tells_how_many_steps_are_done(
    run: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rematsim.cli import progress

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    assert run(TRAIN) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:-1] == [f"rematsim: {done} of 7 steps of train.py" for done in range(1, 8)]


def test_options_behind_the_script_are_the_scripts(run: Any, capsys: Any) -> None:
    text = TRAIN.replace("print(", "print(sys.argv[2:], ")
    assert run(text, "--repeat", "1", arguments=("9", "--repeat", "7", "-o", "x")) == 0
    assert "['--repeat', '7', '-o', 'x'] step 0 True" in capsys.readouterr().out


def test_several_steps_are_one_after_another(run: Any) -> None:
    assert run(TRAIN, "--steps", "3", "--repeat", "1", "-o", "three.trace") == 0
    assert run(TRAIN, "--repeat", "1", "-o", "one.trace") == 0
    three, one = load_trace("three.trace"), load_trace("one.trace")
    assert three.n_calls == 3 * one.n_calls


def test_a_step_with_accumulated_gradients_has_all_its_passes(run: Any) -> None:
    assert run(ACCUMULATES, "--repeat", "2", "-o", "two.log.gz") == 0
    trace = load_trace("two.log.gz")
    operators = [trace.operators[k] for k in trace.call_operator]
    assert operators.count("addmm") == 4


def test_a_script_without_an_optimizer_marks_its_steps(run: Any) -> None:
    assert run(BY_HAND, "--repeat", "3") == 0
    trace = load_trace("train.trace")
    operators = [trace.operators[k] for k in trace.call_operator]
    assert operators.count("sub_") == 1


def test_a_fake_capture_is_marked_as_estimated(run: Any, capsys: Any) -> None:
    assert run(TRAIN, "--fake", "--target", "cuda", "--device", "a100") == 0
    err = capsys.readouterr().err
    assert "(estimated for a100)" in err
    assert "for a value that fake tensors do not have, and was given 1" in err
    trace = load_trace("train.trace")
    assert trace.times_estimated
    assert "_foreach_mul_" in trace.operators


def test_a_fake_capture_has_the_operators_of_a_real_one(run: Any) -> None:
    assert run(TRAIN, "-o", "real.trace") == 0
    assert run(TRAIN, "--fake", "--skip", "2", "-o", "fake.trace") == 0
    real, fake = load_trace("real.trace"), load_trace("fake.trace")
    assert real.operators == fake.operators
    assert real.names == fake.names
    assert real.instructions.tolist() == fake.instructions.tolist()
    assert real.result_bytes.tolist() == fake.result_bytes.tolist()


SLICES = TRAIN.replace("torch.randn(4, 8)", "inputs[4 * number : 4 * number + 4]").replace(
    "optimizer =", "inputs = torch.randn(999, 8)\noptimizer ="
)
LOADER = TRAIN.replace(
    "for number in range(int(sys.argv[1])):",
    """data = torch.utils.data.TensorDataset(torch.randn(16, 8), torch.randint(2, (16,)))
loader = torch.utils.data.DataLoader(data, 4, shuffle=True)
for number, (inputs, labels) in enumerate(batch for _ in range(9) for batch in loader):""",
).replace("torch.randn(4, 8)", "inputs")


@pytest.mark.parametrize("text", [SLICES, LOADER])
def test_batches_of_one_data_set_are_the_same_step(run: Any, capsys: Any, text: str) -> None:
    """Each step sees another part of it; one in which an epoch begins is left out."""
    assert run(text) == 0
    err = capsys.readouterr().err
    left_out = "1 of 5 repeats left out: repeat 2 differs" if text == LOADER else "median of 5"
    assert left_out in err


@pytest.mark.parametrize(
    "after", ["pass", "raise ValueError('out of my way')", "sys.exit(3)", "optimizer.step()"]
)
def test_a_script_that_does_not_let_itself_be_ended_changes_nothing(run: Any, after: str) -> None:
    """A bare ``except`` catches the end: whatever the script does then, the trace is there."""
    text = TRAIN.replace("    optimizer.step()", f"    try: optimizer.step()\n    except: {after}")
    assert run(text, arguments=("40",)) == 0
    caught = load_trace("train.trace")
    assert run(TRAIN, arguments=("40",)) == 0
    assert caught.instructions.tolist() == load_trace("train.trace").instructions.tolist()


def test_fewer_repeats_are_a_note(run: Any, capsys: Any) -> None:
    assert run(TRAIN, arguments=("4",)) == 0
    assert "note: 2 repeats instead of 5: the script ended" in capsys.readouterr().err


THREADED = """
import threading
import torch
optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
def work():
    optimizer.step()
thread = threading.Thread(target=work, name="trainer")
thread.start()
thread.join()
"""
DYNAMIC = TRAIN.replace(
    "loss.backward()", "loss = loss * 1 if number % 2 else loss\n    loss.backward()"
)
HIDDEN = TRAIN.replace(
    "logits = model(", "logits = model(torch.ones(4, 8).to_mkldnn().to_dense() + "
)
MODULE_ELSEWHERE = TRAIN.replace(
    "    logits = model(torch.randn(4, 8))",
    """
    import threading
    found = []
    thread = threading.Thread(target=lambda: found.append(model(torch.randn(4, 8))), name="aside")
    thread.start(); thread.join()
    logits = found[0]""",
)
ELSEWHERE = MODULE_ELSEWHERE.replace("found.append(model(", "found.append(model[0].weight.T + (")
ELSEWHERE = ELSEWHERE.replace("randn(4, 8)", "randn(8, 16)").replace("(2, (4,))", "(2, (8,))")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # SystemExit
@pytest.mark.parametrize(
    ("text", "options", "arguments", "message"),
    [
        (TRAIN, (), ("2",), "train.py: it ended after 2 steps: --skip 2 --steps 1 needs 3"),
        ("x = 1", (), (), "train.py: no step of an optimizer and no mark_step() was seen in the"),
        (THREADED, (), (), "train.py:6: SGD stepped in thread 'trainer'"),
        (HIDDEN, (), ("9",), "train.py:11: a tensor of layout _mkldnn"),
        (MODULE_ELSEWHERE, (), ("9",), "train.py:14: module Sequential ran in thread 'aside'"),
        (ELSEWHERE, (), ("9",), "train.py:17: a tensor that AddBackward0 belongs to was computed"),
        ("import sys; sys.exit(3)", (), (), "train.py: it ended with exit code 3"),
        ("\n\n1 / 0", (), (), "train.py:3: the script failed: ZeroDivisionError: division by"),
        ("def f(:", (), (), "train.py: the script failed: SyntaxError"),
        (DYNAMIC, (), ("20",), "every repeat must run the same step; --steps 2 takes those that"),
        (
            TRAIN.replace("print", "if number % 2: print"),
            (),
            ("20",),
            "randn instead of _local_scalar_dense (.item(), or printing a tensor)",
        ),
        (
            TRAIN.replace("model(torch", "model.to('cuda')(torch"),
            ("--fake",),
            ("20",),
            "is built without CUDA",
        ),
        (
            TRAIN.replace("logits = ", "logits = torch.ones(3).nonzero(); logits = "),
            ("--fake",),
            ("20",),
            "nonzero: its result depends on values, which fake tensors do not have",
        ),
        (TRAIN, ("-o", "-"), ("20",), "-o -: standard output is the script's; name a file"),
        (TRAIN, ("-o", "a.bin"), ("20",), "a.bin: the name ends in .trace"),
        (TRAIN, ("--fake", "--device", "tpu"), ("20",), "device 'tpu': unknown; known: a100"),
        (TRAIN, ("--target", "cuda"), ("20",), "--target needs --fake"),
    ],
)
def test_what_cannot_be_captured_is_one_line(
    run: Any, capsys: Any, text: str, options: tuple[str, ...], arguments: Any, message: str
) -> None:
    """No traceback, and no file."""
    assert run(text, *options, arguments=arguments) in (1, 2)
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert not list(Path().glob("*.trace"))


def test_a_warning_of_the_script_is_one_line(run: Any, capsys: Any) -> None:
    assert run("import warnings\nwarnings.warn('first\\n  second')\n" + TRAIN) == 0
    assert "rematsim: note: first second\n" in capsys.readouterr().err


def test_an_option_of_ours_that_goes_to_the_script_is_noted(run: Any, capsys: Any) -> None:
    hint = "rematsim: note: --skip is given to the script; capture's own options go before SCRIPT"
    assert run(TRAIN, "--repeat", "1", arguments=("20", "--skip", "1")) == 0
    assert hint in capsys.readouterr().err.splitlines()
    assert run(TRAIN, "--repeat", "1", arguments=("20", "--epochs", "1")) == 0
    assert "note: --epochs" not in capsys.readouterr().err


def test_a_script_that_is_not_there_is_an_error(run: Any, capsys: Any) -> None:
    from rematsim.cli.main import main

    assert main(["capture", "absent.py"]) == 1
    assert "absent.py: no such script" in capsys.readouterr().err


def test_the_process_is_left_as_it_was(run: Any) -> None:
    """Arguments, path, hooks and garbage collection; another capture can begin."""
    import gc
    import sys

    before = list(sys.argv), list(sys.path)
    assert run(TRAIN, "--repeat", "1") == 0
    assert (sys.argv, sys.path) == before
    assert gc.isenabled()
    assert run(TRAIN, "--repeat", "1") == 0
