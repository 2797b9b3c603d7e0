"""``rematsim plot`` and ``rematsim summary`` on what other commands have written."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from rematsim.analysis.overviews import KINDS
from rematsim.cli.main import main

NET = "synthetic:chain:9"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A heuristic and a planner, at budgets of which the smallest is enough for neither."""
    path = str(tmp_path / "t.sqlite")
    arguments = ["--heuristic", "h_LRU", "--method", "keep-all", "--budget", "2,7,1.0x"]
    assert main(["sweep", NET, *arguments, "--out", path, "--quiet"]) == 0
    return path


def test_gaps_are_shown_by_trace_and_budget(capsys: pytest.CaptureFixture[str], table: str) -> None:
    capsys.readouterr()
    code, out, _ = told(capsys, "summary", table)
    lines = [line.split() for line in out.splitlines() if "chain" in line]
    assert code == 0
    assert [line[1] for line in lines] == ["lower", "h_LRU", "keep-all"]
    assert lines[0][3:] == [">=", "1.167", ">=", "1.000"]
    assert lines[1][2:] == ["oom", "optimal", "optimal"]
    assert lines[2][2:] == ["infeasible", "no_plan", "optimal"]


def test_gaps_are_rows_for_programs(
    capsys: pytest.CaptureFixture[str], table: str, tmp_path: Path
) -> None:
    """JSON and CSV hold the same rows; a method and a trace can be chosen."""
    capsys.readouterr()
    written = tmp_path / "gaps.csv"
    arguments = ["summary", table, "--method", "h_LRU", "--json", "--csv", str(written)]
    code, out, _ = told(capsys, *arguments)
    rows = json.loads(out)
    assert code == 0
    assert [(r["line"], r["budget_bytes"], r["status"]) for r in rows] == [
        ("h_LRU", 2, "oom"),
        ("h_LRU", 7, "ok"),
        ("h_LRU", 10, "ok"),
    ]
    both = told(capsys, *arguments[:3], "h_LRU,keep-all", "--json")[1]
    assert {row["line"] for row in json.loads(both)} == {"h_LRU", "keep-all"}
    assert rows[0]["gap"] is None and rows[2]["gap"] == 0 and rows[2]["is_optimal"] is True
    assert rows[1]["gap"] == pytest.approx(rows[1]["slowdown"] / rows[1]["bound"] - 1)
    with written.open() as file:
        assert [r["budget_bytes"] for r in csv.DictReader(file)] == ["2", "7", "10"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_summary_says_what_its_cells_mean(
    capsys: pytest.CaptureFixture[str], table: str, kind: str
) -> None:
    capsys.readouterr()
    code, out, _ = told(capsys, "summary", table, "--kind", kind)
    assert code == 0 and "chain:9" in out
    assert out.splitlines()[-2:] == ["", KINDS[kind][2]]  # what the cells mean
    code, out, _ = told(capsys, "summary", table, "--kind", kind, "--json")
    assert code == 0 and json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["summary", "no.sqlite"], 1, "no.sqlite: no such file"),
        (["summary", "TABLE", "--kind", "pie"], 2, "'pie' is not one of"),
        (["summary", "TABLE", "--method", "x"], 1, "no run with method 'x'"),
        (["plot", "PLAN", "--kind", "overhead"], 2, "is a plan, not a table of runs"),
        (["plot", "PLAN", "--trace", "a", "--trace", "b"], 2, "for one trace, and 2 are given"),
        (["plot", "PLAN", "--trace", "synthetic:chain:8"], 1, "x.plan: it is for the trace"),
        (["plot", "no.plan"], 1, "no.plan: No such file"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    capsys: pytest.CaptureFixture[str],
    table: str,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    plan = str(tmp_path / "x.plan")
    assert main(["replay", NET, "--budget", "7", "--save-plan", plan]) == 0
    capsys.readouterr()
    given = [{"TABLE": table, "PLAN": plan}.get(word, word) for word in arguments]
    found, _, err = told(capsys, *given)
    assert found == code
    assert message in err and err.count("rematsim: error") == (code == 1)


def test_a_plan_is_drawn_on_the_trace_that_it_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = str(tmp_path / "x.plan")
    assert main(["replay", NET, "--budget", "7", "--save-plan", plan]) == 0
    capsys.readouterr()
    code, out, _ = told(capsys, "plot", plan)
    names = ("x.plan-plan.png", "x.plan-memory.png")
    assert (code, out.split()) == (0, [str(tmp_path / name) for name in names])
    picture = str(tmp_path / "y.png")
    code, out, _ = told(capsys, "plot", plan, "--trace", NET, "--out", picture)
    assert (code, out) == (0, f"{picture}\n")


def test_a_plan_that_moves_data_is_drawn_as_a_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is nothing without its link and its budget."""
    plan, run = str(tmp_path / "p.plan"), str(tmp_path / "r.run")
    given = ["--budget", "0.6x", "--d2h", "1GB/s", "--h2d", "1GB/s", "--latency", "0"]
    assert main(["plan", NET, "--method", "offload-all", *given, "-o", plan]) == 0
    code, _, err = told(capsys, "plot", plan)
    assert code == 1 and "p.plan: it moves data, over a link and within a budget" in err
    assert main(["execute", NET, plan, *given, "--save-run", run]) == 0
    capsys.readouterr()
    out = str(tmp_path / "lanes.png")
    assert told(capsys, "plot", run, "--kind", "lanes", "--out", out) == (0, out + "\n", "")


def test_a_table_of_planners_gives_their_solving_times(
    capsys: pytest.CaptureFixture[str], table: str, tmp_path: Path
) -> None:
    capsys.readouterr()
    code, out, _ = told(capsys, "plot", table)
    assert code == 0
    assert [Path(line).name for line in out.split()] == ["t-overhead.png", "t-lowest.png"]
    code, out, _ = told(capsys, "plot", table, "--kind", "solving")
    assert (code, Path(out.strip()).name) == (0, "t-solving.png")


def test_a_figure_that_goes_in_a_folder_says_what_it_replaces(
    capsys: pytest.CaptureFixture[str], table: str, tmp_path: Path
) -> None:
    """Two files of the same name from two folders are drawn into one file of a third."""
    capsys.readouterr()
    folder = tmp_path / "figures"
    folder.mkdir()
    arguments = ["plot", table, "--kind", "lowest", "--out", str(folder)]
    assert told(capsys, *arguments)[2] == ""
    _, _, err = told(capsys, *arguments)
    assert err == f"rematsim: note: {folder / 't-lowest.png'} was there before, and is replaced\n"
