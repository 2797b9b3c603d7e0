"""The constraint program of a part of a schedule: some nodes' repeats are free, all else stays.

Time is a row of events: computations that stay, and places where a free node may run again. What
free nodes make and read is *tracked*: from each of its events to the next a value is kept or not.
All other values live as they do, and leave so much room at each event. Solved with CP-SAT in the
solvers' process (``solving.py``); which nodes are free, ``large_neighborhood.py`` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .cp_sat import solve_model
from .registry import INFEASIBLE, OPTIMAL

MAKES, READS = 0, 1
ALWAYS = -1  # in place of the number of an optional event: it happens in any case


@dataclass(frozen=True)
class Part:
    """What is free and what it is bound by; optional events have numbers.

    Attributes
    ----------
    cost : list of int
        Of each optional event.
    lives : list of list of (int, int, int)
        Of each tracked value its events in order: when, `MAKES` or `READS`, and the number of the
        optional event, or `ALWAYS`. The first makes it.
    size : list of int
        Bytes of each tracked value.
    rooms : list of (int, int, int, int)
        A time, what is there for tracked values that are kept across it, the number of the optional
        event that runs then or `ALWAYS`, and how much of the room that event takes.
    known : list of int
        The optional events that happen now.
    """

    cost: list[int]
    lives: list[list[tuple[int, int, int]]]
    size: list[int]
    rooms: list[tuple[int, int, int, int]]
    known: list[int]


def improve(
    part: Part, effort: float, tell: Callable[[Any], None], seconds: float | None
) -> dict[str, Any]:
    """Look for optional events that cost less than those that are known.

    Returns
    -------
    dict
        ``events``, the numbers of those that happen, or None; ``is_proven``, whether nothing is
        better.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    runs = [model.new_bool_var("") for _ in part.cost]
    least = sum(part.cost[event] for event in part.known)
    total = cp_model.LinearExpr.weighted_sum(runs, part.cost)
    model.add(total <= least - 1)
    model.minimize(total)
    known = set(part.known)
    for event, run in enumerate(runs):
        model.add_hint(run, event in known)
    _Keeping(model, part, runs, cp_model.LinearExpr.weighted_sum).fit()
    answer = solve_model(
        model,
        lambda value: [event for event, run in enumerate(runs) if value(run)],
        seconds=seconds,
        max_deterministic_time=effort,
    )
    return {"events": answer.found, "is_proven": answer.status in (OPTIMAL, INFEASIBLE)}


class _Keeping:
    """From which event to which each tracked value is kept."""

    def __init__(self, model: Any, part: Part, runs: list[Any], weighted_sum: Any) -> None:
        self.model, self.part, self.runs = model, part, runs
        self.weighted_sum = weighted_sum
        self.gaps: list[tuple[int, int, int, Any]] = []  # begin, end, bytes, whether it is kept
        for size, events in zip(part.size, part.lives, strict=True):
            self._add_life(size, events)

    def _add_life(self, size: int, events: list[tuple[int, int, int]]) -> None:
        """Add a variable for each gap between events, and what may follow on what."""
        model, before = self.model, None
        for at, (time, what, number) in enumerate(events):
            happens = None if number == ALWAYS else self.runs[number]
            if what == READS and number != ALWAYS:
                model.add_implication(happens, before)
            if at + 1 == len(events):
                return
            end, following, by = events[at + 1]
            kept = (
                model.new_constant(1)
                if following == READS and by == ALWAYS
                else (model.new_bool_var(""))
            )
            if what == READS:
                model.add_implication(kept, before)
            elif number != ALWAYS:
                model.add_bool_or([kept.negated(), before, happens])
            self.gaps.append((time, end, size, kept))
            before = kept

    def fit(self) -> None:
        """Let what is kept across a time, and what runs then, fit the room."""
        todo = sorted(self.gaps, key=lambda gap: gap[:3], reverse=True)
        there: list[tuple[int, int, int, Any]] = []
        for time, room, event, taken in self.part.rooms:
            there = [gap for gap in there if gap[1] >= time]
            while todo and todo[-1][0] < time:
                gap = todo.pop()
                if gap[1] >= time:
                    there.append(gap)
            sizes, whether = [gap[2] for gap in there], [gap[3] for gap in there]
            if event != ALWAYS:
                sizes, whether = [*sizes, taken], [*whether, self.runs[event]]
            if sum(sizes) > room:
                linear = self.weighted_sum(whether, sizes)
                self.model.add(linear <= room)
