"""Medians over seeds and lowest budgets, on tables that can be checked with a pencil."""

from __future__ import annotations

import numpy as np
import pandas as pd
from rematsim.analysis.summaries import (
    curves,
    line_names,
    line_order,
    lowest_budget_table,
    lowest_budgets,
    overhead_table,
    trace_order,
)
from rematsim.analysis.tables import check_table


def seeds(rows, outcomes):
    """Runs of one method at one budget, a seed each."""
    return pd.concat(
        [rows("net", "h_rand", {0.5: outcome}, seed=seed) for seed, outcome in enumerate(outcomes)]
    )


def test_seeds_become_a_median_and_a_range(rows):
    [point] = curves(seeds(rows, [1.4, 1.1, 1.2])).to_dict("records")
    assert (point["runs"], point["ok_runs"], point["status"], point["failure"]) == (3, 3, "ok", "")
    assert (point["low"], point["median"], point["high"]) == (1.1, 1.2, 1.4)


def test_a_failed_seed_counts_as_infinitely_slow(rows):
    """Sorted: 1.1, 1.2, 1.4, oom, oom; the middle one is 1.4."""
    [point] = curves(seeds(rows, [1.4, "oom", 1.1, "oom", 1.2])).to_dict("records")
    assert (point["status"], point["failure"], point["ok_runs"]) == ("ok", "oom", 3)
    assert (point["low"], point["median"], point["high"]) == (1.1, 1.4, 1.4)


def test_half_of_the_seeds_failing_is_a_failure(rows):
    outcomes = ["thrashed", "oom", 1.1, "thrashed", 1.2, 1.3]
    [point] = curves(seeds(rows, outcomes)).to_dict("records")
    assert (point["status"], point["failure"], point["ok_runs"]) == ("thrashed", "thrashed", 3)
    assert np.isnan(point["median"])
    assert (point["low"], point["high"]) == (1.1, 1.3)


def test_runs_without_a_budget_come_last(rows):
    table = pd.concat(
        [rows("net", "h_DTR", {1.0: 1.0}, budget_bytes=None), rows("net", "h_DTR", {0.5: 1.2})]
    )
    assert curves(table)["fraction"].tolist() == [0.5, np.inf]


def test_lowest_budgets_when_a_failure_lies_between(table):
    """h_LRU on resnet9 survives 0.4 and 0.8, not 0.6: lowest 0.4, safe only from 0.8 on."""
    lowest = lowest_budgets(table).set_index(["trace", "line"])
    row = lowest.loc[("resnet9", "h_LRU")]
    assert (row["lowest_bytes"], row["lowest_fraction"], row["slowdown"]) == (400, 0.4, 1.5)
    assert (row["safe_bytes"], row["safe_fraction"], row["tried_fraction"]) == (800, 0.8, 0.2)
    row = lowest.loc[("resnet10", "h_DTR")]
    assert (row["lowest_fraction"], row["safe_fraction"], row["tried_fraction"]) == (0.2, 0.2, 0.2)
    assert lowest.loc[("resnet10", "h_LRU")].drop("tried_fraction").isna().all()


def test_the_table_of_lowest_budgets(table, rows):
    more = rows("vgg", "h_LRU", {0.2: 1.8, 0.4: "oom"})
    text = lowest_budget_table(pd.concat([table, more]))
    assert text.index.tolist() == ["resnet9", "resnet10", "vgg"]
    assert text.columns.tolist() == ["h_DTR", "h_LRU"]
    assert text.to_numpy().tolist() == [
        ["0.4 (1.30)", "0.4/0.8 (1.50)"],
        ["0.2 (1.90)", "-"],
        ["", "0.2/- (1.80)"],
    ]


def test_the_table_of_slowdowns(table, rows):
    more = rows("resnet9", "h_LRU", {1.0: 1.0}, budget_bytes=None)
    text = overhead_table(pd.concat([table, more]))
    assert text.columns.tolist() == ["0.2", "0.4", "0.6", "0.8", "unlimited"]
    row = text.loc[("resnet9", "h_LRU")]
    assert row.tolist() == ["oom", "1.500", "thrashed", "1.100", "1.000"]
    assert text.loc[("resnet10", "h_DTR"), "unlimited"] == ""


def test_a_plan_is_named_after_its_planner_alone(rows):
    """It heeds no policy, and does not make those of the replays beside it look as if they vary."""
    plan = rows("net", "keep-all", {0.5: 1.1}, deallocation="plan", slowdown_limit=None)
    replays = rows("net", "h_DTR", {0.5: 1.1}, slowdown_limit=2.0)
    table = pd.concat([plan.assign(kind="static"), replays.assign(kind="online")])
    assert list(line_names(table)) == ["keep-all", "h_DTR"]
    banish = rows("net", "h_DTR", {0.5: 1.1}, deallocation="banish", slowdown_limit=2.0)
    table = pd.concat([table, banish.assign(kind="online")])
    assert list(line_names(table)) == ["keep-all", "h_DTR, eager", "h_DTR, banish"]


def test_plans_in_different_memories_are_different_lines(rows):
    """A memory with holes takes more; a median over memories would be of nothing."""
    plans = [rows("net", "rotor", {0.5: 1.1}, memory=memory) for memory in ("counter", "arena")]
    table = pd.concat(plans).assign(kind="static")
    assert line_names(table).tolist() == ["rotor, counter", "rotor, arena"]
    assert len(curves(table)) == 2


def test_a_line_is_named_after_the_options_that_vary(rows):
    table = pd.concat(
        [
            rows("net", "h_DTR", {0.5: 1.1}, slowdown_limit=2.0, mutation="copy"),
            rows("net", "h_DTR", {0.5: 1.1}, slowdown_limit=None, mutation="copy"),
            rows("net", "rotor", {0.5: 1.1}, deallocation=None, slowdown_limit=2.0),
        ]
    )
    assert line_names(check_table(table)).tolist() == [
        "h_DTR, copy, eager, limit 2",
        "h_DTR, copy, eager, no limit",
        "rotor, limit 2",
    ]
    assert line_names(check_table(table.iloc[:1])).tolist() == ["h_DTR"]


def test_orders_are_those_a_reader_expects():
    assert trace_order(["resnet10", "Resnet9", "alex", "alex"]) == ["alex", "Resnet9", "resnet10"]
    names = ["z", "h_LRU, banish", "h_LRU, ignore", "h_DTR_eq", "h_DTR", "a10", "a9"]
    assert line_order(names) == [
        "h_DTR",
        "h_DTR_eq",
        "h_LRU, ignore",
        "h_LRU, banish",
        "a9",
        "a10",
        "z",
    ]
