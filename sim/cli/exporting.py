"""``rematsim export``: a trace as a DTR log; a plan as a list, or as a policy of PyTorch.

What the other form cannot hold is told, and what cannot be said at all is refused.
"""

from __future__ import annotations

from dataclasses import asdict

import click

from ..files import write_atomically
from . import options
from .loading import load_given, load_of_plan
from .output import (
    check_writable,
    format_bytes,
    format_count,
    format_counts,
    format_ns,
    name_cell,
    print_json,
    print_table,
    tell,
)


@options.command(
    "export",
    "rematsim export step.trace -o step.log.gz",
    "rematsim export unet.plan --list",
    "rematsim export gpt.plan --trace gpt.trace --policy gpt_policy.py",
)
@click.argument("source", metavar="TRACE|PLAN")
@click.option("-o", "--out", metavar="FILE", help="Of a trace, where to: x.log, x.log.gz, ...")
@click.option(
    "--list", "as_list", is_flag=True, help="Of a plan: what it saves and computes again."
)
@click.option(
    "--policy",
    type=options.FileType(".py"),
    help="Of a plan: write it as a selective policy of torch.utils.checkpoint.",
)
@click.option("--trace", help="The trace that a plan is for. Default: where the plan says.")
@options.json_option
@options.cache_option
def command(
    source: str,
    out: str | None,
    as_list: bool,
    policy: str | None,
    trace: str | None,
    **given: bool,
) -> None:
    """Write a trace as a DTR log, or a plan as a policy.

    TRACE is anything that can be replayed; what the format cannot hold is told on standard error,
    or as JSON on standard output. PLAN is a file from rematsim plan -o or rematsim replay
    --save-plan; --list and --policy are told in docs/fits.md.
    """
    as_json, cache = given["as_json"], not given["no_cache"]
    if not (as_list or policy):
        if out is None:
            raise click.UsageError("give -o FILE (of a trace), or --list or --policy (of a plan)")
        if trace is not None:
            raise click.UsageError("--trace: it goes with --list or --policy")
        _export_trace(source, out, as_json, cache)
        return
    if out is not None or (as_list and policy):
        raise click.UsageError("-o, --list and --policy: one of them")
    if policy is not None:
        _export_policy(source, trace, policy, as_json, cache)
    else:
        _export_list(source, trace, as_json, cache)


def _export_trace(trace: str, out: str, as_json: bool, cache: bool) -> None:
    """Write a trace."""
    from ..traces.importers.dtr_export import exportable
    from ..traces.saving import is_log, save_trace

    to_log = is_log(out)
    check_writable(None if out == "-" else out)
    loaded = load_given(trace, cache=cache)
    lost: dict[str, int] = {}
    if to_log:
        loaded, lost = exportable(loaded)
    save_trace(loaded, out)
    if as_json:
        print_json({"trace": loaded.name, "out": out, "lost": lost})
        return
    click.echo(f"lost: {'; '.join(format_counts(lost))}", err=True)


def _export_list(source: str, trace: str | None, as_json: bool, cache: bool) -> None:
    """List what a plan saves and computes again."""
    from ..plan_choices import PlanChoices
    from ..plan_files import load_plan

    plan = load_plan(source)
    rows = PlanChoices(load_of_plan(plan, source, trace, cache=cache), plan).rows()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    cells = [
        [
            *map(name_cell, (row.module, row.operator, row.phase)),
            format_count(row.saved) if row.saved else "-",
            format_bytes(row.saved_bytes) if row.saved else "-",
            format_count(row.recomputed) if row.recomputed else "-",
            format_bytes(row.recomputed_bytes) if row.recomputed else "-",
            format_count(row.remats) if row.remats else "-",
            format_ns(row.remat_ns) if row.remats else "-",
        ]
        for row in rows
    ]
    header = [
        "module",
        "operator",
        "phase",
        "saved",
        "bytes",
        "recomputed",
        "bytes",
        "runs",
        "time",
    ]
    print_table(header, cells, n_text=3)


def _export_policy(source: str, trace: str | None, policy: str, as_json: bool, cache: bool) -> None:
    """Write a plan as a policy, and tell what that cannot say, and what it comes to."""
    from ..execution import execute
    from ..plan_files import load_plan
    from ..policies import policy_of

    check_writable(policy)
    plan = load_plan(source)
    loaded = load_of_plan(plan, source, trace, cache=cache)
    made = policy_of(loaded, plan)
    rows = {"plan": execute(loaded, plan, cached=cache), "policy": made.simulated(cached=cache)}
    with write_atomically(policy) as file:
        file.write(made.text().encode("utf-8"))
    if as_json:
        told = {name: {"slowdown": row.slowdown, "peak_bytes": row.peak_bytes}
                for name, row in rows.items()}  # fmt: skip
        print_json({"policy_file": policy, "blocks": len(made.blocks), "saved": len(made.saved),
                    "unsaid": made.unsaid, **told})  # fmt: skip
        return
    click.echo(f"blocks checkpointed: {len(made.blocks)}; calls saved in them: {len(made.saved)}")
    for name, row in rows.items():
        shown = row.status if row.slowdown is None else f"{row.slowdown:.4f}"
        click.echo(f"{name}: slowdown {shown}, peak {format_bytes(row.peak_bytes)}")
    click.echo(f"not said: {'; '.join(format_counts(made.unsaid))}")
    tell(f"saved the policy in {policy}")
