"""Where things stand on a figure: panels in a grid, titles over them, legends under them.

All places are computed in inches before anything is drawn, so that no label can run into another,
however many panels, lines and long names there are. Knows nothing of what the panels show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from .labels import (
    LABEL_SIZE,
    LEGEND_SIZE,
    NOTE_SIZE,
    TICK_SIZE,
    TITLE_SIZE,
    literal,
    text_width,
    wrap_all,
)

# Inches.
FULL_WIDTH = 6.9
WIDTHS = {1: 3.5, 2: 5.0}
PLOT_HEIGHTS = {1: 2.0, 2: 1.75}
LEFT, BETWEEN, RIGHT, OUTER, GAP = 0.62, 0.42, 0.16, 0.06, 0.07
WIDE_LEFT, WIDE_RIGHT, WIDE_LABEL = 0.72, 0.15, 0.55  # beside a plot that is alone in its row
WIDE = FULL_WIDTH - WIDE_LEFT - WIDE_RIGHT
TITLE_LINE, NOTE_LINE, TICK_LINE = 0.135, 0.115, 0.16
HANDLE, DESCENT = 0.3, 0.03
RAIL_ROW, DENSE_RAIL_ROW = 0.08, 0.066

NOTE_COLOR, FRAME_COLOR, GRID_COLOR = "#555555", "#999999", "#E3E3E3"


@dataclass(frozen=True)
class Panel:
    """The axes of one panel: the plot, and the rail over it where failures stand, if any."""

    axes: Axes
    rail: Axes | None
    width: float


@dataclass(frozen=True)
class Sheet:
    """What a figure is to hold.

    Parameters
    ----------
    titles : sequence of (str, str)
        Name and note of each panel; names are wrapped, notes are one short line.
    legends : sequence of list of Artist
        Entries of the legends, one legend under the other; empty ones are left out.
    x_label, y_label : str
        Shared by all panels.
    columns : int, optional
        Panels side by side; 0 lets their number decide.
    rail_rows : int, optional
        Rows of the rail over each panel.
    headings : sequence of str, optional
        A heading over each row of panels.
    """

    titles: Sequence[tuple[str, str]]
    legends: Sequence[list[Artist]]
    x_label: str
    y_label: str
    columns: int = 0
    rail_rows: int = 0
    headings: Sequence[str] = ()

    def draw(self) -> tuple[Figure, list[Panel]]:
        """Make the figure with its panels still empty, row by row."""
        columns = self.columns or column_count(len(self.titles))
        width = WIDTHS.get(columns, FULL_WIDTH)
        panel_width = (width - LEFT - RIGHT - BETWEEN * (columns - 1)) / columns
        rows = self._rows(columns, panel_width, width)
        plot_height = PLOT_HEIGHTS.get(columns, 1.5)
        figure = Figure(figsize=(width, 1.0))
        legends = [legend_that_fits(figure, entries) for entries in self.legends if entries]
        bottom = OUTER + sum(height + GAP for _, height in legends) + TITLE_LINE + GAP
        body = plot_height + self._rail_height() + TICK_LINE + GAP
        figure.set_figheight(bottom + sum(row.head + body for row in rows) + OUTER)
        place_legends(figure, legends)
        self._label(figure, bottom)
        top = figure.get_figheight() - OUTER
        panels = []
        for row in rows:
            row.write(figure, top)
            for place in range(len(row.names)):
                x = LEFT + place * (panel_width + BETWEEN)
                box = (x, top - row.head - self._rail_height() - plot_height)
                panels.append(self._panel(figure, (*box, panel_width, plot_height)))
            top -= row.head + body
        return figure, panels

    def _rows(self, columns: int, panel_width: float, width: float) -> list[_Row]:
        """Say what stands over each row of panels."""
        names = wrap_all([name for name, _ in self.titles], panel_width + BETWEEN / 2, TITLE_SIZE)
        notes = [note for _, note in self.titles]
        headings = wrap_all(self.headings, width - LEFT - OUTER, TITLE_SIZE, lines=1)
        return [
            _Row(
                names=names[start : start + columns],
                notes=notes[start : start + columns],
                heading=headings[start // columns] if headings else "",
                panel_width=panel_width,
            )
            for start in range(0, len(names), columns)
        ]

    def _rail_height(self) -> float:
        """Height of the rail over each panel, with the gap under it."""
        row = RAIL_ROW if self.rail_rows <= 8 else DENSE_RAIL_ROW
        return self.rail_rows * row + GAP if self.rail_rows else 0.0

    def _label(self, figure: Figure, bottom: float) -> None:
        """Write the labels that all panels share."""
        width, height = figure.get_size_inches()
        center, middle = (LEFT + width - RIGHT) / 2, (bottom + height) / 2
        write(figure, (center, bottom - TITLE_LINE), self.x_label, va="bottom")
        write(figure, (OUTER + 0.07, middle), self.y_label, rotation=90, va="center")

    def _panel(self, figure: Figure, box: tuple[float, float, float, float]) -> Panel:
        """Add the axes of one panel."""
        x, y, width, height = box
        axes = add_axes(figure, box)
        rail = None
        if self.rail_rows:
            rail = add_axes(figure, (x, y + height + GAP, width, self._rail_height() - GAP))
            rail.set_axis_off()
            rail.set_ylim(self.rail_rows - 0.5, -0.5)
        return Panel(axes, rail, width)


@dataclass(frozen=True)
class _Row:
    """What stands over one row of panels."""

    names: list[str]
    notes: list[str]
    heading: str
    panel_width: float

    @property
    def head(self) -> float:
        """Its height."""
        lines = max(name.count("\n") + 1 for name in self.names)
        heading = TITLE_LINE + 2 * GAP if self.heading else 0.0
        return heading + lines * TITLE_LINE + (NOTE_LINE if any(self.notes) else 0.0) + GAP / 2

    def write(self, figure: Figure, top: float) -> None:
        """Write it, down from a height; titles stand at the bottom of their room."""
        if self.heading:
            write(figure, (LEFT, top - GAP), self.heading, ha="left", va="top", weight="bold")
        foot = top - self.head + GAP / 2
        for place, (name, note) in enumerate(zip(self.names, self.notes, strict=True)):
            x = LEFT + place * (self.panel_width + BETWEEN) + self.panel_width / 2
            over_note = NOTE_LINE if any(self.notes) else 0.0
            title = (x, foot + over_note + DESCENT)
            write(figure, title, name, va="baseline", size=TITLE_SIZE)
            place_note = (x, foot + DESCENT)
            write(figure, place_note, note, va="baseline", size=NOTE_SIZE, color=NOTE_COLOR)


def column_count(panels: int) -> int:
    """Return how many panels stand side by side."""
    if panels <= 4:
        return max(panels, 1)
    return 3 if panels in (5, 6, 9) else 4


def add_axes(figure: Figure, box: tuple[float, float, float, float]) -> Axes:
    """Add axes at (left, bottom, width, height) in inches, in the style of all figures."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes(
        (box[0] / width, box[1] / height, box[2] / width, box[3] / height), facecolor="none"
    )
    axes.tick_params(labelsize=TICK_SIZE, length=2.5, width=0.6, pad=2, color=FRAME_COLOR)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FRAME_COLOR)
        spine.set_linewidth(0.6)
    return axes


def label_wide(axes: Axes, text: str) -> None:
    """Label the vertical axis of a plot that is alone in its row."""
    axes.set_ylabel(text, size=TITLE_SIZE)
    axes.yaxis.set_label_coords(-WIDE_LABEL / WIDE, 0.5)


def write(figure: Figure, place: tuple[float, float], text: str, **options: Any) -> None:
    """Write a text at (x, y) inches, as it is; an empty one not at all."""
    if text:
        width, height = figure.get_size_inches()
        defaults: dict[str, Any] = {
            "ha": "center",
            "va": "center",
            "size": LABEL_SIZE,
            "linespacing": 1.1,
        }
        x, y = place[0] / width, place[1] / height
        figure.text(x, y, literal(text), **(defaults | options))


def legend_that_fits(figure: Figure, entries: list[Artist]) -> tuple[Legend, float]:
    """Add a legend with as many columns as have room; return it and its height."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    room = (figure.get_figwidth() - 2 * OUTER) * figure.dpi
    widths = [text_width(str(entry.get_label()), LEGEND_SIZE) + HANDLE for entry in entries]
    average = sum(widths) / len(widths)
    columns = min(len(entries), int(figure.get_figwidth() / average) + 1)
    while True:
        legend = _legend(figure, entries, columns)
        box = legend.get_window_extent(renderer)
        if box.width <= room or columns == 1:
            return legend, float(box.height) / figure.dpi
        legend.remove()
        columns -= 1


def place_legends(figure: Figure, legends: Sequence[tuple[Legend, float]]) -> None:
    """Stack legends at the bottom of a figure that has its final height, the first on top."""
    bottom = OUTER
    for legend, height in reversed(legends):
        anchor = (0.5, bottom / figure.get_figheight())
        legend.set_bbox_to_anchor(anchor, transform=figure.transFigure)
        bottom += height + GAP


def _legend(figure: Figure, entries: list[Artist], columns: int) -> Legend:
    """Add a legend with so many columns."""
    return figure.legend(
        handles=entries,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=columns,
        fontsize=LEGEND_SIZE,
        frameon=False,
        borderpad=0.0,
        borderaxespad=0.0,
        handlelength=2.8,
        handletextpad=0.5,
        columnspacing=1.2,
        labelspacing=0.3,
    )
