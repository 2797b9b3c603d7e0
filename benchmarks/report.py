"""How fast a report is made, how heavy it is, how fast it opens and how fluidly it pans.

    python benchmarks/report.py [--memory arena] [--json FILE]

A run of 10^5 events is made, and its page opened in a headless Chromium, whose own tracing says
what each frame took. Needs bokeh, playwright and /usr/bin/chromium (or --chromium PATH).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SPEC, BUDGET = "synthetic:transformer:96,steps=10", "0.5x"  # some 10^5 events
SECONDS, LEAST_WORK_MS = 4.0, 2.0
TARGETS = {"build_s": 5.0, "megabytes": 10.0, "open_s": 1.0, "stale_share": 0.05}
FRAME_MS = 17.0
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
CATEGORIES = ["toplevel", "cc", "benchmark", "disabled-by-default-devtools.timeline"]
DRAWN = "performance.getEntriesByName('chart-drawn')[0].startTime"
FRAMES = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const next = (now) => { frames_ms.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", default="counter")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        found = build(Path(folder) / "model.run", page, given.memory)
        found |= browse(page, given.chromium)
    found["load"] = os.getloadavg()[0]
    for name, value in found.items():
        target = TARGETS.get(name)
        verdict = "" if target is None else "OK" if value < target else f"MISS (target {target})"
        sys.stdout.write(f"{name:<24} {value:>10.3f}  {verdict}\n")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2))
    return 0


def build(saved: Path, page: Path, memory: str) -> dict[str, float]:
    """Make a run, save it, and time the command that makes the page, in a process of its own."""
    from rematsim.simulation import simulate
    from rematsim.traces.synthetic import synthetic

    run = simulate(synthetic(SPEC), "h_DTR_eq", BUDGET, event_log=True, memory=memory)
    run.save(saved)
    command = [sys.executable, "-m", "rematsim", "report", str(saved), "-o", str(page)]
    begin, before = time.perf_counter(), os.times()
    if os.spawnv(os.P_WAIT, sys.executable, command):
        raise SystemExit("rematsim report failed")
    spent, after = time.perf_counter() - begin, os.times()
    assert run.events is not None
    return {
        "events": float(len(run.events["action"])),
        "build_s": spent,
        "build_cpu_s": after.children_user - before.children_user,
        "megabytes": page.stat().st_size / 1e6,
    }


def browse(page: Path, chromium: str) -> dict[str, float]:
    """Open the page, and drag its timeline to and fro."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        own = tab.context.new_cdp_session(tab)
        own.send("Performance.enable", {"timeDomain": "threadTicks"})
        tab.goto(page.as_uri(), wait_until="commit")
        tab.wait_for_selector(".timeline[data-drawn]")
        drawn = tab.evaluate(DRAWN)
        metrics = own.send("Performance.getMetrics")["metrics"]
        worked = next(m["value"] for m in metrics if m["name"] == "TaskDuration")
        box = tab.locator(".timeline").bounding_box()
        assert box is not None
        middle = (box["x"] + box["width"] / 2, box["y"] + 120)
        zoom_in(tab, middle)
        session = browser.new_browser_cdp_session()
        events = traced(session, lambda: drag(tab, middle))
        frames = sorted(tab.evaluate("dragged_ms"))
        browser.close()
    return {"open_s": drawn / 1000, "open_work_s": worked} | told(frames, events)


def zoom_in(tab: Any, middle: tuple[float, float]) -> None:
    """Zoom to an eighth or so of the run, so that there is room to pan."""
    tab.mouse.move(*middle)
    for _ in range(6):
        tab.mouse.wheel(0, -200)
        tab.wait_for_timeout(60)
    tab.wait_for_timeout(300)


def drag(tab: Any, middle: tuple[float, float]) -> None:
    """Drag for some seconds, faster than any hand rests."""
    tab.evaluate(FRAMES)
    tab.mouse.down()
    begin = time.perf_counter()
    while (now := time.perf_counter() - begin) < SECONDS:
        tab.mouse.move(middle[0] + 300 * math.sin(2 * now), middle[1])
    tab.mouse.up()
    tab.evaluate("() => { window.dragged_ms = frames_ms.slice(1); }")  # what follows is at rest


def traced(session: Any, act: Any) -> list[dict[str, Any]]:
    """Do something while Chromium traces; give the events."""
    events: list[dict[str, Any]] = []
    ended: list[object] = []
    session.on("Tracing.dataCollected", lambda told: events.extend(told["value"]))
    session.on("Tracing.tracingComplete", lambda told: ended.append(told))
    config = {"includedCategories": CATEGORIES}
    session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
    act()
    session.send("Tracing.end")
    while not ended:
        session.send("Browser.getVersion")
        time.sleep(0.05)
    return events


def told(frames: list[float], events: list[dict[str, Any]]) -> dict[str, float]:
    """Sum up what frames took: from one to the next, and what the page's thread did in each.

    Only frames that paint count as work: a busy machine sends fewer moves than there are frames.
    """
    works = [e for e in events if e["name"] == "ProxyMain::BeginMainFrame" and "tdur" in e]
    spent = sorted(e["tdur"] / 1000 for e in works if e["tdur"] > LEAST_WORK_MS * 1000)
    late = sum(gap > FRAME_MS for gap in frames) / len(frames)
    return {
        "frames": float(len(frames)),
        "frame_p50_ms": quantile(frames, 0.5),
        "frame_p95_ms": quantile(frames, 0.95),
        "late_share": late,
        "work_p50_ms": quantile(spent, 0.5),
        "work_p95_ms": quantile(spent, 0.95),
        "stale_share": stale_share(events),
    }


def stale_share(events: list[dict[str, Any]]) -> float:
    """Say how many of the screen's frames showed an old picture while a new one was being made.

    A screen's frame that the page's thread is too slow for is reported twice: as dropped, and once
    more when what it painted is shown, a frame later. Frames for which nothing was to be painted,
    as nothing had moved, count neither way.
    """
    states: dict[int, set[str]] = {}
    for event in events:
        told = event.get("args", {}).get("frame_reporter")
        if event["name"] == "PipelineReporter" and told is not None and told["has_main_animation"]:
            states.setdefault(told["frame_sequence"], set()).add(told["state"])
    wanted = [found for found in states.values() if found != {"STATE_NO_UPDATE_DESIRED"}]
    return sum("STATE_DROPPED" in found for found in wanted) / max(len(wanted), 1)


def quantile(ascending: Sequence[float], part: float) -> float:
    return ascending[min(int(part * len(ascending)), len(ascending) - 1)] if ascending else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
