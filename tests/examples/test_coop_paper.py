"""Coop's evaluation: on one small trace, and what its tables say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from example_modules import load_example


@pytest.fixture(scope="module")
def coop_paper() -> ModuleType:
    return load_example("coop_paper")


@pytest.fixture(scope="module")
def out(coop_paper: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coop_paper")
    asked = ["--traces", "unet", "--budgets", "0.4x,0.6x,0.8x", "--map", "unet", "--jobs", "1"]
    coop_paper.main([*asked, "--map-budget", "0.6", "--out", str(folder)])
    return folder


def test_every_line_is_run_at_the_same_bytes(coop_paper: ModuleType, out: Path) -> None:
    """Whatever the lowering: the budgets are fractions of one peak."""
    runs = pd.read_csv(out / "runs.csv")
    assert set(runs["line"]) == {line.name for line in coop_paper.LINES}
    assert runs.groupby("line")["budget_bytes"].apply(list).map(tuple).nunique() == 1


def test_smallest_budgets_are_those_of_the_runs(coop_paper: ModuleType, out: Path) -> None:
    """By hand from the rows, for each line."""
    runs = pd.read_csv(out / "runs.csv")
    smallest = pd.read_csv(out / "smallest.csv", index_col="trace")
    for line in coop_paper.LINES:
        ok = runs[runs["line"].eq(line.name) & runs["status"].eq("ok")]
        expected = ok["budget_fraction"].min()
        found = smallest.loc["unet", line.name]
        assert found == pytest.approx(expected, abs=1e-3) or (np.isnan(found) and ok.empty)


def test_the_line_of_a_static_plan_is_beside_every_fragmentation(
    coop_paper: ModuleType, out: Path
) -> None:
    """What it needs above the load, which no plan is below; the run's own addresses are a plan."""
    runs = pd.read_csv(out / "runs.csv")
    chosen = runs["line"].isin(coop_paper.MAIN[1:]) & runs["status"].eq("ok")
    shown = runs[chosen & runs["fragmentation"].notna()]
    assert shown["load_bytes"].le(shown["plan_bytes"]).all()
    assert shown["plan_bytes"].le(shown["reserved_peak_bytes"]).all()
    assert shown["load_bytes"].le(shown["budget_bytes"]).all()
    figure = dict(coop_paper.figures(runs))["fragmentation"]
    lines = [line for axes in figure.axes for line in axes.lines if line.get_linestyle() == "--"]
    drawn = np.concatenate([line.get_ydata() for line in lines])
    due = (shown["plan_bytes"] - shown["load_bytes"]) / shown["budget_bytes"]
    drawn = drawn[~np.isnan(drawn)]  # lines break where a run failed
    assert len(drawn) and sorted(drawn) == pytest.approx(sorted(due))


def test_figures_and_maps_are_drawn(out: Path) -> None:
    names = {path.name for path in out.glob("*.png")}
    assert names == {
        *("overhead.png", "ablation.png", "fragmentation.png", "search.png"),
        *("map-unet-DTR.png", "map-unet-Coop.png"),
    }


def test_event_logs_are_summed_up(coop_paper: ModuleType) -> None:
    """What went, and how much of it more than once."""
    from rematsim.traces.loading import load_trace

    rows = list(coop_paper.explain(load_trace("bundled:unet"), 0.5))
    assert [row["line"] for row in rows] == [
        *("DTR", "Coop, window alone", "Coop, and partition", "Coop", "Coop, and dropping")
    ]
    for row in rows:
        assert row["evictions"] > row["of the same storage"] >= 0
        assert 0 <= row["small ones"] <= 1 and row["mean bytes"] > 0
