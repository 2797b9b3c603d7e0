"""A user's own solver of `knapsack`, asked in the solvers' process (``solving.py``).

There it can take too long, fill the memory, or end its process: each is a status. What it raises is
an error that names its line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InputError
from ..user_files import load_function, place_of
from .clock import INTERRUPTED, Clock
from .registry import TIME_LIMIT
from .solving import DONE, solve

LONGEST_ANSWER = 80  # letters of a wrong one that are shown
Answer = tuple[float, list[int], list[int]]


class SolverEnded(Exception):  # noqa: N818 - no error, but how it ended
    """It ended without an answer; never leaves `knapsack`."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = TIME_LIMIT if status == INTERRUPTED else status

    @property
    def is_late(self) -> bool:
        """Whether there was no time left for it."""
        return self.status == TIME_LIMIT


def own_solver(text: str, clock: Clock) -> Callable[[list[float], list[float], float], Answer]:
    """Give what asks the function that ``file.py:function`` names, until a time.

    What it gives raises `SolverEnded` where there is no answer, and an InputError that names the
    line where the function fails, or answers what is no answer.
    """
    loaded = load_function(text)
    assert loaded is not None, text
    place = f"{loaded.path.resolve()}:{text.rpartition(':')[2]}"

    def ask(memory: list[float], runtimes: list[float], max_memory: float) -> Answer:
        ended = solve(
            answer.__module__, answer.__name__, place, memory, runtimes, max_memory,
            seconds=clock.left,
        )  # fmt: skip
        if ended.status != DONE:
            message = f"knapsack: solver, with max_memory {max_memory:g}: {ended.message}"
            raise SolverEnded(ended.status, message)
        saved, fault = ended.answer
        if fault:
            raise InputError(fault)
        return 0.0, saved, []

    return ask


def answer(
    text: str,
    memory: list[float],
    runtimes: list[float],
    max_memory: float,
    tell: Callable[[Any], None],
    seconds: float | None,
) -> tuple[list[int], str]:
    """Ask the function: places to save, and what went wrong. A task for the process."""
    loaded = load_function(text)
    assert loaded is not None, text
    try:
        return checked(loaded.function(memory, runtimes, max_memory), len(memory)), ""
    except InputError as error:
        return [], str(error)
    except MemoryError:
        raise
    except BaseException as error:  # it may leave by any of them: SystemExit, KeyboardInterrupt
        return [], place_of(error, loaded.path)


def checked(answer: Any, count: int) -> list[int]:
    """Take the places to save from what a solver answers.

    Raises
    ------
    InputError
        It has none, or they are not below ``count``.
    """
    try:
        saved = sorted({int(place) for place in answer[1]})
    except (TypeError, ValueError, IndexError, KeyError):
        saved = [-1]
    if saved and not 0 <= saved[0] <= saved[-1] < count:
        rule = "(time saved, places to save, places to compute again)"
        raise InputError(f"it gave {str(answer)[:LONGEST_ANSWER]}: it gives {rule}")
    return saved
