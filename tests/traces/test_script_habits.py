"""What scripts do to the process that runs them, and ``rematsim capture`` must bear.

Each runs in a process of its own. Needs torch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rematsim.traces.loading import load_trace

TRAIN = """
import gc, multiprocessing, os, queue, signal, sys, threading, time
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
BEFORE
for number in range(20):
    step()
    EACH
"""
COMMAND = "from rematsim.cli.main import run; run()"


@pytest.fixture
def run(torch: Any, tmp_path: Path) -> Callable[..., Any]:
    """Give a function that captures a script that does something more."""

    def run(before: str = "", each: str = "pass", *options: str) -> Any:
        text = TRAIN.replace("BEFORE", before).replace("EACH", each)
        (tmp_path / "train.py").write_text(text, encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-c", COMMAND, "capture", *options, "train.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


WAITS = """
q = queue.Queue()
def consume():
    while q.get() is not None: pass
threading.Thread(target=consume).start()
"""
FORKS = """
    if number == 3 and os.fork() == 0:
        time.sleep(1); step(); print("child", gc.isenabled()); sys.exit(7)
    if number == 4: print("exit code", os.waitstatus_to_exitcode(os.wait()[1]))
"""
POOL = """
    if number == 3:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start(); time.sleep(0.3); child.terminate(); child.join()
        print("exit code", child.exitcode)
"""


def told(done: Any) -> list[str]:
    """What the command says, but for how far it is, which a busy machine makes it say."""
    return [line for line in done.stderr.splitlines() if " steps of train.py" not in line]


def test_a_thread_that_waits_for_ever_does_not_keep_an_ended_script(run: Any) -> None:
    """The script would have ended it, but is ended before."""
    done = run(WAITS)
    assert done.returncode == 0, done.stderr
    assert told(done)[0].startswith("rematsim: train.trace: ")


def test_the_trace_is_where_the_command_was_given(run: Any, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = run("os.chdir('other')")
    assert done.returncode == 0, done.stderr
    assert load_trace(tmp_path / "train.trace").n_calls
    assert not list((tmp_path / "other").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_forked_process_writes_nothing_and_ends_as_it_wants(run: Any) -> None:
    done = run("", FORKS)
    assert done.returncode == 0, done.stderr
    assert "exit code 7" in done.stdout
    assert "child True" in done.stdout
    assert len(told(done)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_signal_ends_a_forked_process_as_without_the_command(run: Any) -> None:
    done = run("", POOL)
    assert "exit code -15" in done.stdout
    assert len(told(done)) == 1, done.stderr


@pytest.mark.parametrize("change", ["= sys.stderr = None", ".close(); sys.stderr.close()"])
def test_closed_streams_change_nothing(run: Any, change: str) -> None:
    done = run(f"sys.stdout{change}")
    assert done.returncode == 0
    assert told(done)[0].startswith("rematsim: train.trace: ")


def test_any_exception_of_a_script_is_the_scripts(run: Any) -> None:
    """Also one that no ``except Exception`` catches."""
    done = run("", "if number == 3: raise GeneratorExit('x')")
    assert done.returncode == 1
    assert done.stderr == "rematsim: error: train.py:13: the script failed: GeneratorExit: x\n"


def test_times_are_medians_of_the_repeats_that_there_are(run: Any) -> None:
    done = run("", "if number == 3: sys.exit()")
    assert "2 repeats instead of 5" in done.stderr
    assert "(each call's median of 2; the recordings took " in done.stderr


def test_a_failure_under_fakes_names_them(run: Any) -> None:
    done = run("", "1 / 0", "--fake")
    assert done.stderr == (
        "rematsim: error: train.py:13: the script failed: ZeroDivisionError: division by zero; "
        "it ran under fake tensors, which have no values; without --fake it may pass\n"
    )


@pytest.mark.parametrize("options", [[], ["--fake"]])
def test_what_is_compiled_is_refused_by_its_name_also_before_recording(
    run: Any, options: list[str]
) -> None:
    done = run("double = torch.compile(lambda x: 2 * x)", "double(torch.ones(3))", *options)
    assert done.returncode == 1
    assert "a compiled function was called (torch.compile; " in done.stderr
