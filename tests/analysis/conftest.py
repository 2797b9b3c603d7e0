"""Small tables and runs, written out by hand, and a judge of what a figure looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from rematsim.opcodes import ACTIONS
from rematsim.result import RunResult

PEAK = 1000


def make_rows(trace: str, method: str, outcomes: dict[float, Any], **columns: Any) -> pd.DataFrame:
    """Rows of one line: fraction of the peak -> slowdown, or a status."""
    rows = []
    for fraction, outcome in outcomes.items():
        is_ok = not isinstance(outcome, str)
        row = {
            "trace": trace,
            "method": method,
            "deallocation": "eager",
            "budget_bytes": round(fraction * PEAK),
            "budget_fraction": fraction,
            "unlimited_peak_bytes": PEAK,
            "seed": None,
            "status": "ok" if is_ok else outcome,
            "slowdown": outcome if is_ok else None,
        }
        rows.append(row | columns)
    return pd.DataFrame(rows)


@pytest.fixture
def rows() -> Callable[..., pd.DataFrame]:
    return make_rows


@pytest.fixture
def table() -> pd.DataFrame:
    """Two traces, two methods, a failure between two budgets that are survived."""
    return pd.concat(
        [
            make_rows("resnet9", "h_LRU", {0.2: "oom", 0.4: 1.5, 0.6: "thrashed", 0.8: 1.1}),
            make_rows("resnet9", "h_DTR", {0.2: "oom", 0.4: 1.3, 0.6: 1.2, 0.8: 1.0}),
            make_rows("resnet10", "h_LRU", {0.2: "oom", 0.4: "oom", 0.6: "thrashed", 0.8: "oom"}),
            make_rows("resnet10", "h_DTR", {0.2: 1.9, 0.4: 1.4, 0.6: 1.3, 0.8: 1.1}),
        ],
        ignore_index=True,
    )


# Storages: 0 a constant of 10 bytes, 1 of 30 made forward, 2 of 20 made backward.
EVENTS = [
    # start, end, action, call, storage, bytes, memory after
    (0, 0, "compute", -1, 0, 10, 10),
    (0, 5, "compute", 0, 1, 30, 40),
    (5, 5, "evict", -1, 1, 30, 10),
    (5, 9, "compute", 1, 2, 20, 30),
    (9, 14, "recompute", 0, 1, 30, 60),
    (14, 19, "recompute", 0, 1, 30, 90),
    (19, 19, "drop_duplicate", 0, 1, 30, 60),
    (19, 19, "deallocate", -1, 2, 20, 40),
]


ROW: dict[str, Any] = {
    "trace": "tiny",
    "trace_digest": "d" * 64,
    "kind": "online",
    "method": "h_DTR",
    "deallocation": "eager",
    "mutation": "copy",
    "memory": "counter",
    "slowdown_limit": 2.0,
    "budget_bytes": 95,
    "budget_fraction": None,
    "unlimited_peak_bytes": 100,
    "seed": None,
    "status": "ok",
    "model_ns": 9,
    "remat_ns": 10,
    "stall_ns": 0,
    "search_ns": 0,
    "slowdown": 19 / 9,
    "clock": 20,
    "peak_bytes": 90,
    "evictions": 2,
    "pressure_evictions": 1,
    "evict_sha": "0" * 16,
    "rematerializations": 2,
    "evaluations": None,
    "metadata_accesses": None,
    "run_seconds": 0.1,
    "base_compute_ns": 9,
    "failed_at": None,
    "message": "",
    "times": "measured",
}


def make_run(**columns: Any) -> RunResult:
    """A run of three storages whose event log is short enough to follow by eye."""
    start, end, action, call, storage, size, after = zip(*EVENTS, strict=True)
    nothing = np.full(len(EVENTS), -1)
    events = {
        "start_ns": np.array(start),
        "end_ns": np.array(end),
        "stream": np.zeros(len(EVENTS), np.int32),
        "action": np.array([ACTIONS.index(name) for name in action]),
        "call": np.array(call),
        "storage": np.array(storage),
        "bytes": np.array(size),
        "score": np.full(len(EVENTS), np.nan),
        "cause_call": nothing,
        "address": nothing,
        "memory_after_bytes": np.array(after),
        "reserved_after_bytes": np.array(after),
        "host_after_bytes": np.zeros(len(EVENTS), np.int64),
        "tensor": np.array(storage),
    }
    storages = {
        "name": np.array(["w", "x", "g"]),
        "bytes": np.array([10, 30, 20]),
        "category": np.array(["constant", "forward", "backward"]),
        "module": np.array(["", "", ""]),
        "operator": np.array(["", "f", "b"]),
    }
    return RunResult(**(ROW | {"events": events, "storages": storages} | columns))


@pytest.fixture
def run() -> Callable[..., RunResult]:
    return make_run


def shown_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """All texts that can be seen, with their boxes in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    hidden = {text for axes in figure.axes if not axes.axison for text in axes.findobj(Text)}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text not in hidden]
    return [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for text in texts
        if text.get_text().strip()
    ]


def overlap(one: Bbox, other: Bbox, slack: float = 0.5) -> bool:
    """Whether two boxes share more than the slack in both directions."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(width > slack and height > slack)


def check_labels(figure: Figure) -> None:
    """Fail if a text overlaps another, runs into the axes of a panel, or leaves the figure."""
    texts = shown_texts(figure)
    for (one, box), (other, other_box) in combinations(texts, 2):
        assert not overlap(box, other_box), f"{one!r} overlaps {other!r}"
    for text, box in texts:
        assert box.x0 > -1 and box.y0 > -1, f"{text!r} leaves the figure"
        assert box.x1 < figure.bbox.x1 + 1 and box.y1 < figure.bbox.y1 + 1, f"{text!r} leaves"
        for axes in figure.axes:
            inside = axes.bbox.containsx(box.x0) and axes.bbox.containsy(box.y0)
            assert inside or not overlap(box, axes.bbox, 2.0), f"{text!r} runs into a panel"


@pytest.fixture
def labels_are_apart() -> Callable[[Figure], None]:
    return check_labels


def plots(figure: Figure) -> list[Any]:
    """The axes of a figure's panels, rails left out."""
    return [axes for axes in figure.axes if axes.axison]


def rails(figure: Figure) -> Sequence[Any]:
    """The rails of a figure."""
    return [axes for axes in figure.axes if not axes.axison]


@pytest.fixture
def panels_of() -> Callable[[Figure], list[Any]]:
    return plots


@pytest.fixture
def rails_of() -> Callable[[Figure], Sequence[Any]]:
    return rails
