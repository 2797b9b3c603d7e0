"""``rematsim compare``: runs, plans or methods on one trace, side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from . import options
from .diffing import print_differences
from .loading import load_given
from .output import (
    IN_LINE,
    check_writable,
    format_bytes,
    format_count,
    format_ns,
    name_cell,
    print_json,
    print_table,
    tell,
)

if TYPE_CHECKING:
    from ..result import RunResult
    from ..side_by_side import Doing, Parting, SideBySide
    from ..traces.trace import Trace

SHOWN = 10
PLANS = options.PLAN_FILE.suffixes


@options.command(
    "compare",
    "rematsim compare dtr.run lru.run --out memory.png",
    "rematsim compare dtr.run optimal.plan --trace model.log",
    "rematsim compare --trace bundled:unet --heuristic h_DTR,h_LRU --method rotor --budget 0.8x",
)
@click.argument("files", nargs=-1, metavar="[FILE.run|FILE.plan]...")
@click.option("--trace", help="What they are runs of. Default for plans: where the first one says.")
@click.option(
    "-H",
    "--heuristic",
    "heuristics",
    **options.REPEATED,
    help="Replay the trace with these as well; may be repeated.",
)
@click.option(
    "--method",
    "methods",
    **options.REPEATED,
    help="Plan it with these as well; may be repeated.",
)
@options.budget_option("0.5x")
@options.time_limit_option("")
@click.option("--out", metavar="FILE", help="Draw the memory curves: a .png, .svg or .pdf.")
@click.option("--top", type=click.IntRange(1), help=f"Rows of a table [{SHOWN}; with --json all].")
@options.run_options(options.single)
@options.link_options()
@options.seed_option("heuristics")
@options.json_option
@click.pass_context
def command(
    context: click.Context, /, files: tuple[str, ...], out: str | None, as_json: bool, **given: Any
) -> None:
    """Compare runs of one trace.

    They are saved runs, plans (executed without a budget), and methods at one budget, in this
    order; a method that has no plan is named and left out. The first is the measure of the others:
    where they part from it, and what they keep or recompute that it does not.
    """
    from ..side_by_side import compare

    _check(context, files, given)
    given["link"] = options.link_given(given)
    if out is not None:
        from ..analysis.output import check_suffix

        check_suffix(out)
        check_writable(out)
    named, trace = _runs(files, given)
    both = compare([run for _, run in named], trace)
    names = [name for name, _ in named]
    if as_json:
        print_json(_as_object(both, names, given["top"]))
    else:
        _show(both, names, given["top"] or SHOWN, draws=out is not None)
    if out is not None:
        from ..analysis.output import save_figure
        from ..analysis.run_curves import compared_runs_figure

        lettered = dict(zip(both.labels, both.runs, strict=True))
        save_figure(compared_runs_figure(lettered, names), out)
        tell(f"drawn in {out}")


def _check(context: click.Context, files: tuple[str, ...], given: dict[str, Any]) -> None:
    """Refuse files of other kinds, and options that would count for nothing."""
    for file in files:
        if not file.lower().endswith((".run", *PLANS)):
            raise click.UsageError(f"{file}: neither .run nor .plan; a trace is given with --trace")
    has_plans = any(file.lower().endswith(PLANS) for file in files)
    idle: list[str] = []
    if not given["heuristics"]:
        idle += [name for name in options.OF_A_REPLAY if name != "seed"]
    if not given["methods"]:
        idle.append("time_limit")
    if not (given["heuristics"] or given["methods"]):
        idle += ["budget", "seed"]
        idle += [] if has_plans else options.OF_THE_MACHINE
    options.refuse_given(context, idle, "nothing is run here that it is for")


def _runs(
    files: tuple[str, ...], given: dict[str, Any]
) -> tuple[list[tuple[str, RunResult]], Trace | None]:
    """Read, execute, replay and plan what is to be compared; give names, runs and the trace."""
    from ..execution import execute
    from ..plan_files import load_plan
    from ..result import load_run

    plans = {file: load_plan(file) for file in files if file.lower().endswith(PLANS)}
    heuristics, methods = given["heuristics"], given["methods"]
    where = given["trace"] or next((plan.source for plan in plans.values() if plan.source), "")
    if not where and (plans or heuristics or methods):
        raise click.UsageError("no --trace given, which plans and methods need")
    cached = not given["no_cache"]
    trace = load_given(where, cache=cached) if where else None
    named = []
    for file in files:
        if file in plans:
            assert trace is not None
            machine = {"memory": given["memory"], "link": given["link"]}
            run = execute(trace, plans[file], event_log=True, cached=cached, **machine)
        else:
            run = load_run(file)
        named.append((file, run))
    if trace is not None:
        named += [(name, _replayed(trace, name, given)) for name in heuristics]
        planned = [(name, _planned(trace, name, given)) for name in methods]
        named += [(name, run) for name, run in planned if run is not None]
    return named, trace


def _replayed(trace: Trace, heuristic: str, given: dict[str, Any]) -> RunResult:
    from ..simulation import simulate

    ours = options.of_simulate(given)
    return simulate(trace, heuristic, given["budget"], event_log=True, link=given["link"], **ours)


def _planned(trace: Trace, method: str, given: dict[str, Any]) -> RunResult | None:
    """Plan; where there is no plan, say so: there is nothing to compare."""
    from ..planning import plan_trace

    planned = plan_trace(
        trace,
        method,
        given["budget"],
        time_limit=options.finite(given["time_limit"]),
        memory=given["memory"],
        link=given["link"],
        seed=given["seed"],
        event_log=True,
        cached=not given["no_cache"],
    )
    if planned.plan is None:
        status, message = planned.row.planner_status, planned.row.message
        tell(f"{method}: no plan at this budget ({status}{message and ': '}{message}): left out")
        return None
    return planned.row


def _show(both: SideBySide, names: list[str], top: int, draws: bool) -> None:
    """Tell a person."""
    _print_runs(both, names)
    if not draws:
        _print_curves(both)
    _print_overhead(both, top)
    for other in range(1, len(both.runs)):
        pair = (both.labels[0], both.labels[other])
        parting, again = both.parting(other), both.recomputation(other)
        click.echo()
        if parting is None:
            click.echo(f"{pair[0]} and {pair[1]} do the same from begin to end")
            continue
        _print_parting(pair, parting, "part after {} equal steps")
        if again is None:
            click.echo("both recompute the same, in the same order")
        elif again.first.row != parting.first.row:
            _print_parting(pair, again, "first recompute otherwise after {} equal recomputations")
        kept = both.kept(other)
        if kept is None:
            click.echo(f"what only one keeps: {both.why_not_kept(other)}")
        else:
            click.echo()
            print_differences(kept, pair, top, "--top")


def _print_runs(both: SideBySide, names: list[str]) -> None:
    from ..result import ESTIMATED

    first = both.runs[0]
    estimated = ESTIMATED if any(run.times == "estimated" for run in both.runs) else ""
    click.echo(f"trace {name_cell(first.trace, IN_LINE)} ({first.trace_digest[:16]}){estimated}\n")
    rows = [
        [
            label,
            name_cell(name, IN_LINE),
            name_cell(run.method, IN_LINE),
            format_bytes(run.budget_bytes),
            run.status,
            "-" if run.slowdown is None else f"{run.slowdown:.4f}",
            format_bytes(run.peak_bytes),
            format_count(run.pressure_evictions),
            format_count(run.rematerializations),
        ]
        for label, name, run in zip(both.labels, names, both.runs, strict=True)
    ]
    header = ["", "run", "method", "budget", "status", "slowdown", "peak", "evicted", "recomputed"]
    print_table(header, rows, n_text=3)


def _print_curves(both: SideBySide) -> None:
    """Show the most memory in each part of the time."""
    from ..side_by_side import PARTS

    click.echo("\nmost memory in parts of the longest run's time (--out draws it):\n")
    rows = [
        [f"{100 * part // PARTS}%", *("-" if one is None else format_bytes(one) for one in row)]
        for part, row in enumerate(both.curves())
    ]
    print_table(["from", *both.labels], rows, n_text=0)


def _print_overhead(both: SideBySide, top: int) -> None:
    rows = both.overhead
    if not rows:
        return
    click.echo("\noverhead by module:\n")
    cells = [[name_cell(module), *map(format_ns, costs)] for module, costs in rows]
    sums = [sum(costs[place] for _, costs in rows) for place in range(len(both.runs))]
    print_table(["module", *both.labels], [*cells[:top], ["all", *map(format_ns, sums)]])
    if len(rows) > top:
        click.echo(f" more rows: {len(rows) - top} (--top)")


def _print_parting(pair: tuple[str, str], parting: Parting, how: str) -> None:
    said = how.format(format_count(parting.actions))
    click.echo(f"{pair[0]} and {pair[1]} {said}:")
    for label, doing in zip(pair, (parting.first, parting.second), strict=True):
        click.echo(f"  {label} {_did(doing)}")


def _did(doing: Doing) -> str:
    """Put what a run does into words."""
    when = f"at {format_ns(doing.time_ns)}, {format_bytes(doing.memory_bytes)} in memory"
    if doing.action == "end":
        return f"ends {when}"
    what = f"{name_cell(doing.name)} ({format_bytes(doing.bytes)})"
    by = f", {name_cell(doing.call, IN_LINE)}" if doing.call else ""
    return f"{doing.action}s {what} {when}{by}".replace("banishs", "banishes")


def _as_object(both: SideBySide, names: list[str], top: int | None) -> dict[str, Any]:
    """Give the same as an object of JSON."""
    pairs = []
    for other in range(1, len(both.runs)):
        parting, again, kept = both.parting(other), both.recomputation(other), both.kept(other)
        pairs.append(
            {
                "runs": [both.labels[0], both.labels[other]],
                "is_equal": parting is None,
                "parting": parting and asdict(parting),
                "recomputation": again and asdict(again),
                "kept": kept if kept is None else [asdict(row) for row in kept[:top]],
            }
        )
    named = zip(both.labels, names, both.runs, strict=True)
    return {
        "runs": [{"label": label, "run": name} | run.row for label, name, run in named],
        "most_memory_bytes": both.curves(),
        "overhead_ns": [{"module": m, "runs": costs} for m, costs in both.overhead[:top]],
        "pairs": pairs,
    }
