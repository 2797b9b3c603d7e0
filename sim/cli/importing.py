"""``rematsim import``: a file of another tool becomes a trace file.

What was taken, inferred and dropped is told on standard error, so that nobody has to guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..traces.devices import DEFAULT, NAMES
from ..traces.wording import printable
from . import options
from .output import check_writable, format_bytes, format_counts, print_json

if TYPE_CHECKING:
    from ..traces.importing import Import

TIME_UNITS = click.Choice(["ns", "us", "ms", "s"])
DEVICE_HELP = f"Whose times to estimate where there are none: {', '.join(NAMES)} [{DEFAULT}]."
WIDTH = 98


@options.command(
    "import",
    "rematsim import execution_trace.json kineto_trace.json -o step.trace",
    "rematsim import graph.json --time-unit us -o graph.trace",
)
@click.argument("files", nargs=-1, required=True)
@click.option("-o", "--out", required=True, metavar="FILE", help="Where to: x.trace, x.log.gz.")
@click.option("--name", help="What the trace is to be called (default: the file's name).")
@click.option("--device", metavar="NAME", help=DEVICE_HELP)
@click.option("--time-unit", type=TIME_UNITS, help="Unit of times in a file that names none.")
@click.option("--fixed-bytes", type=click.IntRange(0, 2**53), default=0, help="Held throughout.")
@options.json_option
def command(files: tuple[str, ...], out: str, as_json: bool, **given: Any) -> None:
    """Make a trace of other tools' profiles or graphs.

    FILES are of one run: the one that is the trace, and others that say more about it. What they
    are is told by their content. The summary goes to standard error, or as JSON to standard
    output. The name of the output decides its format: .trace keeps everything, .log.gz is a DTR
    log.
    """
    from ..traces.importing import import_trace
    from ..traces.saving import is_log, save_trace

    is_log(out)
    check_writable(None if out == "-" else out)
    found = import_trace(files, **given)
    save_trace(found.trace, out)
    if as_json:
        print_json(_facts(found, out))
    else:
        for line in _lines(found, out):
            click.echo(printable(line), err=True)


def _facts(found: Import, out: str) -> dict[str, object]:
    """Give the summary as plain values."""
    summary = found.summary
    return {
        "files": list(found.files),
        "format": found.format,
        "out": out,
        "trace": found.trace.name,
        "digest": found.trace.digest,
        "times_estimated": found.trace.times_estimated,
        "taken": dict(summary.taken),
        "inferred": dict(summary.inferred),
        "dropped": dict(summary.dropped),
    }


def _lines(found: Import, out: str) -> list[str]:
    """Put the summary into words."""
    lines = [f"{found.files[0]}: {found.format}"]
    lines += [f"  with {file}" for file in found.files[1:]]
    for what in ("taken", "inferred", "dropped"):
        lines += _counts(what, getattr(found.summary, what))
    if out != "-":
        lines.append(f"written: {out} ({format_bytes(Path(out).stat().st_size)})")
    return lines


def _counts(what: str, counts: Mapping[str, int]) -> list[str]:
    """Put counts into lines that are not too long."""
    lines = [f"  {what:<9}"]
    for item in format_counts(counts):
        if len(lines[-1]) + len(item) > WIDTH:
            lines.append(" " * 11)
        lines[-1] += f" {item};"
    lines[-1] = lines[-1].removesuffix(";")
    return lines
