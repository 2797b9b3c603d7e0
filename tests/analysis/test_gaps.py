"""Bounds by budget and gaps above them, on tables that can be checked by eye."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rematsim.analysis.gaps import gap_table, gaps, lower_bounds, share_bounds
from rematsim.analysis.summaries import line_names
from rematsim.analysis.tables import check_table


@pytest.fixture
def both(rows):
    """A heuristic and a planner; the planner knows the better bounds."""
    online = rows("net", "h_DTR", {0.2: "oom", 0.4: 1.5, 0.6: 1.3, 1.0: 1.0}, mutation="copy")
    online["bound_slowdown"] = [1.2, 1.1, 1.1, 1.0]
    planned = rows(
        *("net", "optimal", {0.2: "infeasible", 0.4: 1.25, 0.6: 1.2, 1.0: 1.0}),
        kind="static",
        mutation="copy",
    )
    planned["bound_slowdown"] = [None, 1.25, 1.0, 1.0]
    planned["planner_status"] = ["infeasible", "optimal", "feasible", "optimal"]
    return pd.concat([online, planned], ignore_index=True)


def test_a_bound_is_the_best_of_all_runs_and_holds_for_smaller_budgets(both):
    """At 0.2 the heuristic knows 1.2, but 1.25 of a larger budget bounds it too."""
    bounds = lower_bounds(both)
    assert bounds["fraction"].tolist() == [0.2, 0.4, 0.6, 1.0]
    assert bounds["bound"].tolist() == [1.25, 1.25, 1.1, 1.0]


def test_bounds_of_one_trace_say_nothing_of_another(both):
    bounds = lower_bounds(pd.concat([both, both.assign(trace="other", bound_slowdown=1.0)]))
    assert bounds.loc[bounds["trace"].eq("other"), "bound"].tolist() == [1.0] * 4


def test_a_gap_is_above_the_best_bound(both):
    found = gaps(both).set_index(["line", "fraction"])
    assert found.loc[("h_DTR", 0.4), "gap"] == pytest.approx(1.5 / 1.25 - 1)
    assert found.loc[("optimal", 0.6), "gap"] == pytest.approx(1.2 / 1.1 - 1)
    assert np.isnan(found.loc[("h_DTR", 0.2), "gap"])
    assert found["is_optimal"].tolist() == [False, False, False, True, False, True, False, True]


def test_the_table_of_gaps_has_the_bound_over_the_lines(both):
    wide = gap_table(both)
    assert wide.columns.tolist() == ["0.2", "0.4", "0.6", "1"]
    assert wide.to_numpy().tolist() == [
        [">= 1.250", ">= 1.250", ">= 1.100", ">= 1.000"],
        ["oom", "20.00%", "18.18%", "optimal"],
        ["infeasible", "optimal", "9.09%", "optimal"],
    ]
    assert wide.index.get_level_values("line").tolist() == ["lower bound", "h_DTR", "optimal"]


def test_a_plan_may_be_proven_and_run_below_the_bound_of_its_graph(both):
    """Views need not be computed again with their call: executed cost is at most the predicted."""
    both.loc[5, "slowdown"] = 1.24
    [place] = np.flatnonzero(both["slowdown"].eq(1.24))
    found = gaps(both).iloc[place]
    assert found["gap"] < 0 and found["is_optimal"]


def test_without_bounds_there_are_no_gaps(rows):
    table = rows("net", "h_DTR", {0.5: 1.2, 0.7: "oom"})
    assert lower_bounds(table).empty
    assert gap_table(table).to_numpy().tolist() == [["no bound", "oom"]]


def test_a_trace_with_updates_in_place_has_no_bounds(both):
    """The bounds are for copies, and a run in place may be faster."""
    both.loc[0, "mutation"] = "inplace"
    assert lower_bounds(both).empty


def test_bounds_of_runs_without_a_link_say_nothing_of_runs_with_one(both, rows):
    """What can go to the host need not be computed again."""
    planned = rows("net", "offload-all", {0.4: 1.05}, kind="static", link="h100-pcie5")
    table = pd.concat([both, planned.assign(bound_slowdown=1.0)], ignore_index=True)
    bounds = lower_bounds(table).set_index(["link", "fraction"])["bound"]
    assert bounds["none", 0.4] == 1.25 and bounds["h100-pcie5", 0.4] == 1.0
    assert share_bounds(table)["bound_slowdown"].iloc[-1] == 1.0
    found = gaps(table).set_index(["line", "fraction"])["gap"]
    assert found["offload-all", 0.4] == pytest.approx(0.05)
    assert gap_table(table)["0.4"].tolist() == [
        ">= 1.250",
        ">= 1.000",
        "20.00%",
        "5.00%",
        "optimal",
    ]
    assert gap_table(table).index.get_level_values("line")[1] == "lower bound, h100-pcie5"


def test_lines_tell_links_apart_where_a_planner_has_several(rows):
    links = ("none", "h100-pcie5", "gh200-c2c")
    table = pd.concat(
        [rows("net", "offload-all", {0.5: 1.1}, kind="static", link=link) for link in links]
    )
    assert line_names(check_table(table)).tolist() == [
        *("offload-all", "offload-all, h100-pcie5", "offload-all, gh200-c2c")
    ]
    one = pd.concat([table.iloc[[1]], rows("net", "rotor", {0.5: 1.2}, link="none")])
    assert line_names(check_table(one)).tolist() == ["offload-all", "rotor"]


def test_seeds_attain_a_bound_only_together(rows):
    table = pd.concat(
        [
            rows("n", "h_rand", {0.5: s}, seed=k, bound_slowdown=1.1)
            for k, s in enumerate([1.1, 1.2])
        ]
    )
    assert not gaps(table)["is_optimal"].any()
    assert gaps(table[:1])["is_optimal"].all()


def test_a_bound_that_another_run_knows_is_kept_when_rows_are_chosen(both):
    """Also of a trace whose name says that its times are estimated."""
    table = both.assign(times="estimated")
    chosen = share_bounds(table)[table["method"].eq("h_DTR")]
    assert gaps(chosen)["gap"].tolist()[1] == pytest.approx(1.5 / 1.25 - 1)
    assert chosen["bound_slowdown"].tolist() == [1.25, 1.25, 1.1, 1.0]
    assert share_bounds(table.drop(columns="bound_slowdown")).equals(
        table.drop(columns="bound_slowdown")
    )
