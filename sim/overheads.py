"""Where a run's overhead goes: by module and operator, in whole nanoseconds that add up exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .opcodes import STALL
from .story import Story

SEARCH = "(search)"  # the operator of what choosing itself costs, where that is charged


@dataclass(frozen=True)
class OverheadPart:
    """What calls of one module and operator add to the model's own compute.

    Attributes
    ----------
    module, operator : str
    remats : int
        How often calls ran again.
    remat_ns, stall_ns, search_ns : int
        Recomputation, waiting for transfers, and charged search.
    """

    module: str
    operator: str
    remats: int = 0
    remat_ns: int = 0
    stall_ns: int = 0
    search_ns: int = 0

    @property
    def total_ns(self) -> int:
        """All of it."""
        return self.remat_ns + self.stall_ns + self.search_ns


def overhead_parts(story: Story) -> list[OverheadPart]:
    """Split a run's overhead by module and operator, the largest part first.

    Returns
    -------
    list of OverheadPart
        Their sum is the run's ``remat_ns + stall_ns + search_ns``.
    """
    parts = [
        OverheadPart(*story.place_of(step), remats=1, remat_ns=step.cost_ns)
        for step in story.steps
        if step.is_again
    ]
    parts += _stalls(story)
    if story.result.search_ns:
        parts.append(OverheadPart("", SEARCH, search_ns=story.result.search_ns))
    return summed(parts, ("module", "operator"))


def _stalls(story: Story) -> list[OverheadPart]:
    """Give each stall to the call that waited."""
    events = story.events
    rows = (events["action"] == STALL).nonzero()[0].tolist()
    places = {step.call: story.place_of(step) for step in story.steps} if rows else {}
    return [
        OverheadPart(
            *places.get(int(events["cause_call"][row]), ("", "")),
            stall_ns=int(events["end_ns"][row] - events["start_ns"][row]),
        )
        for row in rows
    ]


def summed(parts: Iterable[OverheadPart], fields: tuple[str, ...]) -> list[OverheadPart]:
    """Sum parts by module, operator or both; what is not named is empty. The largest first."""
    sums: dict[tuple[str, ...], OverheadPart] = {}
    for part in parts:
        key = tuple(getattr(part, field) for field in fields)
        known = sums.get(key)
        if known is None:
            empty = {f: "" for f in ("module", "operator") if f not in fields}
            sums[key] = replace(part, **empty)  # type: ignore[arg-type]
        else:
            counts = ("remats", "remat_ns", "stall_ns", "search_ns")
            added = {name: getattr(known, name) + getattr(part, name) for name in counts}
            sums[key] = replace(known, **added)
    return sorted(sums.values(), key=lambda p: (-p.total_ns, -p.remats, p.module, p.operator))
