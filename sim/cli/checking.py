"""``rematsim check-heuristic``: whether a heuristic keeps the rules, for its author.

The checks themselves are `rematsim.conformance`'s.
"""

from __future__ import annotations

from dataclasses import asdict

import click

from ..traces.wording import printable
from . import options
from .output import print_json


@options.command("check-heuristic", "rematsim check-heuristic mine.py:my_score")
@click.argument("heuristic", metavar="HEURISTIC")
@options.json_option
def command(heuristic: str, as_json: bool) -> int:
    """Check a heuristic of your own.

    HEURISTIC is file.py:function, or a name. The exit code is 1 if it breaks a rule that all
    heuristics keep.
    """
    from ..conformance import check_heuristic

    report = check_heuristic(heuristic)
    if as_json:
        print_json(asdict(report) | {"is_ok": report.is_ok})
    else:
        click.echo("\n".join(map(printable, str(report).splitlines())))
    return 0 if report.is_ok else 1
