"""knapsack: save the forward results worth most time, as far as an activation budget goes.

As in PyTorch's compiled training: each result has bytes, and the time of its own call, which saving
it spares; that a chain of calls has to be run again to make one result is ignored, so the peak need
not fall with the activation budget. The solver may be a user's own.

References
----------
PyTorch, torch/_functorch: ``activation_memory_budget`` and ``activation_memory_budget_solver``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from ...errors import InputError
from ...static_graph import StaticGraph
from ..parameters import Number, OneOf
from .clock import Clock
from .own_solver import SolverEnded, checked, own_solver
from .registry import PlannerResult, planner
from .saving import always_saved, kept_of_saved, needs
from .segments import NO_BACKWARD, forward_nodes
from .stages import Kept, links_of
from .sweeping import cheapest

STEPS = 40  # activation budgets tried, from nothing to everything
SLOTS = 10_000  # into which `dp` divides the memory
ILP_NODES = 100  # of the search tree; results of equal size and time make it endless

# Memory and time of each result, both as parts of their sums; how much memory there is. Gives the
# time saved, the results to save, and those to compute again, by their places.
Solver = Callable[[list[float], list[float], float], tuple[float, list[int], list[int]]]


def _answer(runtimes: Sequence[float], saved: list[int]) -> tuple[float, list[int], list[int]]:
    chosen = set(saved)
    again = [i for i in range(len(runtimes)) if i not in chosen]
    return sum(runtimes[i] for i in saved), sorted(saved), again


def greedy(
    memory: list[float], runtimes: list[float], max_memory: float
) -> tuple[float, list[int], list[int]]:
    """Save the most time for the memory first, and what still fits after."""
    density = [t / m if m else np.inf for m, t in zip(memory, runtimes, strict=True)]
    saved, used = [], 0.0
    for i in sorted(range(len(memory)), key=lambda i: -density[i]):
        if used + memory[i] <= max_memory:
            used += memory[i]
            saved.append(i)
    return _answer(runtimes, saved)


def ilp(
    memory: list[float], runtimes: list[float], max_memory: float
) -> tuple[float, list[int], list[int]]:
    """Solve the knapsack by branch and bound (HiGHS)."""
    found = milp(
        -np.array(runtimes),
        constraints=LinearConstraint(np.array([memory]), -np.inf, max_memory),
        bounds=Bounds(0, 1),
        integrality=np.ones(len(memory)),
        options={"node_limit": ILP_NODES},
    )
    if found.x is None:
        return greedy(memory, runtimes, max_memory)
    return _answer(runtimes, np.flatnonzero(found.x > 0.5).tolist())


def dp(
    memory: list[float], runtimes: list[float], max_memory: float
) -> tuple[float, list[int], list[int]]:
    """Solve the knapsack on memory in ten thousandths, rounded up."""
    size = np.ceil(np.array(memory) * SLOTS - 1e-9).astype(np.int64)
    slots = int(max_memory * SLOTS + 1e-9)
    best = np.zeros(slots + 1)
    taken = np.zeros((len(memory), slots + 1), np.bool_)
    for i, (need, gain) in enumerate(zip(size.tolist(), runtimes, strict=True)):
        if need > slots:
            continue
        with_it = best[: slots + 1 - need] + gain
        taken[i, need:] = with_it > best[need:]
        best[need:] = np.maximum(best[need:], with_it)
    saved, left = [], slots
    for i in reversed(range(len(memory))):
        if taken[i, left]:
            saved.append(i)
            left -= int(size[i])
    return _answer(runtimes, saved)


SOLVERS: dict[str, Solver] = {"dp": dp, "greedy": greedy, "ilp": ilp}


class Items:
    """What there is to save: the forward calls that the backward pass would need again."""

    def __init__(self, graph: StaticGraph) -> None:
        self.graph = graph
        self.saved: dict[float, list[int]] = {}  # what the solver has answered
        self.late: SolverEnded | None = None  # how it ended when the time was up
        again = needs(graph, always_saved(graph))
        self.nodes = sorted(again.made_again)
        self.values = [
            [v for v in links_of(graph).made[node] if v in again.last] for node in self.nodes
        ]
        memory = np.array([graph.size[values].sum() for values in self.values], float)
        runtimes = graph.cost[self.nodes].astype(float)
        self.memory = (memory / max(memory.sum(), 1)).tolist()
        self.runtimes = (runtimes / max(runtimes.sum(), 1)).tolist()

    def kept(self, solver: Solver, part: float) -> Kept:
        """Keep what a solver saves in a part of the memory that all would take."""
        if part >= 1:  # rounding must not lose anything
            self.saved[part] = list(range(len(self.nodes)))
        elif self.nodes and part not in self.saved:
            self.saved[part] = self._asked(solver, part)
        saved = self.saved.get(part, [])
        return kept_of_saved(self.graph, {v for i in saved for v in self.values[i]})

    def _asked(self, solver: Solver, part: float) -> list[int]:
        where = f"knapsack: solver, with max_memory {part:g}"
        try:
            return checked(solver(list(self.memory), list(self.runtimes), part), len(self.nodes))
        except SolverEnded:
            raise
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        except (Exception, SystemExit) as error:  # a user's own may do anything
            raise InputError(f"{where}: {type(error).__name__}: {error}") from error

    def answered(self, solver: Solver, parts: Iterable[float]) -> Iterator[float]:
        """Give the parts for which the solver has an answer; until the time is up, if one has."""
        for part in parts:
            try:
                self.kept(solver, part)
            except SolverEnded as ended:
                if not (ended.is_late and self.saved):
                    raise
                self.late = ended
                return
            yield part


def _solver(solver: str | Solver, clock: Clock) -> Solver:
    if callable(solver):
        return solver
    return SOLVERS[solver] if solver in SOLVERS else own_solver(solver, clock)


@planner(
    "knapsack",
    reference="PyTorch 2.4, activation_memory_budget",
    allowed={"solver": OneOf(tuple(SOLVERS), has_functions=True), "part": Number(0, 1, also=-1)},
)
def knapsack(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    solver: str | Solver = "dp",
    part: float = -1.0,
    **_: Any,
) -> PlannerResult:
    """Save what spares most time in a part of the activation memory; the cheapest part that fits.

    ``part=0.5`` fixes it. ``solver`` is dp, greedy, ilp, or a function
    ``(memory, runtimes, max_memory)``: ``file.py:function``, which runs in a process of its own.
    """
    clock = Clock(time_limit)
    solve = _solver(solver, clock.part(0.5))  # the other half is for schedules
    if not forward_nodes(graph):
        return NO_BACKWARD
    items = Items(graph)
    parts = [part] if part >= 0 else [step / STEPS for step in reversed(range(STEPS + 1))]
    choices = items.answered(solve, parts)
    try:
        found = cheapest(graph, budget, choices, lambda part: items.kept(solve, part), clock=clock)
    except SolverEnded as ended:
        return PlannerResult(ended.status, message=str(ended))
    if found.schedule is None and items.late is not None:
        return PlannerResult(items.late.status, message=str(items.late))
    return found
