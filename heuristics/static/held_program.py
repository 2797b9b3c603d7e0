"""Checkmate's stages as clauses and knapsacks: what is held at each moment is counted by itself.

A column is a question with the answer 0 or 1: does a node run in a stage, is a value kept into it,
is a value held after a node of the stage, as it is kept on or read later in the stage. Then what
is in memory at a moment is a plain sum, where Checkmate's program adds and takes away along a
stage. The same schedules are allowed, less those that `stages.trim` would improve; the
relaxation is much closer, and solvers find the knapsacks of which it consists.

References
----------
Jain et al., MLSys 2020, section 4: stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .stage_problem import StageProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

TRUE = 0  # the column that is 1; a column's complement, as ~column, stands for "not"


class HeldProgram:
    """The program.

    Attributes
    ----------
    problem : StageProblem
    run : dict of (int, int) to int
        Column by stage and node.
    kept : dict of (int, int) to int
        Column by stage and value.
    clauses : list of list of int
        Of each, at least one column (or complement) is 1.
    sums : list of (list of int, list of int, int)
        Columns, their bytes, and what they may add up to.
    """

    def __init__(self, problem: StageProblem) -> None:
        self.problem = problem
        self.n_columns = 1
        self.clauses: list[list[int]] = []
        self.sums: list[tuple[list[int], list[int], int]] = []
        self.run = {
            (stage, node): TRUE if stage == node else self._column()
            for node, stages in enumerate(problem.stages)
            for stage in stages
        }
        self.kept: dict[tuple[int, int], int] = {}
        for value in range(len(problem.size)):
            self._add_life(value)
        for (stage, node), run in self.run.items():
            self._add_run(stage, node, run)
        for stage in range(problem.n_nodes):
            self._add_memory(stage)

    def _column(self) -> int:
        self.n_columns += 1
        return self.n_columns - 1

    def _clause(self, *columns: int) -> None:
        if TRUE not in columns:
            self.clauses.append([column for column in columns if column != ~TRUE])

    def _readers(self, stage: int, value: int) -> list[int]:
        """Columns of what may read a value in a stage."""
        readers = self.problem.readers[value]
        return [self.run[stage, node] for node in readers if (stage, node) in self.run]

    def _there(self, stage: int, value: int) -> list[int]:
        """Columns of why a value may be there in a stage: it was kept, or is made."""
        at = (stage, self.problem.producer[value])
        kept, made = self.kept.get((stage, value)), self.run.get(at)
        return [column for column in (kept, made) if column is not None]

    def _add_life(self, value: int) -> None:
        """Keep a value only if it was there before, and is read, and not made again."""
        producer = self.problem.producer[value]
        made = set(self.problem.stages[producer])
        read = {s for node in self.problem.readers[value] for s in self.problem.stages[node]}
        last = max(read, default=producer)
        has_to = self._has_to_be_kept(value, last)
        for stage in range(producer + 1, last + 1):
            before = stage - 1
            if stage in has_to:
                kept = TRUE
            elif before > producer and before not in made and before not in read:
                kept = self.kept[before, value]  # nothing can happen to it
            else:
                kept = self._column()
            self.kept[stage, value] = kept
            if before > producer:
                self._clause(~kept, *self._there(before, value))
        for stage in range(producer + 1, last + 1):
            kept = self.kept[stage, value]
            if kept == TRUE:
                continue
            if stage in made:
                self._clause(~kept, ~self.run[stage, producer])
            later = [self.kept[stage + 1, value]] if stage < last else []
            self._clause(~kept, *self._readers(stage, value), *later)

    def _has_to_be_kept(self, value: int, last: int) -> set[int]:
        """Stages into which a value is kept as first computations read it, and nothing makes it."""
        producer = self.problem.producer[value]
        made, first = set(self.problem.stages[producer]), set(self.problem.readers[value])
        found: set[int] = set()
        for stage in range(last, producer, -1):
            if stage not in made and (stage in first or stage + 1 in found):
                found.add(stage)
        return found

    def _add_run(self, stage: int, node: int, run: int) -> None:
        """Let a run have what it reads; and run again only for what is read or kept."""
        for value in self.problem.reads[node]:
            self._clause(~run, *self._there(stage, value))
        if stage > node:
            uses = []
            for value in self.problem.makes[node]:
                later = self.kept.get((stage + 1, value))
                uses += self._readers(stage, value) + ([] if later is None else [later])
            self._clause(~run, *uses)

    def _add_memory(self, stage: int) -> None:
        """Add up what is held at each run of a stage, from the last to the first."""
        problem = self.problem
        values = [v for v, producer in enumerate(problem.producer) if producer <= stage]
        kept = {v: self.kept[stage, v] for v in values if (stage, v) in self.kept}
        held = {v: self.kept[stage + 1, v] for v in values if (stage + 1, v) in self.kept}
        for node in reversed([v for v in range(stage + 1) if (stage, v) in self.run]):
            run = self.run[stage, node]
            for value in problem.reads[node]:
                held[value] = self._either(run, held.get(value))
            load = [(run, problem.workspace[node])]
            load += [(run, problem.size[value]) for value in problem.makes[node]]
            load += [(kept[v], problem.size[v]) for v in kept if problem.producer[v] >= node]
            load += [(held[v], problem.size[v]) for v in held if problem.producer[v] < node]
            self._add_sum(load)

    def _either(self, run: int, held: int | None) -> int:
        """Column of what is held by a run, or by what comes after it."""
        if held is None or TRUE in (run, held):
            return run if held is None else TRUE
        either = self._column()
        self._clause(~run, either)
        self._clause(~held, either)
        return either

    def _add_sum(self, load: list[tuple[int, int]]) -> None:
        """Let a sum be within the capacity, if it could be above."""
        if sum(size for _, size in load) <= self.problem.capacity:
            return
        left = self.problem.capacity - sum(size for column, size in load if column == TRUE)
        load = [(column, size) for column, size in load if column != TRUE and size]
        self.sums.append(([c for c, _ in load], [s for _, s in load], left))

    def settle(self, kept: Mapping[tuple[int, int], bool]) -> None:
        """Let values be kept, by stage and value, or not be kept."""
        for at, is_kept in kept.items():
            if at in self.kept:
                self._clause(self.kept[at] if is_kept else ~self.kept[at])

    def objective(self) -> NDArray[np.float64]:
        """Give what each column costs; first computations are free."""
        cost = np.zeros(self.n_columns)
        for (stage, node), column in self.run.items():
            if stage > node:
                cost[column] = self.problem.cost[node]
        return cost

    def rows(self) -> tuple[csr_array, NDArray[np.float64]]:
        """Give ``matrix @ x <= high``; memory in parts of the capacity."""
        from scipy.sparse import csr_array

        columns: list[int] = []
        weights: list[float] = []
        lengths: list[int] = []
        high: list[float] = []
        for clause in self.clauses:
            columns += [column if column >= 0 else ~column for column in clause]
            weights += [-1.0 if column >= 0 else 1.0 for column in clause]
            lengths.append(len(clause))
            high.append(sum(column < 0 for column in clause) - 1.0)
        unit = 1.0 / max(1, self.problem.capacity)
        for loaded, sizes, left in self.sums:
            columns += loaded
            weights += [size * unit for size in sizes]
            lengths.append(len(loaded))
            high.append(left * unit)
        row = np.repeat(np.arange(len(lengths)), lengths)
        shape = (len(lengths), self.n_columns)
        return csr_array((weights, (row, columns)), shape=shape), np.array(high)
