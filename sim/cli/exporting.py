"""``rematsim export``: a trace as a DTR log, for other tools.

The format says less than a trace; what is lost is told, and what cannot be said is refused.
"""

from __future__ import annotations

import click

from . import options
from .loading import load_given
from .output import check_writable, format_counts, print_json


@options.command("export", "rematsim export step.trace -o step.log.gz")
@click.argument("trace")
@click.option("-o", "--out", required=True, metavar="FILE", help="Where to: x.log, x.log.gz, ...")
@options.json_option
@options.cache_option
def command(trace: str, out: str, as_json: bool, no_cache: bool) -> None:
    """Write a trace in the DTR log format, or in another by the ending of the name.

    TRACE is anything that can be replayed. What the format cannot hold is told on standard error,
    or as JSON on standard output.
    """
    from ..traces.importers.dtr_export import exportable
    from ..traces.saving import is_log, save_trace

    to_log = is_log(out)
    check_writable(None if out == "-" else out)
    loaded = load_given(trace, cache=not no_cache)
    lost: dict[str, int] = {}
    if to_log:
        loaded, lost = exportable(loaded)
    save_trace(loaded, out)
    if as_json:
        print_json({"trace": loaded.name, "out": out, "lost": lost})
        return
    click.echo(f"lost: {'; '.join(format_counts(lost))}", err=True)
