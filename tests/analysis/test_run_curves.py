"""The picture of several runs on one axis: lines named, labels apart, peaks kept."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rematsim.analysis.run_curves import MOST_STRIPS, compared_runs_figure
from rematsim.errors import InputError
from rematsim.simulation import simulate

NET = "synthetic:transformer:4"


def run_of(heuristic, budget=0.6, **options):
    return simulate(NET, heuristic, budget, event_log=True, **options)


def test_lines_are_named_and_labels_are_apart(labels_are_apart):
    runs = {"A": run_of("h_DTR"), "B": run_of("h_LRU", "unlimited")}
    figure = compared_runs_figure(runs, ["h_DTR", "without a budget"])
    labels_are_apart(figure)
    [legend] = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[0].startswith("A: h_DTR, slowdown 1.")
    assert texts[1].startswith("B: without a budget, slowdown 1.000, peak ")
    strips = [text.get_text() for axes in figure.axes[1:] for text in axes.texts]
    assert strips == [f"A: {runs['A'].rematerializations} again", "B: 0 again"]
    curves = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 2]
    for line, run in zip(curves, runs.values(), strict=True):
        assert max(line.get_ydata()) == run.events["memory_after_bytes"].max()
        assert max(line.get_xdata()) == run.events["end_ns"].max()


def test_many_runs_with_long_and_hostile_names_have_room(labels_are_apart):
    runs = {letter: run_of("h_rand", seed=seed) for seed, letter in enumerate("ABCDEFGHIJKL")}
    names = [f"{'long name ' * 30}{letter} $x^2$ \\frac{{" for letter in runs]
    figure = compared_runs_figure(runs, names)
    labels_are_apart(figure)
    assert len(figure.axes) == 1 + MOST_STRIPS


def test_a_run_that_failed_is_drawn_to_where_it_ended():
    failed = run_of("h_LRU", slowdown_limit=1.01)
    assert failed.status == "thrashed"
    figure = compared_runs_figure({"A": run_of("h_DTR"), "B": failed}, ["one", "other"])
    assert "thrashed" in figure.legends[0].get_texts()[1].get_text()


def test_long_logs_are_thinned_and_keep_their_peak():
    run = run_of("h_DTR")
    count = 200_000
    memory = np.random.default_rng(1).integers(0, 1000, count)
    memory[777] = 5000
    events = {name: np.resize(column, count) for name, column in run.events.items()}
    events |= {"memory_after_bytes": memory}
    events |= dict.fromkeys(("start_ns", "end_ns"), np.arange(count))
    figure = compared_runs_figure({"A": dataclasses.replace(run, events=events)}, ["long"])
    curve = figure.axes[0].lines[0]
    assert len(curve.get_xdata()) < 5000
    assert max(curve.get_ydata()) == 5000


def test_what_has_no_event_log_is_refused():
    with pytest.raises(InputError, match="none to draw"):
        compared_runs_figure({}, [])
    with pytest.raises(InputError, match="no event log"):
        compared_runs_figure({"A": simulate(NET, "h_LRU")}, ["short"])
