"""A plan as a picture: whose results are in memory when, and the memory that it takes.

Works on the event log of a run, of a plan or of a heuristic, which plans while it runs. However
many calls and steps there are, the picture has a bounded number of points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from ..errors import InputError
from ..opcodes import ACTIONS
from .labels import count_text
from .layout import (
    FULL_WIDTH,
    GAP,
    GRID_COLOR,
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
from .scales import number_axis, round_ticks
from .timelines import (
    call_begins,
    category_entries,
    category_layers,
    draw_budget,
    draw_layers,
    write_head,
)

if TYPE_CHECKING:
    from ..result import RunResult

COMPUTE, RECOMPUTE = ACTIONS.index("compute"), ACTIONS.index("recompute")
PREFETCH = ACTIONS.index("prefetch")

# What a result is at a step: its color, from dark to light in grey too, and what the legend says.
KEPT, AGAIN, DROPPED, BACK, AWAY = range(5)
STATES = (
    ("#0072B2", "in memory since it was computed"),
    ("#E69F00", "in memory, computed again"),
    ("#F6DDE6", "dropped, computed again later"),
    ("#009E73", "in memory, back from the host"),
    ("#C8E9DD", "on the host, back later"),
)

# The picture has at most so many rows and columns; what falls together is averaged.
MOST_ROWS, MOST_COLUMNS = 480, 1100

# Steps at the end, such as an optimizer's, are left out if they are so large a part of all, and if
# what they make is gone after so small a part of all, or so few steps.
LEAST_TAIL, BRIEF, BRIEF_STEPS = 0.1, 0.02, 8

# Inches.
PICTURE_HEIGHT, MEMORY_HEIGHT = 3.2, 1.1


@dataclass(frozen=True)
class Stretches:
    """When each result is in memory, in steps: a step is a call that is computed, or again.

    Attributes
    ----------
    n_steps, n_again : int
        Steps, and those that compute a call again.
    row : ndarray of int
        Of each stretch of a life: the place of its call among those whose results take memory.
    begin, end : ndarray of int
        Its first step, and the step after its last.
    state : ndarray of int
        `KEPT`, `AGAIN`, `DROPPED`, or of what the host held, `BACK` or `AWAY`.
    share : ndarray of float
        Its bytes as a part of all that its call makes.
    n_rows : int
        How many calls there are whose results take memory.
    """

    n_steps: int
    n_again: int
    row: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    state: NDArray[np.int64]
    share: NDArray[np.float64]
    n_rows: int


def plan_figure(run: RunResult) -> Figure:
    """Draw whose results are in memory at each step, and under it the memory.

    Parameters
    ----------
    run : RunResult
        With an event log (`execute(..., event_log=True)`, or `load_run` of a .run file).

    Returns
    -------
    Figure
        A row for each call whose results take memory, in the order of their first computation, from
        the top; a column for each step. Of more than there is room for, a pixel shows the part of
        its rows and columns that is in each state. Many steps at the end that make nothing which
        stays are left out, which is said under the picture.

    Raises
    ------
    InputError
        If the run was made without an event log, or no call in it makes anything.
    """
    every = lives_of(run)
    lives = without_tail(every, run)
    x, layers = _memory(run, lives.n_steps)
    figure = Figure(figsize=(FULL_WIDTH, 1.0))
    entries = (_state_entries(lives), category_entries(layers, run))
    legends = [legend_that_fits(figure, some) for some in entries if some]
    bottom = OUTER + sum(height + GAP for _, height in legends) + GAP + TITLE_LINE + TICK_LINE
    middle = bottom + MEMORY_HEIGHT + 2 * GAP
    figure.set_figheight(middle + PICTURE_HEIGHT + GAP + 2 * TITLE_LINE + OUTER)
    place_legends(figure, legends)
    _draw_lives(add_axes(figure, (WIDE_LEFT, middle, WIDE, PICTURE_HEIGHT)), lives)
    axes = add_axes(figure, (WIDE_LEFT, bottom, WIDE, MEMORY_HEIGHT))
    draw_layers(axes, x, layers, lives.n_steps)
    draw_budget(axes, run, most_ticks=4)
    number_axis(axes.xaxis, round_ticks(0, lives.n_steps, 8))
    write_head(figure, run)
    text = f"step: a call that is computed ({count_text(lives.n_again)} of them again)"
    if left_out := every.n_steps - lives.n_steps:
        text += f"; not shown: {count_text(left_out)} more, which make nothing that stays"
    write(figure, (WIDE_LEFT + WIDE / 2, bottom - TICK_LINE), text, va="top")
    return figure


def lives_of(run: RunResult) -> Stretches:
    """Follow the results of each call through an event log.

    Raises
    ------
    InputError
        As `plan_figure`.
    """
    events, storages = run.logged()
    maker = _makers(run)
    sizes = np.asarray(storages["bytes"], np.float64)
    calls = np.unique(maker[(maker >= 0) & (sizes > 0)])
    if calls.size == 0:
        raise InputError("run: no call in it makes anything that takes memory")
    made = np.bincount(maker[maker >= 0], sizes[maker >= 0])
    storage, begin, end, state = _stretches(run)
    is_result = (maker[storage] >= 0) & (sizes[storage] > 0)
    storage, begin, end, state = (part[is_result] for part in (storage, begin, end, state))
    steps = np.asarray(events["action"])[call_begins(events)]
    return Stretches(
        n_steps=len(steps),
        n_again=int((steps == RECOMPUTE).sum()),
        row=np.searchsorted(calls, maker[storage]),
        begin=begin,
        end=end,
        state=state,
        share=sizes[storage] / made[maker[storage]],
        n_rows=len(calls),
    )


def without_tail(lives: Stretches, run: RunResult) -> Stretches:
    """Leave out the steps at the end that make nothing which stays, if they are many.

    Notes
    -----
    Nothing is computed again in them, nothing of the forward pass goes, and memory is not at its
    peak.
    """
    assert run.events is not None and run.storages is not None
    brief = max(BRIEF * lives.n_steps, BRIEF_STEPS)
    stays = (lives.end - lives.begin > brief) | (lives.state != KEPT)
    step = np.cumsum(call_begins(run.events)) - 1
    forward = category_layers(run.events, run.storages)["forward"]
    changes = step[np.diff(forward, prepend=0.0) != 0]
    last = max(lives.begin[stays].max(initial=0), changes.max(initial=0)) + 1
    memory = np.asarray(run.events["memory_after_bytes"])
    peak_is_later = memory[step < last].max(initial=0) < memory.max()
    if lives.n_steps - last < LEAST_TAIL * lives.n_steps or peak_is_later:
        return lives
    kept = lives.begin < last
    parts = {name: getattr(lives, name)[kept] for name in ("row", "begin", "state", "share")}
    end = np.minimum(lives.end[kept], last)
    n_rows = int(parts["row"].max()) + 1  # in the order of their first step
    return replace(lives, n_steps=last, end=end, n_rows=n_rows, **parts)


def picture(lives: Stretches) -> NDArray[np.float64]:
    """Paint lives: an array of rows, columns and colors, white where nothing is.

    Notes
    -----
    A pixel that only some lives cover has a lighter color, yet never so light that it is not seen:
    the root of the part that is covered.
    """
    covered = coverage(lives)
    total = covered.sum(axis=0)
    strength = covered / np.sqrt(np.maximum(total, np.finfo(float).tiny))
    ink = 1 - np.array([to_rgb(color) for color, _ in STATES])
    image: NDArray[np.float64] = np.clip(1 - np.einsum("src,sk->rck", strength, ink), 0, 1)
    return image


def coverage(lives: Stretches) -> NDArray[np.float64]:
    """Give the part of each pixel that lives in each state cover: states, rows, columns."""
    rows, columns = min(lives.n_rows, MOST_ROWS), min(lives.n_steps, MOST_COLUMNS)
    row = lives.row * rows // lives.n_rows
    share = lives.share / np.bincount(np.arange(lives.n_rows) * rows // lives.n_rows)[row]
    change = np.zeros((len(STATES), rows, columns + 2))
    for steps, sign in ((lives.begin, 1.0), (lives.end, -1.0)):
        place = steps * columns / lives.n_steps
        column = place.astype(np.int64)
        part = place - column  # of the column that has passed already
        np.add.at(change, (lives.state, row, column), sign * share * (1 - part))
        np.add.at(change, (lives.state, row, column + 1), sign * share * part)
    return np.clip(np.cumsum(change, axis=2)[:, :, :columns], 0, 1)


def _memory(
    run: RunResult, n_steps: int
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Give the bytes of each category where a step, or what a column holds, takes most."""
    assert run.events is not None and run.storages is not None
    layers = category_layers(run.events, run.storages)
    steps = np.maximum(np.cumsum(call_begins(run.events)) - 1, 0)
    columns = min(n_steps, MOST_COLUMNS)
    column = steps[steps < n_steps] * columns // n_steps
    memory = np.asarray(run.events["memory_after_bytes"])[: len(column)]
    by_memory = np.lexsort((memory, column))
    last = np.flatnonzero(np.diff(column[by_memory], append=columns))
    most = by_memory[last]
    x = column[most] * (n_steps / columns)
    return x, {category: layer[most] for category, layer in layers.items()}


def _makers(run: RunResult) -> NDArray[np.int64]:
    """Give each storage the step of the call that made it first, which names the call; or -1."""
    assert run.events is not None and run.storages is not None
    step = np.cumsum(call_begins(run.events)) - 1
    is_constant = np.asarray(run.storages["category"], dtype=object) == "constant"
    storages = np.asarray(run.events["storage"])
    is_made = np.isin(run.events["action"], [COMPUTE, RECOMPUTE]) & ~is_constant[storages]
    maker = np.full(len(is_constant), -1, np.int64)
    made, first = np.unique(storages[is_made], return_index=True)
    maker[made] = step[is_made][first]
    return maker


def _stretches(run: RunResult) -> tuple[NDArray[np.int64], ...]:
    """Cut lives into stretches: storage, first step, step after the last, state."""
    assert run.events is not None and run.storages is not None
    begins = call_begins(run.events)
    step = np.maximum(np.cumsum(begins) - 1, 0)
    last = int(begins.sum())
    storages = np.asarray(run.events["storage"])
    change = np.sign(np.diff(np.asarray(run.events["memory_after_bytes"]), prepend=0))
    is_back = np.asarray(run.events["action"]) == PREFETCH
    count = len(run.storages["bytes"])
    copies, since = [0] * count, [-1] * count  # step since which it is in memory, or is not
    stays = [KEPT] * count  # the state of the last stay in memory
    found: list[tuple[int, int, int, int]] = []
    for s, sign, now, back in zip(
        *map(np.ndarray.tolist, (storages, change, step, is_back)), strict=True
    ):
        copies[s] += sign
        if sign > 0 and copies[s] == 1:
            if since[s] >= 0:
                found.append((s, since[s], now, AWAY if back else DROPPED))
                stays[s] = BACK if back else AGAIN
            since[s] = now
        elif sign < 0 and copies[s] == 0:
            found.append((s, since[s], now + 1, stays[s]))
            since[s] = now + 1
    found += [(s, since[s], last, stays[s]) for s in range(count) if copies[s] > 0]
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return tuple(columns)


def _draw_lives(axes: Axes, lives: Stretches) -> None:
    """Show the picture with its axis of calls."""
    extent = (0, lives.n_steps, lives.n_rows, 0)
    axes.imshow(picture(lives), aspect="auto", interpolation="nearest", extent=extent)
    axes.xaxis.set_major_locator(NullLocator())
    number_axis(axes.yaxis, round_ticks(0, lives.n_rows, 6))
    label_wide(axes, "call whose results these are")


def _state_entries(lives: Stretches) -> list[Artist]:
    """Legend entries of the states that occur."""
    options: dict[str, Any] = {"edgecolor": GRID_COLOR, "lw": 0.5}
    return [
        Patch(facecolor=color, label=label, **options)
        for state, (color, label) in enumerate(STATES)
        if (lives.state == state).any()
    ]
