"""A report for a terminal: the same facts, tables and charts, in letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..opcodes import EVICT, OFFLOAD, PREFETCH, SAVE
from ..pages.glossary import GLOSSARY
from .output import format_bytes, format_count, format_ns, print_fields, print_table
from .stories import print_instant
from .summarize import print_overview

if TYPE_CHECKING:
    from ..pages.content import Report, Section, Table

WIDTH, HEIGHT, MAP_HEIGHT = 72, 8, 16
BLOCKS = " ▁▂▃▄▅▆▇█"
SHADES = " .:-=+*#"
LETTERS = "cofb"  # of the categories: constant, output, forward, backward


def print_report(report: Report, top: int) -> None:
    """Tell a person at a terminal what the page would tell."""
    for section in report.sections:
        click.echo(f"{section.title}\n")
        print_fields(dict(section.facts))
        if section.kind == "run":
            _print_run(section, top)
        else:
            _print_curves(section)
        for table in section.tables:
            _print_table(table, top)
        click.echo("\nwhat was run\n")
        print_fields(dict(section.provenance))
        click.echo()
    click.echo("glossary\n")
    print_fields(dict(GLOSSARY))
    click.echo("\nwhat this report was made of\n")
    print_fields(dict(report.provenance))


def _print_table(table: Table, top: int) -> None:
    """Print the first rows of a table, and how many there are more."""
    click.echo(f"\n{table.title}\n{table.note}\n")
    shown = min(table.n_rows, top)
    rows = [[column.cell(row) for column in table.columns] for row in range(shown)]
    texts = [place for place, column in enumerate(table.columns) if column.kind == "text"]
    print_table([column.title for column in table.columns], rows, n_text=texts)
    if table.rows_in_all > shown:
        click.echo(f" more rows: {format_count(table.rows_in_all - shown)} (--top)")


def _print_curves(section: Section) -> None:
    """Print how far above the bounds each method is, and its slowdowns, by budget."""
    from ..analysis.overviews import overview

    for kind, title in (("gap", "Above the lower bound"), ("slowdown", "Slowdown")):
        click.echo(f"\n{title} against budget / unlimited peak\n")
        print_overview(overview(section.told, kind))


def _print_run(section: Section, top: int) -> None:
    """Draw memory over time in letters, and say what is there at the peak."""
    chart = section.chart
    click.echo("\nMemory over time\n")
    for line in memory_lines(chart):
        click.echo(line)
    print_instant(section.told.live(), top)
    if chart["stays"] is not None:
        click.echo("\nAddresses over time (constant, output, forward, backward)\n")
        for line in address_lines(chart):
            click.echo(line)


def memory_lines(chart: dict[str, Any]) -> list[str]:
    """Draw the most that was in memory in each part of the time, and how much happened there."""
    rows, end = chart["rows"], chart["end_ns"] or 1
    columns = np.minimum(rows["time"] * WIDTH / end, WIDTH - 1).astype(int)
    highest = np.zeros(WIDTH)
    np.maximum.at(highest, columns, rows["memory"])
    last = np.searchsorted(rows["time"], np.arange(WIDTH) * end / WIDTH, "right") - 1
    carried = np.where(last >= 0, rows["memory"][np.maximum(last, 0)], 0.0)
    heights = np.maximum(highest, carried) / max(float(rows["memory"].max(initial=0)), 1.0)
    eighths = np.rint(heights * HEIGHT * 8).astype(int)
    top = format_bytes(int(rows["memory"].max(initial=0)))
    lines = []
    for level in reversed(range(HEIGHT)):
        blocks = "".join(BLOCKS[min(max(count - level * 8, 0), 8)] for count in eighths.tolist())
        lines.append(f"{top if level == HEIGHT - 1 else '':>12} |{blocks}")
    steps = chart["steps"]
    again = rows["time"][steps["first"][steps["again"] == 1]]
    strips = [("evicted", rows["time"][rows["action"] == EVICT]), ("recomputed", again)]
    moves = (("offloaded", OFFLOAD), ("copied ahead", SAVE), ("prefetched", PREFETCH))
    for label, action in moves:
        if (rows["action"] == action).any():
            strips.append((label, rows["time"][rows["action"] == action]))
    for label, times in strips:
        lines.append(f"{label:>12} |{_shades(times, end)}")
    ends = format_ns(end)
    lines.append(f"{'':>12}  0{ends:>{WIDTH - 1}}")
    return lines


def _shades(times: np.ndarray, end: float) -> str:
    """Draw how much happened in each part of the time."""
    counts, _ = np.histogram(times, WIDTH, (0, end))
    most = max(int(counts.max(initial=0)), 1)
    return "".join(SHADES[-(-int(count) * (len(SHADES) - 1) // most)] for count in counts)


def address_lines(chart: dict[str, Any]) -> list[str]:
    """Draw who lies where in the middle of each part of the time; blank is free."""
    stays, end = chart["stays"], chart["end_ns"] or 1
    high = float((stays["address"] + stays["size"]).max(initial=1))
    codes = chart["storages"]["category"][stays["storage"]]
    grid = np.full((MAP_HEIGHT, WIDTH), " ")
    middles = (np.arange(MAP_HEIGHT) + 0.5) * high / MAP_HEIGHT
    for column in range(WIDTH):
        time = (column + 0.5) * end / WIDTH
        there = np.flatnonzero((stays["start"] <= time) & (time < stays["end"]))
        for stay in there.tolist():
            low = stays["address"][stay]
            is_in = (low <= middles) & (middles < low + stays["size"][stay])
            grid[is_in, column] = LETTERS[codes[stay]]
    top = format_bytes(int(high))
    return [
        f"{top if place == 0 else '':>12} |{''.join(row)}" for place, row in enumerate(grid[::-1])
    ]
