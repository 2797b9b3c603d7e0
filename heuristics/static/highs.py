"""HiGHS through scipy: how an answer of it ended, in the words of planners."""

from __future__ import annotations

from typing import Any

from .registry import FEASIBLE, INFEASIBLE, OPTIMAL
from .solving import UNKNOWN

_SOLVED, _AT_LIMIT, _IMPOSSIBLE = range(3)  # of scipy


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


def options_of(seconds: float | None, **others: float) -> dict[str, float]:
    """Give options with a time limit, if there is one."""
    return others if seconds is None else {**others, "time_limit": seconds}
