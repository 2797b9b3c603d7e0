"""Time limits, and Ctrl-C: what is left of a limit, and one interruption that ends them all.

Planners ask a `Clock` whether there is time left, and nothing else. Inside `interrupts_caught`,
the first Ctrl-C makes every clock be over, so that a planner answers with the best plan so far,
just as at its limit; a second one is raised as usual. While something is compiled, which happens
once for a version, all clocks stand still.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...jit import compiling

INTERRUPTED = "interrupted"  # what a planner's message says then
_LEAST = 0.01  # seconds, for solvers


class _InterruptedError(Exception):
    """Leaves what asks no clock; never leaves this module."""


class _Ctrl:
    """Whether Ctrl-C was pressed, and whether it is to be raised where it happens."""

    is_pressed = is_raised = False

    def press(self, number: int, frame: Any) -> None:
        """Note the first one, raise a second one."""
        if self.is_pressed:
            signal.default_int_handler(number, frame)
        self.is_pressed = True
        if self.is_raised:
            raise _InterruptedError


_ctrl = _Ctrl()


def _now() -> float:
    return time.monotonic() - compiling.seconds


class Clock:
    """What is left of a time limit.

    Parameters
    ----------
    seconds : float or None
        The limit, from now on; None: there is none, but for an interruption.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._started = _now()
        self._seconds = seconds

    @property
    def spent(self) -> float:
        """Seconds since it was made."""
        return _now() - self._started

    @property
    def left(self) -> float | None:
        """Seconds, never below 0; None without a limit."""
        if _ctrl.is_pressed:
            return 0.0
        return None if self._seconds is None else max(0.0, self._seconds - self.spent)

    @property
    def limit(self) -> float | None:
        """What is left as a limit for solvers, of which some take 0 for none."""
        return None if self.left is None else max(self.left, _LEAST)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0

    def part(self, share: float, most: float | None = None) -> Clock:
        """Give a clock for a share of what is left, and at most for so many seconds."""
        seconds = None if self.left is None else self.left * share
        if most is not None:
            seconds = most if seconds is None else min(seconds, most)
        return Clock(seconds)


NO_LIMIT = Clock()


def is_interrupted() -> bool:
    """Whether Ctrl-C was pressed while a plan is made."""
    return _ctrl.is_pressed


@contextmanager
def interrupts_caught() -> Iterator[None]:
    """Let the first Ctrl-C make all clocks be over, in the main thread.

    Where someone else handles Ctrl-C, or nobody listens, as in a sweep's workers, it is left to
    them.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _ctrl.press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _ctrl.is_pressed = False


@contextmanager
def left_at_once() -> Iterator[None]:
    """Let an interruption leave what stands in this block, since it asks no clock."""
    if _ctrl.is_pressed:
        yield
        return
    try:
        _ctrl.is_raised = True
        yield
    except _InterruptedError:
        pass
    finally:
        _ctrl.is_raised = False
