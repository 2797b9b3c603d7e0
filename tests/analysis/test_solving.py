"""Solving times: which rows are shown, what is marked, and that labels stay apart."""

from __future__ import annotations

import pandas as pd
import pytest
from rematsim.analysis.solving import solving_figure, solving_points
from rematsim.errors import InputError


def solved(rows, method, calls, **ends):
    """Rows of one planner: status of the planner -> seconds."""
    made = [
        rows(
            *(f"net{calls}", method, {0.5: 1.2}),
            kind="static",
            planner_status=status.replace("_again", ""),
            solve_seconds=seconds,
            time_limit=10.0,
            calls=calls,
        )
        for status, seconds in ends.items()
    ]
    return pd.concat(made, ignore_index=True)


@pytest.fixture
def table(rows):
    return pd.concat(
        [
            solved(rows, "optimal", 50, optimal=0.2, feasible=10.1),
            solved(rows, "optimal", 500, infeasible=0.0, time_limit=10.3),
            solved(rows, "chen-sqrt", 50, feasible=0.01, not_installed=0.0),
            rows("net50", "h_DTR", {0.5: 1.2}, kind="online", calls=50),
        ],
        ignore_index=True,
    )


def test_rows_of_planners_that_solved_something_are_shown(table):
    points = solving_points(table)
    assert points["method"].tolist() == ["optimal"] * 3 + ["chen-sqrt"]
    assert points["solve_seconds"].tolist() == [0.2, 10.1, 10.3, 0.01]
    assert points["is_proven"].tolist() == [True, False, False, False]
    assert points["is_empty"].tolist() == [False, False, True, False]
    assert points["is_stopped"].tolist() == [False, True, True, False]


def test_budgets_that_nothing_fits_in_count_for_no_planner(table):
    """They are seen to be too small before anything is solved: that would be the median."""
    is_infeasible = table["planner_status"].eq("infeasible")
    pd.testing.assert_frame_equal(solving_points(table), solving_points(table[~is_infeasible]))
    with pytest.raises(InputError, match="no row of a planner"):
        solving_figure(table[is_infeasible])


def test_proofs_are_ringed_limits_drawn_and_empty_ends_crossed(table, panels_of, labels_are_apart):
    figure = solving_figure(table)
    labels_are_apart(figure)
    [axes] = panels_of(figure)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    rings, crosses = (
        [y for one in axes.get_lines() if one.get_marker() == marker and one.get_markersize() > 7
         for y in one.get_ydata()]
        for marker in ("o", "x")
    )  # fmt: skip
    assert (rings, crosses) == ([0.2], [10.3])
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == [
        "chen-sqrt",
        "optimal",
        "proven optimal",
        "no plan when a limit was reached",
        "time limit",
    ]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["50", "500"]


@pytest.mark.parametrize(("methods", "sizes"), [(1, 1), (15, 1), (3, 30), (15, 4)])
def test_labels_stay_apart(rows, labels_are_apart, methods, sizes):
    tables = [
        solved(rows, f"planner{m}(points=articulation)", 40 + 9 * n**2, feasible=0.001 * (n + m))
        for m in range(methods)
        for n in range(sizes)
    ]
    labels_are_apart(solving_figure(pd.concat(tables)))


def test_a_table_without_planners_is_refused(table):
    with pytest.raises(InputError, match="no row of a planner"):
        solving_figure(table[table["kind"].eq("online")])
    with pytest.raises(InputError, match="no column 'calls'"):
        solving_figure(table.drop(columns="calls"))
