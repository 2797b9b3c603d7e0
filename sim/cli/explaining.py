"""``rematsim explain``: a run's story, for a person or as JSON.

It finds the run, and asks `rematsim.explaining`; how that is shown is in `stories.py`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from . import options
from .loading import load_given
from .output import print_json
from .telling import print_floor

if TYPE_CHECKING:
    from ..explaining import Explanation
    from ..result import RunResult
    from ..traces.trace import Trace

SHOWN = 5


@options.command(
    "explain",
    "rematsim explain model.log -H h_DTR_eq --budget 0.5x",
    "rematsim explain model.run --trace model.log --storage x12 --at peak",
    "rematsim explain bundled:unet --plan unet.plan --at 1.5ms --json",
)
@click.argument("source", metavar="TRACE|FILE.run")
@click.option(
    "-H",
    "--heuristic",
    help="A name, or file.py:function [h_DTR_eq; of a saved run its own].",
)
@options.budget_option("0.5x")
@click.option(
    "--plan",
    type=options.PLAN_FILE,
    help="Explain the execution of a plan, without a budget if none is given.",
)
@click.option("--trace", help="What a saved run is of: with it, scores and causes can be told.")
@click.option("--storage", "storages", multiple=True, help="Its story; may be repeated.")
@click.option("--call", "calls", multiple=True, type=click.IntRange(0), help="Likewise, a number.")
@click.option(
    "--at",
    "moments",
    multiple=True,
    metavar="TIME|CALL",
    help="What is in memory then: 1.5ms, a call's number, peak or end; may be repeated.",
)
@click.option("--top", type=click.IntRange(1), help=f"Rows of a table [{SHOWN}; with --json all].")
@options.run_options(options.single)
@options.link_options()
@options.seed_option("heuristics")
@options.json_option
@click.pass_context
def command(context: click.Context, /, source: str, as_json: bool, **given: Any) -> None:
    """Tell a run's story.

    TRACE is replayed, or a plan executed on it; FILE.run is what rematsim replay --save-run wrote.
    Without --storage, --call or --at a summary is given: where the overhead goes, what is in memory
    at the peak, and what a little more memory would buy (docs/explain.md).
    """
    from ..explaining import explain

    is_saved = source.lower().endswith(".run")
    if is_saved:
        own = ("plan", *options.OF_A_NEW_RUN)
        options.refuse_given(context, own, f"{source}: a saved run has its own")
    else:
        options.refuse_given(context, ("trace",), f"{source}: it goes with a saved run")
    if given["plan"] is not None:
        others = ("heuristic", *options.OF_A_REPLAY)
        options.refuse_given(context, others, f"{given['plan']}: a plan decides for itself")
    is_budget_given = context.get_parameter_source("budget") == ParameterSource.COMMANDLINE
    if given["plan"] is not None and not is_budget_given:
        given["budget"] = "unlimited"
    run, trace = saved_run(source, given) if is_saved else new_run(source, given)
    has_scores = trace is not None and run.kind == "online"
    told = explain(run, trace, given["heuristic"] if has_scores else None)
    if as_json:
        print_json(jsonable(_as_object(told, given)))
    else:
        _show(told, given)


def saved_run(path: str, given: dict[str, Any]) -> tuple[RunResult, Trace | None]:
    """Read a saved run, and its trace where that is given."""
    from ..result import load_run

    if given["heuristic"] is not None and given["trace"] is None:
        raise click.UsageError("--heuristic: a saved run needs its trace as well: --trace")
    run = load_run(path)
    where = given["trace"]
    return run, None if where is None else load_given(where, cache=not given["no_cache"])


def new_run(source: str, given: dict[str, Any]) -> tuple[RunResult, Trace]:
    """Replay a trace, or execute a plan on it."""
    from ..execution import execute
    from ..plan_files import load_plan
    from ..simulation import DEFAULT_HEURISTIC, simulate

    cached, link = not given["no_cache"], options.link_given(given)
    plan = None if given["plan"] is None else load_plan(given["plan"])
    trace = load_given(source, cache=cached)
    if plan is not None:
        asked = {"memory": given["memory"], "link": link, "event_log": True, "cached": cached}
        return execute(trace, plan, given["budget"], **asked), trace
    heuristic = given["heuristic"] or DEFAULT_HEURISTIC
    ours = options.of_simulate(given)
    return simulate(trace, heuristic, given["budget"], event_log=True, link=link, **ours), trace


def _show(told: Explanation, given: dict[str, Any]) -> None:
    """Tell a person."""
    from . import stories

    top = given["top"] or SHOWN
    stories.print_head(told)
    if told.story.trace is not None:
        print_floor(told.result, told.story.trace)
    if not (given["storages"] or given["calls"] or given["moments"]):
        stories.print_summary(told, top)
    for moment in given["moments"]:
        stories.print_instant(told.live(moment), top)
    for name in given["storages"]:
        for storage in told.storages_named(name):
            stories.print_life(told, told.life(storage, top), top)
    for call in given["calls"]:
        stories.print_call(told, told.call(call, top), top)


def _as_object(told: Explanation, given: dict[str, Any]) -> dict[str, Any]:
    """Give the same as an object of JSON; whole lists, unless --top is given."""
    top = given["top"]
    found: dict[str, Any] = {"run": told.result.row}
    if not (given["storages"] or given["calls"] or given["moments"]):
        found["overhead"] = [asdict(part) | {"total_ns": part.total_ns} for part in told.overhead]
        found["at"] = [_instant(told, "peak", top)]
        found["worth"] = told.worths[:top]
        found["with_more"] = told.with_more(top or SHOWN)
    else:
        found["at"] = [_instant(told, moment, top) for moment in given["moments"]]
        named = [s for name in given["storages"] for s in told.storages_named(name)]
        found["storages"] = [told.life(storage, top or SHOWN) for storage in named]
        found["calls"] = [told.call(call, top or SHOWN) for call in given["calls"]]
    return found


def _instant(told: Explanation, moment: str, top: int | None) -> dict[str, Any]:
    live = told.live(moment)
    return asdict(live) | {"storages": live.storages[:top]}


def jsonable(value: Any) -> Any:
    """Give a value as JSON knows it: objects for dataclasses, texts for infinite numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key: jsonable(item) for key, item in vars(value).items()}
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
