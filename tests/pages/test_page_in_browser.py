"""The page in a real browser: it opens, sorts, answers clicks, and obeys no name.

Skipped, saying so, where Chromium or playwright is not installed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_names import save_hostile
from rematsim.cli.main import main
from rematsim.cli.output import format_bytes, format_count, format_ns
from rematsim.explaining import explain
from rematsim.result import load_run

pytestmark = pytest.mark.xdist_group("browser")  # one worker: one browser

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
CHROMIUM = os.environ.get("REMATSIM_CHROMIUM") or shutil.which("chromium")
SECONDS = 60_000  # milliseconds: a busy machine is slow, and nothing here is timed


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


TITLE = ".instant > header h3"
# What stands at the ticks of the lowest axis of the first chart.
TICKS = """() => {
  const { index } = Bokeh;
  const [plot] = [...index.roots];
  const [axis] = plot.model.below.filter((one) => one.major_label_overrides);
  return axis.ticker.ticks.map((tick) => axis.major_label_overrides.get(tick));
}"""


class Tab:
    """A page in a tab of its own, and what went wrong in it."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_context(**options).new_page()
        self.page.set_default_timeout(SECONDS)
        self.wrongs: list[str] = []
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrongs.append(message.text)

    def _asked(self, dialog: Any) -> None:
        self.wrongs.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.wrongs.append(f"request: {request.url}")

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found

    def drawn(self, kind: str) -> Any:
        """A chart, once it is drawn."""
        chart = self.page.locator(f".chart.{kind}").first
        chart.scroll_into_view_if_needed()
        self.page.wait_for_selector(f".chart.{kind}[data-drawn]")
        return chart

    def click_in(self, chart: Any, across: float, down: float) -> None:
        box = chart.bounding_box()
        self.page.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    path = folder / "unet.run"
    given = ("-H", "h_DTR_eq", "--budget", "0.6x", "--memory", "arena")
    assert main(["replay", "bundled:unet", *given, "--save-run", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def page(folder: Path, run: Path) -> Path:
    table, path = folder / "runs.sqlite", folder / "report.html"
    cells = ("--budget", "3,6,9,unlimited", "--heuristic", "h_LRU,h_DTR", "--method", "keep-all")
    sweep = ["sweep", "synthetic:chain:9", *cells, "--out", str(table), "--quiet", "--jobs", "1"]
    assert main(sweep) == 0
    assert main(["report", str(run), str(table), "-o", str(path)]) == 0
    return path


@pytest.fixture
def tab(browser: Any, page: Path) -> Iterator[Tab]:
    """The page, to be left without an error, a dialog or a request."""
    opened = Tab(browser, page, viewport={"width": 1200, "height": 900})
    yield opened
    assert opened.wrongs == []
    opened.page.context.close()


def test_the_page_draws_every_chart(tab: Tab) -> None:
    for kind in ("timeline", "addresses", "curves"):
        chart = tab.drawn(kind)
        assert chart.locator("canvas").count() > 0
    assert tab.texts("h2") == ["unet: h_DTR_eq", "runs.sqlite"]


def test_the_live_set_is_that_of_explain(tab: Tab, run: Path) -> None:
    """At the peak, at the end, at a time and at a call; by module, to the letter."""
    explained = explain(load_run(run))
    for moment in ("peak", "end", "50ms", "120", "0ns"):
        tab.page.fill(".tools input", moment)
        tab.page.get_by_role("button", name="show", exact=True).click()
        live = explained.live(moment)
        running = f", in {live.running}" if live.running else ""
        title = f"In memory at {format_ns(live.time_ns)}{running}: {format_bytes(live.total_bytes)}"
        assert tab.texts(TITLE) == [title]
        rows = [
            [
                part.module or "-",
                format_bytes(part.bytes),
                f"{part.bytes / live.total_bytes:.1%}",
                format_bytes(part.recomputed_bytes) if part.recomputed_bytes else "-",
                format_count(part.storages),
            ]
            for part in live.by("module")[:10]
        ]
        shown = tab.texts(".live tbody td")
        assert [shown[i : i + 5] for i in range(0, len(shown), 5)] == rows


def test_a_time_that_is_none_is_refused(tab: Tab) -> None:
    before = tab.texts(TITLE)
    tab.page.fill(".tools input", "yesterday")
    tab.page.get_by_role("button", name="show", exact=True).click()
    assert tab.page.evaluate("!document.querySelector('.tools input').checkValidity()")
    assert tab.texts(TITLE) == before


def test_a_click_in_the_timeline_shows_what_is_there_then(tab: Tab) -> None:
    chart = tab.drawn("timeline")
    seen = {tab.texts(TITLE)[0]}
    for across in (0.3, 0.6, 0.9):
        tab.click_in(chart, across, 0.4)
        title = changed(tab, TITLE, seen)
        seen.add(title)
    assert len(seen) == 4


def changed(tab: Tab, selector: str, before: set[str]) -> str:
    """The text of an element, once it is another one."""
    for _ in range(200):
        text = tab.texts(selector)[0]
        if text not in before:
            return text
        tab.page.wait_for_timeout(50)
    raise AssertionError(f"{selector}: still {before}")


def test_a_click_in_the_addresses_names_who_lies_there(tab: Tab) -> None:
    chart = tab.drawn("addresses")
    told = ".addresses + p"
    before = set(tab.texts(told))
    tab.click_in(chart, 0.5, 0.82)  # weights lie at the bottom
    assert ", address " in changed(tab, told, before)


def test_a_row_of_a_table_leads_to_its_instant(tab: Tab) -> None:
    tab.drawn("timeline")
    link = tab.page.locator("[data-key=evictions] tbody .link").nth(3)
    link.click()
    assert f"In memory at {link.inner_text()}" in tab.texts(TITLE)[0]


def test_tables_sort_by_each_column(tab: Tab) -> None:
    """The largest first, then the smallest; the header says which."""
    table = "[data-key=overhead-operator]"
    header = tab.page.locator(f"{table} th", has_text="calls")
    counts = f"{table} tbody td:nth-child(2)"
    header.click()  # anywhere in it
    down = [int(text) for text in tab.texts(counts)]
    assert down == sorted(down, reverse=True) and len(set(down)) > 1
    assert header.get_attribute("aria-sort") == "descending"
    header.locator("button").click()
    up = [int(text) for text in tab.texts(counts)]
    assert up == sorted(up) and up != down
    assert header.get_attribute("aria-sort") == "ascending"
    tab.page.locator(f"{table} th", has_text="operator").locator("button").click()
    names = tab.texts(f"{table} tbody td:nth-child(1)")
    assert names == sorted(names)


def test_tables_are_searched_and_grow(tab: Tab) -> None:
    table = "[data-key=evictions]"
    assert tab.page.locator(f"{table} tbody tr").count() == 10
    tab.page.locator(f"{table} .more").click()
    assert tab.page.locator(f"{table} tbody tr").count() > 10
    tab.page.fill(f"{table} input[type=search]", "relu")
    rows = tab.texts(f"{table} tbody tr")
    assert rows and all("relu" in row for row in rows)


def test_the_keyboard_zooms_and_steps(tab: Tab) -> None:
    """And where it is can be seen."""
    tab.drawn("timeline")
    first = tab.texts(TITLE)[0]
    tab.page.focus(".timeline")
    tab.page.keyboard.press("+")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press(".")
    assert changed(tab, TITLE, {first}) != first
    tab.page.keyboard.press("Tab")
    style = tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_a_line_of_the_curves_is_hidden_by_its_key(tab: Tab) -> None:
    tab.drawn("curves")
    key = tab.page.locator(".legend button", has_text="h_LRU")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"


def test_runs_without_a_budget_are_drawn_too(browser: Any, folder: Path) -> None:
    """Nothing says how far the axis of budgets goes."""
    table, path = folder / "unlimited.sqlite", folder / "unlimited.html"
    cells = ("--budget", "unlimited", "--heuristic", "h_LRU", "--out", str(table))
    assert main(["sweep", "synthetic:chain:9", *cells, "--quiet", "--jobs", "1"]) == 0
    assert main(["report", str(table), "-o", str(path)]) == 0
    opened = Tab(browser, path)
    opened.drawn("curves")
    assert opened.wrongs == []
    opened.page.context.close()


def test_an_axis_of_budgets_has_numbers_however_narrow_it_is(browser: Any, folder: Path) -> None:
    table, path = folder / "narrow.sqlite", folder / "narrow.html"
    cells = ("--budget", "0.62x,0.775x", "--heuristic", "h_LRU", "--out", str(table))
    assert main(["sweep", "synthetic:chain:40", *cells, "--quiet", "--jobs", "1"]) == 0
    assert main(["report", str(table), "-o", str(path)]) == 0
    opened = Tab(browser, path)
    opened.drawn("curves")
    assert opened.page.evaluate(TICKS) == ["0.625", "0.65", "0.675", "0.7", "0.725", "0.75"]
    opened.page.context.close()


def test_a_narrow_page_does_not_scroll_sideways(browser: Any, page: Path) -> None:
    """Tables do so inside their own boxes."""
    opened = Tab(browser, page, viewport={"width": 360, "height": 740})
    opened.drawn("timeline")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert opened.wrongs == []
    opened.page.context.close()


def test_dark_colors_are_taken_where_they_are_wanted(browser: Any, page: Path) -> None:
    """Also when that changes while the page is open."""
    opened = Tab(browser, page, color_scheme="dark")
    opened.drawn("timeline")
    dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.page.emulate_media(color_scheme="light")
    opened.page.wait_for_timeout(500)
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    assert opened.page.locator(".timeline canvas").count() > 0
    assert opened.wrongs == []
    opened.page.context.close()


def test_a_printed_page_leaves_out_what_only_a_hand_can_use(tab: Tab) -> None:
    tab.page.emulate_media(media="print")
    assert not tab.page.locator(".tools").is_visible()
    assert tab.page.locator("h2").first.is_visible()


def test_a_hostile_trace_does_nothing(browser: Any, folder: Path) -> None:
    """No dialog, no error, no element that a name made; names stand there as they are."""
    path = folder / "hostile.html"
    given = ("--budget", "0.6x", "-o", str(path))
    assert main(["report", save_hostile(folder), *given]) == 0
    opened = Tab(browser, path)
    opened.drawn("timeline")
    opened.page.select_option(".instant select", "storages")
    for more in opened.page.locator(".more:visible").all():
        more.click()
    assert opened.page.locator("img, iframe, b, bold").count() == 0
    assert opened.page.locator("script").count() == 3
    body = opened.page.locator("body").inner_text()
    assert "<script>alert(1)</script>" in body and "<img src=x onerror=alert(3)>" in body
    assert "\u202e" not in body and "\x1b" not in body
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert opened.wrongs == []
    opened.page.context.close()
