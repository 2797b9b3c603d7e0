"""How sub-commands that run something load traces: what the numbers of a file became is said.

Where they are only shown, `rematsim info` and `rematsim import` say that among the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import PlanError
from . import options
from .output import tell

if TYPE_CHECKING:
    from ..plan import Plan
    from ..traces.trace import Trace


def load_given(trace: str, *, cache: bool) -> Trace:
    """Load the trace that the user named."""
    from ..traces.loading import load_trace

    loaded = load_trace(options.trace_given(trace), cache=cache)
    tell_fractions([loaded])
    return loaded


def load_of_plan(plan: Plan, path: str, given: str | None, *, cache: bool) -> Trace:
    """Load the trace that a plan is for: the one given, or else where the plan says.

    Raises
    ------
    PlanError
        If it does not say, or is for another one.
    """
    where = given or plan.source
    if not where:
        raise PlanError(f"{path}: it does not say where its trace is: give --trace")
    trace = load_given(where, cache=cache)
    plan.check_trace(trace)
    return trace


def why_impossible(trace: Trace, plan: Plan, path: str) -> str:
    """Name the first action of a plan that cannot be, whatever memory there is; or give nothing."""
    from ..execution import execute

    row = execute(trace, plan)
    return "" if row.status == "ok" else f"{path}: {row.status}: {row.message}"


def tell_fractions(traces: Iterable[Trace]) -> None:
    """Say on standard error what became of sizes and costs with fractions."""
    for trace in traces:
        told = trace.provenance.fractions if trace.provenance else []
        if told:
            tell(f"note: {trace.name}: {'; '.join(told)}")
