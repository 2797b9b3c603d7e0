"""HiGHS on Checkmate's program, in the solvers' process (``solving.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .highs import options_of, status_of, surely
from .registry import INFEASIBLE, OPTIMAL
from .rows import Rows
from .searching import Search
from .solving import UNKNOWN
from .stage_problem import StageProblem
from .stage_program import StageProgram
from .stages import Kept, nothing_kept

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...static_graph import StaticGraph

Shares = list[tuple[int, int, float]]  # stage, value, S


def integer(
    problem: StageProblem, form: str, tell: Callable[[Any], None], seconds: float | None
) -> dict[str, Any]:
    """Solve the program in whole numbers.

    Returns
    -------
    dict
        ``status``, ``bound`` in units of cost above the first computations, and ``kept``.
    """
    program = StageProgram(problem, form)
    whole = np.zeros(program.n_columns)
    whole[list(program.whole)] = 1
    return _solve(program, whole, seconds)


def relaxed(
    problem: StageProblem,
    form: str,
    parts: list[float],
    tell: Callable[[Any], None],
    seconds: float | None,
) -> dict[str, Any]:
    """Solve the relaxation within parts of the capacity, and tell the solution of each.

    Returns
    -------
    dict
        That for the first part.
    """
    first: dict[str, Any] = {"status": UNKNOWN, "bound": 0.0, "kept": None}
    for at, part in enumerate(parts):
        smaller = replace(problem, capacity=int(problem.capacity * part))
        program = StageProgram(smaller, form)
        found = _solve(program, np.zeros(program.n_columns), seconds)
        if found["kept"] is not None:
            tell(found)
        if at == 0:
            first = found
    return first


def _solve(
    program: StageProgram, whole: NDArray[np.float64], seconds: float | None
) -> dict[str, Any]:
    status, bound, found = solve_program(program, whole, seconds)
    kept: Shares | None = None
    if found is not None:
        kept = [(*at, float(found[column])) for at, column in program.kept.items()]
        kept = [share for share in kept if share[2] > 1e-6]
    return {"status": status, "bound": bound, "kept": kept}


def solve_program(
    program: Rows, whole: NDArray[np.float64], seconds: float | None
) -> tuple[str, float, NDArray[np.float64] | None]:
    """Solve a program, some of whose columns have to be whole.

    Returns
    -------
    tuple
        How it ended, what is proven of the objective, and the best solution, if there is one.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not program.n_columns:
        return OPTIMAL, 0.0, np.zeros(0)
    answer = milp(
        program.objective(),
        constraints=LinearConstraint(program.matrix(), program.low, program.high),
        bounds=Bounds(program.least, program.most),
        integrality=whole,
        options=options_of(seconds, mip_rel_gap=0.0),
    )
    status = status_of(answer)
    if status == INFEASIBLE:
        return INFEASIBLE, 0.0, None
    bound = answer.mip_dual_bound
    if not whole.any():
        bound = answer.fun if status == OPTIMAL else 0.0
    is_known = bound is not None and np.isfinite(bound)
    return status, max(0.0, bound) if is_known else 0.0, answer.x


def take_bound(search: Search, problem: StageProblem, found: dict[str, Any]) -> None:
    """Raise the bound of a search to what a solver proves of the schedules of a problem."""
    if found["status"] == INFEASIBLE:
        search.is_proven = True
        return
    units = math.ceil(surely(found["bound"]))
    search.raise_bound(search.graph.base_cost + units * problem.cost_unit)


def kept_of_shares(graph: StaticGraph, shares: Shares, threshold: float) -> Kept:
    """Round what is kept in part; and keep what cannot be computed again."""
    kept = nothing_kept(graph)
    for stage, value, share in shares:
        if share >= threshold:
            kept[value] |= 1 << stage
    return kept
