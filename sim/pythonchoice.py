"""Choosing in Python: for heuristics that cannot be compiled, and for saying why one failed.

The same scan as `choosing.make_plain_choose`, on the same State; slow, and it can name the
user's file and line.
"""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np

from . import compiled
from .errors import HeuristicError
from .heuristics.registry import Heuristic, place_of
from .pool import HOLE
from .program import Program
from .state import State

DIVIDING = "divide with rematsim.heuristics.terms.ratio"


class PythonScan:
    """Scans the pool with a heuristic's plain function.

    Parameters
    ----------
    heuristic : Heuristic
        Whose function is called.
    counts : bool
        Whether every score walks afresh and is counted.
    names : callable
        Storage to the name that a user knows it by.
    """

    def __init__(self, heuristic: Heuristic, counts: bool, names: Any) -> None:
        self.heuristic = heuristic
        self.counts = counts
        self.names = names

    def __call__(self, program: Program, state: State) -> tuple[int, float]:
        """Pick the victim; give it and its score."""
        lowest, victim = float("inf"), -1
        for s in state.pool[: int(state.run["pool_end"][0])].tolist():
            if s == HOLE:
                continue
            value = self.score(program, state, s)
            if value == 0.0:
                return s, 0.0
            if value <= lowest:
                lowest, victim = value, s
        return victim, lowest

    def score(self, program: Program, state: State, s: int) -> float:
        """Score one storage.

        Raises
        ------
        HeuristicError
            If the function fails or gives no number.
        """
        if self.counts:
            row = state.storages[s]
            row.ancestors_at = row.descendants_at = -1  # walk afresh
            state.run["evaluations"] += 1
            state.run["metadata_accesses"] += 1
        compiled.refresh().function(program, state, s)
        try:
            with np.errstate(all="ignore"):
                value = self.heuristic.function(state, s)
        except (Exception, SystemExit) as error:
            hint = f"; {DIVIDING}" if isinstance(error, ZeroDivisionError) else ""
            raise HeuristicError(
                f"{_line_of(error, self.heuristic)}: {type(error).__name__}: {error}; "
                f"scoring {self.describe(state, s)}{hint}"
            ) from error
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise HeuristicError(
                f"{place_of(self.heuristic.function)}: it returns {value!r} "
                f"({type(value).__name__}), not a number; scoring {self.describe(state, s)}"
            ) from None
        if number != number:
            raise self.no_number(state, s)
        return number

    def no_number(self, state: State, s: int) -> HeuristicError:
        """Say that a score was not a number, and of which storage."""
        return HeuristicError(
            f"{place_of(self.heuristic.function)}: score (nan) of {self.describe(state, s)}: "
            f"a score is a number; {DIVIDING}"
        )

    def describe(self, state: State, s: int) -> str:
        """Show the facts of a storage that a score reads."""
        row = state.storages[s]
        stale = int(state.next_free[0]) - int(row["last_access"])
        return (
            f"storage {self.names(s)!r} (size {int(row['size_bytes'])} bytes, "
            f"cost {int(row['cost_ns'])} ns, staleness {stale} ns)"
        )


def _line_of(error: BaseException, heuristic: Heuristic) -> str:
    """Name the line of the user's own file in which an error arose, else the function's."""
    code = getattr(heuristic.function, "__code__", None)
    place = place_of(heuristic.function)
    for frame in traceback.extract_tb(error.__traceback__):
        if code is not None and frame.filename == code.co_filename:
            place = f"{frame.filename}:{frame.lineno}"
    return place
