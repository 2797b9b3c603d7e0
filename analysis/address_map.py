"""The picture of memory with addresses: who lies where, when, and what is free between them.

Reads the event log and the storage table of a result; simulates nothing. Drawn as an image, so that
a long run takes no more than a short one; where several storages share a dot, their colors mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from ..errors import InputError
from .labels import bytes_text
from .layout import (
    FULL_WIDTH,
    GAP,
    GRID_COLOR,
    NOTE_LINE,
    OUTER,
    TICK_LINE,
    TITLE_LINE,
    WIDE,
    WIDE_LEFT,
    add_axes,
    label_wide,
    legend_that_fits,
    place_legends,
)
from .scales import bytes_axis
from .stays import Stay, stays
from .timelines import (
    CATEGORIES,
    FAR_BUDGET,
    STRIPS,
    VISIBLE,
    draw_strip,
    memory_log,
    starts_of,
    time_axis,
    write_head,
)

if TYPE_CHECKING:
    from ..result import RunResult

# Dots of the image, each the mean of so many by so many.
COLUMNS, ROWS, FINENESS = 1240, 560, 3
HOLE_COLOR = "#FFFFFF"
PLAN_COLOR = "#009E73"

# Inches.
PLOT_HEIGHT, STRIP_HEIGHT = 2.8, 0.22


def address_figure(run: RunResult, plan_bytes: int | None = None) -> Figure:
    """Draw addresses against time: storages by category, holes, the budget, the static plan.

    Parameters
    ----------
    run : RunResult
        With an event log, and from a memory model with addresses.
    plan_bytes : int, optional
        The height of a static address plan for what the run had in memory: a line.

    Returns
    -------
    Figure
        White is free. Strips under the plot count evictions and recomputed calls. Workspaces are
        not in an event log, and look free.

    Raises
    ------
    InputError
        If there is no event log, nothing was ever in memory, or there are no addresses in it.
    """
    events, storages = memory_log(run)
    found = list(stays(events))
    if not found:
        raise InputError(
            f"run: memory {run.memory} has no addresses; run again with --memory arena"
        )
    end = float(np.max(events["end_ns"])) or 1.0
    high = _height(found, run, plan_bytes)
    figure = Figure(figsize=(FULL_WIDTH, 1.0))
    legend, legend_height = legend_that_fits(figure, _entries(found, run, plan_bytes, high))
    bottom = OUTER + legend_height + 2 * GAP + TITLE_LINE + TICK_LINE
    plot = bottom + len(STRIPS) * (STRIP_HEIGHT + GAP)
    figure.set_figheight(plot + PLOT_HEIGHT + GAP + NOTE_LINE + TITLE_LINE + OUTER)
    place_legends(figure, [(legend, legend_height)])

    axes = add_axes(figure, (WIDE_LEFT, plot, WIDE, PLOT_HEIGHT))
    _draw_map(axes, image(found, storages, end, high), end, high)
    _draw_lines(axes, run, plan_bytes, high)
    for place, action in enumerate(STRIPS):
        base = plot - (place + 1) * (STRIP_HEIGHT + GAP)
        strip = add_axes(figure, (WIDE_LEFT, base, WIDE, STRIP_HEIGHT))
        draw_strip(strip, starts_of(events, action), action, end)
    time_axis(figure, strip, end, bottom)
    write_head(figure, run)
    return figure


def image(
    found: list[Stay], storages: Mapping[str, Any], end: float, high: float
) -> NDArray[np.float64]:
    """Color the dots of addresses against time, the lowest address first.

    Returns
    -------
    ndarray of float64, shape (ROWS, COLUMNS, 3)
        Parts of red, green and blue.
    """
    codes = {category: 1 + i for i, category in enumerate(CATEGORIES)}
    palette = np.array([to_rgb(HOLE_COLOR), *(to_rgb(color) for _, color in CATEGORIES.values())])
    code_of = [codes[str(category)] for category in storages["category"]]
    fine = np.zeros((ROWS * FINENESS, COLUMNS * FINENESS), np.uint8)
    for stay in found:
        x = _dots(stay.start, stay.end, COLUMNS * FINENESS / end)
        y = _dots(stay.address, stay.address + stay.size, ROWS * FINENESS / high)
        fine[y, x] = code_of[stay.storage]
    blocks = fine.reshape(ROWS, FINENESS, COLUMNS, FINENESS)
    shares = [(blocks == code).mean(axis=(1, 3)) for code in range(len(palette))]
    return np.asarray(np.tensordot(np.stack(shares, axis=-1), palette, axes=1))


def _dots(low: float, high: float, scale: float) -> slice:
    """Give the dots whose middle lies in an interval."""
    return slice(round(low * scale), round(high * scale))


def _height(found: list[Stay], run: RunResult, plan_bytes: int | None) -> float:
    """Give the highest address of the picture."""
    used = float(max(stay.address + stay.size for stay in found))
    budget = run.budget_bytes or 0
    high = max(used, budget if budget <= FAR_BUDGET * used else 0, plan_bytes or 0)
    return 1.03 * high


def _draw_map(axes: Axes, dots: NDArray[np.float64], end: float, high: float) -> None:
    """Show the image over the time and the addresses that it is of."""
    axes.imshow(
        dots,
        origin="lower",
        aspect="auto",
        extent=(0.0, end, 0.0, high),
        interpolation="antialiased",
        zorder=1,
    )
    axes.xaxis.set_major_locator(NullLocator())
    label_wide(axes, f"address ({bytes_axis(axes.yaxis, high)})")


def _draw_lines(axes: Axes, run: RunResult, plan_bytes: int | None, high: float) -> None:
    """Draw the budget and the static plan."""
    if run.budget_bytes is not None and run.budget_bytes <= high:
        axes.axhline(run.budget_bytes, color="black", linewidth=1.0, dashes=(5, 2), zorder=4)
    if plan_bytes is not None:
        axes.axhline(plan_bytes, color=PLAN_COLOR, linewidth=1.2, dashes=(1.5, 1.5), zorder=5)
    axes.set_ylim(0, high)


def _entries(
    found: list[Stay], run: RunResult, plan_bytes: int | None, high: float
) -> list[Artist]:
    """Legend entries: categories that can be seen, holes, and lines."""
    assert run.storages is not None
    shares = dict.fromkeys(CATEGORIES, 0)
    for stay in found:
        shares[str(run.storages["category"][stay.storage])] += stay.size
    entries: list[Artist] = [
        Patch(facecolor=color, edgecolor=GRID_COLOR, lw=0.5, label=label)
        for category, (label, color) in CATEGORIES.items()
        if shares[category] > VISIBLE * high
    ]
    entries.append(Patch(facecolor=HOLE_COLOR, edgecolor="#999999", lw=0.5, label="free"))
    if run.budget_bytes is not None:
        label = f"budget {bytes_text(float(run.budget_bytes))}"
        entries.append(Line2D([], [], color="black", lw=1.0, dashes=(5, 2), label=label))
    if plan_bytes is not None:
        label = f"static address plan {bytes_text(float(plan_bytes))}"
        entries.append(Line2D([], [], color=PLAN_COLOR, lw=1.2, dashes=(1.5, 1.5), label=label))
    return entries
