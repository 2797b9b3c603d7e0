"""``rematsim explain`` and ``compare``: what they print, refuse, and do to hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import NET, save_chain, told
from hostile_names import HOSTILE, obeyed, save_hostile
from rematsim.cli.main import main


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, _ = told(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


@pytest.fixture
def run(tmp_path: Path) -> str:
    return save_chain(tmp_path)


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    return save_hostile(tmp_path)


def test_a_summary_has_overhead_peak_and_what_more_memory_would_buy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = told(capsys, "explain", NET, "-H", "h_LRU", "--budget", "6")
    assert code == 0
    for part in ("overhead: ", "in memory at the peak", "what more memory would buy"):
        assert part in out


def test_a_saved_run_says_what_its_trace_would_add(
    capsys: pytest.CaptureFixture[str], run: str
) -> None:
    """Runs with more memory need the trace."""
    hint = "--trace TRACE tries it"
    assert hint in told(capsys, "explain", run)[1]
    out = told(capsys, "explain", run, "--trace", NET)[1]
    assert hint not in out and "slowdown if kept" in out


def test_explain_gives_the_same_in_json(capsys: pytest.CaptureFixture[str], run: str) -> None:
    """Of a trace and of its saved run, but for what only the trace can tell."""
    new = as_json(capsys, "explain", NET, "-H", "h_LRU", "--budget", "6")
    saved = as_json(capsys, "explain", run, "--trace", NET)
    alone = as_json(capsys, "explain", run)
    for found in (new, saved, alone):
        found["run"]["run_seconds"] = found["run"]["budget_fraction"] = None
    assert new == saved
    assert sum(part["total_ns"] for part in new["overhead"]) == new["run"]["remat_ns"]
    assert new["at"][0]["total_bytes"] == new["run"]["peak_bytes"]
    assert (alone["overhead"], alone["with_more"]) == (new["overhead"], [])


def test_storages_calls_and_instants_are_told(capsys: pytest.CaptureFixture[str], run: str) -> None:
    code, out, _ = told(
        capsys, *("explain", run, "--trace", NET, "--storage", "t1", "--call", "5", "--at", "3ns")
    )
    assert code == 0
    assert "t1: storage 1" in out
    assert "candidate" in out
    assert "last_access" in out
    assert "needed by call" in out
    assert "in memory then (" in out
    assert "overhead:" not in out
    found = as_json(capsys, "explain", run, "--trace", NET, "--storage", "t1", "--at", "end")
    gone = found["storages"][0]["happenings"][0]
    assert gone["decision"]["candidates"][0]["score"] == gone["score"]
    assert found["at"][0]["moment"] == "end"


def test_infinite_scores_are_texts_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has no number for them; here the last access of t1 is the present."""
    arguments = ("explain", "synthetic:chain:4", "-H", "h_abl_one_stale", "--budget", "4")
    found = as_json(capsys, *arguments, "--call", "3")
    assert found["calls"][0]["evictions"]


def test_a_plan_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = str(tmp_path / "x.plan")
    assert main(["replay", NET, "--budget", "6", "--save-plan", plan]) == 0
    code, out, _ = told(capsys, "explain", NET, "--plan", plan, "--storage", "t1")
    assert code == 0
    assert "the plan frees it" in out
    _, out, _ = told(capsys, "explain", NET, "--plan", plan, "--budget", "3")
    assert "oom: action" in out


def test_memory_with_addresses_is_explained_as_it_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 9 tensors of a byte each rounds up to 512."""
    memory = ("-H", "h_LRU", "--budget", "3KiB", "--memory", "arena")
    found = as_json(capsys, "explain", NET, *memory, "--call", "8")
    assert found["run"]["memory"] == "arena"
    assert found["calls"][0]["evictions"][0]["decision"]["candidates"]
    code, out, _ = told(capsys, "explain", NET, *memory)
    assert code == 0
    assert "memory    arena" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", NET, "--trace", NET], "it goes with a saved run"),
        (["explain", "RUN", "--budget", "5"], "a saved run has its own"),
        (["explain", "RUN", "--mutation", "inplace"], "a saved run has its own"),
        (["explain", "RUN", "--memory", "arena"], "a saved run has its own"),
        (["explain", "RUN", "-H", "h_LRU"], "a saved run needs its trace as well: --trace"),
        (["explain", "RUN", "--storage", "zzz"], "the run has none of that name"),
        (["explain", NET, "--plan", "x.plan", "-H", "h_LRU"], "a plan decides for itself"),
        (["compare", "RUN"], "from 2 to 26 are compared"),
        (["compare", "RUN", NET], "neither .run nor .plan"),
        (["compare", "RUN", "-H", "h_DTR"], "no --trace given"),
        (
            ["compare", "RUN", "RUN", "--trace", "synthetic:chain:3"],
            ".run: it is of the trace",
        ),
        (["compare", "RUN", "RUN", "--out", "x.gif"], "unknown kind of figure"),
        (["compare", "RUN", "RUN", "--seed", "3"], "--seed: nothing is run here that it is for"),
        (["compare", "RUN", "RUN", "--device", "h100-pcie5"], "nothing is run here"),
        (["explain", NET, "--plan", "x.plan", "--seed", "3"], "a plan decides for itself"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], run: str, arguments: list[str], message: str
) -> None:
    code, _, err = told(capsys, *(run if part == "RUN" else part for part in arguments))
    assert code in (1, 2)
    assert message in err.splitlines()[-1]


def test_runs_of_different_traces_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], run: str, tmp_path: Path
) -> None:
    other = str(tmp_path / "other.run")
    assert main(["replay", "synthetic:chain:5", "--budget", "5", "--save-run", other]) == 0
    code, out, err = told(capsys, "compare", run, other)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "runs of different traces: A is of" in err


def test_methods_runs_and_plans_are_compared(
    capsys: pytest.CaptureFixture[str], run: str, tmp_path: Path
) -> None:
    plan, figure = str(tmp_path / "x.plan"), tmp_path / "x.svg"
    assert main(["replay", NET, "--budget", "6", "--save-plan", plan]) == 0
    more = ("--trace", NET, "-H", "h_DTR,h_size", "--method", "keep-all", "--budget", "10")
    code, out, err = told(capsys, "compare", run, plan, *more, "--out", str(figure))
    assert code == 0
    for label in "BCDE":
        assert f"A and {label} " in out
    assert "drawn in" in err
    assert figure.stat().st_size
    found = as_json(capsys, "compare", run, plan, *more)
    assert [one["label"] for one in found["runs"]] == list("ABCDE")
    assert len(found["pairs"]) == 4


def test_a_method_without_a_plan_is_named_and_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    methods = ("-H", "h_DTR,h_size", "--method", "keep-all", "--budget", "6")
    code, out, err = told(capsys, "compare", "--trace", NET, *methods)
    assert code == 0
    assert "A and B" in out
    assert "keep-all: no plan at this budget (no_plan: " in err


def test_methods_that_move_data_are_compared_over_a_link(
    capsys: pytest.CaptureFixture[str],
) -> None:
    methods = ("-H", "h_DTR,h_DTR_offload", "--method", "offload-all", "--budget", "6")
    link = ("--d2h", "inf", "--h2d", "inf", "--latency", "0")
    first, *others = as_json(capsys, "compare", "--trace", NET, *methods, *link)["runs"]
    assert first["slowdown"] > 1
    assert [(run["slowdown"], run["offloaded_bytes"] > 0) for run in others] == [(1, True)] * 2


def test_a_run_equals_itself(capsys: pytest.CaptureFixture[str], run: str) -> None:
    code, out, _ = told(capsys, "compare", run, run)
    assert code == 0
    assert out.splitlines()[-1] == "A and B do the same from begin to end"
    assert as_json(capsys, "compare", run, run)["pairs"][0]["is_equal"] is True


def test_hostile_names_are_printed_harmlessly(
    capsys: pytest.CaptureFixture[str], hostile: str, tmp_path: Path
) -> None:
    """Nothing that a terminal obeys, no endless lines, no markup; estimated times are said."""
    saved = [str(tmp_path / f"{name}.run") for name in "ab"]
    for path, heuristic in zip(saved, ("h_LRU", "h_DTR"), strict=True):
        main(["replay", hostile, "--heuristic", heuristic, "--budget", "60", "--save-run", path])
    figure = str(tmp_path / "x.png")
    named = [part for name in HOSTILE for part in ("--storage", name)]
    for arguments in (
        ["explain", hostile, "--budget", "60", "--top", "99"],
        ["explain", hostile, "--budget", "60", *named, "--call", "8", "--at", "7"],
        ["explain", saved[0]],
        ["compare", *saved],
        ["compare", *saved, "--trace", hostile, "--out", figure],
    ):
        code, out, err = told(capsys, *arguments)
        assert code == 0
        assert "times estimated" in out
        assert "[bold]markup[/bold]" in out or "compare" in arguments
        for text in (out, err):
            assert all(len(line) < 1000 for line in text.splitlines())
            assert not obeyed(text)
    assert Path(figure).stat().st_size
    for arguments in (["explain", hostile, "--budget", "60"], ["compare", *saved]):
        assert as_json(capsys, *arguments)


def test_two_tellings_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("explain", NET, "-H", "h_rand", "--budget", "7", "--seed", "3", "--call", "9")
    assert told(capsys, *arguments) == told(capsys, *arguments)
