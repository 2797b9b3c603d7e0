"""``rematsim plot``: a figure from a table or a saved run.

Which figures there are, and what they need, is known to `rematsim.analysis` alone.
"""

from __future__ import annotations

from typing import Any

import click

from . import options
from .output import check_writable


@options.command(
    "plot",
    "rematsim plot runs.sqlite --out overhead.png",
    "rematsim plot model.run --out memory.svg",
)
@click.argument("source", metavar="FILE")
@click.option("--kind", help="Which figure; default: the one that suits the file.")
@click.option("--out", metavar="FILE", help="PNG, SVG or PDF; default: beside FILE, as PNG.")
@click.option("--trace", multiple=True, help="Only this trace; may be repeated.")
@click.option("--heuristic", "method", multiple=True, help="Only this method; may be repeated.")
@click.option("--deallocation", multiple=True, help="Only this policy; may be repeated.")
def command(source: str, kind: str | None, out: str | None, **filters: tuple[str, ...]) -> None:
    """Draw a figure from a table or a run.

    FILE is the .sqlite or .csv of a sweep, or a saved .run. Prints the name of the figure's file.
    """
    check_writable(out)
    from ..analysis.plotting import plot

    chosen: dict[str, Any] = {name: list(values) for name, values in filters.items() if values}
    click.echo(plot(source, kind=kind, out=out, **chosen))
