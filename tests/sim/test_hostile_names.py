"""Names from traces and files are data, in whatever is made of them: no output obeys one."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from command_line import told
from hostile_names import HOSTILE, obeyed, save_hostile
from rematsim.analysis.tables import read_table
from rematsim.cli.output import print_path
from rematsim.files import as_cell, from_cell
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.saving import save_trace

EVIL_FILE = "=1+1 \u202e<b>[red]\x1b[31m$x^2$"  # a file may be called so
LONGEST_LINE = 1200  # letters


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile trace under a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    save_hostile(folder, EVIL_FILE)
    return folder


COMMANDS = (
    "info {trace}",
    "validate {trace}",
    "replay {trace} --budget 80 --save-run {out}.run --save-plan {out}.plan --timeline {out}.json",
    "sweep {trace} --method on-demand --budget 80,100 --out {out}.sqlite --csv {out}.csv",
    "summary {out}.sqlite --csv {out}-summary.csv",
    "plot {out}.sqlite",
    "plot {out}.csv --kind overhead --out {out}.svg",
    "plot {out}.run",
    "plot {out}.plan --out {out}-plan.svg",
    "addresses {out}.run -o {out}-addresses.csv",
    "plan {trace} --method on-demand --budget 80 -o {out}-2.plan",
    "execute {trace} {out}.plan",
    "validate {out}.plan --trace {trace}",
    "diff {out}.plan {out}-2.plan --trace {trace}",
    "export {out}.plan --list --trace {trace}",
    "export {trace} -o {out}.log",
    "fits {trace} --budget 80",
    "tune {trace} --budget 80 --trials 1 --quiet",
    "import {trace} -o {out}-3.trace",
)


def test_no_output_obeys_a_name(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No control characters, no endless lines, whatever is printed; no script in a picture."""
    monkeypatch.chdir(files)
    places = {"trace": f"{EVIL_FILE}.trace", "out": EVIL_FILE}
    faults = []
    for command in COMMANDS:
        arguments = [part.format(**places) for part in command.split()]
        code, out, err = told(capsys, *arguments)
        assert code in (0, 1), (command, err)  # a refusal is an answer, too
        told_by = err if command.startswith("plot") else out + err  # its paths are for programs
        if max(map(len, (out + err).splitlines()), default=0) > LONGEST_LINE:
            faults.append(f"{command}: an endless line")
        if obeyed(told_by):
            faults.append(f"{command}: a control character")
    assert not faults
    for picture in files.glob("*.svg"):
        assert "<script" not in picture.read_text(encoding="utf-8")
    for table in files.glob("*.csv"):
        for row in csv.reader(table.open(encoding="utf-8", newline="")):
            assert not [cell for cell in row if cell[:1] in ("=", "@")], table
    json.loads((files / f"{EVIL_FILE}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [*HOSTILE, "'=1", "''@x", "'plain", "-1", "", "\t=1"])
def test_a_cell_is_no_formula_and_comes_back(name: str) -> None:
    """A number stays one; what begins a formula has a quotation mark before it."""
    cell = as_cell(name)
    assert from_cell(cell) == name
    assert cell == name or cell == f"'{name}"
    assert cell[:1] not in ("=", "@", "\t", "\r")
    assert as_cell(-1) == -1


def test_a_table_that_went_through_csv_has_its_names_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = TraceBuilder("x")
    builder.constant("a", 8)
    builder.call("f", ["a"], [("b", 8, -1)], 1)
    path = str(tmp_path / "=HYPERLINK(1).trace")
    save_trace(builder.build(), path)
    table = str(tmp_path / "x.csv")
    assert (
        told(capsys, "sweep", path, "--heuristic", "h_DTR", "--budget", "1.0x", "--csv", table)[0]
        == 0
    )
    assert "\n'=HYPERLINK(1)," in Path(table).read_text(encoding="utf-8")
    assert read_table(table)["trace"].tolist() == ["=HYPERLINK(1)"]


def test_names_of_file_and_trace_are_cut_in_figures(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long name must not make an image that nothing can open."""
    long = tmp_path / f"{'n' * 200}.trace"
    shutil.copy(files / f"{EVIL_FILE}.trace", long)
    table, figure = str(tmp_path / "x.sqlite"), tmp_path / "x.png"
    assert (
        told(capsys, "sweep", str(long), "--heuristic", "h_DTR", "--budget", "100", "--out", table)[
            0
        ]
        == 0
    )
    assert told(capsys, "plot", table, "--kind", "overhead", "--out", str(figure))[0] == 0
    assert figure.stat().st_size < 10**6


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_path_of_what_was_written_is_harmless_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """A program that reads it needs it as it is."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    print_path("\u202ex.html")
    assert stream.getvalue() == ("\\u202ex.html\n" if is_terminal else "\u202ex.html\n")
