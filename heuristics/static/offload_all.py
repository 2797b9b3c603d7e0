"""offload-all: values leave for the host between two uses and come back ahead of the second.

Nothing is computed twice. A value goes after the use before its longest gap; a prefetch is issued
as soon as memory has room for it from there on, or as late as still hides it. Tried are all values
that have a gap, and fewer, those with the longest gaps first, and all gaps in which memory lacks:
the fastest that fits is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...links import Link, leads_both_ways
from ...static_graph import StaticGraph, naive_peak_bytes, naive_schedule
from .clock import Clock
from .registry import FEASIBLE, NOT_APPLICABLE, PlannerResult, planner, without_plan
from .transfer_gaps import Gap, Moving

SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
NO_LINK = PlannerResult(
    NOT_APPLICABLE, message="there is no link to the host: --device h100-pcie5, or --d2h and --h2d"
)


@planner("offload-all", reference="offloading alone, as in vDNN, Rhu et al., MICRO 2016")
def offload_all(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    **_: Any,
) -> PlannerResult:
    """Offload values between their uses, and prefetch them ahead: nothing is computed twice."""
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    if not leads_both_ways(link):
        return NO_LINK
    clock = Clock(time_limit)
    moving = Moving(graph, naive_schedule(graph), budget, link)
    found = min(moving.found(shares(moving), clock), key=lambda one: one.cost, default=None)
    if found is not None:
        return PlannerResult(FEASIBLE, found.schedule)
    message = "what is used between goes over the budget, however much is away"
    if link.host_bytes is not None:
        message += f" in {link.host_bytes:,} bytes of host memory"
    return without_plan(clock, message)


def shares(moving: Moving) -> Iterator[list[Gap]]:
    """Give all gaps in which memory lacks; then shares of the longest of each value.

    With the former, nothing is there but what a call needs: that fits if any schedule does.
    """
    yield moving.on_host(moving.crowded_gaps())
    total = sum(gap.size for gap in moving.gaps)
    for share in SHARES:
        most, chosen = share * total, []
        for gap in moving.on_host(moving.gaps):
            if gap.size <= most:
                chosen.append(gap)
                most -= gap.size
        yield chosen
