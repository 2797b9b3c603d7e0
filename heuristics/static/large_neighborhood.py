"""large-neighborhood: part after part of a schedule is solved exactly, while all else stays.

A part is some tens of nodes whose repeats become free: those that are computed again about one
time, and those whose values are kept across it. What the solver finds for it is taken if it makes
the whole cheaper. Parts are drawn by chance; they grow while they are solved to a proof, and shrink
where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...static_graph import (
    Schedule,
    StaticGraph,
    evaluate,
    free_after_last_use,
    naive_peak_bytes,
    naive_schedule,
)
from ..parameters import Whole
from .annealing import annealing
from .clock import Clock
from .part_program import improve
from .parts import Layout
from .registry import FEASIBLE, PlannerResult, planner
from .solving import DONE, solve
from .stages import links_of, made_bytes, read_again

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Of the time, for where this starts: with starts that fit, and without.
ANNEALING_SHARE, FIRST_SHARE = 0.3, 0.6
SEARCH_SHARE = 0.95  # of the time; the rest is for what comes after
ANNEALING_STEPS, ROUNDS = 20_000, 60  # without a time limit
MOST_PARTS = 1_000_000
FIRST_SIZE, LEAST_SIZE, MOST_SIZE = 24, 6, 200  # of a part, in nodes
GROWTH, SHRINKAGE = 1.1, 0.8
EFFORT = 0.04  # of the solver for one part, in its deterministic seconds
IDLE_PARTS = 300  # in a row of which none was better: then it ends
LONGEST = 10.0  # seconds for one part, where the machine is slow


@planner(
    "large-neighborhood",
    reference="Shaw, CP 1998: the idea; parts and their program are ours",
    allowed={"rounds": Whole(0, MOST_PARTS)},
    uses_starts=True,
    is_random=True,
)
def large_neighborhood(
    graph: StaticGraph,
    budget: int | None,
    *,
    starts: Sequence[Schedule] = (),
    time_limit: float | None = None,
    seed: int = 0,
    rounds: int = 0,
) -> PlannerResult:
    """Improve what annealing finds, part after part, each solved exactly while all else stays.

    Parameters
    ----------
    graph, budget, starts, time_limit, seed
        As for every planner.
    rounds : int
        Parts to solve; 0: as many as there is time for, without a time limit 60.

    Notes
    -----
    The plan is never dearer than the best start that fits. How much a solver does for a part is
    limited by work; only how many parts there are hangs on the machine's speed.
    """
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    clock = Clock(time_limit).part(SEARCH_SHARE)
    share = clock.part(ANNEALING_SHARE if starts else FIRST_SHARE).left
    steps = ANNEALING_STEPS if time_limit is None else 0
    begun = annealing(graph, budget, starts=starts, time_limit=share, seed=seed, steps=steps)
    if begun.schedule is None and time_limit is not None:
        begun = annealing(graph, budget, starts=starts, time_limit=clock.left, seed=seed)
    if begun.schedule is None:
        return begun
    search = _Parts(graph, budget, begun.schedule, seed)
    search.go(rounds or (ROUNDS if time_limit is None else 0), clock)
    details = {**begun.details, "parts": search.solved}
    return PlannerResult(FEASIBLE, search.schedule, message=search.message, details=details)


class _Parts:
    """The best schedule so far, and the parts of it that are solved one after the other."""

    def __init__(self, graph: StaticGraph, budget: int, schedule: Schedule, seed: int) -> None:
        self.graph, self.budget = graph, budget
        self.schedule, self.cost = schedule, evaluate(graph, schedule).cost
        self.order: list[int] = schedule.order.tolist()
        self.random = np.random.default_rng(seed)
        self.size: float = FIRST_SIZE
        self.solved = self.idle = 0
        self.message = ""
        self.gaps = Gaps(graph, self.order)

    def go(self, rounds: int, clock: Clock) -> None:
        """Solve parts: so many, or until the time is up."""
        rounds = rounds or MOST_PARTS
        while self.solved < rounds and self.idle < IDLE_PARTS and len(self.gaps.repeated):
            if clock.is_over or not self._solve_part(clock.part(1.0, LONGEST).left):
                return
            self.solved += 1

    def _solve_part(self, seconds: float | None) -> bool:
        """Solve one part, take it if it is better; say whether the solver can go on."""
        count, cost = round(self.size), self.cost
        is_all = count >= self.graph.n_nodes
        free = self.gaps.all() if is_all else self.gaps.draw(count, self.random)
        layout = Layout(self.graph, self.order, free)
        part = layout.part(self.budget)
        ended = solve(improve.__module__, improve.__name__, part, EFFORT, seconds=seconds)
        if ended.status != DONE:
            self.message = ended.message
            return False
        if ended.answer["is_proven"]:
            self.size = min(self.size * GROWTH, MOST_SIZE)
        else:
            self.size = max(self.size * SHRINKAGE, LEAST_SIZE)
        if ended.answer["events"] is not None:
            self._take(layout.order(ended.answer["events"]))
        self.idle = 0 if self.cost < cost else self.idle + 1
        return not (is_all and ended.answer["is_proven"] and self.idle)

    def _take(self, order: list[int]) -> None:
        order = read_again(self.graph, order)
        schedule = free_after_last_use(self.graph, order)
        cost, peak_bytes = evaluate(self.graph, schedule)
        if peak_bytes <= self.budget and cost < self.cost:
            self.schedule, self.cost, self.order = schedule, cost, order
            self.gaps = Gaps(self.graph, order)


class Gaps:
    """Times across which a schedule keeps a value that is not used, or drops one.

    Attributes
    ----------
    repeated, kept : ndarray of int64, shape (k, 3)
        First and last time and node: of what is computed again at the last time; of what could be
        dropped in between.
    """

    def __init__(self, graph: StaticGraph, order: Sequence[int]) -> None:
        self.graph = graph
        made, reads, producer = links_of(graph)
        seen = [-1] * graph.n_values
        repeated, kept, fresh = [], [], 0
        may_repeat = graph.recomputable.tolist()
        for at, node in enumerate(order):
            for value in reads[node]:
                if at > seen[value] + 1 and may_repeat[producer[value]]:
                    kept.append((seen[value], at, producer[value]))
                seen[value] = at
            if node != fresh:
                repeated.append((max(seen[value] for value in made[node]), at, node))
            fresh += node == fresh
            for value in made[node]:
                seen[value] = at
        self.repeated = np.array(repeated, np.int64).reshape(-1, 3)
        self.kept = np.array(kept, np.int64).reshape(-1, 3)
        self.density = (graph.cost + 1.0) / np.maximum(made_bytes(graph), 1)

    def all(self) -> set[int]:
        """Give all nodes that may run again."""
        return set(np.flatnonzero(self.graph.recomputable).tolist())

    def draw(self, count: int, random: np.random.Generator) -> set[int]:
        """Draw a repeat, and nodes that are repeated or could be dropped about the same time."""
        cost = self.graph.cost[self.repeated[:, 2]] + 1.0
        first, last, node = self.repeated[random.choice(len(cost), p=cost / cost.sum())].tolist()
        moment = int(random.integers(first, last + 1))
        free = {node}
        for gaps, size in ((self.repeated, count // 3), (self.kept, 2 * count // 3)):
            across = gaps[(gaps[:, 0] < moment) & (gaps[:, 1] >= moment)]
            nodes = np.unique(across[:, 2])
            free.update(self._cheap(nodes, size, random))
        return free | self._sources(free, random)

    def _cheap(self, nodes: NDArray[Any], count: int, random: np.random.Generator) -> list[int]:
        """Choose nodes of little cost for their bytes, with much chance."""
        score = np.log(self.density[nodes]) + random.gumbel(size=len(nodes))
        return nodes[np.argsort(score)[:count]].tolist()  # type: ignore[no-any-return]

    def _sources(self, nodes: set[int], random: np.random.Generator) -> set[int]:
        """Give about half of the nodes that some nodes read from."""
        _, reads, producer = links_of(self.graph)
        found = {producer[value] for node in sorted(nodes) for value in reads[node]} - nodes
        return {
            node
            for node in sorted(found)
            if self.graph.recomputable[node] and random.random() < 0.5
        }
