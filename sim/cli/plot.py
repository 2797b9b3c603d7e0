"""``rematsim plot``: figures from a table or a saved run.

Which figures there are, and what they need, is known to `rematsim.analysis` alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from . import options
from .loading import load_of_plan
from .output import print_json, print_path, tell
from .progress import Waiting

if TYPE_CHECKING:
    from ..result import RunResult

PLAN_SECONDS = 10.0  # for the line of an address map


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
    help="overhead, lowest, ablation, deallocation, accesses, solving, links, winners; of one run "
    "memory, plan, addresses, lanes. Default: what FILE has data for.",
)
@click.option(
    "--out", metavar="PATH", help="A .png, .svg or .pdf, or a folder; default: beside FILE."
)
@click.option(
    "--highest",
    type=click.FloatRange(min=1, min_open=True),
    help="Highest slowdown of the kinds overhead and links; what is slower is marked over the "
    "plot.",
)
@options.filter_options
@options.json_option
def command(
    source: str,
    kind: str | None,
    out: str | None,
    highest: float | None,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """Draw figures from a table, a run or a plan.

    FILE is the .sqlite or .csv of a sweep, a saved .run, or a .plan, which is executed on the trace
    that it names, or on that of --trace. Prints the files that were written.
    """
    from ..analysis.plotting import TABLE_KINDS, has_addresses, is_plan_file, plot
    from ..analysis.tables import read_run

    run = None
    if is_plan_file(Path(source)):
        if kind in TABLE_KINDS:
            raise click.UsageError(f"--kind {kind}: {source} is a plan, not a table of runs")
        run = _executed(source, filters.pop("trace"))
    chosen: dict[str, Any] = {name: list(values) for name, values in filters.items() if values}
    plan_bytes = None
    if Path(source).suffix.lower() == ".run" and kind in (None, "addresses"):
        run = read_run(source)
        plan_bytes = _planned(run) if has_addresses(run) else None
    before = set(Path(out).iterdir()) if out and Path(out).is_dir() else set()
    written = plot(source, kind, out, run, highest, plan_bytes, **chosen)
    for replaced in sorted(before.intersection(written)):
        tell(f"note: {replaced} was there before, and is replaced")
    paths = list(map(str, written))
    if as_json:
        print_json(paths)
        return
    for path in paths:
        print_path(path)


def _planned(run: RunResult) -> int:
    """Plan addresses for what a run had in memory: the line of the address map."""
    from ..addressing import address_plan

    with Waiting("planning addresses", PLAN_SECONDS):
        return address_plan(run, time_limit=PLAN_SECONDS)


def _executed(path: str, traces: tuple[str, ...]) -> RunResult:
    """Execute a plan on its trace, without a budget, for its event log."""
    from ..execution import execute
    from ..plan_files import load_plan
    from ..schedules import FREE

    if len(traces) > 1:
        raise click.UsageError(f"{path}: a plan is for one trace, and {len(traces)} are given")
    plan = load_plan(path)
    if (plan.action > FREE).any():
        raise InputError(
            f"{path}: it moves data, over a link and within a budget: rematsim execute "
            "--save-run FILE.run, and plot that"
        )
    loaded = load_of_plan(plan, path, traces[0] if traces else None, cache=True)
    return execute(loaded, plan, event_log=True)
