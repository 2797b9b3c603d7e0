"""Figures whose lines are one option each: what they would mix, they refuse."""

from __future__ import annotations

import pandas as pd
import pytest
from rematsim import sweep
from rematsim.analysis.figures import ablation_figure, deallocation_figure
from rematsim.analysis.plotting import drawable_kinds
from rematsim.errors import InputError


@pytest.mark.parametrize("column", ["deallocation", "mutation", "slowdown_limit"])
def test_ablation_of_runs_under_different_options_is_refused(column: str) -> None:
    """One line would mix them and call the difference a range over seeds."""
    values = {"deallocation": "ignore", "mutation": "inplace", "slowdown_limit": 3.0}
    one = sweep("synthetic:chain:12", ["h_abl_eq", "h_abl_local"], "0.6x,1.0x")
    other = one.assign(**{column: values[column]})
    assert "ablation" in drawable_kinds(one)
    table = pd.concat([one, other], ignore_index=True)
    assert "ablation" not in drawable_kinds(table)
    with pytest.raises(InputError, match=f"runs of different {column}"):
        ablation_figure(table)


@pytest.mark.parametrize("column", ["mutation", "slowdown_limit"])
def test_policies_under_different_other_options_are_refused(column: str) -> None:
    """A line is a policy, and nothing else."""
    values = {"mutation": "inplace", "slowdown_limit": 3.0}
    one = sweep("synthetic:chain:12", "h_LRU", "0.6x,1.0x", deallocation=["eager", "ignore"])
    assert "deallocation" in drawable_kinds(one)
    table = pd.concat([one, one.assign(**{column: values[column]})], ignore_index=True)
    assert "deallocation" not in drawable_kinds(table)
    with pytest.raises(InputError, match=f"runs of different {column}"):
        deallocation_figure(table)
