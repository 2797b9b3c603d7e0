"""``rematsim tune``: parameters of a heuristic that suit traces, and what they do to others.

It reads what is asked for and shows what comes out; the work is `rematsim.tuning`'s.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..traces.wording import printable
from . import options
from .loading import tell_fractions
from .output import name_cell, print_json, print_table

if TYPE_CHECKING:
    from ..tuning import Figure, Tuned

RANGE = options.Parsed("name=low:high", "parameter_space", "parse_range")


@options.command(
    "tune",
    "rematsim tune model.log --heuristic h_MegEngine --budget 6GiB",
    "rematsim tune dtr-logs.zip --heuristic h_last_step --hold-out resnet",
    "rematsim tune a.trace b.trace c.trace --family conv=a,b --folds 2 --trials 200",
)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "-H",
    "--heuristic",
    "method",
    default="h_MegEngine",
    show_default=True,
    help="A heuristic with parameters; the values that it has are tried first.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    default=["0.4x:0.8x:0.1x"],
    show_default=True,
    type=options.BUDGETS,
    help="Bytes (6GiB), fractions of the unlimited peak (0.5x), lists, ranges; may be repeated.",
)
@click.option(
    "--trials",
    default=60,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="Sets of parameters that are tried for each fit.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    type=RANGE,
    help="Where to look for a number, as in exponent=0:3, or its value; may be repeated.",
)
@click.option(
    "--hold-out",
    **options.REPEATED,
    help="Families not to fit to, only to try; may be repeated.",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 1000),
    help="Parts of the families, each held out in turn. Default: each family, at most 5 parts.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME=TRACE,...",
    help="Traces of one family; may be repeated. Default: the letters their names begin with.",
)
@options.run_options(options.single)
@options.seed_option("the search, and heuristics")
@options.json_option
@click.option("--quiet", "-q", "is_quiet", is_flag=True, help="Do not show progress.")
def command(files: tuple[str, ...], budgets: tuple[Any, ...], **given: Any) -> None:
    """Fit the parameters of a heuristic to traces.

    FILES are traces as rematsim sweep takes them. With those of several families it is told what
    the parameters do to families that they were not fitted to: one held out, or each in turn.
    """
    from ..simulation import Options
    from ..traces.loading import load_traces
    from ..tuning import Search, require_optuna, tune
    from .progress import Progress

    require_optuna()
    cached = not given["no_cache"]
    traces = load_traces([options.trace_given(file) for file in files], cache=cached)
    tell_fractions(traces)
    search = Search(
        given["trials"],
        given["seed"],
        dict(given["ranges"]),
        given["hold_out"],
        given["folds"],
        _families(given["families"]),
    )
    asked = [budget for part in budgets for budget in part]
    with Progress(given["is_quiet"], "trials") as progress:
        found = tune(
            traces,
            given["method"],
            asked,
            search=search,
            options=Options(**options.of_simulate(given)),
            report=progress.report,
        )
    use = _command(found, files, given | {"budget": ",".join(map(str, asked))})
    if given["as_json"]:
        print_json(asdict(found) | {"command": use})
    else:
        _show(found, use)


def _families(given: tuple[str, ...]) -> dict[str, str]:
    """Read which traces are of which family."""
    families = {}
    for text in given:
        family, equals, listed = text.partition("=")
        if not (family and equals and listed):
            raise click.UsageError(f"--family {text}: write NAME=TRACE,TRACE")
        families.update(dict.fromkeys(listed.split(","), family))
    return families


def _command(found: Tuned, files: tuple[str, ...], given: dict[str, Any]) -> str:
    """Write the command that uses the result as it was tuned."""
    from ..simulation import Options

    parts = ["rematsim", "sweep", *files, "--heuristic", found.method, "--budget", given["budget"]]
    plain = Options()
    for name in ("deallocation", "mutation", "memory", "slowdown_limit"):
        if given[name] != getattr(plain, name):
            parts += [f"--{name.replace('_', '-')}", str(given[name])]
    return shlex.join(parts)


def _show(found: Tuned, use: str) -> None:
    """Tell a person: the figure of what was held out first."""
    if found.held_out is None:
        click.echo("one family of traces: nothing is held out, so this is for its own steps only\n")
    for names, method in found.parts:
        click.echo(f"held out {', '.join(map(name_cell, names))}: {method}")
    if found.parts:
        click.echo()
    rows = []
    for what, both in (("held out", found.held_out), ("fitted to", found.fit)):
        if both is not None:
            rows.append([what, "as given", *_cells(both.given)])
            rows.append([what, "tuned", *_cells(both.fitted)])
    print_table(["traces", "parameters", "runs", "failed", "slowdown"], rows, n_text=2)
    click.echo("\nslowdown: geometric mean, in which a failed run counts as the slowdown limit")
    click.echo(f"\n{found.given} -> {found.method}\n{printable(use)}")


def _cells(figure: Figure) -> list[str]:
    return [str(figure.runs), str(figure.failures), f"{figure.slowdown:.4f}"]
