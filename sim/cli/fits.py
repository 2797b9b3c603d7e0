"""``rematsim fits``: will it fit, by which method, at what slowdown; and if not, why.

It asks `rematsim.fitting`; how the answer is shown is in `fits_telling.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..traces.devices import NAMES
from . import options
from .loading import load_given
from .output import check_writable, print_json, tell
from .progress import Lines, Waiting
from .replay import NOT_OK

if TYPE_CHECKING:
    from ..traces.trace import Trace

SHOWN = 5

HEADROOM = options.Parsed("headroom", "headroom", "parse_headroom")
BATCHES = options.Parsed("first:last[:step]", "batch_search", "parse_batches")


@options.command(
    "fits",
    "rematsim fits bundled:gpt --budget 96MiB",
    "rematsim fits model.trace --budget 24GiB --slowdown 1.3 --headroom 10%",
    "rematsim fits model.log.gz --budget 0.5x --json",
    "rematsim fits --largest-batch mymodel:make_step --batch 1:512 --budget 24GiB --target cuda",
)
@click.argument("trace", required=False)
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
@click.option(
    "--largest-batch",
    "spec",
    metavar="MODULE:FUNCTION",
    help="In place of TRACE: what makes a step for a batch size, also FILE.py:FUNCTION.",
)
@click.option("--batch", "batches", type=BATCHES, help="With it: the sizes, as 1:512 or 8:512:8.")
@click.option(
    "--target", type=click.Choice(["cpu", "cuda"]), help="With it: whose operators are run [cpu]."
)
@click.option(
    "--device",
    metavar="NAME",
    help=f"With it: whose times are estimated: {', '.join(NAMES)} [h100].",
)
@click.option(
    "-o", "--out", type=options.FileType(".trace"), help="With it: save the largest one's trace."
)
@options.cache_option
@options.json_option
def command(trace: str | None, as_json: bool, no_cache: bool, top: int, **given: Any) -> int:
    """Say whether a trace, or which batch, fits into a budget.

    TRACE is a trace file, a log or what else rematsim import reads, plain or compressed, or
    bundled:NAME (see rematsim list traces); - or none reads standard input. Methods that end
    quickly are tried; the answer is yes (exit code 0), with the command that does it; no, proven
    (3); or none found, which proves nothing (3). docs/fits.md says what is tried.

    With --largest-batch, FUNCTION takes a batch size and returns the function that runs a step, or
    a tuple of it, the model and the optimizer; it is run under fake tensors, so that nothing is
    allocated, at the sizes that a search needs (PyTorch is needed for this).
    """
    asked = {name: given.pop(name) for name in ("budget", "slowdown", "headroom")}
    if given["spec"] is not None:
        if trace is not None:
            raise click.UsageError(f"{trace}: with --largest-batch there is no TRACE")
        return _largest_batch(as_json, asked, **given)
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(
                f"--{name.replace('batches', 'batch')}: it goes with --largest-batch"
            )
    return _fits("-" if trace is None else trace, as_json, not no_cache, top, asked)


def _fits(trace: str, as_json: bool, is_cached: bool, top: int, asked: dict[str, Any]) -> int:
    """Answer for a trace."""
    from ..fitting import YES, fits
    from .fits_telling import as_object, print_answer

    loaded = load_given(trace, cache=is_cached)
    with Waiting("trying methods on", None, loaded.name):
        answer = fits(loaded, **asked, cached=is_cached)
    if as_json:
        print_json(as_object(answer, trace))
    else:
        print_answer(answer, trace, top)
    return 0 if answer.verdict == YES else NOT_OK


def _largest_batch(
    as_json: bool,
    asked: dict[str, Any],
    *,
    spec: str,
    batches: range | None,
    out: str | None,
    **where: str | None,
) -> int:
    """Answer for a step at many batch sizes."""
    from ..batch_search import largest_batch
    from ..traces.batches import BatchCaptures
    from ..traces.saving import save_trace
    from .fits_telling import batches_as_object, print_batches

    if batches is None:
        raise click.UsageError("--largest-batch needs --batch, as 1:512")
    check_writable(out)
    lines = Lines()
    with BatchCaptures(spec, **{k: v for k, v in where.items() if v is not None}) as captures:

        def trace_of(batch: int) -> Trace:
            lines.write(f"{spec} at batch {batch}")
            return captures(batch)

        answer = largest_batch(trace_of, batches, **asked)
        for note in captures.notes:
            tell(f"note: {note}")
        best = answer.best
        if out is not None and best is not None and best.batch is not None:
            save_trace(captures(best.batch), out)
    if as_json:
        print_json(batches_as_object(answer, spec, out))
    else:
        print_batches(answer, spec, out)
    return 0 if best is not None else NOT_OK
