"""Memory over time: layers add up to the log's memory, whatever is left out of the picture."""

from __future__ import annotations

import numpy as np
import pytest
from rematsim.analysis.timelines import MEMORY_BINS, memory_by_category, memory_figure
from rematsim.errors import InputError
from rematsim.opcodes import ACTIONS
from rematsim.simulation import simulate
from rematsim.traces.synthetic import chain


def test_layers_follow_the_log(run):
    """Of storage 1, two copies of 30 bytes at 14 ns, until the second is dropped at 19."""
    tiny = run()
    times, layers = memory_by_category(tiny.events, tiny.storages)
    assert times.tolist() == [0, 0, 5, 5, 9, 14, 19, 19]
    assert layers["constant"].tolist() == [10] * 8
    assert layers["forward"].tolist() == [0, 30, 0, 0, 30, 60, 30, 30]
    assert layers["backward"].tolist() == [0, 0, 0, 20, 20, 20, 20, 0]
    assert layers["output"].tolist() == [0] * 8


def test_a_long_log_is_thinned_out_and_keeps_its_peak():
    generator = np.random.default_rng(7)
    count = 200_000
    starts = np.sort(generator.integers(0, 10**9, count))
    events = {
        "action": np.zeros(count, np.int64),
        "start_ns": starts,
        "end_ns": starts,
        "storage": generator.integers(0, 4, count),
        "memory_after_bytes": generator.integers(0, 10**6, count),
    }
    storages = {"category": ["constant", "output", "forward", "backward"]}
    times, layers = memory_by_category(events, storages)
    total = sum(layers.values())
    assert len(times) <= 3 * MEMORY_BINS
    assert (np.diff(times) >= 0).all()
    assert total.max() == events["memory_after_bytes"].max()
    assert total.min() == events["memory_after_bytes"].min()
    assert total[-1] == events["memory_after_bytes"][-1]


def test_the_picture_counts_evictions_and_recomputed_calls(run, labels_are_apart):
    figure = memory_figure(run())
    labels_are_apart(figure)
    assert [text.get_text() for axes in figure.axes for text in axes.texts] == [
        "evicted\nonce",
        "recomputed\n2 times",
    ]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "made in the backward pass",
        "made in the forward pass",
        "constants",
        "budget 95 B",
    ]


@pytest.mark.parametrize(
    "columns",
    [
        {"budget_bytes": None},
        {"budget_bytes": 10**9},
        {"status": "oom", "slowdown": None, "trace": "x" * 200},
        {"status": "thrashed", "slowdown": None, "method": "path/to/file.py:" + "f" * 200},
    ],
)
def test_any_run_can_be_drawn(run, labels_are_apart, columns):
    labels_are_apart(memory_figure(run(**columns)))


def test_a_run_without_an_event_log_is_refused(run):
    with pytest.raises(InputError, match="no event log"):
        memory_figure(run(events=None, storages=None))


def test_copies_that_are_made_ahead_have_a_strip():
    """Else more would come back from the host than went."""
    link = "link(d2h=inf,h2d=inf,latency=0)"
    run = simulate(chain(20), "h_next_use_offload", 6, link=link, event_log=True)
    strips = {text.get_text() for axes in memory_figure(run).axes for text in axes.texts}
    copies = int((np.asarray(run.events["action"]) == ACTIONS.index("save")).sum())
    assert copies and f"copied ahead\n{copies} times" in strips
