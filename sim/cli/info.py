"""``rematsim info``: what a trace holds, and which budgets are worth trying.

The first question of everybody who has a log; everything here is known without a budget.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import format_bytes, format_count, format_counts, format_ns, print_fields, print_json

if TYPE_CHECKING:
    from ..requirements import Requirements
    from ..traces.trace import Trace


@options.command("info", "rematsim info model.log", "zcat model.log.gz | rematsim info - --json")
@click.argument("trace", default="-")
@options.json_option
@options.cache_option
def command(trace: str, as_json: bool, no_cache: bool) -> None:
    """Show what a trace holds and needs.

    TRACE is a trace file, a log or what else rematsim import reads, plain or compressed, or
    bundled:NAME (see rematsim list traces); - or none reads standard input. No budget below the
    lowest one worth trying can end well; that one may still fail.
    """
    from ..traces.loading import load_trace

    loaded = load_trace(options.trace_given(trace), cache=not no_cache)
    facts = collect(loaded, not no_cache)
    if as_json:
        print_json(facts)
    else:
        print_fields(_lines(facts))


def collect(trace: Trace, is_cached: bool = True) -> dict[str, Any]:
    """Return everything that ``info`` tells, as plain values: bytes and nanoseconds."""
    from ..lowering import compile_trace
    from ..requirements import requirements
    from ..simulation import simulate

    needs = requirements(compile_trace(trace))
    peak = simulate(trace, cached=is_cached).unlimited_peak_bytes
    return {
        "trace": trace.name,
        "source": trace.source,
        "digest": trace.digest,
        "calls": trace.n_calls,
        "constants": trace.n_constants,
        "compute_ns": trace.compute_ns,
        "times_estimated": trace.times_estimated,
        "phases": _phases(trace),
        "constant_bytes": needs.constant_bytes,
        "output_bytes": needs.output_bytes,
        "largest_call": _call(trace, needs.largest_call, needs.largest_call_bytes),
        "unlimited_peak_bytes": peak,
        "lowest_budget_bytes": needs.lowest_budget_bytes,
        "lowest_budget_reason": _reason(trace, needs),
        "provenance": None if trace.provenance is None else asdict(trace.provenance),
    }


def _phases(trace: Trace) -> dict[str, dict[str, int]]:
    """Count calls and compute by phase, in the order of a training step.

    A log that names no phases may still say where the backward pass begins.
    """
    import numpy as np

    from ..opcodes import BACKWARD, CALL, PHASES

    codes = trace.instructions[:, 0]
    is_late = np.cumsum(codes == BACKWARD)[codes == CALL] > 0
    masks = {name: trace.call_phase == code for code, name in enumerate(PHASES)}
    unknown = masks.pop("")
    if is_late.any():
        masks |= {"before BACKWARD": unknown & ~is_late, "after BACKWARD": unknown & is_late}
    else:
        masks["unknown"] = unknown
    return {
        name: {"calls": int(mask.sum()), "compute_ns": int(trace.call_time_ns[mask].sum())}
        for name, mask in masks.items()
        if mask.any()
    }


def _call(trace: Trace, call: int, count: int) -> dict[str, Any] | None:
    """Describe a call, if there is one."""
    if call < 0:
        return None
    line = int(trace.call_line[call])
    operator = trace.operators[trace.call_operator[call]]
    return {"operator": operator, "line": line or None, "call": call, "bytes": count}


def _reason(trace: Trace, needs: Requirements) -> str:
    """Say in words what asks for the lowest budget."""
    if needs.lowest_budget_call < 0:
        return "the constants and the outputs, which are all in memory at the end"
    call = _call(trace, needs.lowest_budget_call, 0)
    assert call is not None, "a call that asks for memory exists"
    return f"the constants, and the operands and results of {_place(call)}"


def _place(call: dict[str, Any]) -> str:
    place = f"call {call['call']}" if call["line"] is None else f"line {call['line']}"
    return f"{call['operator']} ({place})"


def _lines(facts: dict[str, Any]) -> dict[str, str]:
    """Put the facts into words."""
    peak, lowest = facts["unlimited_peak_bytes"], facts["lowest_budget_bytes"]
    share = f" ({lowest / peak:.3f}x)" if peak else ""
    largest = facts["largest_call"]
    phases = ", ".join(
        f"{name} {format_count(part['calls'])} calls {format_ns(part['compute_ns'])}"
        for name, part in facts["phases"].items()
    )
    return {
        "trace": f"{facts['trace']} ({facts['source']})" if facts["source"] else facts["trace"],
        "digest": facts["digest"][:16],
        "calls": format_count(facts["calls"]),
        "compute": format_ns(facts["compute_ns"])
        + (" (estimated)" if facts["times_estimated"] else ""),
        "phases": phases or "none",
        "constants": f"{format_bytes(facts['constant_bytes'])} in "
        f"{format_count(facts['constants'])}",
        "outputs": f"{format_bytes(facts['output_bytes'])} held at the end",
        "largest single call": "none"
        if largest is None
        else f"{format_bytes(largest['bytes'])}, {_place(largest)}",
        "unlimited peak": f"{format_bytes(peak)} = 1.0x",
        "lowest budget worth trying": f"{format_bytes(lowest)}{share}: "
        f"{facts['lowest_budget_reason']}",
    } | _made_of(facts["provenance"])


def _made_of(provenance: dict[str, Any] | None) -> dict[str, str]:
    """Put into words what a trace was made of, where something was inferred or dropped."""
    summary = provenance["summary"] if provenance else {}
    if not provenance or not (summary["inferred"] or summary["dropped"]):
        return {}
    files = " with ".join(provenance["files"])
    told = {what: "; ".join(format_counts(summary[what])) for what in ("inferred", "dropped")}
    return {"made of": f"{files} ({provenance['format']})"} | told
