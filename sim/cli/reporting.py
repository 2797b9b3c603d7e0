"""``rematsim report``: what runs and tables of runs say, as one HTML file or as text.

It finds the runs; `rematsim.pages` makes the report, and `reporting_text.py` shows it as text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from . import options
from .explaining import new_run, saved_run
from .output import check_writable, print_path

if TYPE_CHECKING:
    from ..explaining import Explanation

TABLES = (".sqlite", ".csv")
SHOWN = 10


@options.command(
    "report",
    "rematsim report runs.sqlite model.run -o report.html",
    "rematsim report model.run --trace model.log --text",
    "rematsim report bundled:unet -H h_DTR_eq --budget 0.5x --memory arena",
)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=options.FileType(".html"),
    help="The page to write [report.html].",
)
@click.option("--text", "is_text", is_flag=True, help="Print it instead, for a terminal.")
@click.option(
    "-H",
    "--heuristic",
    help="A name, or file.py:function [h_DTR_eq; of a saved run its own].",
)
@options.budget_option("0.5x")
@click.option("--trace", help="What a saved run is of: with it, causes can be told.")
@click.option("--top", type=click.IntRange(1), default=SHOWN, show_default=True,
              help="Rows of a table, with --text.")  # fmt: skip
@options.run_options(options.single)
@options.link_options()
@options.seed_option("heuristics")
@click.pass_context
def command(
    context: click.Context,
    /,
    sources: tuple[str, ...],
    out: str | None,
    is_text: bool,
    top: int,
    **given: Any,
) -> None:
    """Write a report: one HTML file that needs no network.

    A FILE is a saved .run, the .sqlite or .csv of a sweep, or a trace, which is replayed. The page
    has overhead curves with bounds, the memory of a run over time, what was evicted and computed
    again, addresses where there are some, and what all of it was made of (docs/report.md).
    """
    if is_text and out is not None:
        raise click.UsageError("--out: --text prints the report, and writes no file")
    given["plan"] = None
    _check(context, sources, given)
    target = out or "report.html"
    if not is_text:
        from ..pages.page import chart_library

        chart_library()
        check_writable(target)
    from ..pages.reports import report

    parts = [_part(source, given) for source in sources]
    made = report(parts, [source for source in sources if Path(source).is_file()])
    if is_text:
        from .reporting_text import print_report

        print_report(made, top)
        return
    from ..files import write_atomically
    from ..pages.page import as_page

    page = as_page(made).encode()
    with write_atomically(Path(target)) as file:
        file.write(page)
    print_path(target)


def _check(context: click.Context, sources: tuple[str, ...], given: dict[str, Any]) -> None:
    """Refuse plans, and options that are about no file that was given."""
    for source in sources:
        if source.lower().endswith(options.PLAN_FILE.suffixes):
            how = f"rematsim execute TRACE {source} --save-run FILE.run"
            raise click.UsageError(f"{source}: a plan; a report is of its run: {how}")
    runs = [source for source in sources if source.lower().endswith(".run")]
    new = [source for source in sources if source not in runs and not _is_table(source)]
    if not new:
        own = (*options.OF_A_NEW_RUN, "heuristic")
        options.refuse_given(context, own, "no trace is given, and a saved run has its own")
    if given["trace"] is not None and len(runs) != 1:
        raise click.UsageError(f"--trace: it goes with one saved run, and {len(runs)} are given")


def _is_table(source: str) -> bool:
    """Say whether a file is a table of runs, by its name; a .csv may be a trace as well."""
    return source.lower().endswith(TABLES)


def _part(source: str, given: dict[str, Any]) -> Explanation | str:
    """Make what the report is to tell of a file."""
    from ..explaining import explain

    if _is_table(source):
        return source
    is_saved = source.lower().endswith(".run")
    run, trace = saved_run(source, given | {"heuristic": None}) if is_saved else (
        new_run(source, dict(given))
    )  # fmt: skip
    if run.events is not None and not len(run.events["start_ns"]):
        raise InputError(f"{source}: nothing was ever in memory in it")
    has_scores = trace is not None and run.kind == "online" and not is_saved
    return explain(run, trace, given["heuristic"] if has_scores else None)
