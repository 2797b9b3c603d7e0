"""The command line: exit codes, where things are written, and no traceback whatever is asked."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rematsim.cli.listing import COLUMN_MEANINGS, SECTIONS
from rematsim.cli.main import COMMANDS, main
from rematsim.cli.sweep import command as sweep
from rematsim.result import COLUMNS
from rematsim.traces.devices import NAMES


def chain_log(units: int) -> str:
    """Write a log: units of 10 bytes and 10 ns forward, then a gradient for each, backward."""
    lines: list[dict[str, object]] = [
        {"INSTRUCTION": "CONSTANT", "NAME": "w"},
        {"INSTRUCTION": "MEMORY", "NAME": "w", "MEMORY": "5"},
    ]

    def call(operator: str, result: str, *arguments: str) -> None:
        lines.append(
            {
                "INSTRUCTION": "CALL",
                "NAME": operator,
                "RESULT": [result],
                "ARGS": list(arguments),
                "TIME": "10",
            }
        )
        lines.append({"INSTRUCTION": "MEMORY", "NAME": result, "MEMORY": "10"})
        lines.append({"INSTRUCTION": "ALIAS", "NAME": result, "ALIAS": "-1"})

    for unit in range(units):
        call("forward", f"x{unit}", f"x{unit - 1}" if unit else "w")
    lines.append({"INSTRUCTION": "ANNOTATE", "ANNOTATION": "BACKWARD"})
    call("loss", f"g{units}", f"x{units - 1}")
    for unit in reversed(range(units)):
        call("backward", f"g{unit}", f"g{unit + 1}", f"x{unit}")
        lines.append({"INSTRUCTION": "RELEASE", "NAME": f"g{unit + 1}"})
        lines.append({"INSTRUCTION": "RELEASE", "NAME": f"x{unit}"})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Give the path of a chain of ten units.

    By pencil: unlimited peak: w, x0...x9, g10 and g9 = 5 + 100 + 10 + 10 = 125 bytes; a call needs
    at most two operands and a result, so 5 + 30 = 35 bytes are the least; 21 calls are 210 ns.
    """
    path = tmp_path / "chain.log"
    path.write_text(chain_log(10))
    return str(path)


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rematsim", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        **options,  # type: ignore[call-overload]
    )


def test_version_is_one_line_on_standard_output() -> None:
    """As ``python -m rematsim`` and as a function."""
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "rematsim 0.1.0\n", "")


def test_version_imports_nothing_heavy() -> None:
    """The start must stay quick, so the test looks at what is imported, not at a clock."""
    code = (
        "import sys; from rematsim.cli.main import main; main(['--version']); "
        "heavy = {'numpy', 'numba', 'pandas', 'matplotlib', 'rich', 'msgspec'}; "
        "print(sorted(heavy & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_ends_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user copies the example before reading the options."""
    assert main([command, "--help"]) == 0
    shown, _ = capsys.readouterr()
    assert f"  rematsim {command} " in shown.split("Example")[-1]


def test_the_list_of_commands_tells_what_each_does_in_whole_sentences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A first sentence that does not fit into its line would be cut off."""
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS) and "..." not in shown.split("Commands:")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_heuristic_has_the_same_options_in_every_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """-H where there is --heuristic."""
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert ("--heuristic " in shown) == ("-H" in shown)


def test_no_control_character_of_a_name_reaches_the_terminal(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal obeys them; they are shown escaped, whichever command and option they are in."""
    evil = "no\x1b[31m\nx"
    for arguments in (
        ["replay", evil],
        ["replay", log, "--heuristic", evil],
        ["replay", log, "--budget", evil],
        ["replay", log, f"--{evil}"],
        ["replay", log, "--save-run", f"{tmp_path}/{evil}/x.run"],
        ["export", log, "-o", f"{tmp_path}/{evil}/x.trace"],
        ["export", log, "-o", f"{tmp_path}/{evil}"],
        ["sweep", log, "--csv", f"{tmp_path}/{evil}/x.csv"],
        ["import", log, "--device", evil, "-o", str(tmp_path / "x.trace")],
        ["compare-memory", log, log, "--device", evil],
        ["compare-memory", log, log, "--out", evil],
        ["plot", evil],
        ["plot", evil, "--kind", evil],
        ["validate", evil],
        [evil],
    ):
        assert main(arguments) != 0
        shown = "".join(capsys.readouterr())
        assert "\x1b" not in shown, arguments


def test_a_sweep_names_the_lowest_budget_worth_trying_where_it_went_below(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """35 of 125 bytes: 0.280x."""
    assert main(["sweep", log, "--heuristic", "h_LRU", "--budget", "0.2x,0.9x", "-q"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "lowest budget worth trying: chain 0.280x (rematsim info says why)"
    assert main(["sweep", log, "--heuristic", "h_LRU", "--budget", "0.9x", "-q"]) == 0
    assert "worth trying" not in capsys.readouterr().out


def test_devices_are_listed_and_named_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["list", "devices"], ["capture", "--help"], ["import", "--help"]):
        assert main(arguments) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert all(name in shown for name in NAMES), arguments


def test_replay_of_a_chain_tells_what_a_pencil_tells(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a budget nothing is recomputed, and the peak is the one of the fixture."""
    assert main(["replay", log, "--budget", "unlimited", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert list(row)[: len(COLUMNS)] == list(COLUMNS)
    assert (row["trace"], row["status"], row["slowdown"]) == ("chain", "ok", 1.0)
    assert (row["peak_bytes"], row["unlimited_peak_bytes"]) == (125, 125)
    assert (row["model_ns"], row["remat_ns"]) == (210, 0)
    assert (row["budget_bytes"], row["budget_fraction"], row["seed"]) == (None, None, None)


def test_replay_for_people_shows_status_slowdown_peak_and_what_was_live(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results are on standard output, and nothing else is."""
    assert main(["replay", log, "--budget", "0.6x"]) == 0
    shown, told = capsys.readouterr()
    for word in (
        "status",
        "slowdown",
        "75 B (0.6x)",
        "evictions",
        "in memory at the peak",
        "constant",
    ):
        assert word in shown
    assert told == ""


def test_replay_that_runs_out_of_memory_prints_its_row_and_ends_with_3(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """34 bytes are one too few for a call of the backward pass."""
    assert main(["replay", log, "--budget", "34", "--slowdown-limit", "none", "--json"]) == 3
    row = json.loads(capsys.readouterr().out)
    assert (row["status"], row["slowdown"], row["slowdown_limit"]) == ("oom", None, None)
    assert main(["replay", log, "--budget", "34"]) == 3
    shown, _ = capsys.readouterr()
    assert "oom" in shown and "when memory ran out" in shown
    status = next(line for line in shown.splitlines() if line.startswith("status"))
    assert status.count("line ") == 1, "the call is named once"


def test_a_run_that_failed_below_what_is_needed_names_the_lowest_budget(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What banish needs is not known: there it says nothing."""
    assert main(["replay", log, "--budget", "34"]) == 3
    assert "\nlowest budget worth trying: 35 B (0.280x), rematsim" in capsys.readouterr().out
    assert main(["replay", log, "--budget", "34", "--deallocation", "banish"]) == 3
    assert "lowest budget" not in capsys.readouterr().out


def test_a_budget_that_lacks_its_unit_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    for budget, is_told in (("24", True), ("4MiB", False)):
        assert main(["replay", "bundled:unet", "--budget", budget]) == 3
        assert ("a number alone is bytes" in capsys.readouterr().out) == is_told


def test_replay_reads_standard_input(log: str) -> None:
    """A dash or nothing: another program may have made the log."""
    text = Path(log).read_text()
    for arguments in (["-"], []):
        done = run("replay", *arguments, "--budget", "unlimited", "--json", input=text)
        assert done.returncode == 0
        assert json.loads(done.stdout)["peak_bytes"] == 125


def test_saved_run_can_be_read_again(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file holds the row that was printed."""
    from rematsim.result import load_run

    path = tmp_path / "chain.run"
    assert main(["replay", log, "--save-run", str(path), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    loaded = load_run(path)
    assert loaded.events is not None and len(loaded.events["action"]) > 0
    assert {name: row[name] for name in COLUMNS} == loaded.row


def test_info_tells_what_a_pencil_tells(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Constants, outputs, largest call, unlimited peak, lowest budget, compute."""
    assert main(["info", log, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["constant_bytes"] == 5
    assert facts["output_bytes"] == 10  # g0
    assert facts["largest_call"] == {"operator": "backward", "line": 37, "call": 11, "bytes": 30}
    assert facts["unlimited_peak_bytes"] == 125
    assert facts["lowest_budget_bytes"] == 35
    assert facts["compute_ns"] == 210
    assert {name: part["calls"] for name, part in facts["phases"].items()} == {
        "before BACKWARD": 10,
        "after BACKWARD": 11,
    }
    assert main(["info", log]) == 0
    shown, _ = capsys.readouterr()
    assert "backward (line 37)" in shown and "35 B (0.280x)" in shown


def test_validate_names_each_file_and_fails_if_one_is_bad(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line per file, results on standard output."""
    bad = tmp_path / "bad.log"
    bad.write_text('{"INSTRUCTION": "RELEASE", "NAME": "x"\n')
    assert main(["validate", log]) == 0
    assert capsys.readouterr().out == f"{log}: ok (chain)\n"
    assert main(["validate", log, str(bad), str(tmp_path / "none.log")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "bad.log:1" in lines[1] and "none.log" in lines[2]
    assert main(["validate", str(bad), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["error"]


def test_sweep_prints_a_table_writes_csv_and_goes_on_from_its_file(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two heuristics, two budgets, four rows; none is run twice."""
    out, table = tmp_path / "t.sqlite", tmp_path / "t.csv"
    arguments = ["sweep", log, "--heuristic", "h_LRU,h_size", "--budget", "0.2x,0.6x"]
    files = ["--out", str(out), "--csv", str(table), "--jobs", "1"]
    assert main([*arguments, *files]) == 0
    shown, told = capsys.readouterr()
    assert told == ""
    assert [line.split()[:2] for line in shown.splitlines()[2:]] == [
        ["chain", "h_LRU"],
        ["chain", "h_size"],
        ["lowest", "budget"],
    ]
    assert "oom" in shown  # 0.2x = 25 bytes is below the 35 that every run needs
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["budget_bytes"] for row in rows] == ["25", "75", "25", "75"]
    assert main([*arguments, *files]) == 0
    assert "4 of 4 runs were done before" in capsys.readouterr().err


def test_estimated_times_are_said_wherever_they_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In info, in a replay, in the table and the file of a sweep."""
    from rematsim.traces.builder import TraceBuilder
    from rematsim.traces.saving import save_trace

    builder = TraceBuilder("guess", times_estimated=True)
    builder.constant("x", 8)
    builder.call("relu", ["x"], [("y", 8, -1)], time_ns=100)
    trace, table = str(tmp_path / "guess.trace"), tmp_path / "t.csv"
    save_trace(builder.build(), trace)
    assert main(["info", trace]) == 0
    assert "100 ns (estimated)" in capsys.readouterr().out
    assert main(["replay", trace, "--budget", "1.0x"]) == 0
    assert ", times estimated" in capsys.readouterr().out
    arguments = ["--heuristic", "h_LRU", "--budget", "1.0x", "--csv", str(table), "--jobs", "1"]
    assert main(["sweep", trace, *arguments]) == 0
    assert "guess (times estimated)" in capsys.readouterr().out
    with table.open(newline="") as file:
        assert [row["times"] for row in csv.DictReader(file)] == ["estimated"]


def test_plot_draws_what_sweep_and_replay_left_and_names_its_files(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a log to a figure in two commands."""
    out, saved = tmp_path / "t.sqlite", tmp_path / "t.run"
    arguments = ["--heuristic", "h_LRU,h_size", "--budget", "0.4x:1x:0.2x", "--jobs", "1"]
    assert main(["sweep", log, *arguments, "--out", str(out), "--quiet"]) == 0
    assert main(["replay", log, "--budget", "0.6x", "--save-run", str(saved)]) == 0
    capsys.readouterr()
    for source, figure in ((out, "overhead.png"), (saved, "memory.svg")):
        path = tmp_path / figure
        assert main(["plot", str(source), "--out", str(path)]) == 0
        assert capsys.readouterr().out == f"{path}\n"
        assert path.stat().st_size > 1000
    chosen = ["--kind", "overhead", "--heuristic", "h_LRU", "--out", str(tmp_path / "lru.pdf")]
    assert main(["plot", str(out), *chosen]) == 0
    assert (tmp_path / "lru.pdf").read_bytes().startswith(b"%PDF")


def test_sweep_json_holds_the_rows(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Seeds apply to heuristics that draw lots only."""
    arguments = ["--heuristic", "h_LRU", "--heuristic", "h_rand", "--seed", "0:2", "--quiet"]
    assert main(["sweep", log, *arguments, "--budget", "0.6x", "--jobs", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["method"], row["seed"]) for row in rows] == [
        ("h_LRU", None),
        ("h_rand", 0),
        ("h_rand", 1),
        ("h_rand", 2),
    ]


def test_sweep_over_options_runs_every_combination(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Policies and limits may be several, as heuristics and budgets."""
    arguments = ["--deallocation", "eager,banish", "--slowdown-limit", "2,none", "--jobs", "1"]
    assert (
        main(["sweep", log, "--heuristic", "h_LRU", "--budget", "0.6x", *arguments, "--json"]) == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert [(row["deallocation"], row["slowdown_limit"]) for row in rows] == [
        ("eager", 2.0),
        ("eager", None),
        ("banish", 2.0),
        ("banish", None),
    ]


@pytest.mark.parametrize("what", list(SECTIONS))
def test_list_shows_names_and_meanings(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For people and for programs, the same names; for people in lines of 100 letters."""
    assert main(["list", what]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    assert main(["list", what, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)[what]
    assert all(name in shown for name in listed)


def test_list_without_a_word_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Four sections."""
    assert main(["list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert {"heuristics", "traces", "columns", "formats"} <= set(shown)


def test_every_column_has_a_meaning() -> None:
    """The documented columns are those of the rows, in their order."""
    assert tuple(COLUMN_MEANINGS) == COLUMNS


def test_check_heuristic_tells_its_author_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verdict a line, the exit code for scripts, JSON for programs."""
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def good(state, s):\n    return float(s)\n\ndef bad(state, s):\n    return float('nan')\n"
    )
    assert main(["check-heuristic", f"{mine}:good"]) == 0
    shown, _ = capsys.readouterr()
    assert "ok" in shown.splitlines()[0]
    assert main(["check-heuristic", f"{mine}:bad", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["is_ok"]
    assert any(verdict["outcome"] == "failed" for verdict in report["verdicts"])


USAGE = [
    ["repaly"],
    ["replay", "--nonsense"],
    ["replay", "LOG", "--budget", "6G"],
    ["replay", "LOG", "--budget", "nan"],
    ["replay", "LOG", "--budget", "-1"],
    ["replay", "LOG", "--budget", "0.1x:1.0x:0.1x"],
    ["replay", "LOG", "--slowdown-limit", "0.5"],
    ["replay", "LOG", "--slowdown-limit", "inf"],
    ["replay", "LOG", "--slowdown-limit", "two"],
    ["replay", "LOG", "--deallocation", "eagre"],
    ["replay", "LOG", "--mutation", "copied"],
    ["replay", "LOG", "--seed", "-1"],
    ["replay", "LOG", "--heuristic", "h_drt"],
    ["replay", "LOG", "extra.log"],
    ["replay", "bundled:nothing"],
    ["replay", "LOG", "--heuristic", "ignore_small(h_DTR,7)"],
    ["replay", "LOG", "--heuristic", "sample(h_rand)"],
    ["replay", "LOG", "--memory", "caching(max_split_size_mb:x)"],
    ["replay", "LOG", "--memory", "arena(small_area=0.5x)"],
    ["replay", "synthetic:chain:none"],
    ["plan", "LOG", "--budget", "0.5x,0.6x"],
    ["plan", "LOG", "--method", "rotor(slots=0)"],
    ["plan", "LOG", "--method", "moccasin(cv=x)"],
    ["plan", "LOG", "--method", "rotor(slots)"],
    ["plan", "LOG", "--time-limit", "nan"],
    ["sweep", "LOG", "--method", "rotor(slots=0)"],
    ["sweep", "LOG", "--method", "rotor", "--time-limit", "nan"],
    ["sweep", "LOG", "--heuristic", "ignore_small(h_DTR,7)"],
    ["check-heuristic", "ignore_small(h_DTR,7)"],
    ["sweep", "LOG", "--heuristic", "h_DTR,h_drt"],
    ["sweep", "LOG", "--budget", "0.1x:1.0x"],
    ["sweep", "LOG", "--budget", "1:1000000:1"],
    ["sweep", "LOG", "--seed", "9:0"],
    ["sweep", "LOG", "--seed", "one"],
    ["sweep", "LOG", "--jobs", "0"],
    ["sweep", "LOG", "--deallocation", "eager,,banish"],
    ["sweep", "LOG", "--deallocation", "eager", "--deallocation", "banish"],
    ["sweep", "LOG", "--seed", "1", "--seed", "2"],
    ["list", "everything"],
    ["check-heuristic"],
    ["check-heuristic", "h_drt"],
    ["sweep", "LOG", "--out", "LOG"],
    ["sweep", "LOG", "--out", "TMP"],
    ["replay", "LOG", "--save-run", "x.zip"],
    ["plot"],
    ["plot", "LOG", "--kind", "pie"],
]
FAILURES = [
    ["replay", "none.log"],
    ["replay", "TMP"],
    ["replay", "BAD"],
    ["replay", "LOG", "--heuristic", "none.py:score"],
    ["replay", "LOG", "--save-run", "nowhere/x.run"],
    ["info", "none.log"],
    ["info", "BAD"],
    ["sweep", "none.log"],
    ["sweep", "LOG", "BAD"],
    ["sweep", "LOG", "--out", "FOREIGN"],
    ["sweep", "LOG", "--out", "nowhere/x.sqlite"],
    ["sweep", "LOG", "--csv", "nowhere/x.csv"],
    ["sweep", "LOG", "--csv", "TMP"],
    ["plot", "none.sqlite"],
    ["plot", "BAD"],
    ["plot", "LOG"],
    ["validate", "BAD"],
    ["validate", "TMP"],
    ["check-heuristic", "none.py:score"],
]


def _filled(arguments: list[str], log: str, folder: Path) -> list[str]:
    bad = folder / "bad.log"
    bad.write_bytes(b'{"INSTRUCTION": "CALL"}\n\xff\xfe')
    foreign = folder / "foreign.sqlite"
    foreign.write_text("a table of somebody else")
    places = {"LOG": log, "BAD": str(bad), "TMP": str(folder), "FOREIGN": str(foreign)}
    return [places.get(argument, argument) for argument in arguments]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_a_wrong_command_line_ends_with_2(
    arguments: list[str], log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong is said on standard error, and nothing on standard output."""
    assert main(_filled(arguments, log, tmp_path)) == 2
    shown, told = capsys.readouterr()
    assert shown == "" and "rror: " in told
    assert "Traceback" not in told


def test_a_wrong_command_line_can_be_completed() -> None:
    """A shell that asks what may come next is told no error."""
    sweep.make_context("sweep", ["--seed", "1", "--seed", "2"], resilient_parsing=True)


@pytest.mark.parametrize("arguments", FAILURES, ids=" ".join)
def test_bad_files_end_with_1_and_one_line(
    arguments: list[str],
    log: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The line names the file or the name that is wrong."""
    monkeypatch.chdir(tmp_path)
    assert main(_filled(arguments, log, tmp_path)) == 1
    shown, told = capsys.readouterr()
    message = shown if arguments[0] == "validate" else told
    assert len(message.splitlines()) == 1
    assert "mistake in rematsim" not in message


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (["sweeep"], "sweep"),
        (["replay", "LOG", "--heuristic", "h_DRT"], "h_DTR"),
        (["replay", "LOG", "--bugdet", "3"], "--budget"),
    ],
)
def test_misspelt_names_are_recognized(
    wrong: list[str], meant: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Did you mean...?"""
    assert main(_filled(wrong, log, tmp_path)) == 2
    told = capsys.readouterr().err.lower()
    assert "did you mean" in told and meant.lower() in told


def test_debug_shows_the_traceback(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For those who look for the mistake in the code."""
    assert main(["replay", "none.log", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (MemoryError(), 1, "memory is full"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RecursionError("deep"), 1, "mistake in rematsim: RecursionError"),
        (OSError(5, "Input/output error", "x.log"), 1, "x.log: Input/output error"),
    ],
)
def test_no_error_at_all_shows_a_traceback(
    error: BaseException,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever goes wrong below ends in one line and an exit code."""
    from rematsim.traces import loading

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(loading, "load_trace", fail)
    assert main(["info", "x.log"]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and told in lines[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk always full")
def test_output_that_cannot_be_written_is_an_error(log: str) -> None:
    """A full disk behind the redirection must not look like success."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rematsim", "list", "columns"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "No space left" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("closed", "code"), [("<&-", 1), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 1)]
)
def test_closed_streams_are_no_mistake_of_ours(closed: str, code: int, log: str) -> None:
    """Services start programs like that."""
    what = "info -" if "<" in closed else "list columns"
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m rematsim {what} {closed}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert "mistake" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
def test_a_reader_that_goes_away_is_no_error_worth_a_word() -> None:
    """As in ``rematsim list | head -1``."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "rematsim", "list", "columns"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
