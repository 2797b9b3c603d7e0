"""A replay against recorded memory: a curve that is the replay's own, and one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import profile_files as files
import pytest
from rematsim.cli.main import main
from rematsim.comparison import QUANTITIES, compare_memory
from rematsim.errors import InputError
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.curves import Curve
from rematsim.traces.trace import Trace


def tiny() -> Trace:
    """10 bytes of weights; x 20, updated in place; y 30 with 5 of workspace, x freed; y stays."""
    builder = TraceBuilder("tiny", rebinding="storage")
    builder.constant("w", 10)
    builder.call("f", ["w"], [("x", 20, -1)], 100)
    builder.call("g_", ["x"], [], 100, mutates=[0])
    builder.call("h", ["x"], [("y", 30, -1)], 100, workspace_bytes=5)
    builder.release("x")
    return builder.build()


def curve(*allocated: int, start: int = 10, reserved: int | None = None) -> Curve:
    """A recorded curve."""
    sizes = np.array(allocated, np.int64)
    held = None if reserved is None else np.full(len(sizes), reserved, np.int64)
    times = np.arange(len(sizes))
    return Curve("recorded", "file", "memory timeline", "cuda:0", times, sizes, start, held)


def test_a_replay_agrees_with_the_memory_of_the_same_step() -> None:
    """By pencil: 10, 30, 60, with 65 for a moment, and 40 when x is gone."""
    found = compare_memory(tiny(), curve(30, 60, 65, 60, 40))
    assert found.replay == found.recorded
    assert found.replay["peak_bytes"] == 65
    assert found.replay["peak_above_start_bytes"] == 55
    assert (found.replay["start_bytes"], found.replay["end_bytes"]) == (10, 40)
    assert [row["difference"] for row in found.rows()] == [0] * len(QUANTITIES)


def test_differences_are_replay_less_recorded() -> None:
    rows = compare_memory(tiny(), curve(50, 130, start=50, reserved=200)).rows()
    peak = rows[0]
    assert (peak["replay"], peak["recorded"], peak["difference"]) == (65, 130, -65)
    assert peak["relative"] == -0.5


def test_a_run_with_an_event_log_is_compared_as_it_is() -> None:
    run = simulate(tiny(), event_log=True, mutation="inplace")
    found = compare_memory(run, curve(30, 60, 40))
    assert found.replay["peak_bytes"] == 65
    with pytest.raises(InputError, match="no event log in it"):
        compare_memory(simulate(tiny()), curve(1))


def test_the_table_begins_each_curve_with_what_was_there() -> None:
    table = compare_memory(tiny(), curve(30, 40, reserved=99)).table()
    assert list(table["curve"].unique()) == ["replay", "allocated", "reserved"]
    first = table.groupby("curve", sort=False).first()
    assert first["bytes"].tolist() == [10, 10, 99]
    assert table["place"].between(0, 1).all()


@pytest.fixture
def profiles(tmp_path: Path) -> tuple[str, str]:
    """A trace joined with a profile, and the profile."""
    paths = [tmp_path / "et.json", tmp_path / "kineto.json"]
    paths[0].write_bytes(files.execution_trace())
    paths[1].write_bytes(files.kineto())
    trace = tmp_path / "step.trace"
    assert main(["import", *map(str, paths), "-o", str(trace)]) == 0
    return str(trace), str(paths[1])


def test_the_command_tells_both_and_draws_them(
    profiles: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """204 bytes at the peak in both: the constants, 104, y, 40, and the gradient, 60."""
    picture = tmp_path / "memory.png"
    assert main(["compare-memory", *profiles, "--json", "--out", str(picture)]) == 0
    facts = json.loads(capsys.readouterr().out)
    peak = facts["quantities"][0]
    assert peak == {
        "quantity": "peak_bytes",
        "replay": 204,
        "recorded": 204,
        "difference": 0,
        "relative": 0,
    }
    assert facts["profile_format"] == "Kineto trace"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_prints_a_table(
    profiles: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare-memory", *profiles]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "step against kineto (Kineto trace, cpu)"
    assert lines[3].split() == ["peak", "204", "B", "204", "B", "0", "B", "+0.000%"]


def test_a_profile_without_what_was_there_before_is_said_to_be_one(
    profiles: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The constants, 104 bytes, are not in the events of a process that counts from 0."""
    assert main(["compare-memory", *profiles]) == 0
    assert "see the peak above the start" not in capsys.readouterr().out
    events = [dict(event) for event in files.EVENTS]
    for event in events:
        if "Total Allocated" in event["args"]:
            total = event["args"]["Total Allocated"] - 104
            event["args"] = event["args"] | {"Total Allocated": total}
    (tmp_path / "zero.json").write_bytes(files.kineto(events))
    assert main(["compare-memory", profiles[0], str(tmp_path / "zero.json")]) == 0
    assert "(weights): see the peak above the start" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing.json"], 1, "nothing.json: no such file"),
        (["x.json", "--out", "x.docx"], 2, "x.docx: unknown kind of figure"),
    ],
)
def test_what_cannot_be_compared_is_told_in_a_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare-memory", "bundled:unet", *arguments]) == code
    assert message in capsys.readouterr().err
