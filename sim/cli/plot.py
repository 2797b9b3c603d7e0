"""``rematsim plot``: figures from a table or a saved run.

Which figures there are, and what they need, is known to `rematsim.analysis` alone.
"""

from __future__ import annotations

from typing import Any

import click

from . import options
from .output import print_json


@options.command(
    "plot",
    "rematsim plot runs.sqlite --kind overhead --out overhead.png",
    "rematsim plot model.run --out memory.svg",
    "rematsim plot unet.plan --trace unet.json --out plan.png",
)
@click.argument("source", metavar="FILE")
@click.option(
    "--kind",
    metavar="KIND",
    help="overhead, lowest, ablation, deallocation, accesses, solving; of one run memory, plan. "
    "Default: what FILE has data for.",
)
@click.option(
    "--out", metavar="PATH", help="A .png, .svg or .pdf, or a folder; default: beside FILE."
)
@options.filter_options
@options.json_option
def command(
    source: str, kind: str | None, out: str | None, as_json: bool, **filters: tuple[str, ...]
) -> None:
    """Draw figures from a table, a run or a plan.

    FILE is the .sqlite or .csv of a sweep, a saved .run, or a .plan, which is executed on the trace
    that it names, or on that of --trace. Prints the files that were written.
    """
    from ..analysis.plotting import plot

    chosen: dict[str, Any] = {name: list(values) for name, values in filters.items() if values}
    paths = [str(path) for path in plot(source, kind=kind, out=out, **chosen)]
    if as_json:
        print_json(paths)
        return
    for path in paths:
        click.echo(path)
