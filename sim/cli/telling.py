"""How a run is told to a person: a few lines, and what was in memory when it mattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .output import format_bytes, format_count, format_ns, print_fields

if TYPE_CHECKING:
    from ..result import LiveSet, RunResult
    from ..traces.trace import Trace

MOST_CALLS = 5  # that hold what is in memory, shown
MUCH_TOO_SMALL = 1000  # a budget so many times too small may lack its unit


def print_run(result: RunResult) -> None:
    """Tell a person how the run went."""
    budget = format_bytes(result.budget_bytes)
    if result.budget_fraction is not None:
        budget += f" ({result.budget_fraction}x)"
    is_online = result.kind == "online"
    reason = "for lack of memory" if is_online else "of what is computed again"
    lines = {
        "trace": f"{result.trace} ({result.trace_digest[:16]})"
        + (", times estimated" if result.times == "estimated" else ""),
        "method": result.method + f", {result.deallocation}" * is_online,
        "status": f"{result.status}: {result.message}" if result.message else result.status,
        "slowdown": "-" if result.slowdown is None else f"{result.slowdown:.4f}",
        "compute": f"{format_ns(result.model_ns)} model, "
        f"{format_ns(result.remat_ns)} rematerialization",
        "budget": budget,
        "peak": f"{format_bytes(result.peak_bytes)} of {format_bytes(result.unlimited_peak_bytes)} "
        "without a budget",
        "evictions": f"{format_count(result.evictions)}, "
        f"{format_count(result.pressure_evictions)} of them {reason}",
        "rematerializations": format_count(result.rematerializations),
    }
    if result.stall_ns or result.offloaded_bytes:
        lines["compute"] += f", {format_ns(result.stall_ns)} of stalls"
        lines["transfers"] = (
            f"{format_bytes(result.offloaded_bytes)} to the host, "
            f"{format_bytes(result.prefetched_bytes)} from it, over {result.link}; "
            f"at most {format_bytes(result.host_peak_bytes)} there"
        )
    if result.reserved_peak_bytes is not None:
        lines["memory"] = _addresses(result)
    if result.bound_slowdown is not None and result.planner_status is None:
        above = "" if result.gap is None else f", which this is {result.gap:.1%} above"
        lines["lower bound"] = f"{result.bound_slowdown:.4f}{above}"
    if result.metadata_accesses is not None and result.evaluations is not None:
        lines["scores"] = (
            f"{format_count(result.evaluations)} computed, "
            f"{format_count(result.metadata_accesses)} metadata accesses"
        )
    print_fields(lines)
    _print_live("at the peak", result.live_at_peak)
    _print_live("when memory ran out", result.live_at_oom)


def print_floor(result: RunResult, trace: Trace) -> None:
    """Name the lowest budget worth trying, where an online run failed below it."""
    missed = missed_floor(trace, [result.row]) if result.kind == "online" else None
    if missed is None:
        return
    lowest, share = missed
    click.echo(
        f"\nlowest budget worth trying: {format_bytes(lowest)} ({share:.3f}x), "
        "rematsim info says why"
    )
    budget = result.budget_bytes
    if budget is not None and budget * MUCH_TOO_SMALL < lowest:
        click.echo(f"{format_bytes(budget)} may lack a unit: a number alone is bytes")


def missed_floor(trace: Trace, rows: Sequence[Mapping[str, Any]]) -> tuple[int, float] | None:
    """Give the lowest budget worth trying, if one of a trace's runs failed below it.

    Returns
    -------
    (int, float) or None
        In bytes, and as a fraction of the unlimited peak.

    Notes
    -----
    The bound holds where constants stay in memory and updates are copies: of other runs it says
    nothing.
    """
    from ..requirements import requirements
    from ..workload import workload

    failed = [row for row in rows if _is_bounded_failure(row)]
    if not failed:
        return None
    lowest = requirements(workload(trace, cached=False).program).lowest_budget_bytes
    if all(row["budget_bytes"] >= lowest for row in failed):
        return None
    return lowest, lowest / failed[0]["unlimited_peak_bytes"]


def _is_bounded_failure(row: Mapping[str, Any]) -> bool:
    is_bounded = row["deallocation"] != "banish" and row["mutation"] == "copy"
    return is_bounded and row["status"] != "ok" and row["budget_bytes"] is not None


def _addresses(result: RunResult) -> str:
    """Tell what a memory with addresses made of it."""
    told = f"{result.memory}, {format_bytes(result.reserved_peak_bytes)} reserved at most"
    if result.fragmentation is not None:
        told += f", fragmentation {result.fragmentation:.1%}"
    if result.largest_hole_bytes is not None:
        told += f", largest hole {format_bytes(result.largest_hole_bytes)}"
    return told


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
