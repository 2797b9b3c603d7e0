"""CP-SAT, asked in one way: a seed, one thread, a limit; its answer in the words of planners.

Runs in the solvers' process (``solving.py``), the only one that imports OR-tools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .registry import FEASIBLE, INFEASIBLE, OPTIMAL
from .solving import UNKNOWN, WORKERS

Read = Callable[[Callable[[Any], int]], Any]


class Answer(NamedTuple):
    """How a solver ended.

    Attributes
    ----------
    status : str
        ``OPTIMAL``, ``FEASIBLE``, ``INFEASIBLE`` or ``UNKNOWN``.
    bound : float
        No solution has a lower objective.
    found : object or None
        What was read off the best solution.
    """

    status: str
    bound: float
    found: Any


def solve_model(
    model: Any,
    read: Read,
    *,
    seconds: float | None,
    tell: Callable[[Any], None] | None = None,
    **parameters: float,
) -> Answer:
    """Solve a model of ``ortools.sat.python.cp_model``.

    Parameters
    ----------
    model : CpModel
    read : callable
        Given a function from a variable to its value: what the solution means.
    seconds : float or None
        What the solver may take.
    tell : callable, optional
        Is given what each better solution means.
    **parameters
        Of CP-SAT, by its names.

    Raises
    ------
    ValueError
        If the model is invalid: a mistake in the program that made it.
    """
    from ortools.sat.python import cp_model

    class Telling(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            if tell is not None:
                tell(read(self.value))

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = 0
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    code = solver.solve(model, Telling())
    if code == cp_model.MODEL_INVALID:
        raise ValueError(f"invalid model: {model.validate()}")
    status = {
        cp_model.OPTIMAL: OPTIMAL,
        cp_model.FEASIBLE: FEASIBLE,
        cp_model.INFEASIBLE: INFEASIBLE,
    }.get(code, UNKNOWN)
    found = read(solver.value) if status in (OPTIMAL, FEASIBLE) else None
    return Answer(status, solver.best_objective_bound, found)
