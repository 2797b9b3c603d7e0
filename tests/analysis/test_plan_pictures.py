"""A plan as a picture: who is in memory when, by step, and what is averaged away."""

from __future__ import annotations

import numpy as np
import pytest
from rematsim.analysis import plan_pictures
from rematsim.analysis.plan_pictures import (
    AGAIN,
    AWAY,
    BACK,
    DROPPED,
    KEPT,
    PREFETCH,
    STATES,
    coverage,
    lives_of,
    picture,
    plan_figure,
    without_tail,
)
from rematsim.errors import InputError
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.synthetic import chain
from rematsim.traces.trace import Trace


def stretches(lives):
    columns = (lives.row, lives.begin, lives.end, lives.state, lives.share)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_lives_are_cut_where_a_result_is_dropped_and_computed_again(run):
    """Steps 0 and 1 compute calls 0 and 1, steps 2 and 3 call 0 again, twice in memory then."""
    lives = lives_of(run())
    assert (lives.n_rows, lives.n_steps, lives.n_again) == (2, 4, 2)
    assert stretches(lives) == [
        (0, 0, 1, KEPT, 1.0),
        (0, 1, 2, DROPPED, 1.0),
        (0, 2, 4, AGAIN, 1.0),
        (1, 1, 4, KEPT, 1.0),
    ]


def test_what_comes_back_from_the_host_was_not_computed_again():
    """Where copies take no time everything goes there, and each prefetch ends a time away."""
    link = "link(d2h=inf,h2d=inf,latency=0)"
    moved = simulate(chain(12), "h_DTR_offload", 6, link=link, event_log=True)
    lives = lives_of(moved)
    assert set(lives.state.tolist()) == {KEPT, BACK, AWAY}
    assert (lives.state == AWAY).sum() == (np.asarray(moved.events["action"]) == PREFETCH).sum() > 0


def test_each_state_has_its_color(run):
    image = picture(lives_of(run()))
    assert image.shape == (2, 4, 3)
    drawn = [["#" + "".join(f"{round(255 * c):02X}" for c in p) for p in row] for row in image]
    kept, again, dropped = (STATES[state][0] for state in (KEPT, AGAIN, DROPPED))
    assert drawn == [[kept, dropped, again, again], ["#FFFFFF", kept, kept, kept]]


def test_what_has_no_room_is_averaged_and_still_seen(monkeypatch):
    """The bytes that a picture shows are those of the run, whatever its size."""
    monkeypatch.setattr(plan_pictures, "MOST_ROWS", 7)
    monkeypatch.setattr(plan_pictures, "MOST_COLUMNS", 11)
    lives = lives_of(simulate(chain(40), "h_LRU", 12, slowdown_limit=None, event_log=True))
    small = coverage(lives)
    assert small.shape == (len(STATES), 7, 11)
    per_row = np.bincount(np.arange(lives.n_rows) * 7 // lives.n_rows)
    steps = (small * per_row[:, None]).sum(axis=(1, 2)) * lives.n_steps / 11
    for state in (KEPT, AGAIN, DROPPED):
        lengths = (lives.end - lives.begin) * lives.share
        assert steps[state] == pytest.approx(lengths[lives.state == state].sum())
    assert picture(lives).min(axis=2)[small.sum(axis=0) > 0.01].max() < 0.99


def test_the_picture_says_what_is_in_it(run, labels_are_apart):
    figure = plan_figure(run())
    labels_are_apart(figure)
    texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert texts == [
        "in memory since it was computed",
        "in memory, computed again",
        "dropped, computed again later",
        "made in the backward pass",
        "made in the forward pass",
        "constants",
        "budget 95 B",
    ]
    assert "step: a call that is computed (2 of them again)" in [
        text.get_text() for text in figure.texts
    ]


def trained(updates: int, size: int) -> Trace:
    """A chain of ten calls and back, and behind it calls whose results go at once."""
    log = TraceBuilder("trained")
    log.constant("w", 1)
    for number in range(10):
        log.call("f", [f"x{number - 1}" if number else "w"], [(f"x{number}", 1, -1)], 1)
    log.backward()
    for number in reversed(range(10)):
        log.call("b", [f"x{number}"], [(f"y{number}", 1, -1)], 1)
        log.release(f"x{number}")
        log.release(f"y{number}")
    for number in range(updates):
        log.call("u", ["w"], [(f"u{number}", size, -1)], 1)
        log.release(f"u{number}")
    return log.build()


def test_an_end_in_which_nothing_stays_takes_no_room(labels_are_apart):
    """The rest has the whole picture; how many steps are not shown is said."""
    run = simulate(trained(40, 1), "h_LRU", "unlimited", event_log=True)
    every = lives_of(run)
    shown = without_tail(every, run)
    assert (every.n_steps, every.n_rows, shown.n_steps, shown.n_rows) == (60, 60, 20, 20)
    assert stretches(shown)[0] == (0, 0, 20, KEPT, 1.0)
    figure = plan_figure(run)
    labels_are_apart(figure)
    assert any("not shown: 40 more" in text.get_text() for text in figure.texts)


@pytest.mark.parametrize(("updates", "size"), [(40, 20), (0, 1)])
def test_an_end_with_the_peak_or_a_short_one_is_shown(updates, size):
    run = simulate(trained(updates, size), "h_LRU", "unlimited", event_log=True)
    lives = lives_of(run)
    assert without_tail(lives, run) is lives


@pytest.mark.parametrize("budget", [3, "unlimited"])
def test_any_run_can_be_drawn(labels_are_apart, budget):
    """Also one that ended out of memory, after a few calls."""
    labels_are_apart(plan_figure(simulate(chain(9), "h_LRU", budget, event_log=True)))


def test_without_an_event_log_or_a_result_there_is_no_picture(run):
    with pytest.raises(InputError, match="no event log"):
        plan_figure(run(events=None, storages=None))
    tiny = run()
    nothing = {name: column[:1] for name, column in tiny.events.items()}
    with pytest.raises(InputError, match="no call in it makes anything"):
        plan_figure(run(events=nothing))
