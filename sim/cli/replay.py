"""``rematsim replay``: one run of one trace, told in a few lines.

The same numbers as a row of a sweep, and what was in memory when it mattered.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import check_writable, format_bytes, format_count, format_ns, print_fields, print_json

if TYPE_CHECKING:
    from ..result import LiveSet, RunResult

NOT_OK = 3

MOST_CALLS = 5  # that hold what is in memory, shown


@options.command(
    "replay",
    "rematsim replay model.log --heuristic h_DTR_eq --budget 0.5x",
    "rematsim replay model.log.gz --budget 6GiB --save-run model.run",
)
@click.argument("trace", default="-")
@click.option(
    "--heuristic",
    default="h_DTR_eq",
    show_default=True,
    help="A name (see rematsim list heuristics), or file.py:function.",
)
@click.option(
    "--budget",
    default="0.5x",
    show_default=True,
    type=options.BUDGET,
    help="Bytes (6GiB), a fraction of the unlimited peak (0.5x), or unlimited.",
)
@options.run_options(options.single)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="For heuristics that draw lots.",
)
@click.option(
    "--save-run",
    type=options.FileType(".run"),
    help="Save row, event log and storages.",
)
@options.json_option
def command(trace: str, save_run: str | None, as_json: bool, **given: Any) -> int:
    """Replay a trace under a budget.

    TRACE is a trace file, a log or what else rematsim import reads, plain or compressed, or
    bundled:NAME (see rematsim list traces); - or none reads standard input. The exit code is 3 if
    the run ends out of memory or thrashing.
    """
    from ..simulation import simulate
    from ..traces.loading import load_trace

    check_writable(save_run)
    loaded = load_trace(options.trace_given(trace), cache=not given["no_cache"])
    result = simulate(
        loaded,
        given["heuristic"],
        given["budget"],
        deallocation=given["deallocation"],
        slowdown_limit=options.finite(given["slowdown_limit"]),
        seed=given["seed"],
        mutation=given["mutation"],
        count_accesses=given["count_accesses"],
        event_log=save_run is not None,
        live_sets=True,
        cached=not given["no_cache"],
    )
    if as_json:
        live = {"live_at_peak": result.live_at_peak, "live_at_oom": result.live_at_oom}
        print_json(result.row | {name: there and asdict(there) for name, there in live.items()})
    else:
        _print(result)
    if save_run is not None:
        result.save(save_run)
        click.echo(f"rematsim: saved the run in {save_run}", err=True)
    return 0 if result.status == "ok" else NOT_OK


def _print(result: RunResult) -> None:
    """Tell a person how the run went."""
    budget = format_bytes(result.budget_bytes)
    if result.budget_fraction is not None:
        budget += f" ({result.budget_fraction}x)"
    lines = {
        "trace": f"{result.trace} ({result.trace_digest[:16]})"
        + (", times estimated" if result.times == "estimated" else ""),
        "method": f"{result.method}, {result.deallocation}",
        "status": f"{result.status}: {result.message}" if result.message else result.status,
        "slowdown": "-" if result.slowdown is None else f"{result.slowdown:.4f}",
        "compute": f"{format_ns(result.model_ns)} model, "
        f"{format_ns(result.remat_ns)} rematerialization",
        "budget": budget,
        "peak": f"{format_bytes(result.peak_bytes)} of {format_bytes(result.unlimited_peak_bytes)} "
        "without a budget",
        "evictions": f"{format_count(result.evictions)}, "
        f"{format_count(result.pressure_evictions)} of them for lack of memory",
        "rematerializations": format_count(result.rematerializations),
    }
    if result.metadata_accesses is not None and result.evaluations is not None:
        lines["scores"] = (
            f"{format_count(result.evaluations)} computed, "
            f"{format_count(result.metadata_accesses)} metadata accesses"
        )
    print_fields(lines)
    _print_live("at the peak", result.live_at_peak)
    _print_live("when memory ran out", result.live_at_oom)


def _print_live(moment: str, live: LiveSet | None) -> None:
    """Show what was in memory at a moment, by category, and which calls held it."""
    if live is None:
        return
    click.echo(f"\nin memory {moment}: {format_bytes(live.total_bytes)}")
    parts = {name: count for name, count in live.categories.items() if count}
    for name, count in sorted(parts.items(), key=lambda part: -part[1]):
        click.echo(f"  {name:<20} {format_bytes(count):>12} {count / live.total_bytes:7.1%}")
    held = sorted((part for part in live.locked if part[1]), key=lambda part: -part[1])
    for call, count in held[:MOST_CALLS]:
        click.echo(f"  locked by {call}: {format_bytes(count)}")
    if len(held) > MOST_CALLS:
        click.echo(f"  locked by {len(held) - MOST_CALLS} more calls")
