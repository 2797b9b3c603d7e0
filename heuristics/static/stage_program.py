"""Checkmate's integer program as rows of a matrix, with values that live by themselves.

Stage t ends with the first computation of node t. ``R[t, v]``: node v runs in stage t; ``S[t, x]``:
value x is there when stage t starts; ``U[t, v]``: bytes there when node v has run, or could have,
in stage t; ``F[t, x, v]``: value x is dropped after it. Only what `StageProblem` leaves exists.

The forms have the same solutions and differ in their relaxations. ``paper``: as published. In
``tight``, what forbids a drop forbids it by itself. References: Jain et al., MLSys 2020, section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .rows import Rows, Terms, negated
from .stage_problem import StageProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMS = ("tight", "paper")


class StageProgram(Rows):
    """The program: minimize ``objective @ x`` with ``low <= matrix @ x <= high``, 0 <= x <= 1.

    Memory is counted in parts of the capacity, so that U is between 0 and 1 too.

    Attributes
    ----------
    computed : dict of (int, int) to int
        Column of R by stage and node; first computations are no variables.
    kept : dict of (int, int) to int
        Column of S by stage and value.
    whole : set of int
        Columns that have to be whole numbers.
    """

    def __init__(self, problem: StageProblem, form: str) -> None:
        super().__init__()
        self.problem, self.form = problem, form
        nodes = range(problem.n_nodes)
        self.computed = {
            (stage, node): self.column()
            for node in nodes
            for stage in problem.stages[node]
            if stage > node
        }
        self.last_use = [
            max((problem.stages[r][-1] for r in readers), default=problem.producer[value])
            for value, readers in enumerate(problem.readers)
        ]
        self.kept = {
            (stage, value): self.column()
            for value, last in enumerate(self.last_use)
            for stage in range(problem.producer[value] + 1, last + 1)
        }
        self._add_host()
        self.whole = set(range(self.n_columns))
        for stage in nodes:
            self._add_stage(stage)
        for value in range(len(problem.size)):
            self._add_life(value)

    def _add_host(self) -> None:
        """Add columns for what moves; here nothing does."""

    def _run(self, stage: int, node: int) -> tuple[Terms, float]:
        """Give R as terms and a constant."""
        if stage == node:
            return [], 1.0
        column = self.computed.get((stage, node))
        return ([], 0.0) if column is None else ([(column, 1.0)], 0.0)

    def _stay(self, stage: int, value: int) -> Terms:
        """Give S as terms."""
        column = self.kept.get((stage, value))
        return [] if column is None else [(column, 1.0)]

    def _add_life(self, value: int) -> None:
        """Keep a value into a stage only if it was there, or made, in the stage before."""
        producer = self.problem.producer[value]
        for stage in range(producer + 2, self.last_use[value] + 1):
            run, _ = self._run(stage - 1, producer)
            before = [*self._stay(stage - 1, value), *run]
            self.row([*self._stay(stage, value), *negated(before)], -np.inf, 0.0)

    def _add_stage(self, stage: int) -> None:
        """Let what a stage computes have what it reads, and count its memory."""
        problem = self.problem
        runs = [v for v in range(stage + 1) if v == stage or (stage, v) in self.computed]
        users: dict[int, list[int]] = {}
        for node in runs:
            terms, always = self._run(stage, node)
            for value in problem.reads[node]:
                users.setdefault(value, []).append(node)
                made, _ = self._run(stage, problem.producer[value])
                there = [*self._stay(stage, value), *made]
                self.row([*terms, *negated(there)], -np.inf, -always)
        self._add_memory(stage, runs, users)

    def _add_memory(self, stage: int, runs: list[int], users: dict[int, list[int]]) -> None:
        """Count bytes after each node that may run, before what it drops is gone."""
        problem, unit = self.problem, 1.0 / max(1, self.problem.capacity)
        before = [
            (column, weight * size * unit)
            for value, size in enumerate(problem.size)
            for column, weight in self._stay(stage, value)
        ]
        for node in runs:
            used = self.column()
            run, always = self._run(stage, node)
            made = sum(problem.size[value] for value in problem.makes[node]) * unit
            row = [(used, 1.0), *negated(before), *((c, -w * made) for c, w in run)]
            self.row(row, always * made, always * made)
            if problem.workspace[node]:
                extra = problem.workspace[node] * unit
                needed = [(used, 1.0), *((c, w * extra) for c, w in run)]
                self.row(needed, -np.inf, 1.0 - always * extra)
            drops = self._add_drops(stage, node, users)
            before = [(used, 1.0), *((c, -problem.size[v] * unit) for v, c in drops)]

    def _add_drops(
        self, stage: int, node: int, users: dict[int, list[int]]
    ) -> list[tuple[int, int]]:
        """Let what a node has read, or made in vain, be dropped after it; give values, columns."""
        problem = self.problem
        run, always = self._run(stage, node)
        in_vain = [v for v in problem.makes[node] if len(problem.makes[node]) > 1
                   or not problem.readers[v]]  # fmt: skip
        drops = []
        for value in [*problem.reads[node], *in_vain]:
            later = [v for v in users.get(value, ()) if v > node]
            if stage in later:
                continue  # read at the end of the stage
            drops.append((value, self.column()))
            if self.form == "paper":  # in the tight form it follows from R and S
                self.whole.add(drops[-1][1])
            blockers = [*self._wanted(stage + 1, value), *(self._run(stage, v)[0] for v in later)]
            self._forbid(drops[-1][1], run, always, [terms for terms in blockers if terms])
        return drops

    def _wanted(self, stage: int, value: int) -> list[Terms]:
        """Give why a value has to be there when a stage starts."""
        return [self._stay(stage, value)]

    def _forbid(self, drop: int, run: Terms, always: float, blockers: list[Terms]) -> None:
        """Drop only after a node that runs, what is not kept, and not read later in the stage."""
        hindrances: Terms = [*negated(run), *(term for terms in blockers for term in terms)]
        count = 1.0 - always + len(blockers)
        if self.form == "tight":
            if not always:
                self.row([(drop, 1.0), *negated(run)], -np.inf, 0.0)
            for terms in blockers:
                self.row([(drop, 1.0), *terms], -np.inf, 1.0)
        elif count:
            # With h the number of hindrances, at most ``count``: count (1 - F) >= h.
            self.row([(drop, count), *hindrances], -np.inf, count - (1.0 - always))
        # 1 - F <= h: what nothing hinders is dropped.
        self.row([(drop, 1.0), *hindrances], always, np.inf)

    def objective(self) -> NDArray[np.float64]:
        """Give what each column costs."""
        cost = np.zeros(self.n_columns)
        for (_, node), column in self.computed.items():
            cost[column] = self.problem.cost[node]
        return cost
