"""POFO's claims: on one small trace, and what its tables say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from example_modules import load_example
from rematsim.links import find_link


@pytest.fixture(scope="module")
def pofo_paper() -> ModuleType:
    return load_example("pofo_paper")


@pytest.fixture(scope="module")
def out(pofo_paper: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pofo_paper")
    asked = ["synthetic:chain:16", "--quick", "--time-limit", "1", "--jobs", "1"]
    pofo_paper.main([*asked, "--out", str(folder)])
    return folder


def test_links_move_the_shares_asked_for(pofo_paper: ModuleType, out: Path) -> None:
    """Budgets are the constants and a part of what the peak has beside them."""
    runs = pd.read_csv(out / "runs.csv")
    moving = runs[runs["link"].ne("none")]
    assert set(moving["method"]) == set(pofo_paper.MOVING)
    assert set(moving["share"]) == set(pofo_paper.QUICK_SHARES)
    for link, share in set(zip(moving["link"], moving["share"], strict=True)):
        found = find_link(link)
        assert found is not None and found.to_host is not None
        step = found.to_host * runs["base_compute_ns"].iloc[0] / 1e9
        assert step == pytest.approx(share * runs["unlimited_peak_bytes"].iloc[0], rel=0.01)
    slope, start = np.polyfit(runs["part"], runs["budget_bytes"], 1)
    assert slope + start == pytest.approx(runs["unlimited_peak_bytes"].iloc[0], rel=1e-6)


def test_claims_are_those_of_the_runs(out: Path) -> None:
    """By hand from the slowdowns, at each share."""
    wide = pd.read_csv(out / "slowdowns.csv")
    claims = pd.read_csv(out / "claims.csv").set_index("share")
    for share, cells in wide.groupby("share"):
        both = cells.dropna(subset=["rotor", "pofo"])
        less = 1 - (both["pofo"] - 1) / (both["rotor"] - 1)
        assert claims.loc[share, "less overhead"] == pytest.approx(less.mean())
        fits = cells.loc[cells["pofo"].le(1.2), "part"]
        expected = 1 / fits.min() if len(fits) else np.nan
        assert claims.loc[share, "times less, pofo"] == pytest.approx(expected, nan_ok=True)


def test_gains_count_places_where_an_exact_plan_is_faster(pofo_paper: ModuleType) -> None:
    places = pd.MultiIndex.from_product([["net"], [0.5], [0.25, 0.5, 0.75]], names=pofo_paper.PLACE)
    outcomes = {"rotor": [1.5, 1.2, 1.1], "pofo": [1.4, 1.02, 1.1], "optimal": [np.nan, 1.3, 1.2]}
    outcomes |= {"h_DTR_eq": [np.nan, 1.25, 1.08], "offload-all": [np.nan, 1.02, 1.3]}
    outcomes |= {"capuchin": [np.nan, 1.1, 1.1], "m-of-n": [np.nan, 1.6, 1.2]}
    found = pofo_paper.exact_against_simple(pd.DataFrame(outcomes, index=places))
    assert found["exact"].tolist() == [1.4, 1.02, 1.1]
    assert found["simple is"].tolist() == ["", "offload-all", "h_DTR_eq"]
    [row] = pofo_paper.gains(found).to_dict("records")
    assert row["only exact fits"] == 1 and row["gains over 1%"] == 0
    assert row["loses over 0.1%"] == 1 and row["most"] == 0


def test_pofo_that_loses_and_plans_that_differ_are_listed(
    pofo_paper: ModuleType, out: Path
) -> None:
    runs = pd.read_csv(out / "runs.csv")
    wide = pofo_paper.side_by_side(runs)
    true = runs.assign(predicted_slowdown=runs["slowdown"], predicted_peak_bytes=runs["peak_bytes"])
    assert pofo_paper.violations(true, wide).empty
    wrong = true.index[true["method"].eq("rotor") & true["status"].eq("ok")][0]
    worse = true.assign(predicted_peak_bytes=true["peak_bytes"].add(true.index == wrong))
    [listed] = pofo_paper.violations(worse, wide).to_dict("records")
    assert listed["method"] == "rotor" and listed["what"] == "not as predicted"
    faster = true.assign(predicted_slowdown=true["slowdown"] * 1.1)
    assert pofo_paper.violations(faster, wide).empty
    assert pofo_paper.views(faster).endswith("by 9.09% at most")
    slower = true.assign(predicted_slowdown=true["slowdown"] / 1.1)
    assert len(pofo_paper.violations(slower, wide)) == true["status"].eq("ok").sum()
    lost = pofo_paper.violations(true, wide.assign(pofo=9.0))
    assert set(lost["what"]) == {"pofo loses"}


def test_figures_are_drawn(out: Path) -> None:
    assert {path.name for path in out.glob("*.png")} == {"winners.png", "links-chain-16.png"}
