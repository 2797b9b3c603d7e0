"""Pictures of the theory: operations against the size of a net, and what is in memory when.

Takes plain tables and arrays; `residency` makes such an array from the event log of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ..errors import InputError
from .labels import literal
from .layout import FRAME_COLOR, GRID_COLOR, Sheet
from .scales import log_axis
from .style import DASHES, line_styles
from .summaries import line_order
from .tables import require_columns
from .timelines import call_begins

ABSENT, FORWARD, BACKWARD = 0, 1, 2
RESIDENT_COLORS = ("#FFFFFF", "#0072B2", "#E69F00")

if TYPE_CHECKING:
    from ..result import RunResult

# So many sizes of nets have room under the axis.
MOST_SIZES_AS_TICKS = 6

# A raster larger than this is thinned out before it is drawn.
MOST_PIXELS = 2400


def operations_figure(
    table: pd.DataFrame, references: Mapping[str, Callable[[float], float]] | None = None
) -> Figure:
    """Draw operations against the number of nodes, both on logarithmic axes.

    Parameters
    ----------
    table : DataFrame
        Columns n, method, operations; rows without operations (a run that failed) break the line.
    references : mapping, optional
        Label -> operations as a function of n; drawn as thin grey lines.
    """
    require_columns(table, ["n", "method", "operations"])
    if table.empty:
        raise InputError("table: no rows: there is nothing to show")
    styles = line_styles(line_order(table["method"]))
    sizes = np.sort(table["n"].unique()).astype(np.float64)
    lines: list[Line2D] = []
    for name, style in styles.items():
        rows = table[table["method"].eq(name)].sort_values("n")
        data = rows["n"].to_numpy(np.float64), rows["operations"].to_numpy(np.float64)
        lines.append(Line2D(*data, label=literal(name), zorder=3, **style.line_options()))
    for place, (label, operations) in enumerate((references or {}).items()):
        look: dict[str, Any] = {"linewidth": 0.9, "dashes": DASHES[1 + place % (len(DASHES) - 1)]}
        expected = [operations(float(size)) for size in sizes]
        lines.append(
            Line2D(sizes, expected, label=literal(label), color=FRAME_COLOR, zorder=2, **look)
        )
    figure, panels = Sheet(
        [("", "")], [list[Artist](lines)], "nodes of the net", "operations"
    ).draw()
    axes = panels[0].axes
    for line in lines:
        axes.add_line(line)
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in lines])
    ticks = sizes.tolist() if len(sizes) <= MOST_SIZES_AS_TICKS else []
    log_axis(axes.xaxis, sizes, ticks)
    log_axis(axes.yaxis, values[~np.isnan(values)])
    axes.grid(color=GRID_COLOR, linewidth=0.5)
    return figure


def residency_figure(rasters: Mapping[str, NDArray[Any]]) -> Figure:
    """Draw what is in memory when: a panel per run, a row of pixels per value.

    Parameters
    ----------
    rasters : mapping
        Title -> integer array, shape (values, operations): `ABSENT`, `FORWARD` or `BACKWARD`,
        as `residency` returns it.
    """
    if not rasters:
        raise InputError("rasters: none: there is nothing to show")
    legend: list[Artist] = [
        Patch(facecolor=RESIDENT_COLORS[FORWARD], label="forward value in memory"),
        Patch(facecolor=RESIDENT_COLORS[BACKWARD], label="gradient in memory"),
    ]
    titles = [
        (title, f"{raster.shape[1]} operations, at most {int((raster > 0).sum(0).max())} in memory")
        for title, raster in rasters.items()
    ]
    figure, panels = Sheet(titles, [legend], "operation", "value, in the order of creation").draw()
    for panel, raster in zip(panels, rasters.values(), strict=True):
        values, operations = raster.shape
        steps = [max(1, -(-size // MOST_PIXELS)) for size in raster.shape]
        panel.axes.imshow(
            raster[:: steps[0], :: steps[1]],
            cmap=ListedColormap(RESIDENT_COLORS),
            vmin=ABSENT,
            vmax=BACKWARD,
            aspect="auto",
            interpolation="nearest",
            origin="lower",
            extent=(0, operations, 0, values),
        )
    return figure


def residency(run: RunResult) -> NDArray[np.int8]:
    """Follow what is in memory after each operation of a run.

    Parameters
    ----------
    run : RunResult
        With an event log.

    Returns
    -------
    ndarray of int8, shape (storages, operations)
        `ABSENT`, `FORWARD` or, for storages made in the backward pass, `BACKWARD`, while each
        computed or recomputed call runs. Rows of storages, constants included, as in the run.

    Raises
    ------
    InputError
        If the run has no event log.
    """
    events, table = run.logged()
    begins = call_begins(events)
    operation = np.cumsum(begins) - 1
    storages = np.asarray(events["storage"])
    change = np.diff(np.asarray(events["memory_after_bytes"]), prepend=0)
    categories = np.asarray(table["category"], dtype=object)
    value = np.where(categories == "backward", BACKWARD, FORWARD).astype(np.int8)
    raster = np.zeros((len(categories), int(begins.sum())), dtype=np.int8)
    copies = np.zeros(len(categories), dtype=np.int64)  # two while a result is computed again
    for s, delta, now in zip(storages.tolist(), change.tolist(), operation.tolist(), strict=True):
        if delta > 0:
            copies[s] += 1
            raster[s, max(now, 0) :] = value[s]
        elif delta < 0:
            copies[s] -= 1
            raster[s, now + 1 :] = value[s] if copies[s] else ABSENT
    return raster
