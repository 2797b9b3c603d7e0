"""POFO: keep, recompute or offload, block by block, by dynamic programming; the best is executed.

The program is in ``pofo_chain.py``. It knows blocks and the link by a few sums; so it is asked for
several amounts of memory, and its answers are judged on the graph itself, beside rotor's and
offload-all's plans, and rotor's plans for more memory with the longest gaps offloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...links import Link, can_move
from ...static_graph import StaticGraph, naive_peak_bytes, naive_schedule
from ..parameters import OneOf, Whole
from .baselines import ask, best_of, simple_plans
from .clock import Clock
from .offload_all import shares
from .pofo_chain import Plan, PofoTable, Rates
from .registry import FEASIBLE, PlannerResult, get, planner
from .rotor import BlockChain, block_ends
from .rotor_chain import Step
from .segments import POINTS
from .sweeping import first_that_fits
from .transfer_gaps import Found, Gap, Moving

SLOTS, MOST_SLOTS = 50, 100
# The sums overrate memory: up to so many times the budget is looked at, in so many amounts.
MOST_MEMORY, TRIALS, ENOUGH = 1.6, 40, 4
# Of rotor's plans for so many of these amounts, with so many shares of their gaps offloaded.
MIXED, MIXED_SHARES = 5, 2
TABLE_SHARE = 0.6  # of the time that is left


@planner(
    "pofo",
    reference="Beaumont et al., NeurIPS 2021; blocks as in Rockmate",
    allowed={"points": OneOf(POINTS), "slots": Whole(1, MOST_SLOTS)},
)
def pofo(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    link: Link | None = None,
    points: str = "articulation",
    slots: int = SLOTS,
    **_: Any,
) -> PlannerResult:
    """Find what blocks keep, recompute or offload by dynamic programming.

    Parameters
    ----------
    graph, budget, time_limit, link
        As for every planner.
    points : str
        Where blocks may end: ``"articulation"`` points, or ``"linear"``, after any node.
    slots : int
        Into how many parts memory is cut.
    """
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit)
    own_rotor = f"rotor(points={points})"
    if not can_move(link):
        return get(own_rotor).plan(graph, budget, time_limit=clock.left)
    simple = simple_plans(graph, budget, link, clock)
    found = simple.found
    if get(own_rotor) != get("rotor"):
        found += ask([own_rotor], graph, budget, link, clock).found
    found += pofo_plans(graph, budget, link, clock, points, slots)
    message = "no plan by blocks, and none that moves values alone, fits"
    return best_of(found, clock, message, simple.late)


def pofo_plans(
    graph: StaticGraph,
    budget: int,
    link: Link,
    clock: Clock,
    points: str = "articulation",
    slots: int = SLOTS,
) -> Iterator[Found]:
    """Give its own plans, without those of the simple planners."""
    first = int(graph.backward.argmax())
    if first and not clock.is_over:
        ends = block_ends(graph, points, first)
        blocks = BlockChain(graph, first, ends, has_lighter=True)
        yield from _Search(blocks, budget, link, clock).found(slots)


class _Search:
    """Plans of a chain of blocks, made into schedules."""

    def __init__(self, blocks: BlockChain, budget: int, link: Link, clock: Clock) -> None:
        self.blocks, self.budget, self.link, self.clock = blocks, budget, link, clock
        self.graph = blocks.graph

    def found(self, slots: int) -> Iterator[Found]:
        """Give schedules within the budget, of the dynamic program and of rotor's with offloading.

        The program is asked for the most memory whose plan fits, and for a little less.
        """
        most = min(self.budget * MOST_MEMORY, naive_peak_bytes(self.graph) * MOST_MEMORY)
        memory = int(most) - self.graph.fixed_bytes
        rates = self._rates()
        clock = self.clock.part(TABLE_SHARE)
        table = PofoTable(self.blocks.chain(), memory, slots, rates, clock)
        asked = np.linspace(memory, 0, TRIALS, endpoint=False).astype(int).tolist()
        plans = [table.plan(amount) for amount in asked]
        low = first_that_fits(TRIALS, lambda trial: self._fits(plans[trial]), self.clock)
        tried: list[Plan] = []
        for plan in plans[max(0, low - 1) :]:
            if plan is None or plan in tried or len(tried) == ENOUGH:
                continue
            tried.append(plan)
            moving, gaps = self._moving(plan)
            yield from moving.found([gaps, moving.fewest(gaps)], self.clock)
        for amount in asked[:: TRIALS // MIXED]:
            yield from self._mixed(table.rotor.steps(amount))

    def _rates(self) -> Rates:
        """Give how long a byte takes each way, the latency spread over the bytes.

        A block's copies are as many as its values, which the program does not know: so each byte
        has its share of the latency of a value of mean size.
        """
        graph, first = self.graph, self.blocks.first
        moves = (graph.producer < first) & (graph.last_reader >= first) & (graph.size > 0)
        latency = self.link.latency_ns * int(moves.sum()) / max(int(graph.size[moves].sum()), 1)
        return Rates(
            *(_byte_ns(rate) + latency for rate in (self.link.to_host, self.link.from_host))
        )

    def _fits(self, plan: Plan | None) -> bool:
        """Say whether what is there at each computation fits, or there is no plan at all."""
        if plan is None:
            return True
        moving, gaps = self._moving(plan)
        return moving.fits(gaps)

    def _moving(self, plan: Plan) -> tuple[Moving, list[Gap]]:
        """Give the schedule of a plan without its transfers, and what is away in it."""
        moving = Moving(self.graph, self.blocks.schedule(plan.steps), self.budget, self.link)
        away = self.blocks.values(plan.away)
        longest: dict[int, Gap] = {}
        for gap in moving.gaps:
            if gap.value in away:
                longest.setdefault(gap.value, gap)
        return moving, moving.on_host(longest.values())

    def _mixed(self, steps: list[Step]) -> Iterator[Found]:
        """Offload what is hidden, or as little as makes a schedule fit, the longest gaps first."""
        if not steps or self.clock.is_over:
            return
        moving = Moving(self.graph, self.blocks.schedule(steps), self.budget, self.link)
        fitting = [gaps for gaps in reversed(list(shares(moving))) if moving.fits(gaps)]
        choices = [moving.hidden(self.clock), *fitting[:MIXED_SHARES], moving.fewest(moving.gaps)]
        yield from moving.found(choices, self.clock)


def _byte_ns(rate: int | None) -> float:
    """Give how long a byte takes."""
    return 0.0 if rate is None else 1e9 / rate
