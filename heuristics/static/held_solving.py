"""Solves `HeldProgram`, in the solvers' process (``solving.py``): relaxed first, then whole.

What the relaxation costs, and what each run would add to that, tells which runs no schedule up to
a given cost can have. So the program is solved for schedules a little above the relaxation, which
leaves few runs; if there is none, a little further up. The first that is found is the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .clock import Clock
from .cp_sat import solve_model
from .held_program import TRUE, HeldProgram
from .highs import options_of, status_of
from .registry import FEASIBLE, INFEASIBLE, OPTIMAL
from .solving import UNKNOWN
from .stage_problem import StageProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_RUNS = 500  # beyond first ones, that are left at first; then four times as many, and so on
# Up to so many runs, and a known cost so far above the relaxation's, all is looked at at once.
_FEW_RUNS, _NEAR = 3000, 1.3
_ROUNDS = 4  # in which the relaxation of what is left is solved again
_WORTH = 0.05  # of the runs: what a round has to take away for another
_TOLERANCE, _TOLERANCE_OF_ONE = 1e-5, 1e-7  # of HiGHS: of a sum, and of each column's price
Runs = list[tuple[int, int]]


@dataclass(frozen=True)
class _Relaxed:
    """A program's relaxation: its answer, its cost, what 1 in each column would add to it, or 0."""

    program: HeldProgram
    values: NDArray[np.float64]
    cost: float
    added: NDArray[np.float64]
    added_by_none: NDArray[np.float64]

    @property
    def bound(self) -> int:
        """What recomputation costs at least."""
        return max(0, math.ceil(self.cost - self._error))

    @property
    def _error(self) -> float:
        """What the solver's tolerances may amount to."""
        return _TOLERANCE * (1 + self.cost) + _TOLERANCE_OF_ONE * self.program.n_columns

    def most_with(self, n_runs: int, least: int) -> int | None:
        """Give a cost, above the least, up to which schedules have so many runs to choose from.

        None if it is no less than what the program allows, or not worth a step of its own.
        """
        columns = [column for column in self.program.run.values() if column != TRUE]
        allowed = self.program.problem.most_extra
        is_near = allowed is not None and allowed <= _NEAR * self.cost
        if n_runs * 3 // 2 >= len(columns) or (is_near and len(columns) <= _FEW_RUNS):
            return None
        price = float(np.partition(self.added[columns], n_runs)[n_runs])
        most = max(least, math.floor(self.cost + price))
        return None if allowed is not None and most >= allowed else most

    def too_dear(self, most: int) -> set[tuple[int, int]]:
        """Give the runs, by stage and node, that no schedule of at most that cost has."""
        slack = self._slack(most)
        return {
            at for at, column in self.program.run.items()
            if column != TRUE and self.added[column] > slack
        }  # fmt: skip

    def settled(self, most: int) -> dict[tuple[int, int], bool]:
        """Give what every schedule of at most that cost keeps, by stage and value, or none does."""
        slack = self._slack(most)
        kept = [(at, column) for at, column in self.program.kept.items() if column != TRUE]
        never = {at: False for at, column in kept if self.added[column] > slack}
        always = {at: True for at, column in kept if self.added_by_none[column] > slack}
        return never | always

    def _slack(self, most: int) -> float:
        return most - self.cost + self._error


def held(
    problem: StageProblem,
    solver: str,
    least: int,
    tell: Callable[[Any], None],
    seconds: float | None,
) -> dict[str, Any]:
    """Find the best schedule by stages; tell every better one as stages and nodes in order.

    Parameters
    ----------
    problem : StageProblem
    solver : {"cp-sat", "highs"}
    least : int
        What recomputation is known to cost at least.

    Returns
    -------
    dict
        ``status``, ``bound`` in units of cost above the first computations, and ``runs``.
    """
    clock = Clock(seconds)
    relaxed = _relax(HeldProgram(problem), clock)
    if not isinstance(relaxed, _Relaxed):
        return {"status": relaxed, "bound": 0, "runs": None}
    bound, n_runs = max(least, relaxed.bound), _FIRST_RUNS
    while problem.most_extra is None or bound <= problem.most_extra:
        most, is_last = relaxed.most_with(n_runs, bound), False
        if most is None:
            most, is_last = problem.most_extra, True
        program = HeldProgram(problem) if most is None else _narrow_program(relaxed, most, clock)
        found = SOLVERS[solver](program, clock, tell)
        if found["status"] != INFEASIBLE:
            return found | {"bound": max(found["bound"], bound)}
        if most is None or is_last:
            break
        bound, n_runs = most + 1, n_runs * 4
    return {"status": INFEASIBLE, "bound": bound, "runs": None}


def shares(
    problem: StageProblem,
    parts: list[float],
    tell: Callable[[Any], None],
    seconds: float | None,
) -> None:
    """Relax the problem within parts of the capacity; tell of each what is kept in part.

    As a list of stage, value and share.
    """
    clock = Clock(seconds)
    for part in parts:
        program = HeldProgram(replace(problem, capacity=int(problem.capacity * part)))
        relaxed = _relax(program, clock)
        if isinstance(relaxed, _Relaxed):
            kept = [(*at, float(relaxed.values[column])) for at, column in program.kept.items()]
            tell([share for share in kept if share[2] > _TOLERANCE])


def _relax(program: HeldProgram, clock: Clock) -> _Relaxed | str:
    """Solve the relaxation; give how it ended where that has no solution."""
    from scipy.optimize import linprog

    matrix, high = program.rows()
    lower = np.zeros(program.n_columns)
    lower[TRUE] = 1
    bounds = np.stack([lower, np.ones(program.n_columns)], axis=1)
    answer = linprog(
        program.objective(), A_ub=matrix, b_ub=high, bounds=bounds, method="highs",
        options=options_of(clock.limit),
    )  # fmt: skip
    if (status := status_of(answer)) != OPTIMAL:
        return INFEASIBLE if status == INFEASIBLE else UNKNOWN
    added, added_by_none = answer.lower.marginals, -answer.upper.marginals
    return _Relaxed(program, answer.x, float(answer.fun), added, added_by_none)


def _narrow_program(relaxed: _Relaxed, most: int, clock: Clock) -> HeldProgram:
    """Make the program of schedules of at most that cost, with what is known of all of them."""
    relaxed, problem = _narrow(relaxed, most, clock)
    program = HeldProgram(problem)
    program.settle(relaxed.settled(most))
    return program


def _narrow(relaxed: _Relaxed, most: int, clock: Clock) -> tuple[_Relaxed, StageProblem]:
    """Leave out the runs that no schedule of at most that cost can have; relaxed, and the rest."""
    narrow = relaxed.program.problem
    for _ in range(_ROUNDS):
        out = relaxed.too_dear(most)
        narrow = replace(narrow.without(out), most_extra=most)
        if len(out) < _WORTH * len(relaxed.program.run):
            break
        again = _relax(HeldProgram(narrow), clock)
        if not isinstance(again, _Relaxed):
            break
        relaxed = again
    return relaxed, narrow


def narrowed(
    problem: StageProblem, near: float, tell: Callable[[Any], None], seconds: float | None
) -> dict[str, Any]:
    """Leave out the runs that schedules within ``most_extra`` cannot have.

    Parameters
    ----------
    problem : StageProblem
    near : float
        The problem is left as it is if ``most_extra`` is at most so many times its bound.

    Returns
    -------
    dict
        ``status``, ``bound`` as of `held`, and ``problem``.
    """
    clock = Clock(seconds)
    relaxed = _relax(HeldProgram(problem), clock)
    if not isinstance(relaxed, _Relaxed):
        return {"status": relaxed, "bound": 0, "problem": problem}
    if problem.most_extra is not None:
        if relaxed.bound > problem.most_extra:
            return {"status": INFEASIBLE, "bound": relaxed.bound, "problem": problem}
        if problem.most_extra > near * relaxed.bound:
            problem = _narrow(relaxed, problem.most_extra, clock)[1]
    return {"status": FEASIBLE, "bound": relaxed.bound, "problem": problem}


def _by_cp_sat(program: HeldProgram, clock: Clock, tell: Callable[[Any], None]) -> dict[str, Any]:
    """Solve a program for whole numbers, with CP-SAT."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    columns = [model.new_bool_var("") for _ in range(program.n_columns)]
    model.add_bool_and(columns[TRUE])
    for clause in program.clauses:
        model.add_bool_or([columns[c] if c >= 0 else columns[~c].negated() for c in clause])
    for loaded, sizes, left in program.sums:
        expression = cp_model.LinearExpr.weighted_sum([columns[c] for c in loaded], sizes)
        model.add_linear_constraint(expression, -(2**62), left)
    again = [(at, column) for at, column in program.run.items() if column != TRUE]
    costs = [program.problem.cost[node] for (_, node), _ in again]
    extra = cp_model.LinearExpr.weighted_sum([columns[column] for _, column in again], costs)
    if program.problem.most_extra is not None:
        model.add_linear_constraint(extra, 0, program.problem.most_extra)
    model.minimize(extra)

    answer = solve_model(
        model,
        lambda value: _runs(program, [value(column) for column in columns]),
        seconds=clock.limit,
        tell=tell,
        linearization_level=2,  # the sums are all that there is: bounds come of them
        max_num_cuts=20_000,
        cut_level=2,
        symmetry_level=0,  # it finds none, and looks for long
        cp_model_probing_level=0,
    )
    return {
        "status": answer.status,
        "bound": math.ceil(answer.bound - 1e-6),
        "runs": answer.found,
    }


def _by_highs(program: HeldProgram, clock: Clock, tell: Callable[[Any], None]) -> dict[str, Any]:
    """Solve a program for whole numbers, with HiGHS."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix, high = program.rows()
    constraints = [LinearConstraint(matrix, -np.inf, high)]
    cost, most = program.objective(), program.problem.most_extra
    if most is not None:
        constraints.append(LinearConstraint(cost[np.newaxis], 0, most))
    lower = np.zeros(program.n_columns)
    lower[TRUE] = 1
    answer = milp(
        cost, constraints=constraints, bounds=Bounds(lower, 1),
        integrality=np.ones(program.n_columns), options=options_of(clock.limit, mip_rel_gap=0.0),
    )  # fmt: skip
    status = status_of(answer)
    if status == INFEASIBLE:
        return {"status": INFEASIBLE, "bound": 0, "runs": None}
    bound, runs = answer.mip_dual_bound, None
    if answer.x is not None:
        runs = _runs(program, answer.x)
        tell(runs)
    return {
        "status": status,
        "bound": _whole_bound(bound) if bound is not None and np.isfinite(bound) else 0,
        "runs": runs,
    }


def _whole_bound(bound: float) -> int:
    return max(0, math.ceil(bound - _TOLERANCE * (1 + bound)))


def _runs(program: HeldProgram, values: Any) -> Runs:
    """Read a solution: stage and node of every run, in order."""
    return sorted(at for at, column in program.run.items() if values[column] > 0.5)


SOLVERS = {"cp-sat": _by_cp_sat, "highs": _by_highs}
