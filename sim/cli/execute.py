"""``rematsim execute``: run a plan on its trace, or name the first action that cannot be."""

from __future__ import annotations

from typing import Any

import click

from . import options
from .loading import load_of_plan
from .output import check_writable, print_json, tell
from .replay import NOT_OK, as_object, save_timeline_of
from .telling import print_run


@options.command(
    "execute",
    "rematsim execute model.log model.plan --budget 6GiB",
    "rematsim execute bundled:unet unet.plan --json",
    "rematsim execute model.log offload.plan --budget 6GiB --device h100-pcie5",
)
@click.argument("trace")
@click.argument("plan")
@options.budget_option("unlimited")
@options.memory_option()
@options.link_options()
@options.cache_option
@options.bound_option
@options.save_run_option
@options.timeline_option
@options.json_option
def command(
    trace: str, plan: str, save_run: str | None, no_cache: bool, as_json: bool, **given: Any
) -> int:
    """Execute a plan on its trace.

    TRACE is what rematsim replay takes; PLAN a file from rematsim plan -o or rematsim replay
    --save-plan. Nothing is decided on the way: the plan fits and is possible, or the exit code is 3
    and the first action is named that is not.
    """
    from ..bounds import with_bound
    from ..execution import execute
    from ..plan_files import load_plan

    check_writable(save_run)
    check_writable(given["timeline"])
    loaded_plan = load_plan(plan)
    loaded = load_of_plan(loaded_plan, plan, trace, cache=not no_cache)
    result = execute(
        loaded,
        loaded_plan,
        given["budget"],
        memory=given["memory"],
        link=options.link_given(given),
        event_log=save_run is not None or given["timeline"] is not None,
        live_sets=True,
        cached=not no_cache,
    )
    if given["bound"]:
        result = with_bound(loaded, result, cached=not no_cache)
    if as_json:
        print_json(as_object(result))
    else:
        print_run(result)
    if save_run is not None:
        result.save(save_run)
        tell(f"saved the run in {save_run}")
    save_timeline_of(result, given["timeline"])
    return 0 if result.status == "ok" else NOT_OK
