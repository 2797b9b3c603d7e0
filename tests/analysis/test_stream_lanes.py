"""Lanes of a run that moves data: each shows the time that its stream was busy, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from rematsim.analysis.plotting import run_kinds
from rematsim.analysis.stream_lanes import busy_shares, lanes_figure
from rematsim.errors import InputError
from rematsim.opcodes import ACTIONS
from rematsim.planning import plan_trace

LINK = "link(d2h=400MB/s,h2d=400MB/s,latency=0)"


@pytest.fixture(scope="module")
def moved():
    """A run that computes, computes again, waits, and moves data."""
    planned = plan_trace("synthetic:chain:20", "offload-all", 0.5, link=LINK, event_log=True)
    assert planned.row.status == "ok" and planned.row.stall_ns > 0
    return planned.row


def test_shares_are_the_busy_time_of_each_part():
    """One event over a part and a half, one over a quarter of the last, one that takes no time."""
    events = {
        "action": np.array([ACTIONS.index("offload")] * 3 + [ACTIONS.index("stall")]),
        "call": np.full(4, -1),
        "start_ns": np.array([0, 20, 35, 0]),
        "end_ns": np.array([15, 20, 37, 40]),
    }
    assert busy_shares(events, "offload", 40.0, bins=4) == pytest.approx([1, 0.5, 0, 0.2])
    assert busy_shares(events, "prefetch", 40.0, bins=4).tolist() == [0.0] * 4


def test_shares_add_up_to_what_the_row_says(moved):
    end = float(moved.events["end_ns"].max())
    for kinds, expected in (
        (("compute", "recompute"), moved.model_ns),
        (("stall",), moved.stall_ns),
    ):
        taken = sum(busy_shares(moved.events, kind, end).sum() for kind in kinds) * end / 1000
        assert taken == pytest.approx(expected)


def test_lanes_stand_over_memory(moved, labels_are_apart):
    figure = lanes_figure(moved)
    labels_are_apart(figure)
    names = [text.get_text().split("\n")[0] for axes in figure.axes for text in axes.texts]
    assert names == ["compute", "to the host", "from the host", "on the host"]
    heights = [axes.get_position().y0 for axes in figure.axes]
    assert heights == sorted(heights, reverse=True)
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["computed", "waiting", "offloaded", "prefetched"]


def test_there_are_lanes_only_where_data_moves(moved, run, tmp_path):
    assert run_kinds(tmp_path / "a.run", moved)[-1] == "lanes"
    assert "lanes" not in run_kinds(tmp_path / "a.run", run())
    with pytest.raises(InputError, match="moved no data"):
        lanes_figure(run())
    with pytest.raises(InputError, match="no event log"):
        lanes_figure(run(events=None))
