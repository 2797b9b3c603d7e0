"""``rematsim sweep``: every trace under every method and budget, into one table.

It reads what is asked for and shows what comes out; the work is `rematsim.sweeps`'.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..budgets import Budget
from . import options
from .loading import tell_fractions
from .output import check_writable, print_json, write_csv

if TYPE_CHECKING:
    from ..grid import Grid
    from ..store import Row


@dataclass(frozen=True)
class _Outputs:
    """Where the rows go, and what is said on the way."""

    out: str | None
    csv: str | None
    as_json: bool
    is_quiet: bool


@options.command(
    "sweep",
    "rematsim sweep model.log --heuristic h_DTR,h_LRU --budget 0.3x:0.9x:0.2x",
    "rematsim sweep dtr-logs.zip --out runs.sqlite --csv runs.csv --jobs 8",
    "rematsim sweep model.log --heuristic h_rand --seed 0:9 --budget 4GiB,6GiB",
    "rematsim sweep dtr-logs.zip --out runs.sqlite --cluster tcp://head:8786",
)
@click.argument("files", nargs=-1)
@click.option(
    "-H",
    "--heuristic",
    "heuristics",
    **options.REPEATED,
    help="Names or file.py:function; may be repeated. Default: the six of the DTR paper.",
)
@click.option(
    "--method",
    "methods",
    **options.REPEATED,
    help="Planners (see rematsim list planners); may be repeated. Alone: no heuristics.",
)
@options.time_limit_option(" for a row")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    default=["0.1x:1.0x:0.1x"],
    show_default=True,
    type=options.BUDGETS,
    help="Bytes (6GiB), fractions of the unlimited peak (0.5x), lists, ranges; may be repeated.",
)
@options.run_options(options.ListOf)
@options.link_options(options.ListOf)
@click.option(
    "--seed",
    "seeds",
    default="0",
    show_default=True,
    type=options.SEEDS,
    help="Seeds of heuristics that draw lots: 1,2,3 or 0:9.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    help="Processes. Default: as many as there are processor cores and the work is worth.",
)
@click.option(
    "--cluster",
    type=options.CLUSTER,
    help="Run on a dask cluster instead: tcp://host:8786, or local:4 for a small one here.",
)
@click.option(
    "--out",
    type=options.FileType(".sqlite"),
    help="Keep the rows here; run again to go on.",
)
@click.option("--csv", metavar="FILE", help="Write the rows of this sweep as CSV at the end.")
@options.json_option
@click.option("--quiet", "-q", "is_quiet", is_flag=True, help="Do not show progress.")
def command(files: tuple[str, ...], seeds: tuple[int, ...], jobs: int | None, **given: Any) -> None:
    """Run traces x heuristics x budgets.

    FILES are trace files, logs or what else rematsim import reads, plain or compressed, .zip files
    of several, or bundled:NAME (see rematsim list traces); - or none reads standard input. Each run
    is one row, whether it ends ok, out of memory or thrashing. With --out, a sweep that was stopped
    at any moment goes on where it was when it is started again.
    """
    outputs = _Outputs(given["out"], given["csv"], given["as_json"], given["is_quiet"])
    if jobs is not None and given["cluster"] is not None:
        raise click.UsageError("--jobs and --cluster exclude each other")
    _check_apart(outputs, files)
    check_writable(outputs.out)
    check_writable(outputs.csv)
    grid = _read_grid(files, seeds, given)
    rows = _run(grid, jobs, given["cluster"], outputs)
    if outputs.csv is not None:
        from ..result import COLUMNS

        write_csv(outputs.csv, COLUMNS, rows)
    if outputs.as_json:
        print_json(rows)
    else:
        from .summary import print_floors, print_reasons, print_summary

        print_summary(rows)
        print_reasons(rows)
        print_floors(rows, grid.traces)


def _check_apart(outputs: _Outputs, files: tuple[str, ...]) -> None:
    """Refuse to write the CSV over what the sweep reads or keeps."""
    if outputs.csv is None:
        return
    for path in (*files, *([outputs.out] if outputs.out else [])):
        if Path(path).resolve() == Path(outputs.csv).resolve():
            raise click.UsageError(f"--csv {outputs.csv}: this sweep reads or keeps that file")


def _read_grid(files: tuple[str, ...], seeds: tuple[int, ...], given: dict[str, Any]) -> Grid:
    """Load the traces and make the grid; say so where two of them are the same."""
    from ..grid import expand_options, find_planners, make_grid
    from ..sweeps import HEURISTICS
    from ..traces.loading import load_traces

    paths = [options.trace_given(file) for file in files or ("-",)]
    traces = load_traces(paths, cache=not given["no_cache"])
    tell_fractions(traces)
    budgets: list[Budget] = [budget for part in given["budgets"] for budget in part]
    methods = given["methods"]
    grid = make_grid(
        traces,
        given["heuristics"] or (() if methods else HEURISTICS),
        budgets,
        seeds,
        expand_options(
            mutation=given["mutation"],
            deallocation=given["deallocation"],
            memory=given["memory"],
            link=options.link_given(given),
            slowdown_limit=[options.finite(limit) for limit in given["slowdown_limit"]],
            count_accesses=given["count_accesses"],
            cached=not given["no_cache"],
        ),
        find_planners(methods, options.finite(given["time_limit"])),
    )
    if len(grid.traces) < len(traces):
        click.echo("rematsim: note: traces that are equal are run once", err=True)
    return grid


def _run(grid: Grid, jobs: int | None, cluster: str | None, outputs: _Outputs) -> list[Row]:
    """Run the grid; when that stops early, say what is kept and how to go on."""
    from ..store import Store
    from ..sweeps import run_grid
    from .progress import Progress

    with Store(outputs.out) as store, Progress(outputs.is_quiet) as progress:
        try:
            return run_grid(grid, store, jobs, progress.report, cluster)
        except BaseException:
            progress.stop()
            if progress.total:
                _tell_what_is_kept(progress.done, progress.total, outputs.out)
            raise


def _tell_what_is_kept(done: int, total: int, out: str | None) -> None:
    """Say what a sweep that stops early leaves behind."""
    kept = f"kept in {out}; run the same command again to go on"
    lost = "lost (--out FILE.sqlite would keep them)"
    click.echo(
        f"rematsim: stopped: {done} of {total} runs are done and {kept if out else lost}", err=True
    )
