"""``rematsim summary``: what a table of runs says, as a table to read or as rows for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import check_writable, name_cell, print_json, print_table, write_csv

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.overviews import Overview

KINDS = ("gap", "slowdown", "lowest")
MOST_NAME = 100  # letters of a trace or a method


@options.command(
    "summary",
    "rematsim summary runs.sqlite",
    "rematsim summary runs.sqlite --kind lowest --csv lowest.csv",
)
@click.argument("source", metavar="FILE")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="How far above the lower bound; slowdowns; the lowest budget survived.",
)
@options.filter_options
@click.option("--csv", metavar="FILE", help="Write the rows as CSV.")
@options.json_option
def command(
    source: str, kind: str, csv: str | None, as_json: bool, **filters: tuple[str, ...]
) -> None:
    """Summarize a table of runs, by trace and budget.

    FILE is the .sqlite or .csv of a sweep. Over several seeds stands the median. A gap is how far a
    slowdown is above the best lower bound that a run of the table knows at its budget; "optimal" is
    proven.
    """
    from ..analysis.gaps import share_bounds
    from ..analysis.overviews import overview
    from ..analysis.tables import read_table, select

    check_writable(csv)
    chosen = {name: list(values) for name, values in filters.items() if values}
    found = overview(select(share_bounds(read_table(source)), chosen, source), kind)
    if csv is not None:
        write_csv(csv, list(found.rows.columns), _records(found.rows))
    if as_json:
        print_json(_records(found.rows))
    else:
        print_overview(found)


def print_overview(found: Overview) -> None:
    """Show it to a person."""
    n_text = len(found.cells.index.names)
    cells = found.cells.reset_index()
    rows = [
        [*(name_cell(str(name), MOST_NAME) for name in row[:n_text]), *row[n_text:]]
        for row in cells.to_numpy().tolist()
    ]
    print_table(list(map(str, cells.columns)), rows, n_text=n_text)
    click.echo(f"\n{found.legend}")


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Give the rows as plain values; None where there is none, or no limit."""
    rows = rows.replace(float("inf"), float("nan"))
    sizes = [name for name in rows.columns if name.endswith("_bytes")]
    rows = rows.astype(dict.fromkeys(sizes, "Int64")).astype(object)
    plain = rows.where(rows.notna(), None)
    return [dict(zip(plain.columns, row, strict=True)) for row in plain.to_numpy().tolist()]
