"""The picture of two memory curves: labels apart, peaks named, many points thinned."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rematsim.analysis.comparing import BINS, compared_memory_figure
from rematsim.errors import InputError


def curves(**sizes: list[int]) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"curve": name, "place": np.linspace(0, 1, len(bytes_)), "bytes": bytes_})
        for name, bytes_ in sizes.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs.update(trace="a model of a very long name " * 9, profile="p", device="cuda:0")
    return table


def test_lines_are_named_with_their_peaks_and_labels_are_apart(labels_are_apart):
    table = curves(replay=[0, 2048, 1024], allocated=[0, 4096, 10], reserved=[8192] * 3)
    figure = compared_memory_figure(table)
    labels_are_apart(figure)
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "replay, peak 2 KiB",
        "recorded: allocated, peak 4 KiB",
        "recorded: reserved, peak 8 KiB",
    ]


def test_many_points_are_thinned_and_keep_their_peak():
    sizes = np.random.default_rng(3).integers(0, 10**6, 100_000).tolist()
    sizes[777] = 10**7
    figure = compared_memory_figure(curves(replay=sizes))
    [line] = figure.axes[0].lines
    assert len(line.get_ydata()) <= 3 * BINS + 1
    assert max(line.get_ydata()) == 10**7


def test_a_curve_of_nothing_is_drawn():
    compared_memory_figure(curves(replay=[0], allocated=[0, 0]))


def test_a_table_of_something_else_is_refused():
    with pytest.raises(InputError):
        compared_memory_figure(pd.DataFrame({"curve": ["replay"]}))
    with pytest.raises(InputError, match="no points"):
        compared_memory_figure(curves(replay=[1]).iloc[:0])
