"""Reports without a browser: what is in the page, what the terminal shows, what is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from command_line import NET, save_chain, told
from hostile_names import obeyed, save_hostile
from rematsim.cli.main import main
from rematsim.explaining import explain
from rematsim.pages.content import MOST_NAME, Column
from rematsim.pages.reports import report
from rematsim.result import load_run
from rematsim.simulation import simulate

MOST_LINE = 4 * MOST_NAME  # letters, in a terminal: three names stand in a row, beside numbers


class Elements(HTMLParser):
    """The elements of a page, and what is in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.policy = ""
        self.scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"]


def unpacked(page: str) -> Any:
    """What a page is about, its arrays left where they are."""
    data = zlib.decompress(base64.b64decode(Elements(page).scripts[0]))
    return json.loads(data[4 : 4 + struct.unpack("<I", data[:4])[0]])


@pytest.fixture
def run(tmp_path: Path) -> str:
    return save_chain(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "runs.sqlite")
    cells = ("--budget", "3,6,9,unlimited", "--heuristic", "h_LRU,h_DTR", "--method", "keep-all")
    assert main(["sweep", NET, *cells, "--out", path, "--quiet", "--jobs", "1"]) == 0
    return path


def page_of(*arguments: str, folder: Path) -> str:
    path = folder / "report.html"
    assert main(["report", *arguments, "-o", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def test_a_page_is_one_file_whose_policy_allows_its_own_scripts_only(
    run: str, table: str, tmp_path: Path
) -> None:
    page = page_of(run, table, folder=tmp_path)
    found = Elements(page)
    assert "default-src 'none'" in found.policy
    for script in found.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in found.policy
    assert "unsafe-eval" not in found.policy
    assert not {"link", "img", "iframe", "base", "form"} & set(found.tags)
    assert [section["kind"] for section in unpacked(page)["sections"]] == ["run", "table"]


def test_the_same_files_give_the_same_page(run: str, tmp_path: Path) -> None:
    assert page_of(run, folder=tmp_path) == page_of(run, folder=tmp_path)


def test_a_report_says_what_it_was_made_of(run: str, table: str, tmp_path: Path) -> None:
    """Versions, the digests of files and traces, and every option."""
    made = unpacked(page_of(run, table, folder=tmp_path))
    facts = dict(made["provenance"])
    for path in (run, table):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        assert facts[Path(path).name] == f"sha256 {digest}"
    assert {"rematsim", "charts"} <= set(facts)
    of_run, of_table = (dict(section["provenance"]) for section in made["sections"])
    assert of_run["trace_digest"] == load_run(run).trace_digest
    assert {"seed", "mutation", "memory", "slowdown_limit", "budget_bytes"} <= set(of_run)
    assert of_run["trace_digest"] in of_table.values()


def test_overheads_of_a_report_are_those_of_the_run(run: str) -> None:
    """The rows of its table add up to all of the recomputation."""
    [section] = report([explain(load_run(run))]).sections
    table = next(table for table in section.tables if table.key == "overhead-operator")
    again = next(column for column in table.columns if column.title == "recomputation")
    assert sum(again.values) == load_run(run).remat_ns > 0


def test_evictions_of_a_report_are_all_that_memory_forced() -> None:
    """Those to the host, too."""
    link = "link(d2h=inf,h2d=inf,latency=0)"
    run = simulate(NET, "h_DTR_offload", 6, link=link, event_log=True)
    [section] = report([explain(run)]).sections
    table = next(table for table in section.tables if table.key == "evictions")
    assert run.offloaded_bytes
    assert table.rows_in_all == run.pressure_evictions


def test_several_traces_are_replayed_over_the_link_that_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rates = ("--d2h", "inf", "--h2d", "inf", "--budget", "6", "-H", "h_DTR_offload")
    code, out, _ = told(capsys, "report", NET, "synthetic:chain:10", *rates, "--text")
    assert code == 0
    assert out.count("moved to the host") == 2


def test_names_of_a_trace_are_no_part_of_the_markup(tmp_path: Path) -> None:
    """Hostile ones change no element: the page has those of a harmless trace, and no more."""
    hostile = page_of(save_hostile(tmp_path), "--budget", "0.6x", folder=tmp_path)
    harmless = page_of(NET, "--budget", "6", folder=tmp_path)
    assert Elements(hostile).tags == Elements(harmless).tags
    assert len(hostile) < 2 * len(harmless)
    texts = json.dumps(unpacked(hostile), ensure_ascii=False)
    assert "alert(1)" in texts
    assert not obeyed(texts)


def test_text_tells_what_the_page_would(
    capsys: pytest.CaptureFixture[str], run: str, table: str
) -> None:
    code, out, _ = told(capsys, "report", run, table, "--text")
    assert code == 0
    for part in ("Memory over time", "in memory at the peak", "Evictions", "Recomputations",
                 "Slowdown against budget", "lower bound", "glossary", "sha256"):  # fmt: skip
        assert part in out


def test_text_of_memory_with_addresses_has_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    memory = ("--budget", "3KiB", "--memory", "arena")
    code, out, _ = told(capsys, "report", NET, "-H", "h_LRU", *memory, "--text")
    assert code == 0
    assert "Addresses over time" in out


def test_a_run_that_moves_data_says_what_and_when(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On the page and as text."""
    plan, saved = str(tmp_path / "unet.plan"), str(tmp_path / "unet.run")
    given = ("--budget", "0.6x", "--d2h", "24GB/s", "--h2d", "24GB/s")
    planned = ["plan", "bundled:unet", "--method", "capuchin", *given, "-o", plan]
    assert main(planned) == 0
    assert main(["execute", "bundled:unet", plan, *given, "--save-run", saved]) == 0
    [section] = unpacked(page_of(saved, folder=tmp_path))["sections"]
    assert {"moved to the host", "moved back"} <= {name for name, _ in section["facts"]}
    code, out, _ = told(capsys, "report", saved, "--text")
    assert code == 0
    for part in ("offloaded |", "prefetched |", "moved to the host"):
        assert part in out


def test_copies_ahead_of_an_eviction_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A heuristic that looks ahead makes no others here."""
    rates = ("--d2h", "inf", "--h2d", "inf", "--latency", "0ns", "--budget", "6")
    _, out, _ = told(capsys, "report", NET, "-H", "h_next_use_offload", *rates, "--text")
    assert "copied ahead |" in out


def test_why_a_run_ended_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """It says how much was needed; only names in it are cut."""
    given = ("--budget", "0.1x")
    result = simulate("bundled:unet", "h_DTR_eq", "0.1x")
    assert result.status == "oom"
    assert result.message in told(capsys, "report", "bundled:unet", *given, "--text")[1]


def test_a_table_with_plans_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Their lines are broken on the page, and their methods stand in the text."""
    table = str(tmp_path / "plans.sqlite")
    cells = ("--budget", "5,9", "--method", "chen-sqrt", "--heuristic", "h_LRU")
    assert main(["sweep", NET, *cells, "--out", table, "--quiet", "--jobs", "1"]) == 0
    [section] = unpacked(page_of(table, folder=tmp_path))["sections"]
    [trace] = section["chart"]["traces"]
    assert {line["is_planned"] for line in trace["lines"]} == {True, False}
    code, out, _ = told(capsys, "report", table, "--text")
    assert code == 0
    assert "chen-sqrt" in out


def test_text_obeys_no_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No control characters, no line that has no end."""
    code, out, _ = told(capsys, "report", save_hostile(tmp_path), "--budget", "0.6x", "--text")
    assert code == 0
    assert "\\x1b[31mred" in out
    assert not obeyed(out)
    assert max(map(len, out.splitlines())) < MOST_LINE


def test_a_table_with_a_hostile_name_is_shown(
    capsys: pytest.CaptureFixture[str], table: str, tmp_path: Path
) -> None:
    csv = tmp_path / "hostile.csv"
    assert main(["sweep", NET, "--budget", "6", "--csv", str(csv), "--quiet", "--jobs", "1"]) == 0
    text = csv.read_text(encoding="utf-8").replace("chain:9", "</script><b>\u202e")
    csv.write_text(text, encoding="utf-8")
    page = page_of(str(csv), folder=tmp_path)
    assert Elements(page).tags == Elements(page_of(table, folder=tmp_path)).tags
    code, out, _ = told(capsys, "report", str(csv), "--text")
    assert code == 0
    assert "\u202e" not in out


def test_without_the_chart_library_one_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    """And the text needs none."""
    monkeypatch.setitem(sys.modules, "bokeh", None)
    code, _, error = told(capsys, "report", run)
    assert code == 1
    assert "pip install bokeh" in error and error.count("\n") == 1
    assert told(capsys, "report", run, "--text")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["RUN", "--budget", "3"], "--budget: no trace is given"),
        (["x.plan"], "a plan; a report is of its run: rematsim execute TRACE x.plan"),
        (["RUN", "--text", "-o", "x.html"], "--text prints the report"),
        (["TABLE", "--trace", NET], "--trace: it goes with one saved run"),
        (["RUN", "-o", "x.pdf"], "must end in .html"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: pytest.CaptureFixture[str], run: str, table: str, arguments: list[str], reason: str
) -> None:
    given = [{"RUN": run, "TABLE": table}.get(part, part) for part in arguments]
    code, _, error = told(capsys, "report", *given)
    assert code == 2
    assert reason in error


def test_cells_are_written_as_on_the_command_line() -> None:
    """What has no value is a dash."""
    assert Column("", "bytes", [1152]).cell(0) == "1.12 KiB"
    assert Column("", "share", [0.1254]).cell(0) == "12.5%"
    assert [Column("", "ns", [float("nan")]).cell(0), Column("", "text", [-1], []).cell(0)] == [
        "-",
        "-",
    ]


def test_scripts_put_names_in_as_text_only(root: Path) -> None:
    """None of them makes markup or code of a text, or listens by an attribute."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    for path in (root / "sim" / "pages").glob("*.js"):
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path.name
