"""``rematsim capture``: a training script's steps as a trace; the script need not know of it.

The one command that runs a model, and needs PyTorch for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..garbage import collection_paused
from ..traces.devices import NAMES
from . import options
from .leaving import do_not_wait
from .output import check_writable, format_bytes, format_count, format_ns, tell
from .progress import Lines
from .streams import streams_kept

if TYPE_CHECKING:
    from ..traces.capturing import Capture
    from ..traces.recording import Recording

SUFFIX = ".trace"


@options.command(
    "capture",
    "rematsim capture train.py --epochs 1",
    "rematsim capture --repeat 1 --steps 3 -o three.trace train.py",
    "rematsim capture --fake --target cuda --device h100 -o big.trace train.py --size 7b",
)
@click.option(
    "--skip",
    type=click.IntRange(1),
    help="Steps before the recorded ones [2; with --fake 1].",
)
@click.option(
    "--steps",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Steps in the trace, one after another.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    help="Record the same steps several times; times are medians [5; with --fake 1].",
)
@click.option(
    "-o", "--out", metavar="FILE", help=f"The trace's file, .trace or .log.gz [script{SUFFIX}]."
)
@click.option("--fake", is_flag=True, help="Run under fake tensors: no memory, times estimated.")
@click.option(
    "--target",
    type=click.Choice(["cpu", "cuda"]),
    help="With --fake: whose operators are run [cpu].",
)
@click.option(
    "--device",
    metavar="NAME",
    help=f"With --fake: whose times are estimated: {', '.join(NAMES)} [h100].",
)
@click.option("--name", help="The trace's name [the script's].")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]...")
def command(script: str, arguments: tuple[str, ...], out: str | None, **given: Any) -> None:
    """Run a training script and record steps of it as a trace.

    A step ends where the script's optimizer steps, or where it calls
    rematsim.traces.mark_step(). When enough is recorded, the script is ended. Needs PyTorch
    (pip install torch).
    """
    from ..traces.saving import STANDARD_OUTPUT, is_log

    wanted = _wanted(given)
    if out == STANDARD_OUTPUT:
        raise click.UsageError("-o -: standard output is the script's; name a file")
    stem = Path(script).stem
    path = f"{stem}{SUFFIX}" if out is None else out
    is_log(path)  # refuses a name that is none, before anything runs
    check_writable(path)
    _check_order(arguments, path if out is None else None)
    file = Path(path).absolute()  # the script may go to another folder
    with collection_paused():  # PyTorch is much
        from ..traces.scripting import Wanted, capture_script

    lines = Lines()
    with streams_kept():
        captured = capture_script(
            script,
            arguments,
            Wanted(**wanted),
            name=stem if given["name"] is None else given["name"],
            when_cut=do_not_wait,
            report=lambda done, of: lines.write(f"{done} of {of} steps of {script}"),
        )
    captured.save(file)
    _tell(captured, path, wanted["device"])


command.allow_interspersed_args = False  # what stands behind SCRIPT is the script's


def _check_order(arguments: tuple[str, ...], default: str | None) -> None:
    """Say so where an option that may be meant for us goes to the script.

    If it may be the name of the file, a file that nobody named is not written over.
    """
    ours = {name for parameter in command.params for name in parameter.opts if name[:1] == "-"}
    for argument in arguments:
        if argument.partition("=")[0] in ours:
            hint = "capture's own options go before SCRIPT"
            if default is not None and Path(default).exists():
                raise click.UsageError(
                    f"{argument} would go to the script, and {default} be written over: {hint}"
                )
            tell(f"note: {argument} is given to the script; {hint}")
            return


def _wanted(given: dict[str, Any]) -> dict[str, Any]:
    """Put the options together; some mean something only with others."""
    if not given["fake"]:
        for name in ("target", "device"):
            if given[name] is not None:
                raise click.UsageError(f"--{name} needs --fake: without it, the CPU is measured")
    is_fake = given["fake"]
    return {
        "skip": given["skip"] or (1 if is_fake else 2),
        "steps": given["steps"],
        "repeat": given["repeat"] or (1 if is_fake else 5),
        "target": (given["target"] or "cpu") if is_fake else None,
        "device": "h100" if given["device"] is None else given["device"],
    }


def _spread(recording: Recording) -> str:
    """Say how many repeats there are, and how much they differ.

    The sum of medians is no median of sums, and may lie outside their range.
    """
    least, most = min(recording.totals_ns), max(recording.totals_ns)
    return f"{recording.repeats}; the recordings took {format_ns(least)} to {format_ns(most)}"


def _tell(log: Capture, path: str, device: str) -> None:
    """Say on standard error what was recorded; standard output is the script's."""
    trace, repeats = log.trace, log.recording.repeats
    if trace.times_estimated:
        times = f"estimated for {device}"
    else:
        times = (
            f"each call's median of {_spread(log.recording)}" if repeats > 1 else "measured once"
        )
    for note in log.notes:
        tell(f"note: {note}")
    click.echo(
        f"rematsim: {path}: {format_count(log.ops)} operator calls, "
        f"{format_ns(trace.compute_ns)} ({times}), peak {format_bytes(log.peak_bytes)}, of it "
        f"{format_bytes(int(trace.constant_bytes.sum()))} there before",
        err=True,
    )
