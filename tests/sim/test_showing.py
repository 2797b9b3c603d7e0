"""What a prompt and a notebook show of results: a few facts, whatever the names are."""

from __future__ import annotations

import rematsim
from rematsim.traces.builder import TraceBuilder


def test_a_run_shows_itself_in_a_line() -> None:
    run = rematsim.simulate("synthetic:chain:16", "h_DTR", 8, event_log=True)
    assert repr(run) == (
        "<RunResult: trace chain:16, method h_DTR, budget 8 B, status ok, slowdown 1.2812, "
        "rematerialization 9 ns, peak 8 B of 17 B>"
    )


def test_a_run_that_failed_says_why() -> None:
    run = rematsim.simulate("synthetic:chain:16", "h_DTR", 2)
    assert run.facts()["status"] == "oom"
    assert run.facts()["message"] == run.message
    assert "slowdown" not in run.facts()


def test_an_answer_shows_the_method() -> None:
    answer = rematsim.fits("synthetic:chain:16", 8, slowdown=1.5)
    assert answer.facts()["answer"] == "yes"
    assert answer.facts()["method"] == "h_DTR"
    no = rematsim.fits("synthetic:chain:16", 1)
    assert no.facts()["answer"] == "no"
    assert "method" not in no.facts()


def test_names_can_do_no_harm() -> None:
    """Neither become markup in a notebook, nor steer a terminal, nor fill the page."""
    builder = TraceBuilder("<script>alert(1)</script>\x1b[31m" + "x" * 10**5)
    builder.constant("a", 1)
    builder.call("f", ["a"], [("b", 1, -1)], 1)
    run = rematsim.simulate(builder.build(), "h_DTR", 4)
    page = run._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for shown in (page, repr(run)):
        assert "\x1b" not in shown
        assert len(shown) < 2000
