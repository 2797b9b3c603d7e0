"""Faults: sweeps that are killed, interrupted or cannot write lose nothing that was finished.

Every process that is killed here was started here, in a group of its own.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from processes import processes_of, wait_until
from rematsim.cli.main import main
from rematsim.result import COLUMNS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX processes and signals")

UNITS = 8
BUDGETS = "0.4x:1.0x:0.1x"
# Heuristics of a user: one takes a while, so that there is a sweep to kill.
MINE = """
import os, pathlib, time

def slow(state, s):
    time.sleep(0.0002)
    return float(s)

def deadly(state, s):
    mark = pathlib.Path(__file__).with_name("killed")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), 9)
    return float(s)

def breaking(state, s):
    raise ValueError("no idea")
"""


def write_chain(path: Path, units: int = UNITS) -> None:
    """Write a log of units forward and their gradients backward, each of 10 bytes and 10 ns."""
    lines: list[dict[str, object]] = [
        {"INSTRUCTION": "CONSTANT", "NAME": "x-1"},
        {"INSTRUCTION": "MEMORY", "NAME": "x-1", "MEMORY": "5"},
    ]

    def call(operator: str, result: str, *arguments: str) -> None:
        head = {"NAME": operator, "RESULT": [result], "ARGS": list(arguments), "TIME": "10"}
        lines.append({"INSTRUCTION": "CALL", **head})
        lines.append({"INSTRUCTION": "MEMORY", "NAME": result, "MEMORY": "10"})
        lines.append({"INSTRUCTION": "ALIAS", "NAME": result, "ALIAS": "-1"})

    for unit in range(units):
        call("forward", f"x{unit}", f"x{unit - 1}")
    lines.append({"INSTRUCTION": "ANNOTATE", "ANNOTATION": "BACKWARD"})
    call("loss", f"g{units}", f"x{units - 1}")
    for unit in reversed(range(units)):
        call("backward", f"g{unit}", f"g{unit + 1}", f"x{unit}")
        for name in (f"g{unit + 1}", f"x{unit}"):
            lines.append({"INSTRUCTION": "RELEASE", "NAME": name})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with two logs and a file of heuristics."""
    write_chain(tmp_path / "one.log")
    write_chain(tmp_path / "two.log", UNITS + 2)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def sweep_arguments(folder: Path, out: str = "t.sqlite", jobs: int = 2) -> list[str]:
    """Ask for a sweep of some seconds: two logs, two methods, seven budgets."""
    return [
        "sweep",
        *(str(folder / name) for name in ("one.log", "two.log")),
        *("--heuristic", f"h_LRU,{folder / 'mine.py'}:slow", "--budget", BUDGETS),
        *("--deallocation", "ignore", "--slowdown-limit", "none", "--no-cache", "--quiet"),
        *("--jobs", str(jobs), "--out", str(folder / out)),
    ]


def command(arguments: list[str]) -> list[str]:
    """Give the command line for a process of its own."""
    return [sys.executable, "-W", "ignore", "-m", "rematsim", *arguments]


def stored(path: Path) -> list[tuple[object, ...]]:
    """Read all rows as they stand in the file, their times aside."""
    columns = ", ".join(column for column in COLUMNS if column != "run_seconds")
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT position, {columns} FROM runs").fetchall()


def count_rows(path: Path) -> int:
    """Count the rows of a table that another process is writing."""
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
            return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the table is about to be made


def fork_and_kill(arguments: list[str], seconds: float, told: Path) -> bool:
    """Run the command in a forked process group and kill all of it; say if it had ended before.

    What it tells is in a file, and shown if it ended badly.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        sink = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1)
        os._exit(main(arguments))
    with contextlib.suppress(OSError):
        os.setpgid(child, child)  # whichever comes first: here or there
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, told.read_text()
            return True
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_a_sweep_killed_twenty_times_ends_with_the_undisturbed_table(folder: Path) -> None:
    """At random moments, all processes at once, with one worker and with two."""
    assert main(sweep_arguments(folder, "undisturbed.sqlite", jobs=1)) == 0
    moments = random.Random(20210502)
    kills = 0
    while kills < 20:
        jobs = 1 + kills % 2
        moment = moments.uniform(0.0, 2.0 if jobs == 2 else 0.5)
        has_ended = fork_and_kill(sweep_arguments(folder, jobs=jobs), moment, folder / "told.txt")
        kills += 1
        if has_ended:  # a finished table is no longer disturbed: begin a new one
            assert stored(folder / "t.sqlite") == stored(folder / "undisturbed.sqlite")
            (folder / "t.sqlite").unlink()
    assert main(sweep_arguments(folder)) == 0
    assert stored(folder / "t.sqlite") == stored(folder / "undisturbed.sqlite")
    assert len(stored(folder / "t.sqlite")) == 2 * 2 * 7


def test_a_forked_process_starts_workers_of_its_own(folder: Path) -> None:
    """What its parent started to make workers from is not its child, and cannot be waited for."""
    assert main(sweep_arguments(folder, "parent.sqlite")) == 0
    assert fork_and_kill(sweep_arguments(folder, "forked.sqlite"), 300.0, folder / "told.txt")
    assert stored(folder / "forked.sqlite") == stored(folder / "parent.sqlite")


@contextmanager
def started(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start the command in a process group of its own; leave nothing of it behind."""
    process = subprocess.Popen(
        command(arguments),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        for left in processes_of(process.pid):
            os.kill(left, signal.SIGKILL)
        process.communicate()


def test_workers_end_when_their_parent_is_killed(folder: Path) -> None:
    """Only the parent is killed: nothing may stay behind and use up the machine."""
    with started(sweep_arguments(folder)) as process:
        assert wait_until(lambda: count_rows(folder / "t.sqlite") > 0)
        process.kill()
        process.wait()
        assert wait_until(lambda: not processes_of(process.pid), 30)


def test_interrupted_sweep_ends_with_130_and_says_how_to_go_on(folder: Path) -> None:
    """Ctrl-C reaches every process of the group."""
    with started(sweep_arguments(folder)) as process:
        assert wait_until(lambda: count_rows(folder / "t.sqlite") > 0)
        os.killpg(process.pid, signal.SIGINT)
        shown, told = process.communicate(timeout=60)
        assert (process.returncode, shown) == (130, "")
        assert "run the same command again to go on" in told and "Traceback" not in told
        assert told.endswith("rematsim: interrupted\n")
        assert wait_until(lambda: not processes_of(process.pid), 30)
    kept = count_rows(folder / "t.sqlite")
    assert 0 < kept < 28
    assert main(sweep_arguments(folder)) == 0
    assert count_rows(folder / "t.sqlite") == 28


def test_interrupt_while_the_workers_start_shows_no_traceback_of_theirs(folder: Path) -> None:
    """They are deaf to Ctrl-C from their first moment, not only once they work."""
    with started(sweep_arguments(folder)) as process:
        assert wait_until(lambda: len(processes_of(process.pid)) > 1)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130 and "Traceback" not in told
        assert wait_until(lambda: not processes_of(process.pid), 30)


@pytest.mark.parametrize("jobs", [1, 2])
def test_terminated_sweep_says_what_is_kept_and_leaves_no_worker(folder: Path, jobs: int) -> None:
    """A batch system ends jobs with SIGTERM: only the parent gets it, in a user's code maybe."""
    with started(sweep_arguments(folder, jobs=jobs)) as process:
        assert wait_until(lambda: count_rows(folder / "t.sqlite") > 0)
        process.terminate()
        _, told = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, told
        assert "run the same command again to go on" in told and "Traceback" not in told
        assert wait_until(lambda: not processes_of(process.pid), 30)


def test_worker_killed_by_the_system_is_an_error_and_the_sweep_goes_on_later(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when memory runs out: no row is lost, and none comes twice."""
    arguments = [
        "sweep",
        str(folder / "one.log"),
        *("--heuristic", f"h_LRU,{folder / 'mine.py'}:deadly", "--budget", BUDGETS),
        *("--deallocation", "ignore", "--quiet"),
    ]
    out = folder / "t.sqlite"
    assert main([*arguments, "--jobs", "2", "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert "a worker was killed by the system" in told and "Traceback" not in told
    assert "go on" in told
    before = stored(out)
    assert main([*arguments, "--jobs", "2", "--out", str(out)]) == 0
    after = stored(out)
    assert set(before) <= set(after) and len(after) == 14
    assert main([*arguments, "--jobs", "1", "--out", str(folder / "other.sqlite")]) == 0
    assert stored(folder / "other.sqlite") == after


def limit_file_size() -> None:
    """Let no file grow beyond some rows, as a full disk would not."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def test_full_disk_is_an_error_and_no_row_is_half_written(folder: Path) -> None:
    """The sweep goes on when there is room again."""
    out = folder / "t.sqlite"
    arguments = ["sweep", str(folder / "one.log"), "--budget", BUDGETS, "--out", str(out)]
    arguments += ["--heuristic", "h_LRU,h_size,h_DTR_local", "--jobs", "1"]
    done = subprocess.run(
        command(arguments),
        preexec_fn=limit_file_size,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "disk is full" in done.stderr and "Traceback" not in done.stderr
    kept = stored(out)
    assert 0 < len(kept) < 21
    assert main(arguments) == 0
    assert stored(out)[: len(kept)] == kept
    assert len(stored(out)) == 21


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk always full")
def test_full_disk_under_the_csv_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows are in the .sqlite all the same."""
    arguments = ["sweep", str(folder / "one.log"), "--heuristic", "h_LRU", "--budget", "0.5x"]
    out = folder / "t.sqlite"
    assert main([*arguments, "--csv", "/dev/full", "--out", str(out), "--jobs", "1"]) == 1
    assert "/dev/full: cannot write: No space left" in capsys.readouterr().err
    assert Path("/dev/full").is_char_device()
    assert len(stored(out)) == 1


def test_csv_is_replaced_whole_or_not_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failure half-way leaves the old file, and nothing beside it."""
    table = folder / "t.csv"
    arguments = ["sweep", str(folder / "one.log"), "--heuristic", "h_LRU", "--jobs", "1"]
    assert main([*arguments, "--budget", "0.5x", "--csv", str(table)]) == 0
    before = table.read_text()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(csv.DictWriter, "writerows", fail)
    assert main([*arguments, "--budget", "0.6x", "--csv", str(table)]) == 1
    assert "No space left" in capsys.readouterr().err
    assert table.read_text() == before
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs /proc, where no file can be made"
)
@pytest.mark.parametrize("option", ["--out", "--csv"])
def test_unwritable_place_is_told_before_anything_runs(
    option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the administrator can make a file there."""
    arguments = ["sweep", str(folder / "one.log"), "--heuristic", "h_LRU", "--budget", "0.5x"]
    assert main([*arguments, "--jobs", "1", option, "/proc/t.sqlite"]) == 1
    told = capsys.readouterr().err
    assert "/proc/t.sqlite" in told and len(told.splitlines()) == 1


def test_failing_heuristic_ends_with_1_and_names_the_cell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was finished before is kept."""
    arguments = ["sweep", str(folder / "one.log"), "--heuristic", f"{folder / 'mine.py'}:breaking"]
    arguments += ["--deallocation", "ignore", "--jobs", "1", "--out", str(folder / "t.sqlite")]
    assert main([*arguments, "--budget", "unlimited,0.5x"]) == 1
    told = capsys.readouterr().err
    assert "mine.py" in told and "no idea" in told and "0.5x" in told and "Traceback" not in told
    assert len(stored(folder / "t.sqlite")) == 1


def test_two_sweeps_over_one_file_at_once_give_one_whole_table(folder: Path) -> None:
    """They may do work twice; the table has every row once, in order."""
    arguments = sweep_arguments(folder, jobs=1)
    with started(arguments) as one, started(arguments) as two:
        assert [one.wait(300), two.wait(300)] == [0, 0]
    assert main(sweep_arguments(folder, "alone.sqlite", jobs=1)) == 0
    assert stored(folder / "t.sqlite") == stored(folder / "alone.sqlite")
