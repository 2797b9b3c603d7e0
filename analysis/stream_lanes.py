"""The picture of a run that moves data: what each stream does when, and memory under it.

Reads the event log and the storage table of a result; simulates nothing. However many events there
are, the picture has a bounded number of points: where they are narrower than those, a lane shows
which part of the time is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ..errors import InputError
from ..opcodes import ACTIONS
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
    legend_that_fits,
    place_legends,
)
from .timelines import (
    bare_strip,
    call_begins,
    category_entries,
    draw_budget,
    draw_layers,
    extremes,
    label_strip,
    memory_by_category,
    memory_log,
    moments,
    time_axis,
    write_head,
)

if TYPE_CHECKING:
    from ..result import RunResult

    Float = NDArray[np.float64]

# What lanes show: label, color. They differ in grey too, from those of a lane.
KINDS = {
    "compute": ("computed", "#8C8C8C"),
    "recompute": ("computed again", "#882255"),
    "stall": ("waiting", "#E69F00"),
    "offload": ("offloaded", "#0072B2"),
    "save": ("copied ahead", "#CC79A7"),
    "prefetch": ("prefetched", "#009E73"),
}
LANES = {
    "compute": ("compute", "recompute", "stall"),
    "to the host": ("offload", "save"),
    "from the host": ("prefetch",),
}
HOST_COLOR = "#BBBBBB"

# Parts of the time axis.
BINS = 1000

# Inches.
PLOT_HEIGHT, LANE_HEIGHT = 1.9, 0.26


def lanes_figure(run: RunResult) -> Figure:
    """Draw what each stream does over time, what is on the host, and memory by category.

    Parameters
    ----------
    run : RunResult
        With an event log in which something is offloaded.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the run was made without an event log, or moved no data, or nothing was ever in memory.
    """
    events, storages = memory_log(run)
    if not moves_data(run):
        raise InputError("run: it moved no data: there are no lanes to show (memory shows the run)")
    times, layers = memory_by_category(events, storages)
    figure = Figure(figsize=(FULL_WIDTH, 1.0))
    legends = [
        legend_that_fits(figure, entries)
        for entries in (_entries(events), category_entries(layers, run))
    ]
    bottom = OUTER + sum(height + GAP for _, height in legends) + GAP + TITLE_LINE + TICK_LINE
    lanes = bottom + PLOT_HEIGHT + GAP
    top = lanes + (1 + len(LANES)) * (LANE_HEIGHT + GAP)
    figure.set_figheight(top + NOTE_LINE + TITLE_LINE + OUTER)
    place_legends(figure, legends)

    end = float(np.max(events["end_ns"])) or 1.0
    for place, (name, kinds) in enumerate(LANES.items()):
        base = top - (place + 1) * (LANE_HEIGHT + GAP)
        _draw_lane(add_axes(figure, (WIDE_LEFT, base, WIDE, LANE_HEIGHT)), events, kinds, end)
        label_strip(figure.axes[-1], _lane_label(name, run))
    _draw_host(add_axes(figure, (WIDE_LEFT, lanes, WIDE, LANE_HEIGHT)), events, end)
    label_strip(figure.axes[-1], f"on the host\n{bytes_text(float(run.host_peak_bytes or 0))}")
    axes = add_axes(figure, (WIDE_LEFT, bottom, WIDE, PLOT_HEIGHT))
    draw_layers(axes, times, layers, end)
    draw_budget(axes, run)
    time_axis(figure, axes, end, bottom)
    write_head(figure, run)
    return figure


def moves_data(run: RunResult) -> bool:
    """Say whether something is offloaded in the event log of a run."""
    return run.events is not None and any(
        _of_kind(run.events, kind).any() for kind in LANES["to the host"]
    )


def busy_shares(events: Mapping[str, Any], kind: str, end: float, bins: int = BINS) -> Float:
    """Give which part of each part of the time is taken by events of one kind.

    Parameters
    ----------
    events : mapping of columns
        Needs action, call, start_ns, end_ns.
    kind : str
        One of `KINDS`; events of one kind do not overlap.
    end : float
        Of the time.
    bins : int, optional
        Into how many equal parts it is cut.
    """
    chosen = _of_kind(events, kind)
    spans = np.sort(
        np.stack([np.asarray(events[name])[chosen] for name in ("start_ns", "end_ns")], axis=1),
        axis=0,
    ).astype(np.float64)
    taken = np.cumsum(spans[:, 1] - spans[:, 0])
    edges = np.linspace(0.0, end, bins + 1)
    if not len(spans):
        return np.zeros(bins)
    until = np.stack([np.append(0.0, taken[:-1]), taken], axis=1)
    shares: Float = np.diff(np.interp(edges, spans.ravel(), until.ravel())) / (end / bins)
    return shares


def _of_kind(events: Mapping[str, Any], kind: str) -> NDArray[np.bool_]:
    """Mark one row for each event of a kind."""
    chosen: NDArray[np.bool_] = np.asarray(events["action"]) == ACTIONS.index(kind)
    return chosen & call_begins(events) if kind in ("compute", "recompute") else chosen


def _lane_label(name: str, run: RunResult) -> str:
    """Say what a lane shows, and how much was moved there."""
    moved = {"to the host": run.offloaded_bytes, "from the host": run.prefetched_bytes}
    return f"{name}\n{bytes_text(float(moved[name] or 0))}" if name in moved else name


def _draw_lane(axes: Axes, events: Mapping[str, Any], kinds: tuple[str, ...], end: float) -> None:
    """Draw what one stream does."""
    edges = np.linspace(0.0, end, BINS + 1)
    base = np.zeros(BINS)
    for kind in kinds:
        top = base + busy_shares(events, kind, end)
        if (top > base).any():
            _fill(axes, edges, base, top, KINDS[kind][1])
        base = top
    axes.set_ylim(0, 1)
    bare_strip(axes, end)


def _draw_host(axes: Axes, events: Mapping[str, Any], end: float) -> None:
    """Draw the bytes on the host, as a part of the most that were there."""
    times, there = moments(events), np.asarray(events["host_after_bytes"], dtype=np.float64)
    kept = extremes(times, there)
    x = np.append(times[kept], end)
    _fill(axes, x, np.zeros(len(kept)), there[kept] / (float(there.max()) or 1.0), HOST_COLOR)
    axes.set_ylim(0, 1)
    bare_strip(axes, end)


def _fill(axes: Axes, x: Float, base: Float, top: Float, color: str) -> None:
    """Fill between steps; the last one reaches to the last of ``x``."""
    base, top = (np.append(values, values[-1]) for values in (base, top))
    axes.fill_between(x, base, top, step="post", color=color, linewidth=0)


def _entries(events: Mapping[str, Any]) -> list[Artist]:
    """Legend entries of what lanes show, of kinds that occur."""
    return [
        Patch(facecolor=color, edgecolor=GRID_COLOR, lw=0.5, label=label)
        for kind, (label, color) in KINDS.items()
        if _of_kind(events, kind).any()
    ]
