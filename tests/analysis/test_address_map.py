"""The address map: where storages lay, for how long, and what color that is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from rematsim.addressing import address_plan
from rematsim.analysis.address_map import COLUMNS, ROWS, address_figure, image
from rematsim.analysis.plotting import plot
from rematsim.analysis.stays import Stay, stays
from rematsim.analysis.timelines import CATEGORIES
from rematsim.errors import InputError
from rematsim.result import RunResult
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder

UNIT = 512


def three() -> RunResult:
    """x of 1 unit for good; a of 2 from 0 to 30 ns; b of 1 from 10 ns on, above it; c as a was."""
    builder = TraceBuilder("three")
    builder.constant("x", UNIT)
    builder.call("f", ["x"], [("a", 2 * UNIT, -1)], 10)
    builder.call("f", ["a"], [("b", UNIT, -1)], 20)
    builder.release("a")
    builder.call("f", ["b"], [("c", 2 * UNIT, -1)], 10)
    return simulate(builder.build(), "h_LRU", 8 * UNIT, memory="arena", event_log=True)


def test_a_storage_lies_from_its_call_to_its_drop() -> None:
    """By the log: its address and bytes, and the two times."""
    run = three()
    assert run.events is not None and run.storages is not None
    names = run.storages["name"]
    found = {str(names[stay.storage]): stay[:4] for stay in stays(run.events)}
    assert found == {
        "x": (0.0, 40.0, 0, UNIT),
        "a": (0.0, 30.0, UNIT, 2 * UNIT),
        "b": (10.0, 40.0, 3 * UNIT, UNIT),
        "c": (30.0, 40.0, UNIT, 2 * UNIT),
    }


def test_a_dot_has_the_color_of_what_lies_there() -> None:
    """Half of the time over the lower half of the addresses; elsewhere it is white."""
    storages = {"category": np.array(["forward"])}
    dots = image([Stay(0.0, 5.0, 0, 50, 0)], storages, 10.0, 100.0)
    assert dots.shape == (ROWS, COLUMNS, 3)
    blue = to_rgb(CATEGORIES["forward"][1])
    assert dots[ROWS // 4, COLUMNS // 4] == pytest.approx(blue)
    for row, column in ((ROWS // 4, 3 * COLUMNS // 4), (3 * ROWS // 4, COLUMNS // 4)):
        assert dots[row, column] == pytest.approx((1, 1, 1))


def test_what_shares_a_dot_mixes_with_what_is_free() -> None:
    """A storage of a third of a dot is a third of its color."""
    storages = {"category": np.array(["constant"])}
    thin = image([Stay(0.0, 10.0, 0, 1, 0)], storages, 10.0, 3.0 * ROWS)
    gray = np.array(to_rgb(CATEGORIES["constant"][1]))
    assert thin[0, 0] == pytest.approx(gray / 3 + 2 / 3)
    assert thin[1, 0] == pytest.approx((1, 1, 1))


def test_lines_are_the_budget_and_the_static_plan() -> None:
    """4 units are in memory at once, and a plan needs no more; the budget has 8."""
    run = three()
    plan = address_plan(run, time_limit=1.0)
    assert plan == 4 * UNIT
    axes = address_figure(run, plan).axes[0]
    heights = [line.get_ydata()[0] for line in axes.get_lines()]  # type: ignore[index]
    assert heights == [8 * UNIT, 4 * UNIT]


def test_addresses_of_the_run_are_a_plan_as_well() -> None:
    """So the line is never over what the run itself has used."""
    run = simulate("bundled:unet", "Coop", 0.6, memory="arena", event_log=True)
    assert run.reserved_peak_bytes is not None
    assert address_plan(run, time_limit=0.001) <= run.reserved_peak_bytes


def test_without_addresses_there_is_no_map() -> None:
    """The remedy is named."""
    run = simulate("synthetic:chain:4", "h_LRU", event_log=True)
    with pytest.raises(InputError, match="memory counter has no addresses.*--memory arena"):
        address_figure(run)
    with pytest.raises(InputError, match="no event log"):
        address_figure(simulate("synthetic:chain:4", "h_LRU"))
    nothing = simulate("synthetic:chain:4", "h_LRU", 1, memory="arena", event_log=True)
    with pytest.raises(InputError, match="nothing was ever in memory"):
        address_figure(nothing)


def test_a_saved_run_with_addresses_has_the_map_among_its_figures(tmp_path: Path) -> None:
    three().save(tmp_path / "three.run")
    paths = plot(tmp_path / "three.run", plan_bytes=4 * UNIT)
    names = [path.name for path in paths]
    assert names == ["three-memory.png", "three-plan.png", "three-addresses.png"]
