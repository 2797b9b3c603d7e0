"""``rematsim replay``: one run of one trace, told in a few lines.

The same numbers as a row of a sweep, and what was in memory when it mattered.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from . import options
from .loading import load_given
from .output import check_writable, print_json
from .telling import print_floor, print_run

if TYPE_CHECKING:
    from ..result import RunResult
    from ..traces.trace import Trace

NOT_OK = 3


@options.command(
    "replay",
    "rematsim replay model.log --heuristic h_DTR_eq --budget 0.5x",
    "rematsim replay model.log.gz --budget 6GiB --bound --save-run model.run",
)
@click.argument("trace", default="-")
@click.option(
    "-H",
    "--heuristic",
    default="h_DTR_eq",
    show_default=True,
    help="A name (see rematsim list heuristics), or file.py:function.",
)
@options.budget_option("0.5x")
@options.run_options(options.single)
@options.link_options()
@options.seed_option("heuristics")
@options.bound_option
@options.save_run_option
@options.timeline_option
@click.option(
    "--save-plan",
    type=options.PLAN_FILE,
    help="Save what the run did as a plan, if it ends ok (see rematsim execute).",
)
@options.json_option
def command(trace: str, save_run: str | None, as_json: bool, **given: Any) -> int:
    """Replay a trace under a budget.

    TRACE is a trace file, a log or what else rematsim import reads, plain or compressed, or
    bundled:NAME (see rematsim list traces); - or none reads standard input. The exit code is 3 if
    the run ends out of memory or thrashing.
    """
    from ..bounds import with_bound
    from ..simulation import simulate

    save_plan, link = given["save_plan"], options.link_given(given)
    check_writable(save_run)
    check_writable(given["timeline"])
    check_writable(save_plan)
    loaded = load_given(trace, cache=not given["no_cache"])
    result = simulate(
        loaded,
        given["heuristic"],
        given["budget"],
        event_log=save_run is not None or save_plan is not None or given["timeline"] is not None,
        live_sets=True,
        link=link,
        **options.of_simulate(given),
    )
    if given["bound"]:
        result = with_bound(loaded, result, cached=not given["no_cache"])
    if as_json:
        print_json(as_object(result))
    else:
        print_run(result)
        print_floor(result, loaded)
    if save_run is not None:
        result.save(save_run)
        click.echo(f"rematsim: saved the run in {save_run}", err=True)
    save_timeline_of(result, given["timeline"])
    if save_plan is not None:
        _save_plan(loaded, result, save_plan, trace)
    return 0 if result.status == "ok" else NOT_OK


def as_object(result: RunResult) -> dict[str, Any]:
    """Give a run as an object of JSON: its row, and what was in memory when it mattered."""
    live = {"live_at_peak": result.live_at_peak, "live_at_oom": result.live_at_oom}
    return result.row | {name: there and asdict(there) for name, there in live.items()}


def save_timeline_of(result: RunResult, path: str | None) -> None:
    """Save what happened when for a viewer, if that was asked for."""
    if path is not None:
        from ..analysis.chrome_traces import save_timeline

        save_timeline(result, path)
        click.echo(f"rematsim: saved the timeline in {path}", err=True)


def plan_source(trace: str) -> str:
    """Say in a plan where its trace was read; nothing where that was standard input."""
    return "" if trace == "-" else trace


def _save_plan(trace: Trace, result: RunResult, path: str, source: str) -> None:
    """Save what a run did as a plan; one that did not end ok is none."""
    from ..plan import plan_of_run
    from ..plan_files import save_plan
    from ..workload import workload

    if result.status != "ok":
        click.echo(f"rematsim: no plan saved: the run ended {result.status}", err=True)
        return
    plan = plan_of_run(workload(trace, result.mutation).program, result)
    save_plan(replace(plan, source=plan_source(source)), path)
    click.echo(f"rematsim: saved the plan in {path}", err=True)
