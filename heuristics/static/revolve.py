"""revolve: checkpoints that come and go, so that few slots reverse a long chain (binomial).

The forward pass is seen as a chain of steps: its nodes, or what lies between its articulation
points. A slot holds what a step starts from, from when it is computed to when the step has been
differentiated. One slot is for the input of the chain, which here are constants; the run of a step
that is differentiated next is counted in the totals.

References
----------
Griewank and Walther, 2000 (algorithm 799): the repetition number and the binomial splits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...static_graph import StaticGraph
from .clock import Clock
from .registry import PlannerResult, planner
from .segments import Segments
from .stages import Kept, members, span
from .sweeping import CHECKPOINT_RULES, Checkpoints

ALL_COUNTS = 32  # numbers of slots tried one by one; above it, each an eighth more than the last


class Split(NamedTuple):
    """While the steps from ``first`` to before ``end`` are reversed, they are cut at ``middle``.

    ``is_held`` says whether what the middle step starts from is held in a slot.
    """

    first: int
    middle: int
    end: int
    is_held: bool


def _reach(slots: int, repetitions: int) -> int:
    """Give the longest chain that so many slots reverse if no step is advanced more often."""
    return math.comb(slots + repetitions, slots) if repetitions >= 0 else 0


def binomial_splits(n_steps: int, slots: int) -> Iterator[Split]:
    """Reverse a chain with the fewest forward runs; give its cuts in the order of their making.

    Parameters
    ----------
    n_steps, slots : int
        Slots include that of what the first step starts from; at least 1.
    """
    todo = [(0, n_steps, slots)]
    while todo:
        first, end, free = todo.pop()
        length = end - first
        if length < 2:
            continue
        repetitions = 0
        while _reach(free, repetitions) < length:
            repetitions += 1
        advance = max(1, _reach(free, repetitions - 2), length - _reach(free - 1, repetitions))
        middle = first + advance
        yield Split(first, middle, end, free > 1)
        todo += [(first, middle, free), (middle, end, free - 1)]


def revolve_kept(segments: Segments, nodes: list[int], slots: int) -> Kept:
    """Keep what the slots hold; ``nodes`` are the ends of the steps, ascending."""
    stages = segments.backward(nodes)  # of step i: those of the segment that ends in its node
    last, done = 0, [0] * len(stages)
    for step in reversed(range(len(stages))):
        last = max(last, stages[step].bit_length() - 1)
        done[step] = last
    held: dict[int, int] = {}
    for split in binomial_splits(len(nodes), slots):
        if split.is_held:
            node = nodes[split.middle - 1]
            begun = members(stages[split.end - 1])
            # A segment is there when the first stage that differentiates it starts.
            start = node + 1 if split.end == len(nodes) or not begun else begun[0]
            held[node] = held.get(node, 0) | span(start, done[split.middle] + 1)
    return segments.kept(nodes, held)


def slot_counts(n_steps: int) -> list[int]:
    """Give the numbers of slots that are tried."""
    counts = list(range(1, min(n_steps, ALL_COUNTS) + 1))
    while counts[-1] < n_steps:
        counts.append(min(n_steps, counts[-1] + counts[-1] // 8))
    return counts


@planner(
    "revolve",
    reference="Griewank and Walther, 2000; on graphs Jain et al., MLSys 2020",
    allowed=CHECKPOINT_RULES,
)
def revolve(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    points: str = "linear",
    mode: str = "trimmed",
    **_: Any,
) -> PlannerResult:
    """Reverse the forward pass with the fewest runs for a number of slots; the cheapest that fits.

    ``points=articulation`` takes what lies between articulation points as the steps.
    """
    return Checkpoints(points, mode).cheapest(
        graph,
        budget,
        # Few slots take long to work out: where time is short, the others are known first.
        lambda nodes: reversed(slot_counts(len(nodes))),
        revolve_kept,
        Clock(time_limit),
    )
