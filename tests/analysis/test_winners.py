"""Keeping, recomputing, offloading and both, link by link: lines, winners, and their figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rematsim.analysis.figures import links_figure, winners_figure
from rematsim.analysis.link_names import link_label, rate
from rematsim.analysis.style import line_styles
from rematsim.analysis.winners import (
    families,
    points_by_link,
    shares_of_peak,
    winners,
    with_best_recomputing,
)
from rematsim.errors import InputError, UnknownNameError

SLOW, FAST = "link(d2h=2GB/s,h2d=1GB/s)", "link(d2h=3GB/s,h2d=3GB/s)"


@pytest.fixture
def moved(rows):
    """A trace of 1000 bytes and a microsecond at two links; nothing fits into 0.2 without one."""
    plans = {"kind": "static", "base_compute_ns": 1000}

    def at(method, link, outcomes):
        return rows("net", method, outcomes, link=link, **plans)

    nothing = {0.2: "no_plan", 0.4: 1.3, 0.6: 1.2}
    return pd.concat(
        [
            at("keep-all", "none", {0.2: "no_plan", 0.4: "no_plan", 0.6: "no_plan", 1.0: 1.0}),
            at("rotor", "none", nothing | {1.0: 1.0}),
            at("every-kth", "none", {0.2: "oom", 0.4: 1.4, 0.6: 1.1999, 1.0: 1.0}),
            at("offload-all", SLOW, {0.2: "infeasible", 0.4: 1.5, 0.6: 1.25, 1.0: 1.0}),
            at("pofo", SLOW, {0.2: "infeasible", 0.4: 1.29, 0.6: 1.1995, 1.0: 1.0}),
            at("offload-all", FAST, {0.2: 1.8, 0.4: 1.0005, 0.6: 1.0, 1.0: 1.0}),
            at("pofo", FAST, {0.2: 1.5, 0.4: 1.0, 0.6: 1.0, 1.0: 1.0}),
        ],
        ignore_index=True,
    )


def test_a_method_belongs_where_its_rows_say(moved):
    """With a link it moves data; keep-all and offload-all are families of their own."""
    found = dict(zip(moved["method"], families(moved), strict=True))
    assert found == {
        "keep-all": "keep",
        "rotor": "recompute",
        "every-kth": "recompute",
        "offload-all": "offload",
        "pofo": "combined",
    }


def test_what_moves_nothing_is_the_same_at_every_link(moved):
    """The slowest link first, and before it none."""
    [(trace, links)] = points_by_link(moved).items()
    assert trace == "net" and list(links) == ["none", SLOW, FAST]
    assert set(links["none"]["line"]) == {"keep-all", "rotor", "every-kth"}
    for link in (SLOW, FAST):
        assert set(links[link]["line"]) == {"keep-all", "rotor", "every-kth", "offload-all", "pofo"}


def test_a_method_with_a_link_and_without_is_two(moved, rows):
    """Its runs without a link are no seeds of those with one: pofo's own number stays at FAST."""
    plain = rows("net", "pofo", {0.2: 2.5, 0.4: 1.25}, kind="static", base_compute_ns=1000)
    both = pd.concat([moved, plain], ignore_index=True)
    won = winners(both).set_index(["link", "fraction"])
    assert won.loc[(FAST, 0.2), ["method", "slowdown"]].tolist() == ["pofo", 1.5]
    assert won.loc[("none", 0.4), ["method", "slowdown"]].tolist() == ["pofo, no link", 1.25]
    [points] = with_best_recomputing([points_by_link(both)["net"][FAST]])
    assert set(points["line"]) == {
        *("keep-all", "offload-all", "pofo"),
        "recompute, best of every-kth and pofo, no link",
    }


def test_the_best_recomputing_is_chosen_at_each_budget_and_named(moved):
    """By hand: rotor at 0.4, every-kth at 0.6, none at 0.2."""
    [points] = with_best_recomputing([points_by_link(moved)["net"][SLOW]])
    best = points[points["line"].str.startswith("recompute")]
    assert set(best["line"]) == {"recompute, best of every-kth and rotor"}
    assert best["fraction"].tolist() == [0.2, 0.4, 0.6, 1.0]
    assert np.isnan(best["median"].iloc[0])
    assert best["median"].tolist()[1:] == [1.3, 1.1999, 1.0]
    assert set(points["line"]) - set(best["line"]) == {"keep-all", "offload-all", "pofo"}


def test_the_fastest_wins_and_of_close_ones_the_simplest(moved):
    """Within a thousandth: keeping before recomputing before offloading before both."""
    won = winners(moved).set_index(["link", "fraction"])["method"]
    assert won.to_dict() == {
        ("none", 0.2): "",
        ("none", 0.4): "rotor",
        ("none", 0.6): "every-kth",  # 1.1999 and 1.2: the simpler one, as lines are ordered
        ("none", 1.0): "keep-all",
        (SLOW, 0.2): "",
        (SLOW, 0.4): "pofo",
        (SLOW, 0.6): "every-kth",
        (SLOW, 1.0): "keep-all",
        (FAST, 0.2): "pofo",
        (FAST, 0.4): "offload-all",  # 1.0005 against 1
        (FAST, 0.6): "offload-all",
        (FAST, 1.0): "keep-all",
    }


def test_winners_say_what_each_family_reaches(moved):
    place = winners(moved).set_index(["link", "fraction"]).loc[(SLOW, 0.4)]
    assert place[["recompute", "offload", "combined", "slowdown"]].tolist() == [
        1.3,
        1.5,
        1.29,
        1.29,
    ]
    assert np.isnan(place["keep"])


def test_links_are_told_by_their_rate_and_compared_by_the_peak(moved):
    """1 GB/s moves 1000 bytes in a microsecond: the peak once."""
    assert link_label(FAST) == "3 GB/s" and link_label(SLOW) == SLOW
    assert link_label("h100-pcie5") == "h100-pcie5" and link_label("none") == "no link"
    assert link_label("link(d2h=inf,h2d=inf)") == "infinitely fast"
    assert link_label("link(d2h=57500000,h2d=57500000)") == "57.5 MB/s"
    assert link_label("link(d2h=1001MB/s,h2d=1001MB/s)") == "1.001 GB/s", "1 GB/s is another line"
    assert rate(SLOW) == 1e9 and rate("none") == 0 and rate("gh200-c2c") == 450e9
    shares = shares_of_peak(moved)
    assert shares["net", SLOW] == pytest.approx(1) and shares["net", FAST] == pytest.approx(3)
    assert shares_of_peak(moved.drop(columns="base_compute_ns")) == {}


def test_tables_that_say_nothing_of_links_are_refused(moved, table):
    for draw in (links_figure, winners_figure):
        with pytest.raises(InputError, match="no run with a link"):
            draw(table)
        mixed = moved.assign(memory=["arena"] + ["counter"] * (len(moved) - 1))
        with pytest.raises(InputError, match="different memory"):
            draw(mixed)
        with pytest.raises(UnknownNameError, match="link 'wire'"):
            draw(moved.assign(link="wire"))
    unlimited = moved.assign(budget_bytes=None)
    with pytest.raises(InputError, match="no run with a budget"):
        winners_figure(unlimited)


def test_each_link_has_a_panel_with_a_line_for_each_choice(moved, panels_of, labels_are_apart):
    figure = links_figure(moved)
    assert len(panels_of(figure)) == 2
    texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert texts[:4] == [
        "keep-all",
        "recompute, best of every-kth and rotor",
        "offload-all",
        "pofo",
    ]
    labels_are_apart(figure)
    labels_are_apart(links_figure(moved, highest=1.25))
    two = pd.concat([moved, moved.assign(trace="other")])
    assert len(panels_of(links_figure(two))) == 4


def test_the_map_shows_each_winner_by_color_marker_and_number(moved, labels_are_apart):
    """A cell where nothing fits has a dash."""
    figure = winners_figure(moved)
    [axes] = figure.axes
    numbers = sorted(text.get_text() for text in axes.texts)
    assert numbers == sorted(
        ["–", "1.300", "1.200", "1.000", "–", "1.290", "1.200", "1.000"]
        + ["1.500", "1.000", "1.000", "1.000"]
    )
    markers = {line.get_marker() for line in axes.get_lines()}
    won = {name for name in winners(moved)["method"] if name}
    assert markers == {style.marker for style in line_styles(won).values()}
    assert len(axes.get_lines()) == 10 and len(axes.patches) == 12
    faces = {patch.get_facecolor() for patch in axes.patches}
    assert len(faces) == len(won) + 1  # and white
    labels_are_apart(figure)


@pytest.mark.parametrize("size", [1, 14])
def test_maps_of_any_size_have_labels_that_do_not_touch(moved, rows, labels_are_apart, size):
    budgets = {place / size: 1.0 + place / 100 for place in range(1, size + 1)}
    links = [f"link(d2h={n + 1}GB/s,h2d={n + 1}GB/s,host=64GiB)" for n in range(size)]
    many = [rows("x" * 60, f"method-{n}", budgets, link=link) for n, link in enumerate(links)]
    labels_are_apart(winners_figure(pd.concat([moved, *many])))
    labels_are_apart(winners_figure(pd.concat(many)))


def test_a_map_without_any_winner_can_be_drawn(rows, labels_are_apart):
    labels_are_apart(winners_figure(rows("net", "pofo", {0.5: "infeasible"}, link=FAST)))
