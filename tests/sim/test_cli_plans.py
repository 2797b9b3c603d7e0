"""The command line on plans: saved by a replay, executed, refused with exit code 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rematsim.cli.main import main


@pytest.fixture
def plan(tmp_path: Path) -> str:
    """Give the plan of a run of a bundled trace at half its peak."""
    path = str(tmp_path / "mlp.plan")
    assert main(["replay", "bundled:mlp", "--budget", "0.6x", "--save-plan", path]) == 0
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(arguments))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return code, shown.out, shown.err


def row(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = told(capsys, *arguments, "--json")
    found: dict[str, Any] = json.loads(out)
    return code, found


def test_a_saved_plan_is_executed_with_the_same_figures(
    capsys: pytest.CaptureFixture[str], plan: str, tmp_path: Path
) -> None:
    _, online = row(capsys, "replay", "bundled:mlp", "--budget", "0.6x")
    run = str(tmp_path / "x.run")
    code, static = row(
        capsys, "execute", "bundled:mlp", plan, "--budget", "0.6x", "--save-run", run
    )
    assert code == 0 and Path(run).exists()
    for column in ("slowdown", "peak_bytes", "clock", "evict_sha", "budget_bytes"):
        assert static[column] == online[column]
    assert (static["kind"], static["method"]) == ("static", "h_DTR_eq")


def test_a_plan_that_does_not_fit_ends_with_3(
    capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    code, out, _ = told(capsys, "execute", "bundled:mlp", plan, "--budget", "0.4x")
    assert code == 3
    assert "oom: action " in out


def test_an_impossible_plan_ends_with_3_and_names_the_action(
    capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    lines = Path(plan).read_text().splitlines()
    head = json.loads(lines[0])
    head["actions"] = 2
    Path(plan).write_text("\n".join([json.dumps(head), '["COMPUTE",0]', '["FREE",5]']))
    code, found = row(capsys, "execute", "bundled:mlp", plan)
    assert (code, found["status"], found["failed_at"]) == (3, "refused", 1)
    code, out, _ = told(capsys, "execute", "bundled:mlp", plan)
    assert code == 3 and "refused: action 1, FREE 5" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["execute", "bundled:unet", "PLAN"], 1, "it is for the trace 'mlp'"),
        (["execute", "bundled:mlp", "none.plan"], 1, "none.plan: No such file or directory"),
        (["execute", "bundled:mlp", __file__], 1, "no plan: its first line"),
        (["execute", "bundled:mlp"], 2, "Missing argument 'PLAN'"),
        (["replay", "bundled:mlp", "--save-plan", "x.txt"], 2, "must end in .plan or .plan.gz"),
        (["replay", "bundled:mlp", "--save-plan", "no/x.plan"], 1, "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], plan: str, arguments: list[str], code: int, message: str
) -> None:
    given = [plan if argument == "PLAN" else argument for argument in arguments]
    found, _, err = told(capsys, *given)
    assert found == code
    assert message in err


def test_a_run_that_fails_is_no_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.plan"
    code, _, err = told(
        capsys, "replay", "bundled:mlp", "--budget", "0.1x", "--save-plan", str(path)
    )
    assert code == 3
    assert "no plan saved: the run ended oom" in err
    assert not path.exists()
