"""The command line on plans: saved by a replay, executed, refused with exit code 3."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import told
from rematsim.cli import progress
from rematsim.cli.main import main
from rematsim.jit import compiling

KEEP_ALL = ("plan", "bundled:unet", "--method", "keep-all")


@pytest.fixture
def plan(tmp_path: Path) -> str:
    """Give the plan of a run of a bundled trace at half its peak."""
    path = str(tmp_path / "mlp.plan")
    assert main(["replay", "bundled:unet", "--budget", "0.6x", "--save-plan", path]) == 0
    return path


def row(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = told(capsys, *arguments, "--json")
    found: dict[str, Any] = json.loads(out)
    return code, found


def test_a_saved_plan_is_executed_with_the_same_figures(
    capsys: pytest.CaptureFixture[str], plan: str, tmp_path: Path
) -> None:
    _, online = row(capsys, "replay", "bundled:unet", "--budget", "0.6x")
    run = str(tmp_path / "x.run")
    code, static = row(
        capsys, "execute", "bundled:unet", plan, "--budget", "0.6x", "--save-run", run
    )
    assert code == 0 and Path(run).exists()
    for column in ("slowdown", "peak_bytes", "clock", "evict_sha", "budget_bytes"):
        assert static[column] == online[column]
    assert (static["kind"], static["method"]) == ("static", "h_DTR_eq")


def test_a_plan_that_does_not_fit_ends_with_3(
    capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    code, out, _ = told(capsys, "execute", "bundled:unet", plan, "--budget", "0.4x")
    assert code == 3
    assert "oom: action " in out


def test_an_impossible_plan_ends_with_3_and_names_the_action(
    capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    lines = Path(plan).read_text().splitlines()
    head = json.loads(lines[0])
    head["actions"] = 2
    Path(plan).write_text("\n".join([json.dumps(head), '["COMPUTE",0]', '["FREE",5]']))
    code, found = row(capsys, "execute", "bundled:unet", plan)
    assert (code, found["status"], found["failed_at"]) == (3, "refused", 1)
    code, out, _ = told(capsys, "execute", "bundled:unet", plan)
    assert code == 3 and "refused: action 1, FREE 5" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["execute", "bundled:densenet", "PLAN"], 1, ".plan: it is for the trace 'unet'"),
        (["execute", "bundled:unet", "none.plan"], 1, "none.plan: No such file or directory"),
        (["execute", "bundled:unet", __file__], 1, "no plan: its first line"),
        (["execute", "bundled:unet"], 2, "Missing argument 'PLAN'"),
        (["replay", "bundled:unet", "--save-plan", "x.txt"], 2, "must end in .plan or .plan.gz"),
        (["replay", "bundled:unet", "--save-plan", "no/x.plan"], 1, "there is no folder"),
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
        capsys, "replay", "bundled:unet", "--budget", "0.1x", "--save-plan", str(path)
    )
    assert code == 3
    assert "no plan saved: the run ended oom" in err
    assert not path.exists()


def test_a_plan_is_made_executed_and_saved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / "k.plan.gz")
    code, planned = row(capsys, *KEEP_ALL, "--budget", "1.0x", "-o", path)
    assert (code, planned["planner_status"], planned["method"]) == (0, "optimal", "keep-all")
    assert planned["bound_scope"] == "any schedule"
    code, executed = row(capsys, "execute", "bundled:unet", path, "--budget", "1.0x")
    assert code == 0
    assert executed["evict_sha"] == planned["evict_sha"]
    assert executed["planner_status"] is None
    code, out, _ = told(capsys, *KEEP_ALL, "--budget", "1.0x")
    assert code == 0 and "keep-all: optimal" in out and "slowdown" in out


def test_without_a_plan_the_exit_code_is_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.plan"
    code, out, err = told(capsys, *KEEP_ALL, "--budget", "0.5x", "-o", str(path))
    assert code == 3 and "keep-all: no_plan: its plan takes" in out
    assert "no plan saved" in err and not path.exists()
    code, planned = row(capsys, "plan", "bundled:unet", "--budget", "1KiB")
    assert (code, planned["status"]) == (3, "infeasible")
    assert "the largest single call" in planned["message"]


def test_without_a_method_a_plan_fits_where_one_is_known_and_says_how_good_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Half of the peak is less than the trivial planners can do with."""
    code, planned = row(capsys, "plan", "bundled:unet", "--budget", "0.5x", "--time-limit", "5")
    assert (code, planned["status"], planned["method"]) == (0, "ok", "annealing")
    assert planned["gap"] > 0


def test_long_planning_tells_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    _, _, err = told(capsys, "plan", "bundled:unet", "--time-limit", "2")
    assert "rematsim: planning unet, " in err and " of 2 s" in err


def test_what_is_compiled_meanwhile_is_told_and_takes_no_part_of_the_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    with progress.Waiting("planning", 20), compiling.timed():
        time.sleep(1)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("rematsim: planning, 0 of 20 s; compiling for ")
    assert last.endswith(" s, once for this version, beside")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan", "bundled:unet", "--method", "x"], 2, "unknown planner 'x'; known: "),
        (["plan", "bundled:unet", "--time-limit", "0"], 2, "Invalid value for '--time-limit'"),
        (["plan", "bundled:unet", "-o", "x.txt"], 2, "must end in .plan or .plan.gz"),
        (["sweep", "bundled:unet", "--method", "x"], 2, "unknown planner 'x'"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    found, _, err = told(capsys, *arguments)
    assert found == code
    assert message in err


def test_planners_stand_beside_heuristics_in_a_sweep(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One row for each budget, whatever the options of the replays beside it; and kept."""
    arguments = ["sweep", "bundled:unet", "--heuristic", "h_LRU", "--method", "keep-all",
                 "--deallocation", "eager,ignore", "--budget", "0.8x,1.0x", "--quiet",
                 "--out", str(tmp_path / "t.sqlite"), "--json"]  # fmt: skip
    code, out, _ = told(capsys, *arguments)
    rows = json.loads(out)
    assert code == 0
    assert [(r["kind"], r["method"], r["deallocation"], r["budget_fraction"]) for r in rows] == [
        ("online", "h_LRU", "eager", 0.8), ("online", "h_LRU", "eager", 1.0),
        ("static", "keep-all", "plan", 0.8), ("static", "keep-all", "plan", 1.0),
        ("online", "h_LRU", "ignore", 0.8), ("online", "h_LRU", "ignore", 1.0),
    ]  # fmt: skip
    assert [r["planner_status"] for r in rows if r["kind"] == "static"] == ["no_plan", "optimal"]
    assert json.loads(told(capsys, *arguments)[1]) == rows
    _, out, _ = told(capsys, "sweep", "bundled:unet", "--method", "keep-all", "--budget", "1.0x",
                     "--quiet", "--json")  # fmt: skip
    assert [r["method"] for r in json.loads(out)] == ["keep-all"]


def test_plans_are_compared(capsys: pytest.CaptureFixture[str], plan: str, tmp_path: Path) -> None:
    other = str(tmp_path / "k.plan")
    assert main([*KEEP_ALL, "--budget", "1.0x", "-o", other]) == 0
    code, out, _ = told(capsys, "diff", other, plan)
    assert code == 0
    assert f"A: keep-all, {other}" in out and f"B: h_DTR_eq, {plan}" in out
    assert "only A keeps" in out
    code, out, _ = told(capsys, "diff", other, plan, "--json")
    differences = json.loads(out)
    assert (
        sum(d["remat_ns"][1] for d in differences) > 0 == sum(d["remat_ns"][0] for d in differences)
    )
    assert "the same" in told(capsys, "diff", plan, plan)[1]
    code, _, err = told(capsys, "diff", plan, plan, "--trace", "bundled:densenet")
    assert (
        code == 1 and f"{plan}: it is for the trace 'unet' (a822ecea48c5b81c, bundled:unet)" in err
    )


def test_names_in_a_plan_are_data_for_the_terminal(
    capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    """Control characters in them are shown, not sent."""
    text = Path(plan).read_text(encoding="utf-8")
    Path(plan).write_text(text.replace('"h_DTR_eq"', r'"m\u001b]0;x\u0007"', 1), encoding="utf-8")
    for arguments in (["execute", "bundled:unet", plan], ["diff", plan, plan]):
        code, out, _ = told(capsys, *arguments)
        assert code == 0 and "\x1b" not in out and "m\\x1b]0;x" in out


def test_a_trace_of_constants_alone_is_planned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "constant.log"
    lines = [
        '{"INSTRUCTION": "CONSTANT", "NAME": "a"}',
        '{"INSTRUCTION": "MEMORY", "NAME": "a", "MEMORY": "5"}',
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    code, planned = row(capsys, "plan", str(path), "--budget", "5")
    assert (code, planned["status"]) == (0, "ok")


def test_whoever_runs_a_graph_with_fractions_is_told_how_it_is_scaled(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also where a trace file made of it is run, and no number in it has a fraction any more."""
    graph, trace, plan = (str(tmp_path / name) for name in ("g.json", "g.trace", "g.plan"))
    nodes = [{"id": 0, "cost_cpu": 1.5, "cost_ram": 2.25}, {"id": 1, "cost_cpu": 2, "cost_ram": 1}]
    links = [{"source": 0, "target": 1}]
    Path(graph).write_text(
        json.dumps({"directed": True, "multigraph": False, "nodes": nodes, "links": links})
    )
    _, _, err = told(capsys, "import", graph, "-o", trace)
    scales = ["1 counts as 10 ns", "1 counts as 100 bytes, in budgets too"]
    assert all(scale in err for scale in scales), err
    for source in (graph, trace):
        for command in (
            ("plan", source, "--method", "keep-all", "--budget", "1.0x", "-o", plan),
            ("sweep", source, "--method", "keep-all", "--budget", "1.0x"),
            ("replay", source),
            ("execute", source, plan),
            ("diff", plan, plan, "--trace", source),
            ("export", source, "-o", str(tmp_path / "g.log")),
        ):
            _, _, err = told(capsys, *command)
            assert "rematsim: note: g: 1 costs with fractions (scaled: 1 counts as 10 ns)" in err
            assert all(scale in err for scale in scales), command


def impossible(plan: str, path: Path) -> str:
    """Make of a plan one whose second action frees what is not there."""
    lines = Path(plan).read_text(encoding="utf-8").splitlines()
    lines[2] = '["FREE",5]'
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_plans_that_cannot_run_are_named_and_not_compared(
    capsys: pytest.CaptureFixture[str], plan: str, tmp_path: Path
) -> None:
    bad = impossible(plan, tmp_path / "bad.plan")
    fault = f"rematsim: {bad}: refused: action 1, FREE 5 "
    for pair in ((plan, bad), (bad, plan), (bad, bad)):
        code, out, err = told(capsys, "diff", *pair, "--json")
        assert (code, out) == (3, "")
        assert err.count(fault) == pair.count(bad) and err.count("\n") == pair.count(bad)


def test_plans_are_validated_alone_by_their_format_and_on_a_trace_by_each_action(
    capsys: pytest.CaptureFixture[str], plan: str, tmp_path: Path
) -> None:
    bad = impossible(plan, tmp_path / "bad")  # its content says what it is
    code, out, _ = told(capsys, "validate", plan, bad)
    lines = out.splitlines()
    assert code == 0 and all("actions of h_DTR_eq; not held against" in line for line in lines)
    code, out, _ = told(capsys, "validate", plan, bad, "--trace", "bundled:unet")
    assert code == 1
    assert out.startswith(f"{plan}: ok (") and f"\n{bad}: refused: action 1, FREE 5 " in out
    code, out, _ = told(capsys, "validate", plan, "--trace", "bundled:gpt")
    assert code == 1 and "it is for the trace 'unet'" in out
    (tmp_path / "none.plan").write_text("{}")
    code, out, _ = told(capsys, "validate", str(tmp_path / "none.plan"), "--json")
    assert code == 1 and "no plan: its first line" in json.loads(out)[0]["error"]


@pytest.mark.parametrize("command", ["execute", "validate", "diff", "explain", "compare", "plot"])
def test_a_plan_of_another_trace_is_refused_by_the_name_of_its_file(
    capsys: pytest.CaptureFixture[str], plan: str, command: str
) -> None:
    given = {
        "execute": ["bundled:gpt", plan],
        "validate": [plan, "--trace", "bundled:gpt"],
        "diff": [plan, plan, "--trace", "bundled:gpt"],
        "explain": ["bundled:gpt", "--plan", plan],
        "compare": [plan, plan, "--trace", "bundled:gpt"],
        "plot": [plan, "--trace", "bundled:gpt"],
    }
    code, out, err = told(capsys, command, *given[command])
    said = (out if command == "validate" else err.removeprefix("rematsim: error: ")).splitlines()
    assert code == 1 and len(said) == 1
    assert said[0].startswith(f"{plan}: it is for the trace 'unet' (")


def test_a_sweep_says_once_for_each_method_and_reason_why_there_are_no_plans(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reasons of a method that differ in their numbers alone are told once, of the first row.

    Methods share a line where every row of theirs says the same.
    """
    methods = "keep-all,every-kth,checkpoint-all"
    _, out, _ = told(capsys, "sweep", "synthetic:chain:9", "--method", methods,
                     "--budget", "2,4,5,7", "--quiet")  # fmt: skip
    reasons = [line for line in out.splitlines() if ": " in line]
    below = f"infeasible, {methods.replace(',', ', ')}: budget 2 bytes is below 4, what"
    assert reasons[0].startswith(below) and reasons[0].endswith("(chain:9, 2 B)")
    first = "10 bytes, the budget is 4 (chain:9, 4 B; the first of 3 rows)"
    blocks = "the trace has no numbered modules as blocks (chain:9, 4 B; the first of 3 rows)"
    assert reasons[1:4] == [
        f"no_plan, keep-all: its plan takes {first}",
        f"not_applicable, every-kth: {blocks}",
        f"no_plan, checkpoint-all: the smallest of its plans takes {first}",
    ]
