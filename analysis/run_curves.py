"""The picture of several runs on one axis: their memory over time, and when each recomputes.

Reads event logs; simulates nothing. However long the logs, the picture has a bounded number of
points and keeps every peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ..errors import InputError
from ..result import named
from .labels import NOTE_SIZE, TITLE_SIZE, bytes_text, count_text, literal, wrap
from .layout import (
    FULL_WIDTH,
    GAP,
    NOTE_COLOR,
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
    write,
)
from .scales import bytes_axis
from .style import COLORS, DASHES, STATUS_MARKS
from .timelines import (
    FAR_BUDGET,
    draw_starts,
    extremes,
    label_strip,
    memory_log,
    moments,
    starts_of,
    time_axis,
)

if TYPE_CHECKING:
    from ..result import RunResult

# Inches.
PLOT_HEIGHT, STRIP_HEIGHT = 2.3, 0.15
LABEL_WIDTH = 5.0
MOST_STRIPS = 8


def compared_runs_figure(runs: Mapping[str, RunResult], names: Sequence[str]) -> Figure:
    """Draw the memory of several runs of one trace over time, and when they recompute.

    Parameters
    ----------
    runs : mapping of str to RunResult
        A letter for each run, and the run with its event log. Up to eight have a strip of
        recomputed calls under the plot.
    names : sequence of str
        What the legend calls the runs, behind their letters.

    Returns
    -------
    Figure
        A line ends where its run does. Budgets are dashed, one line for equal ones.

    Raises
    ------
    InputError
        If there is no run, or one was made without an event log, or without anything in memory.
    """
    if not runs:
        raise InputError("runs: none to draw")
    for name, run in runs.items():
        memory_log(run, f"run {name}")
    figure = Figure(figsize=(FULL_WIDTH, 1.0))
    legend, legend_height = legend_that_fits(figure, _entries(runs, names))
    strips = list(runs.items())[:MOST_STRIPS]
    bottom = OUTER + legend_height + 2 * GAP + TITLE_LINE + TICK_LINE
    plot = bottom + len(strips) * (STRIP_HEIGHT + GAP)
    figure.set_figheight(plot + PLOT_HEIGHT + GAP + NOTE_LINE + TITLE_LINE + OUTER)
    place_legends(figure, [(legend, legend_height)])
    end = max(float(np.max(_events(run)["end_ns"])) for run in runs.values()) or 1.0
    axes = add_axes(figure, (WIDE_LEFT, plot, WIDE, PLOT_HEIGHT))
    axes.xaxis.set_major_locator(NullLocator())
    _draw_curves(axes, runs, end)
    for place, (letter, run) in enumerate(strips):
        base = plot - (place + 1) * (STRIP_HEIGHT + GAP)
        strip = add_axes(figure, (WIDE_LEFT, base, WIDE, STRIP_HEIGHT))
        starts = starts_of(_events(run), "recompute")
        draw_starts(strip, starts, end, COLORS[place % len(COLORS)])
        label_strip(strip, f"{letter}: {count_text(len(starts))} again")
    time_axis(figure, strip, end, bottom)
    _write_texts(figure, next(iter(runs.values())))
    return figure


def _events(run: RunResult) -> dict[str, Any]:
    assert run.events is not None
    return run.events


def _line(place: int) -> dict[str, Any]:
    """Give the look of a run's line; after eight colors the dashes change."""
    dash = DASHES[place // len(COLORS) % len(DASHES)]
    style: Any = (0, dash) if dash else "-"
    return {"color": COLORS[place % len(COLORS)], "linestyle": style, "linewidth": 1.0}


def _entries(runs: Mapping[str, RunResult], names: Sequence[str]) -> list[Artist]:
    """Legend entries: each run, how it ended if not ok, and the peak."""
    entries: list[Artist] = []
    for place, ((letter, run), whole) in enumerate(zip(runs.items(), names, strict=True)):
        name = wrap(f"{letter}: {whole}", LABEL_WIDTH, TITLE_SIZE, lines=1)
        ended = f"slowdown {run.slowdown:.3f}" if run.slowdown else STATUS_MARKS[run.status][1]
        label = f"{name}, {ended}, peak {bytes_text(float(run.peak_bytes))}"
        entries.append(Line2D([], [], label=literal(label), **_line(place)))
    return entries


def _draw_curves(axes: Axes, runs: Mapping[str, RunResult], end: float) -> None:
    """Draw each run's memory as steps, and the budgets that are not far above."""
    highest = max(float(np.max(_events(run)["memory_after_bytes"])) for run in runs.values()) or 1.0
    budgets = {run.budget_bytes for run in runs.values() if run.budget_bytes is not None}
    shown = [float(budget) for budget in budgets if budget <= FAR_BUDGET * highest]
    for place, run in enumerate(runs.values()):
        events = _events(run)
        times = moments(events)
        memory = np.asarray(events["memory_after_bytes"], np.float64)
        kept = extremes(times, memory)
        x = np.append(times[kept], float(np.max(events["end_ns"])))
        y = np.append(memory[kept], memory[-1])
        axes.plot(x, y, drawstyle="steps-post", zorder=3 - 0.01 * place, **_line(place))
    for budget in shown:
        axes.axhline(budget, color="black", linewidth=0.8, dashes=(5, 2), zorder=4)
    top = 1.05 * max([highest, *shown])
    axes.set_xlim(0, end)
    axes.set_ylim(0, top)
    label_wide(axes, f"memory ({bytes_axis(axes.yaxis, top)})")


def _write_texts(figure: Figure, run: RunResult) -> None:
    """Write the trace's name over the picture, and what is dashed."""
    top = figure.get_figheight() - OUTER
    width = FULL_WIDTH - 2 * OUTER
    name = wrap(named(run.trace, run.times), width, TITLE_SIZE, lines=1)
    write(figure, (FULL_WIDTH / 2, top), name, va="top", size=TITLE_SIZE)
    note = "strips: when calls are computed again; dashed: budgets"
    place = (FULL_WIDTH / 2, top - TITLE_LINE)
    write(figure, place, note, va="top", size=NOTE_SIZE, color=NOTE_COLOR)
