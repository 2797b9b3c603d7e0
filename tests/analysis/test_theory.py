"""Pictures of the theory, from numbers small enough to see through."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rematsim.analysis.theory import operations_figure, residency, residency_figure
from rematsim.errors import InputError


def test_residency_has_a_column_for_each_operation(run):
    """Calls 0, 1, 0 and 0 again: x goes before the second, comes back with the third."""
    assert residency(run()).tolist() == [[1, 1, 1, 1], [1, 0, 1, 1], [0, 2, 2, 2]]


def test_residency_is_drawn_a_panel_per_run(panels_of, labels_are_apart):
    figure = residency_figure({"h_DTR": np.eye(40, 90, dtype=np.int8), "h_LRU": np.ones((40, 5))})
    assert len(panels_of(figure)) == 2
    assert "90 operations, at most 1 in memory" in [text.get_text() for text in figure.texts]
    labels_are_apart(figure)
    with pytest.raises(InputError):
        residency_figure({})


def test_operations_are_drawn_against_the_size(panels_of, labels_are_apart):
    table = pd.DataFrame(
        [(25, "h_DTR", 66), (100, "h_DTR", 281), (25, "h_LRU", 85), (100, "h_LRU", 647)],
        columns=["n", "method", "operations"],
    )
    figure = operations_figure(table, {"2 N": lambda n: 2 * n})
    [axes] = panels_of(figure)
    lines = {one.get_label(): list(one.get_ydata()) for one in axes.get_lines()}
    assert lines == {"h_DTR": [66, 281], "h_LRU": [85, 647], "2 N": [50, 200]}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["25", "100"]
    labels_are_apart(figure)
    with pytest.raises(InputError, match="no column 'n'"):
        operations_figure(table.drop(columns="n"))
