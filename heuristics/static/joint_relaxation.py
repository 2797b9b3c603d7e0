"""A bound on plans that keep, recompute and offload, from what is there when nodes run first.

Moments 2 t and 2 t + 1 are the begin and the end of node t's first run. ``there[m, x]``: value x
takes memory then. Of the time that ends with a moment, ``again[m, v]``: how often node v runs in it
once more; ``comes[m, x]``: the copy that brings x back begins; ``out[m, x]``, ``back[m, x]``: how
much time its copies go on; ``held[m, x]``: it stays throughout. ``leaves[x]``: x goes to the host;
``wait[t]``: for how long nothing is computed before the first run of node t.

The time between two moments is what is computed in it, and no stream copies for longer; a value is
away only when it has been copied. Left out are the order of what happens between two moments, and
the host's memory: so each plan of ``joint_program.py`` is a solution, and none is faster than the
best of these. Runs in the solvers' process (``solving.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .clock import Clock
from .highs import surely
from .integer_solving import solve_program
from .joint_program import JointProblem
from .registry import INFEASIBLE
from .rows import Rows, Terms, negated
from .solving import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

At = tuple[int, int]  # moment, and node or value


class JointRelaxation(Rows):
    """The program. Times are in units of the mean node's, memory in parts of the capacity."""

    def __init__(self, problem: JointProblem) -> None:
        super().__init__()
        self.problem = problem
        self.n_nodes = len(problem.duration)
        # Nodes that take no time have a tick for their place in time.
        self.cost = [ticks // problem.ticks for ticks in problem.duration]
        self.unit = max(1.0, sum(self.cost) / self.n_nodes) * problem.ticks
        self.took = [ns * problem.ticks / self.unit for ns in self.cost]
        self.part = 1.0 / max(1, problem.capacity)
        self.sized = [value for value, size in enumerate(problem.size) if size]
        self.first_reads: list[list[int]] = [[] for _ in problem.size]
        for node, reads in enumerate(problem.reads):
            for value in reads:
                self.first_reads[value].append(node)
        self.last_run, self.last_use = self._lasts()
        self.wait = [self.column(np.inf) for _ in range(self.n_nodes)]
        self.again = {
            (2 * stage, node): self.column(problem.runs[node] - 1)
            for node, last in enumerate(self.last_run)
            for stage in range(node + 1, last + 1)
        }
        self.there: dict[At, int] = {}
        self.held: dict[At, int] = {}
        self.leaves: dict[int, int] = {}
        self.comes: dict[At, int] = {}
        self.out: dict[At, int] = {}
        self.back: dict[At, int] = {}
        for value in self.sized:
            self._add_value(value)
        self.whole = {*self.again.values(), *self.there.values(), *self.comes.values()}
        self.whole |= set(self.leaves.values())
        for moment in range(2 * self.n_nodes):
            self._add_moment(moment)
        rest = problem.rest / self.unit
        self.row([(column, 1.0) for column in self.wait], rest, np.inf)
        for value in self.sized:
            self._add_life(value)
            if value in self.leaves:
                self._add_copies(value)

    def _lasts(self) -> tuple[list[int], list[int]]:
        """Give the last stage in which each node may run, and each value may be read."""
        problem, last_run = self.problem, list(range(self.n_nodes))
        last_use = list(problem.producer)
        for node in reversed(range(self.n_nodes)):
            for value in problem.makes[node]:
                used = [last_run[reader] for reader in self.first_reads[value]]
                last_use[value] = max(used, default=node)
            if problem.runs[node] > 1:
                last_run[node] = max((last_use[v] for v in problem.makes[node]), default=node)
        return last_run, last_use

    def _moments(self, value: int) -> range:
        """Give the moments at which a value may be there, after it has been made."""
        return range(2 * self.problem.producer[value] + 2, 2 * self.last_use[value] + 2)

    def _add_value(self, value: int) -> None:
        problem, producer = self.problem, self.problem.producer[value]
        fixed = {producer, *self.first_reads[value]}
        for moment in range(2 * producer, self._moments(value).stop):
            self.there[moment, value] = self.column(1.0, float(moment // 2 in fixed))
        goes = bool(problem.trips[value])
        if goes:
            self.leaves[value] = self.column(1.0)
        for moment in self._moments(value):
            if moment % 2 == 0:
                self.held[moment, value] = self.column(1.0)
            if goes:
                self.comes[moment, value] = self.column(1.0)
                self.out[moment, value] = self.column(problem.out[value] / self.unit)
                self.back[moment, value] = self.column(np.inf)

    def _runs(self, moment: int, value: int) -> Terms:
        """Give what makes a value again before a moment."""
        column = self.again.get((moment, self.problem.producer[value]))
        return [] if column is None else [(column, 1.0)]

    def _begins(self, moment: int, value: int) -> Terms:
        """Give what lets a value be there anew."""
        column = self.comes.get((moment, value))
        return self._runs(moment, value) + ([] if column is None else [(column, 1.0)])

    def _add_moment(self, moment: int) -> None:
        """Let memory suffice, and the time before last as long as what goes on in it."""
        problem, node = self.problem, moment // 2
        here = [(self.there[moment, v], problem.size[v] * self.part)
                for v in self.sized if (moment, v) in self.there]  # fmt: skip
        self.row(here, -np.inf, (problem.capacity - problem.workspace[node]) * self.part)
        lasts: Terms = []
        if moment % 2 == 0:
            runs = [v for v in range(node) if (moment, v) in self.again]
            for again in runs:
                self._add_run(moment, again)
            lasts = [(self.wait[node], 1.0)]
            lasts += [(self.again[moment, v], self.took[v]) for v in runs]
        ways = [
            [(way[moment, v], 1.0) for v in self.leaves if (moment, v) in way]
            for way in (self.out, self.back)
        ]
        for copies in [ways[0] + ways[1]] if problem.is_half else ways:
            own = self.took[node] if moment % 2 else 0.0
            self.row([*copies, *negated(lasts)], -np.inf, own)

    def _add_run(self, moment: int, node: int) -> None:
        """Let what a run reads be there, beside what stays throughout."""
        problem, run = self.problem, self.again[moment, node]
        share = 1.0 / (problem.runs[node] - 1)
        reads = [value for value in problem.reads[node] if problem.size[value]]
        for value in reads:
            there = [(self.there[moment - 1, value], 1.0), *self._begins(moment, value)]
            self.row([(run, share), *negated(there)], -np.inf, 0.0)
        own = {*reads, *problem.makes[node]}
        need = sum(problem.size[value] for value in own) + problem.workspace[node]
        others = [(self.held[moment, v], problem.size[v] * self.part)
                  for v in self.sized if (moment, v) in self.held and v not in own]  # fmt: skip
        self.row([(run, share * need * self.part), *others], -np.inf, 1.0)

    def _add_life(self, value: int) -> None:
        """Let a value be there only if it was, is made or is brought; and stay if nothing does."""
        for moment in self._moments(value):
            now, before = self.there[moment, value], self.there[moment - 1, value]
            begins = self._begins(moment, value)
            self.row([(now, 1.0), (before, -1.0), *negated(begins)], -np.inf, 0.0)
            if moment % 2 == 0:
                held = self.held[moment, value]
                self.row([(held, 1.0), (now, -1.0), (before, -1.0), *begins], -1.0, np.inf)

    def _add_copies(self, value: int) -> None:
        """Let a value go before it comes, be away when it has gone, be read when it has come."""
        problem, leaves, moments = self.problem, self.leaves[value], self._moments(value)
        out, back = problem.out[value] / self.unit, problem.back[value] / self.unit
        come = [(self.comes[moment, value], 1.0) for moment in moments]
        gone = [(self.out[moment, value], 1.0) for moment in moments]
        brought = [(self.back[moment, value], 1.0) for moment in moments]
        self.row([*come, (leaves, -float(problem.trips[value]))], -np.inf, 0.0)
        self.row([*gone, (leaves, -out)], 0.0, 0.0)
        self.row([*brought, *((c, -back) for c, _ in come)], 0.0, 0.0)
        made = [self._runs(moment, value) for moment in moments]
        for place, moment in enumerate(moments):
            so_far = slice(None, place + 1)
            earlier = [term for terms in made[so_far] for term in terms]
            later = [(c, out) for terms in made[place + 1 :] for c, _ in terms]
            begun = [(column, -back) for column, _ in come[so_far]]
            self.row([*gone[so_far], (come[place][0], -out)], 0.0, np.inf)
            self.row([*brought[so_far], *begun], -np.inf, 0.0)
            away = [(leaves, -out), (self.there[moment, value], out), *later]
            self.row([*gone[so_far], *away], 0.0, np.inf)
            if moment // 2 in self.first_reads[value]:
                more = [(c, back * problem.trips[value]) for c, _ in earlier]
                self.row([*brought[so_far], *begun, *more], 0.0, np.inf)
                self.row([gone[place], *((c, -out) for c, _ in earlier)], -np.inf, 0.0)

    def objective(self) -> NDArray[np.float64]:
        """Give what each column takes in time."""
        cost = np.zeros(self.n_columns)
        cost[self.wait] = 1.0
        for (_, node), column in self.again.items():
            cost[column] = self.took[node]
        return cost

    def nanoseconds(self, bound: float) -> int:
        """Give what a bound of the objective says of whole plans, in nanoseconds."""
        return sum(self.cost) + math.ceil(surely(bound) * self.unit / self.problem.ticks)


def relaxed_plan(
    problem: JointProblem, tell: Callable[[Any], None], seconds: float | None
) -> dict[str, Any]:
    """Bound the plans of a problem, in the solvers' process; tell what parts of all prove.

    Returns
    -------
    dict
        ``status``; ``bound`` in ns; and ``found``: by stage and value ``comes`` and, by stage and
        node, ``computed``, as poet's program has them; else None.
    """
    clock = Clock(seconds)
    program = JointRelaxation(problem)
    whole = np.zeros(program.n_columns)
    status, first, _ = solve_program(program, whole, clock.limit)
    told: dict[str, Any] = {"status": status, "bound": program.nanoseconds(first), "found": None}
    if status == INFEASIBLE:
        return told
    told["status"] = UNKNOWN
    tell(told)
    whole[list(program.whole)] = 1
    status, bound, found = solve_program(program, whole, clock.limit)
    told |= {"status": status, "bound": program.nanoseconds(max(first, bound))}
    if found is not None:
        told["found"] = {
            name: [(moment // 2, what) for (moment, what), column in columns.items()
                   if found[column] > 0.5]
            for name, columns in (("comes", program.comes), ("computed", program.again))
        }  # fmt: skip
    return told
