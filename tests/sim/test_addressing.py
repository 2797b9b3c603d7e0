"""The buffers of runs, and the command: what a log says of lifetimes, what is told and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import told
from random_traces import random_trace
from rematsim.addressing import address_plan
from rematsim.buffer_files import load_address_plan
from rematsim.buffers import max_load
from rematsim.errors import InputError
from rematsim.lifetimes import buffers_of_run
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace


def chain() -> Trace:
    """A constant c of 8 bytes, x1 = f(c) and x2 = f(x1) of 4 bytes each; x1 is released then."""
    builder = TraceBuilder("chain")
    builder.constant("c", 8)
    builder.call("f", ["c"], [("x1", 4, -1)], 10)
    builder.call("f", ["x1"], [("x2", 4, -1)], 10)
    builder.release("x1")
    return builder.build()


def test_lifetimes_are_places_in_the_log() -> None:
    """Rows: c, x1, x2, x1 goes, c and x2 stay to the end: worked by hand."""
    run = simulate(chain(), event_log=True, cached=False)
    assert run.events is not None
    buffers = buffers_of_run(run, 1)
    assert buffers.ids == ("c", "x1", "x2")
    assert buffers.size.tolist() == [8, 4, 4]
    assert buffers.lower.tolist() == [0, 1, 2]
    end = len(run.events["action"])
    assert buffers.upper.tolist() == [end, 3, end]


def test_what_comes_back_is_another_buffer() -> None:
    builder = TraceBuilder("twice")
    builder.constant("c", 1)
    for number in range(4):
        builder.call("f", ["c"], [(f"x{number}", 4, -1)], 10)
    for number in range(4):
        builder.call("g", [f"x{number}"], [(f"y{number}", 1, -1)], 10)
        builder.release(f"y{number}")
    run = simulate(builder.build(), "h_LRU", 10, slowdown_limit=None, event_log=True, cached=False)
    assert run.rematerializations > 0
    ids = buffers_of_run(run, 1).ids
    assert any("#2" in name for name in ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("mutation", ["copy", "inplace"])
@pytest.mark.parametrize("deallocation", ["eager", "ignore", "banish"])
def test_the_load_of_the_buffers_is_the_memory_of_the_log(mutation: str, deallocation: str) -> None:
    """At each row, the bytes that live are those that the log has in memory."""
    for seed in range(25):
        run = simulate(
            random_trace(seed),
            budget=0.7,
            slowdown_limit=None,
            event_log=True,
            deallocation=deallocation,
            mutation=mutation,
            cached=False,
        )
        assert run.events is not None
        if not (run.events["bytes"] > 0).any():
            continue
        buffers = buffers_of_run(run, 1)
        moments = np.arange(len(run.events["action"]))[:, None]
        lives = (buffers.lower <= moments) & (moments < buffers.upper)
        # An update in place hands its bytes over with no time between.
        settled = run.events["action"] != 11
        load = (lives * buffers.size).sum(axis=1)
        assert (load == run.events["memory_after_bytes"])[settled].all(), seed
        assert max_load(buffers) <= run.peak_bytes


def test_a_run_without_a_log_is_refused() -> None:
    with pytest.raises(InputError, match="no event log"):
        buffers_of_run(simulate(chain(), cached=False))


def test_the_line_of_a_plot_is_the_height_of_the_plan() -> None:
    """Rounded to 512 bytes each: three live at once."""
    run = simulate(chain(), event_log=True, cached=False)
    assert address_plan(run) == 3 * 512
    assert address_plan(run, rounding=1) == 16


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = str(tmp_path / "x.run")
    simulate(chain(), event_log=True, cached=False).save(path)
    return path


def test_the_command_tells_and_saves(
    capsys: pytest.CaptureFixture[str], saved: str, tmp_path: Path
) -> None:
    out = tmp_path / "plan.csv"
    code, shown, _ = told(capsys, "addresses", saved, "-o", str(out))
    assert code == 0
    assert "maximum load  1.50 KiB (1,536)" in shown
    assert "1.0000 of the maximum load" in shown and "auto: optimal" in shown
    assert load_address_plan(out).height == 1536
    code, shown, _ = told(capsys, "addresses", str(out), "--json")
    found: dict[str, Any] = json.loads(shown)
    assert (found["height_bytes"], found["status"], found["ratio"]) == (1536, "optimal", 1.0)


def test_a_plan_that_does_not_fit_ends_with_3(
    capsys: pytest.CaptureFixture[str], saved: str
) -> None:
    assert told(capsys, "addresses", saved, "--capacity", "1536")[0] == 0
    code, shown, _ = told(capsys, "addresses", saved, "--capacity", "1KiB")
    assert code == 3
    assert "infeasible" in shown and "does not fit" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("missing.run",), 1, "no such file"),
        (("missing.csv",), 1, "no such file"),
        (("x.run", "--method", "firstfit"), 2, "unknown method of addresses"),
        (("x.run", "--capacity", "0.5x"), 2, "a number of bytes is needed"),
        (("x.run", "--out", "plan.json"), 2, "must end in .csv"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str],
    saved: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, error = told(capsys, "addresses", *arguments)
    assert found == code
    assert message in error.replace("\n", " ")
