"""``rematsim fits``: will it fit, by which method, at what slowdown; and if not, why.

It asks `rematsim.fitting`; how the answer is shown is in `fits_telling.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import options
from .loading import load_given
from .output import print_json

if TYPE_CHECKING:
    from ..fitting import Answer

NOT_FOUND = 3
SHOWN = 5

HEADROOM = options.Parsed("headroom", "headroom", "parse_headroom")


@options.command(
    "fits",
    "rematsim fits bundled:gpt --budget 96MiB",
    "rematsim fits model.trace --budget 24GiB --slowdown 1.3 --headroom 10%",
    "rematsim fits model.log.gz --budget 0.5x --json",
)
@click.argument("trace", default="-")
@click.option(
    "--budget",
    required=True,
    type=options.BUDGET,
    help="Bytes (24GiB), or a fraction of the unlimited peak (0.5x).",
)
@click.option(
    "--slowdown",
    default=2.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="The most that is acceptable.",
)
@click.option(
    "--headroom",
    default="0%",
    show_default=True,
    type=HEADROOM,
    help="What stays free of the budget for what no trace shows: 10%, 2GiB.",
)
@click.option(
    "--top", default=SHOWN, show_default=True, type=click.IntRange(1), help="Methods shown."
)
@options.cache_option
@options.json_option
def command(trace: str, as_json: bool, no_cache: bool, top: int, **asked: Any) -> int:
    """Say whether a trace fits into a budget.

    TRACE is a trace file, a log or what else rematsim import reads, plain or compressed, or
    bundled:NAME (see rematsim list traces); - or none reads standard input. Methods that end
    quickly are tried; the answer is yes (exit code 0), with the command that does it; no, proven
    (3); or none found, which proves nothing (3). docs/fits.md says what is tried.
    """
    from ..fitting import fits
    from .fits_telling import as_object, print_answer

    loaded = load_given(trace, cache=not no_cache)
    answer = fits(loaded, **asked, cached=not no_cache)
    if as_json:
        print_json(as_object(answer, trace))
    else:
        print_answer(answer, trace, top)
    return exit_code(answer)


def exit_code(answer: Answer) -> int:
    """Give 0 for a yes."""
    from ..fitting import YES

    return 0 if answer.verdict == YES else NOT_FOUND
