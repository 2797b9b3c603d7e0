"""POET's integer program: Checkmate's, with a second storage that values go to between stages.

``O[x]``: value x goes to the host at the end of its producer's stage; that costs the same whenever
it is done, and it stays in memory too as long as it is kept there. ``B[t, x]``: it comes back when
stage t starts, for a node that reads it in this stage. ``H[t, x]``, where the host has a limit: it
is there when stage t starts. Else as in ``stage_program.py``, with one rule more for what is
dropped in a stage: what comes back after it may be dropped before. Copies add to the time: nothing
is hidden.

References
----------
Patil et al., ICML 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .clock import Clock
from .integer_solving import solve_program
from .rows import Terms, negated
from .stage_problem import StageProblem
from .stage_program import StageProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Copies(NamedTuple):
    """What copies take.

    Attributes
    ----------
    out, back : list of float or None
        By value, in the unit of costs; None: it cannot go.
    weight : float
        By which that is multiplied in what is minimized.
    on_host : list of float
        By value, the part of the host's memory that it takes.
    most_extra : float
        What copies and repeated computations may take together, not weighted.
    """

    out: list[float | None]
    back: list[float | None]
    weight: float
    on_host: list[float]
    most_extra: float


class PoetProgram(StageProgram):
    """The program; see `StageProgram`.

    Attributes
    ----------
    leaves : dict of int to int
        Columns of O by value.
    comes, hosted : dict of (int, int) to int
        Columns of B and H by stage and value.
    """

    def __init__(self, problem: StageProblem, copies: Copies) -> None:
        self.copies = copies
        super().__init__(problem, "tight")
        self._add_limits()

    def _add_host(self) -> None:
        free = self._free()
        self.leaves = {value: self.column() for value in free}
        later = [at for at in self.kept if at[1] in free]
        producer = self.problem.producer
        self.comes = {at: self.column() for at in later if at[0] > producer[at[1]] + 1}
        self.hosted = {at: self.column() for at in later if self.copies.on_host[at[1]]}

    def _free(self) -> set[int]:
        """Give the values that can go."""
        return {value for value in range(len(self.problem.size)) if self._can_go(value)}

    def _can_go(self, value: int) -> bool:
        way = self.copies.out[value], self.copies.back[value]
        return None not in way and bool(self.problem.size[value])

    def _back(self, stage: int, value: int) -> Terms:
        column = self.comes.get((stage, value))
        return [] if column is None else [(column, 1.0)]

    def _add_life(self, value: int) -> None:
        """Let a value be in memory, or on the host, only from where it was before."""
        producer = self.problem.producer[value]
        for stage in range(producer + 2, self.last_use[value] + 1):
            run, _ = self._run(stage - 1, producer)
            back = self._back(stage, value)
            before = [*self._stay(stage - 1, value), *run, *back]
            self.row([*self._stay(stage, value), *negated(before)], -np.inf, 0.0)
            if back:
                self._add_return(stage, value, back)

    def _add_return(self, stage: int, value: int, back: Terms) -> None:
        """Bring back what is on the host, and is read in the stage."""
        there = self.hosted.get((stage, value), self.leaves[value])
        self.row([*back, (there, -1.0)], -np.inf, 0.0)
        runs = [self._run(stage, reader) for reader in self.problem.readers[value]]
        always = sum(constant for _, constant in runs)
        if not always:
            read = [term for terms, _ in runs for term in terms]
            self.row([*back, *negated(read)], -np.inf, 0.0)

    def _wanted(self, stage: int, value: int) -> list[Terms]:
        stay = [*self._stay(stage, value), *negated(self._back(stage, value))]
        is_new = stage == self.problem.producer[value] + 1 and value in self.leaves
        return [stay, [(self.leaves[value], 1.0)]] if is_new else [stay]

    def _add_limits(self) -> None:
        """Let the host have room, and all together end in time."""
        by_stage: dict[int, Terms] = {}
        for (stage, value), column in self.hosted.items():
            by_stage.setdefault(stage, []).append((column, self.copies.on_host[value]))
            before = self.hosted.get((stage - 1, value), self.leaves[value])
            self.row([(column, 1.0), (before, -1.0)], -np.inf, 0.0)
        for terms in by_stage.values():
            self.row(terms, -np.inf, 1.0)
        if np.isfinite(self.copies.most_extra):
            time = self._times(1.0)
            taken = [(int(column), float(time[column])) for column in time.nonzero()[0]]
            self.row(taken, -np.inf, self.copies.most_extra)

    def _times(self, weight: float) -> NDArray[np.float64]:
        """Give what each column costs, copies with a weight."""
        cost = super().objective()
        for value, column in self.leaves.items():
            cost[column] = weight * (self.copies.out[value] or 0)
        for (_, value), column in self.comes.items():
            cost[column] = weight * (self.copies.back[value] or 0)
        return cost

    def objective(self) -> NDArray[np.float64]:
        """Give what each column costs."""
        return self._times(self.copies.weight)


def poet_plan(
    problem: StageProblem, copies: Copies, tell: Callable[[Any], None], seconds: float | None
) -> dict[str, Any]:
    """Solve POET's program, in the solvers' process.

    Returns
    -------
    dict
        ``status``, ``bound`` above the first computations, and ``found``: by stage and value
        ``comes`` and, by stage and node, ``computed``; else None.
    """
    clock = Clock(seconds)
    program = PoetProgram(problem, copies)
    whole = np.zeros(program.n_columns)
    whole[list(program.whole)] = 1
    status, bound, found = solve_program(program, whole, clock.limit)
    told: dict[str, Any] = {"status": status, "bound": bound, "found": None}
    if found is not None:
        told["found"] = {
            name: [at for at, column in getattr(program, name).items() if found[column] > 0.5]
            for name in ("comes", "computed")
        }
    return told
