"""The picture of a single run: memory over time by category, with what was dropped and recomputed.

Reads the event log and the storage table of a result; simulates nothing. However many events there
are, the picture has a bounded number of points and keeps every peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from ..errors import InputError
from ..opcodes import ACTIONS
from ..result import named
from .labels import NOTE_SIZE, TITLE_SIZE, bytes_text, count_text, wrap
from .layout import (
    FULL_WIDTH,
    GAP,
    GRID_COLOR,
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
from .scales import bytes_axis, number_axis, round_ticks
from .style import STATUS_MARKS

if TYPE_CHECKING:
    from ..result import Columns, RunResult

# From the bottom of the stack to its top; each lighter than the one below, in grey too.
CATEGORIES = {
    "constant": ("constants", "#3B3B3B"),
    "output": ("outputs", "#D55E00"),
    "forward": ("made in the forward pass", "#56B4E9"),
    "backward": ("made in the backward pass", "#F3DFA2"),
}
STRIPS = {"evict": "evicted", "recompute": "recomputed"}
# Likewise, where there are transfers.
MOVING = {"offload": "offloaded", "save": "copied ahead", "prefetch": "prefetched"}
STRIP_SIZE = 6.0

# Parts of the time axis: each keeps its extremes of memory, and its number of events.
MEMORY_BINS, EVENT_BINS = 700, 240
EVENTS_ONE_BY_ONE = 300

# Inches.
PLOT_HEIGHT, STRIP_HEIGHT = 2.2, 0.22

# A category thinner than this part of the picture's height is not in its legend.
VISIBLE = 0.002

# A budget higher than this many times what was used is said, not drawn.
FAR_BUDGET = 2.5

TIME_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))


def memory_figure(run: RunResult) -> Figure:
    """Draw memory over time by category, the budget, evictions and rematerializations.

    Parameters
    ----------
    run : RunResult
        With an event log (`simulate(..., event_log=True)`, or `load_run` of a .run file).

    Returns
    -------
    Figure
        Memory changes when a call starts, for its results, and when a storage goes. Strips under
        the plot count evictions for want of memory and recomputed calls; releases are not counted.

    Raises
    ------
    InputError
        If the run was made without an event log, or nothing was ever in memory.
    """
    events, storages = memory_log(run)
    times, layers = memory_by_category(events, storages)
    figure = Figure(figsize=(FULL_WIDTH, 1.0))
    legend, legend_height = legend_that_fits(figure, category_entries(layers, run))
    moving = [action for action in MOVING if len(starts_of(events, action))]
    shown = [*STRIPS, *moving]
    strips = len(shown) * (STRIP_HEIGHT + GAP)
    bottom = OUTER + legend_height + 2 * GAP + TITLE_LINE + TICK_LINE
    plot = bottom + strips
    figure.set_figheight(plot + PLOT_HEIGHT + GAP + NOTE_LINE + TITLE_LINE + OUTER)
    place_legends(figure, [(legend, legend_height)])

    end = float(np.max(events["end_ns"])) or 1.0
    axes = add_axes(figure, (WIDE_LEFT, plot, WIDE, PLOT_HEIGHT))
    draw_layers(axes, times, layers, end)
    draw_budget(axes, run)
    axes.xaxis.set_major_locator(NullLocator())
    for place, action in enumerate(shown):
        base = plot - (place + 1) * (STRIP_HEIGHT + GAP)
        strip = add_axes(figure, (WIDE_LEFT, base, WIDE, STRIP_HEIGHT))
        draw_strip(strip, starts_of(events, action), action, end)
    time_axis(figure, strip, end, bottom)
    write_head(figure, run)
    return figure


def memory_log(run: RunResult, name: str = "") -> tuple[Columns, Columns]:
    """Give the event log and the storage table of a run in which something was in memory.

    Parameters
    ----------
    run : RunResult
    name : str, optional
        What to call it in a message.

    Raises
    ------
    InputError
        If it has no event log, or nothing ever was.
    """
    events, storages = run.logged(name)
    if not len(events["start_ns"]):
        raise InputError(f"{name or run.file or 'run'}: nothing was ever in memory in it")
    return events, storages


def time_axis(figure: Figure, axes: Axes, end: float, bottom: float) -> None:
    """Scale the time axis of the lowest panel, and name its unit below ``bottom`` (inches)."""
    unit, scale = largest_unit(end, TIME_UNITS)
    number_axis(axes.xaxis, round_ticks(0, end / scale, 8), scale)
    write(figure, (WIDE_LEFT + WIDE / 2, bottom - TICK_LINE), f"time ({unit})", va="top")


def bare_strip(axes: Axes, end: float) -> None:
    """Leave out what a strip needs no axes for."""
    axes.set_xlim(0, end)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(NullLocator())
    axes.spines["left"].set_visible(False)


def write_head(figure: Figure, run: RunResult) -> None:
    """Write the trace's name over a picture, and under it what was run."""
    top = figure.get_figheight() - OUTER
    name = wrap(named(run.trace, run.times), FULL_WIDTH - 2 * OUTER, TITLE_SIZE, lines=1)
    write(figure, (FULL_WIDTH / 2, top), name, va="top", size=TITLE_SIZE)
    note = wrap(_note(run), FULL_WIDTH - 2 * OUTER, NOTE_SIZE, lines=1)
    place = (FULL_WIDTH / 2, top - TITLE_LINE)
    write(figure, place, note, va="top", size=NOTE_SIZE, color=NOTE_COLOR)


def memory_by_category(
    events: Mapping[str, Any], storages: Mapping[str, Any]
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Follow the bytes in memory of each category through an event log.

    Parameters
    ----------
    events : mapping of columns
        Needs action, start_ns, end_ns, storage, memory_after_bytes.
    storages : mapping of columns
        Needs category.

    Returns
    -------
    times : ndarray of float64
        Nanoseconds, ascending.
    layers : dict of ndarray of float64
        Category -> bytes from that time on; their sum is `memory_after_bytes`.
    """
    layers = category_layers(events, storages)
    times = moments(events)
    kept = extremes(times, np.asarray(events["memory_after_bytes"], dtype=np.float64))
    return times[kept], {category: layer[kept] for category, layer in layers.items()}


def moments(events: Mapping[str, Any]) -> NDArray[np.float64]:
    """Give when each row of an event log changes memory: at its end if it is an offload or a stall.

    Rows stand in this order.
    """
    is_late = np.isin(events["action"], [ACTIONS.index(name) for name in ("offload", "stall")])
    when = np.where(is_late, events["end_ns"], events["start_ns"])
    return np.asarray(when, dtype=np.float64)


def category_layers(
    events: Mapping[str, Any], storages: Mapping[str, Any]
) -> dict[str, NDArray[np.float64]]:
    """Give the bytes of each category after each row of an event log.

    Notes
    -----
    A row changes memory by the difference to the row before, and the change is that of its storage;
    so nothing here needs to know what each action does.
    """
    after = np.asarray(events["memory_after_bytes"], dtype=np.float64)
    change = np.diff(after, prepend=0.0)
    categories = np.asarray(storages["category"], dtype=object)[np.asarray(events["storage"])]
    return {
        category: np.cumsum(np.where(categories == category, change, 0.0))
        for category in CATEGORIES
    }


def call_begins(events: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Mark the first row of each call that is computed or recomputed; constants are no calls."""
    kinds = [ACTIONS.index("compute"), ACTIONS.index("recompute")]
    calls, starts = np.asarray(events["call"]), np.asarray(events["start_ns"])
    runs: NDArray[np.bool_] = np.isin(events["action"], kinds) & (calls >= 0)
    is_other = (np.diff(calls, prepend=-1) != 0) | (np.diff(starts, prepend=-1) != 0)
    begins: NDArray[np.bool_] = runs & (is_other | ~np.append(False, runs[:-1]))
    return begins


def extremes(times: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Pick the rows that matter: in each part of the time, the highest, lowest and last value."""
    if len(times) <= 3 * MEMORY_BINS:
        return np.arange(len(times))
    parts = np.floor(times / (times[-1] or 1.0) * (MEMORY_BINS - 1)).astype(np.int64)
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    by_value = np.lexsort((values, parts))
    ends = np.append(starts[1:], len(times)) - 1
    return np.unique(np.concatenate([by_value[starts], by_value[ends], ends]))


def draw_layers(
    axes: Axes,
    times: NDArray[np.float64],
    layers: Mapping[str, NDArray[np.float64]],
    end: float,
) -> None:
    """Stack the categories as steps."""
    x = np.append(times, end)
    base = np.zeros(len(x))
    for category, layer in layers.items():
        top = base + np.append(layer, layer[-1])
        if (top > base).any():
            color = CATEGORIES[category][1]
            axes.fill_between(x, base, top, step="post", color=color, linewidth=0)
        base = top
    axes.set_xlim(0, end)
    axes.set_ylim(0, _top(base))


def _top(memory: Any) -> float:
    """Height of the plot over the most memory that was used."""
    return 1.05 * float(np.max(memory)) or 1.0


def draw_budget(axes: Axes, run: RunResult, most_ticks: int = 6) -> None:
    """Draw the budget, unless it is far above, and scale the axis in a binary unit."""
    budget = run.budget_bytes
    high = axes.get_ylim()[1]
    if budget is not None and budget <= FAR_BUDGET * high:
        axes.axhline(budget, color="black", linewidth=1.0, dashes=(5, 2), zorder=4)
        axes.set_ylim(0, max(high, budget * 1.05))
    high = axes.get_ylim()[1]
    label_wide(axes, f"memory ({bytes_axis(axes.yaxis, high, most_ticks)})")


def starts_of(events: Mapping[str, Any], action: str) -> NDArray[np.float64]:
    """When each event of one kind begins; the results of one call are one event."""
    chosen = np.asarray(events["action"]) == ACTIONS.index(action)
    if action == "recompute":
        chosen &= call_begins(events)
    starts: NDArray[np.float64] = np.asarray(events["start_ns"], dtype=np.float64)[chosen]
    return starts


def draw_strip(axes: Axes, starts: NDArray[np.float64], action: str, end: float) -> None:
    """Draw when events of one kind begin, and say how many there are."""
    draw_starts(axes, starts, end)
    often = "once" if len(starts) == 1 else f"{count_text(len(starts))} times"
    label_strip(axes, f"{(STRIPS | MOVING)[action]}\n{often}")


def draw_starts(axes: Axes, starts: NDArray[np.float64], end: float, color: str = "black") -> None:
    """Draw when events begin, or how many do in each part of the time."""
    if len(starts) <= EVENTS_ONE_BY_ONE:
        axes.vlines(starts, 0, 1, color=color, linewidth=0.7)
        axes.set_ylim(0, 1)
    else:
        counts, edges = np.histogram(starts, bins=EVENT_BINS, range=(0.0, end))
        axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=color, linewidth=0)
        axes.set_ylim(0, int(counts.max()))
    bare_strip(axes, end)


def label_strip(axes: Axes, text: str) -> None:
    """Write what a strip shows to its left."""
    place = -GAP / WIDE, 0.5
    beside: dict[str, Any] = {"ha": "right", "va": "center", "size": STRIP_SIZE}
    axes.text(*place, text, transform=axes.transAxes, linespacing=1.0, **beside)


def category_entries(layers: Mapping[str, NDArray[np.float64]], run: RunResult) -> list[Artist]:
    """Legend entries: categories that occur, from the top of the stack, and the budget."""
    entries: list[Artist] = [
        Patch(facecolor=CATEGORIES[category][1], edgecolor=GRID_COLOR, lw=0.5, label=label)
        for category, (label, _) in reversed(CATEGORIES.items())
        if layers[category].max() > VISIBLE * _top(sum(layers.values()))
    ]
    if run.budget_bytes is not None:
        label = f"budget {bytes_text(float(run.budget_bytes))}"
        if run.budget_bytes > FAR_BUDGET * _top(sum(layers.values())):
            label += " (above the picture)"
        entries.append(Line2D([], [], color="black", lw=1.0, dashes=(5, 2), label=label))
    return entries


def _note(run: RunResult) -> str:
    """Say in a line what was run and how it ended."""
    words = [run.method, run.deallocation]
    if run.budget_bytes is None:
        words.append("no budget")
    elif run.unlimited_peak_bytes:
        fraction = run.budget_bytes / run.unlimited_peak_bytes
        words.append(f"budget {fraction:.3g} of the unlimited peak")
    ended = f"slowdown {run.slowdown:.3f}" if run.slowdown else STATUS_MARKS[run.status][1]
    return " · ".join([*words, ended])


def largest_unit(largest: float, units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """Pick the largest unit that is not larger than the value."""
    return next((unit for unit in reversed(units) if largest >= unit[1]), units[0])
