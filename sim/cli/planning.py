"""``rematsim plan``: plan a trace or a graph within a budget, execute the plan, save it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from . import options
from .loading import load_given
from .output import check_writable, format_bytes, print_fields, print_json, tell
from .progress import Waiting
from .replay import NOT_OK, plan_source, save_timeline_of
from .telling import print_run

if TYPE_CHECKING:
    from ..planning import Planned


@options.command(
    "plan",
    "rematsim plan bundled:unet --budget 0.5x -o unet.plan",
    "rematsim plan bundled:gpt --method rotor --budget 96MiB",
    "rematsim plan vgg16.json --method optimal --budget 14GB --time-limit 10 --json",
)
@click.argument("trace", default="-")
@click.option(
    "--method",
    default="annealing",
    show_default=True,
    help="A planner (see rematsim list planners), with parameters as in NAME(KEY=VALUE).",
)
@options.budget_option("0.5x")
@options.memory_option()
@options.link_options()
@options.time_limit_option("")
@options.seed_option("planners")
@options.cache_option
@options.timeline_option
@click.option("-o", "--out", type=options.PLAN_FILE, help="Save the plan.")
@options.json_option
def command(trace: str, out: str | None, as_json: bool, **given: Any) -> int:
    """Plan a trace, or a graph file, within a budget.

    TRACE is what rematsim replay takes, or a graph of networkx in JSON. The plan is executed on it
    by the same simulator as every online run, and the exit code is 3 if there is none, or it does
    not end ok.
    """
    from ..plan_files import save_plan
    from ..planning import plan_trace

    check_writable(out)
    check_writable(given["timeline"])
    loaded = load_given(trace, cache=not given["no_cache"])
    limit, link = options.finite(given["time_limit"]), options.link_given(given)
    with Waiting("planning", limit, loaded.name):
        planned = plan_trace(
            loaded,
            given["method"],
            given["budget"],
            time_limit=limit,
            seed=given["seed"],
            memory=given["memory"],
            link=link,
            live_sets=not as_json,
            event_log=given["timeline"] is not None,
            cached=not given["no_cache"],
        )
    if as_json:
        found = planned.found
        print_json(planned.row.row | {"bound_scope": found.bound_scope, "details": found.details})
    else:
        _print(planned)
    if out is not None and planned.plan is not None:
        save_plan(replace(planned.plan, source=plan_source(trace)), out)
        tell(f"saved the plan in {out}")
    elif out is not None:
        tell(f"no plan saved: {planned.row.message}")
    if planned.plan is not None:
        save_timeline_of(planned.row, given["timeline"])
    return 0 if planned.row.status == "ok" else NOT_OK


def _print(planned: Planned) -> None:
    """Tell a person what the planner answered, and how the plan ran."""
    row, found = planned.row, planned.found
    lines = {"planner": f"{row.method}: {found.status}"}
    if found.message:
        lines["planner"] += f": {found.message}"
    if row.bound_slowdown is not None:
        lines["bound"] = f"{row.bound_slowdown:.4f} ({found.bound_scope})"
    if row.gap is not None:
        lines["gap"] = f"{row.gap:.2%} (executed)"
    if row.predicted_slowdown is not None:
        lines["predicted"] = (
            f"{row.predicted_slowdown:.4f}, peak {format_bytes(row.predicted_peak_bytes)}"
        )
    lines["solving"] = f"{row.solve_seconds:.2f} s"
    print_fields(lines)
    if planned.plan is not None:
        click.echo()
        print_run(row)
