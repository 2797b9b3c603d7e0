"""Figures from small tables: what stands where, and that nothing stands on anything else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rematsim.analysis.figures import (
    ablation_figure,
    accesses_figure,
    deallocation_figure,
    lowest_budget_figure,
    overhead_figure,
)
from rematsim.errors import InputError

FRACTIONS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def many(rows, traces, methods, fractions=FRACTIONS, **columns):
    """A table in which every method fails somewhere."""
    tables = []
    for number, trace in enumerate(traces):
        for place, method in enumerate(methods):
            outcomes = {
                fraction: ("oom", "thrashed")[place % 2]
                if (step + place + number) % 5 == 0
                else 1 + 0.1 * (len(fractions) - step) + 0.01 * place
                for step, fraction in enumerate(fractions)
            }
            tables.append(rows(trace, method, outcomes, **columns))
    return pd.concat(tables, ignore_index=True)


def line(axes, label):
    """The points of one line, a failure included."""
    [found] = [
        one for one in axes.get_lines() if one.get_label() == label and len(one.get_xdata()) > 1
    ]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def legend_texts(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_a_panel_for_each_trace_and_a_line_for_each_method(table, panels_of):
    figure = overhead_figure(table)
    assert len(panels_of(figure)) == 2
    assert legend_texts(figure) == [
        "h_DTR",
        "h_LRU",
        "out of memory",
        "thrashed (over the slowdown limit)",
    ]


def test_a_line_breaks_where_a_budget_between_two_fails(table, panels_of):
    resnet9 = panels_of(overhead_figure(table))[0]
    x, y = line(resnet9, "h_LRU")
    assert x.tolist() == [0.2, 0.4, 0.6, 0.8]
    assert np.isnan(y).tolist() == [True, False, True, False]
    assert y[[1, 3]].tolist() == [1.5, 1.1]


def test_failures_stand_on_the_rail_at_their_budgets_a_row_per_method(table, rails_of):
    marks = {}
    for mark in rails_of(overhead_figure(table))[0].get_lines():
        if mark.get_marker() in "xo" and len(mark.get_xdata()) and mark.get_clip_on() is False:
            for x, y in zip(mark.get_xdata(), mark.get_ydata(), strict=True):
                marks[float(x), float(y)] = mark.get_marker()
    marks = {place: marker for place, marker in marks.items() if place[0] > 0}
    assert marks == {(0.2, 0.0): "x", (0.2, 1.0): "x", (0.6, 1.0): "o"}


def test_there_is_no_rail_without_failures(rows, rails_of):
    assert not rails_of(overhead_figure(rows("net", "h_DTR", {0.5: 1.2, 1.0: 1.0})))


def test_the_range_of_slowdowns_is_as_small_as_is_useful(rows, panels_of):
    [axes] = panels_of(overhead_figure(rows("net", "h_DTR", {0.5: 1.2, 1.0: 1.0})))
    low, high = axes.get_ylim()
    assert 0.98 < low < 1.0
    assert 1.2 < high < 1.22


def test_huge_slowdowns_get_a_logarithmic_axis(rows, panels_of):
    [axes] = panels_of(overhead_figure(rows("net", "h_DTR", {0.5: 60.0, 1.0: 1.0})))
    assert axes.get_yscale() == "log"


def test_seeds_are_drawn_as_a_median_with_a_range(rows, panels_of):
    outcomes = [1.4, 1.1, "oom", 1.2, 1.3]
    table = pd.concat(
        [
            rows("net", "h_rand", {0.5: outcome, 0.9: 1.0}, seed=seed)
            for seed, outcome in enumerate(outcomes)
        ]
    )
    figure = overhead_figure(table)
    [axes] = panels_of(figure)
    assert line(axes, "h_rand")[1].tolist() == [1.3, 1.0]
    [bars] = axes.collections
    assert [segment.tolist() for segment in bars.get_segments()] == [[[0.5, 1.1], [0.5, 1.4]]]
    assert legend_texts(figure)[-2:] == ["small: fewer than half of the seeds", "range over seeds"]


def test_a_run_without_a_budget_stands_apart_at_the_right(rows, panels_of, labels_are_apart):
    table = pd.concat(
        [
            rows("net", "h_DTR", {0.5: 1.2, 1.0: 1.1}),
            rows("net", "h_DTR", {1.0: 1.0}, budget_bytes=None),
        ]
    )
    figure = overhead_figure(table)
    [axes] = panels_of(figure)
    assert [text.get_text() for text in axes.get_xticklabels()][-1] == "∞"
    assert line(axes, "h_DTR")[0].tolist() == [0.5, 1.0]
    labels_are_apart(figure)


@pytest.mark.parametrize(("traces", "methods"), [(1, 20), (2, 1), (3, 3), (5, 16), (12, 2)])
def test_no_label_stands_on_another(rows, labels_are_apart, traces, methods):
    names = [f"{number}-a-model/with_a_name.of-sixty-letters-and-a-bit-more-{number}"[:60]
             for number in range(traces)]  # fmt: skip
    table = many(rows, names, [f"heuristic_{number}" for number in range(methods)])
    labels_are_apart(overhead_figure(table))


@pytest.mark.parametrize(
    "fractions", [[0.5], [0.12341, 0.12342, 0.12344], [0.001, 3.0], [1.0, 2.0, 40.0]]
)
def test_odd_budgets_leave_labels_apart(rows, labels_are_apart, fractions):
    table = many(rows, ["a", "b", "c", "d"], ["h_DTR", "h_LRU"], fractions)
    table["budget_bytes"] = table["budget_fraction"] * 1e9
    table["unlimited_peak_bytes"] = 1e9
    labels_are_apart(overhead_figure(table))


def test_a_panel_in_which_everything_failed_says_so(rows, panels_of, labels_are_apart):
    figure = overhead_figure(rows("net", "h_DTR", {0.5: "oom", 0.6: "thrashed"}))
    [axes] = panels_of(figure)
    assert [text.get_text() for text in axes.texts] == ["no run ended ok"]
    labels_are_apart(figure)


def test_names_are_shown_as_they_are(rows, labels_are_apart):
    figure = overhead_figure(rows("$a_b$", "cost$^2$", {0.5: 1.1, 0.6: 1.0}))
    assert r"\$a_b\$" in [text.get_text() for text in figure.texts]
    assert legend_texts(figure) == [r"cost\$^2\$"]
    labels_are_apart(figure)


def test_two_long_names_keep_two_entries_in_the_legend(rows):
    names = ["a" * 40 + middle + "b" * 40 for middle in "xy"]
    figure = overhead_figure(many(rows, ["net"], names))
    assert len(set(legend_texts(figure)[:2])) == 2


@pytest.mark.parametrize("draw", [overhead_figure, lowest_budget_figure])
def test_names_of_any_length_are_cut_before_they_are_laid_out(rows, labels_are_apart, draw):
    """A name of 100,000 letters is drawn as quickly as a short one, and stays its own."""
    traces = ["t" * 100_000, "t" * 99_999 + "u", "t" * 50_000 + "u" + "t" * 49_999, "7" * 9_000]
    methods = ["m" * 1_500 + letter for letter in "ab"]
    figure = draw(many(rows, traces, methods))
    texts = {text.get_text() for text in figure.texts}
    assert len([text for text in texts if text.count("t") > 9 and "…" in text]) == 3
    if draw is lowest_budget_figure:
        assert len([text for text in texts if text.count("m") > 9]) == 2
    if draw is overhead_figure:
        assert len(set(legend_texts(figure)[:2])) == 2
    labels_are_apart(figure)


def test_names_that_differ_in_the_middle_have_different_titles(rows, labels_are_apart):
    """Cutting a title must not make two panels look like the same trace."""
    traces = ["a" * 300 + middle + "b" * 300 for middle in "xyz"]
    texts = [text.get_text() for text in overhead_figure(many(rows, traces, ["h_LRU"])).texts]
    for middle in "xyz":
        assert any(f"…{middle}b" in text for text in texts)


def test_policies_are_compared_under_one_method(rows, panels_of, labels_are_apart):
    table = pd.concat(
        [
            many(rows, ["a", "b"], ["h_DTR", "h_LRU"]),
            many(rows, ["a", "b"], ["h_LRU"], deallocation="banish"),
            many(rows, ["a", "b"], ["h_LRU"], deallocation="ignore"),
        ]
    )
    figure = deallocation_figure(table)
    assert legend_texts(figure)[:3] == ["ignore", "eager", "banish"]
    assert "budget / unlimited peak (h_LRU)" in [text.get_text() for text in figure.texts]
    assert len(panels_of(figure)) == 2
    labels_are_apart(figure)
    assert legend_texts(deallocation_figure(table, "h_DTR"))[0] == "eager"
    with pytest.raises(InputError, match="no run with method 'h_size'"):
        deallocation_figure(table, "h_size")


def test_the_ablation_grid_has_a_panel_per_cost_and_trace(rows, panels_of, labels_are_apart):
    methods = ["h_abl_eq", "h_abl_eq_size", "h_abl_one_stale", "h_DTR", "h_rand", "h_LRU"]
    figure = ablation_figure(many(rows, ["a" * 60, "b"], methods))
    panels = panels_of(figure)
    assert len(panels) == 8
    drawn = [{one.get_label() for one in axes.get_lines()} for axes in panels[:4]]
    assert drawn == [{"size and staleness"}, {"size", "neither"}, set(), {"staleness", "neither"}]
    labels_are_apart(figure)
    with pytest.raises(InputError, match="no run of an ablation"):
        ablation_figure(many(rows, ["a"], ["h_DTR"]))


def test_accesses_have_a_logarithmic_axis_with_room_for_none(rows, panels_of, labels_are_apart):
    counts = pd.concat(
        [
            rows("net", "h_DTR", {0.5: 1.2}, metadata_accesses=50_000),
            rows("net", "h_DTR", {0.7: 1.1}, metadata_accesses=300),
            rows("net", "h_DTR", {1.0: 1.0}, metadata_accesses=0),
            rows("net", "h_DTR", {0.3: 1.0}, metadata_accesses=None),
        ]
    )
    figure = accesses_figure(counts)
    [axes] = panels_of(figure)
    assert line(axes, "h_DTR")[1].tolist() == [50_000, 300, 0]
    assert [text.get_text() for text in axes.get_yticklabels()][:2] == ["0", "500"]
    labels_are_apart(figure)
    assert panels_of(accesses_figure(counts[counts["metadata_accesses"] > 0]))[0].get_yscale() == (
        "log"
    )
    with pytest.raises(InputError, match="no metadata_accesses in any row"):
        accesses_figure(counts.iloc[3:])
    with pytest.raises(InputError, match="no column 'metadata_accesses'"):
        accesses_figure(counts.drop(columns="metadata_accesses"))


@pytest.mark.parametrize("methods", [1, 20])
def test_lowest_budgets_are_a_grid_of_cells(table, rows, labels_are_apart, methods):
    figure = lowest_budget_figure(table)
    assert [text.get_text() for text in figure.axes[0].texts] == [
        "0.4\n1.30×",
        "0.4/0.8\n1.50×",
        "0.2\n1.90×",
        "-",
    ]
    names = [f"somebody/file_{number}.py:function" for number in range(methods)]
    labels_are_apart(lowest_budget_figure(many(rows, ["a" * 60, "b"], names)))


@pytest.fixture
def planned(rows):
    """A heuristic, and a planner that proves one of its two plans; with bounds."""
    online = rows("net", "h_LRU", {0.4: 1.5, 0.8: 1.2})
    static = rows("net", "optimal", {0.4: 1.4, 0.8: 1.1}, kind="static", deallocation="plan")
    static["planner_status"] = ["feasible", "optimal"]
    return pd.concat([online, static], ignore_index=True).assign(bound_slowdown=[1.2, 1.05] * 2)


def test_planners_are_told_from_heuristics_by_their_lines(planned, panels_of, labels_are_apart):
    """Solid and broken lines can be told apart without color; so can markers."""
    figure = overhead_figure(planned)
    assert legend_texts(figure)[:5] == [
        "h_LRU",
        "optimal",
        "solid: decided while running",
        "broken: planned",
        "below the lower bound",
    ]
    [axes] = panels_of(figure)
    looks = {one.get_label(): one.get_linestyle() for one in axes.get_lines()}
    assert (looks["h_LRU"], looks["optimal"]) == ("-", "--")
    labels_are_apart(figure)


def test_beside_runs_with_a_link_the_bound_says_that_it_is_of_those_without(planned, rows):
    """What moves to the host may be below it."""
    moving = rows("net", "pofo", {0.4: 1.1}, link="h100-pcie5", kind="static")
    texts = legend_texts(overhead_figure(pd.concat([planned, moving], ignore_index=True)))
    assert "below the lower bound without a link" in texts and "below the lower bound" not in texts


def test_only_what_is_proven_is_ringed(planned, panels_of):
    [axes] = panels_of(overhead_figure(planned))
    rings = [one for one in axes.get_lines() if one.get_markersize() > 7 and len(one.get_xdata())]
    assert [(one.get_xdata().tolist(), one.get_ydata().tolist()) for one in rings] == [
        ([0.8], [1.1])
    ]
    assert "proven optimal" in legend_texts(overhead_figure(planned))
    heuristics = planned[planned["method"].eq("h_LRU")].assign(slowdown=1.0, bound_slowdown=1.0)
    assert "proven optimal" not in legend_texts(overhead_figure(heuristics))


@pytest.mark.parametrize(("highest", "top"), [(None, 1.8), (1.3, 1.3)])
def test_a_bound_above_all_runs_is_in_the_picture(planned, panels_of, highest, top):
    """Where every run failed the bound is all there is; the axis goes as far as it, or as asked."""
    table = planned.assign(bound_slowdown=[1.8, 1.05] * 2)
    [axes] = panels_of(overhead_figure(table, highest))
    assert top <= axes.get_ylim()[1] < top + 0.2


def test_a_bound_holds_down_to_the_next_budget(planned, panels_of):
    """Between two budgets only the bound of the larger one is known."""
    [axes] = panels_of(overhead_figure(planned))
    [edge] = [one for one in axes.get_lines() if one.get_drawstyle() == "steps-pre"]
    assert np.asarray(edge.get_xdata())[1:].tolist() == [0.4, 0.8]
    assert np.asarray(edge.get_ydata()).tolist() == [1.2, 1.2, 1.05]


@pytest.mark.parametrize("count", [1, 8])
def test_many_planners_and_heuristics_have_room(rows, labels_are_apart, count):
    traces = ["net" * (1 + number) for number in range(count)]
    online = many(rows, traces, [f"h_{letter}" for letter in "abcdefg"], kind="online")
    names = ["optimal", *(f"planner{letter}(points=articulation)" for letter in "abcdefg")]
    static = many(rows, traces, names, kind="static", planner_status="optimal")
    table = pd.concat([online, static], ignore_index=True).assign(bound_slowdown=1.01)
    labels_are_apart(overhead_figure(table))


def test_what_is_slower_than_the_axis_goes_stands_on_the_rail(rows, panels_of, rails_of):
    """A few slow runs do not make the others small; the line breaks there."""
    table = pd.concat(
        [
            rows("net", "h_DTR", {0.4: 1.3, 0.8: 1.1}),
            *(rows("net", "h_rand", {0.4: s, 0.8: 1.2}, seed=k) for k, s in enumerate([1.7, 4.0])),
            *(rows("net", "h_LRU", {0.4: s, 0.8: 1.2}, seed=k) for k, s in enumerate([1.2, 1.7])),
        ]
    )
    figure = overhead_figure(table, highest=1.5)
    [axes], [rail] = panels_of(figure), rails_of(figure)
    assert axes.get_ylim()[1] < 1.55
    assert np.isnan(line(axes, "h_rand")[1]).tolist() == [True, False]
    [mark] = [one for one in rail.get_lines() if one.get_marker() == "1"]
    assert mark.get_xdata() == [0.4]
    segments = [part.tolist() for bars in axes.collections for part in bars.get_segments()]
    assert segments == [[[0.4, 1.2], [0.4, 1.5]]]
    assert "slower than the axis goes" in legend_texts(figure)
    assert "slower than the axis goes" not in legend_texts(overhead_figure(table))


def test_traces_whose_budgets_differ_much_have_axes_of_their_own(rows, panels_of):
    """A range of 0.1 is not squeezed into one of 0.9; ranges of 0.5 and 0.9 are shared."""
    wide = rows("wide", "h_DTR", {0.1: 1.3, 1.0: 1.0})
    for low, is_shared in ((0.9, False), (0.5, True)):
        narrow = rows("narrow", "h_DTR", {low: 1.2, 1.0: 1.0})
        panels = panels_of(overhead_figure(pd.concat([wide, narrow])))
        assert (panels[0].get_xlim() == panels[1].get_xlim()) is is_shared
