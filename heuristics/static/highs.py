"""HiGHS through scipy: how an answer of it ended, in the words of planners, and what it proves."""

from __future__ import annotations

from typing import Any

from .registry import FEASIBLE, INFEASIBLE, OPTIMAL
from .solving import UNKNOWN

_SOLVED, _AT_LIMIT, _IMPOSSIBLE = range(3)  # of scipy
_ROUNDING = 1e-5  # what its arithmetic may add to a bound, as a fraction and beside it


def status_of(answer: Any) -> str:
    """Say how ``linprog`` or ``milp`` ended: at a limit, with a solution or without.

    Raises
    ------
    ValueError
        If HiGHS could not work on it.
    """
    if answer.status == _IMPOSSIBLE:
        return INFEASIBLE
    if answer.status not in (_SOLVED, _AT_LIMIT):
        raise ValueError(f"HiGHS: {answer.message}")
    if answer.status == _SOLVED:
        return OPTIMAL
    return UNKNOWN if answer.x is None else FEASIBLE


def surely(bound: float) -> float:
    """Lower a bound, which is at least 0, by what rounding may have added to it."""
    return max(0.0, bound - _ROUNDING * (1 + bound))


def options_of(seconds: float | None, **others: float) -> dict[str, float]:
    """Give options with a time limit, if there is one."""
    return others if seconds is None else {**others, "time_limit": seconds}
