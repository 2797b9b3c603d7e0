"""`largest_batch`: the largest batch size whose step fits, by method.

Traces come from whoever asks; that a larger batch needs more is used to search, and not believed:
what is said to fit was run, and so was the next size up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .budgets import parse_budget
from .errors import BudgetError, UsageError
from .headroom import Headroom, parse_headroom
from .traces.trace import Trace
from .trials import DEFAULT_SLOWDOWN, PLAIN, Method, Trial, Trials, check_slowdown
from .workload import workload

MOST_BATCHES = 1_000_000
# Few, as each is searched for: what needs nothing, PyTorch's own way, and what knows better.
METHODS = (
    Method(PLAIN),
    Method("every-kth(k=1)"),
    Method("h_DTR_eq", "eager"),
    Method("h_next_use", "eager"),
    Method("on-demand"),
    Method("rotor(slots=200)"),
)


def parse_batches(given: str) -> range:
    """Read batch sizes, ``first:last`` or ``first:last:step``.

    Raises
    ------
    UsageError
        If they are none.

    Examples
    --------
    >>> parse_batches("1:512"), parse_batches("8:64:8")
    (range(1, 513), range(8, 65, 8))
    """
    parts = given.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"batch sizes {given!r}: they are first:last or first:last:step")
    first, last, step = (*map(int, parts), 1)[:3]
    if not (1 <= first <= last <= MOST_BATCHES and step >= 1):
        raise UsageError(
            f"batch sizes {given!r}: the first is at least 1, the last not below it and at most "
            f"{MOST_BATCHES:,}, a step at least 1"
        )
    return range(first, last + 1, step)


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch that a method was found to fit.

    Attributes
    ----------
    method : Method
    batch : int or None
        None: not even the smallest.
    trial : Trial
        Its run; or that of the smallest batch, which does not fit.
    next_batch : int or None
        The next size up, which was tried and does not fit; None where all fit.
    """

    method: Method
    batch: int | None
    trial: Trial
    next_batch: int | None


@dataclass(frozen=True)
class BatchAnswer:
    """What `largest_batch` says.

    Attributes
    ----------
    budget_bytes, headroom_bytes : int
    slowdown : float
        The most that was asked for.
    found : list of LargestBatch
        By method, the one with the largest batch first, of equal ones the quickest.
    tried : list of int
        The batch sizes that were looked at, ascending.
    """

    budget_bytes: int
    headroom_bytes: int
    slowdown: float
    found: list[LargestBatch]
    tried: list[int]

    @property
    def allowed_bytes(self) -> int:
        """The budget without the headroom: what the runs may take."""
        return self.budget_bytes - self.headroom_bytes

    @property
    def best(self) -> LargestBatch | None:
        """The largest, if one fits."""
        return self.found[0] if self.found[0].batch is not None else None


def largest_batch(
    trace_of: Callable[[int], Trace],
    batches: Sequence[int],
    budget: Any,
    *,
    slowdown: float = DEFAULT_SLOWDOWN,
    headroom: str | int | Headroom = 0,
) -> BatchAnswer:
    """Find the largest batch size whose step fits into a budget, by method.

    Parameters
    ----------
    trace_of : callable
        Gives the trace of the step at a batch size.
    batches : sequence of int
        Ascending; those that count.
    budget : str, int or Budget
        Bytes at once.
    slowdown, headroom
        As for `fits`.

    Returns
    -------
    BatchAnswer

    Raises
    ------
    UsageError
        If what is asked is not what it should be.
    """
    asked = parse_budget(budget)
    if asked.kind != "bytes" or asked.value is None:
        raise BudgetError(f"budget {asked}: of batches it is bytes, as 24GiB")
    check_slowdown(slowdown)
    if not batches:
        raise UsageError("batch sizes: there are none")
    budget_bytes = int(asked.value)
    free = parse_headroom(headroom).of(budget_bytes)
    search = _Search(trace_of, batches, budget_bytes - free, slowdown)
    found = sorted(
        (search.largest(method) for method in METHODS),
        key=lambda one: (-(one.batch or 0), one.trial.row.slowdown or math.inf),
    )
    tried = sorted(search.batches[place] for place in search.trials)
    return BatchAnswer(budget_bytes, free, slowdown, found, tried)


class _Search:
    """Tries methods at batch sizes, known by their places among all."""

    def __init__(
        self,
        trace_of: Callable[[int], Trace],
        batches: Sequence[int],
        allowed: int,
        slowdown: float,
    ) -> None:
        self.trace_of, self.batches = trace_of, batches
        self.allowed, self.slowdown = allowed, slowdown
        self.trials: dict[int, Trials] = {}

    def try_at(self, method: Method, place: int) -> Trial:
        """Try a method at a batch size."""
        if place not in self.trials:
            work = workload(self.trace_of(self.batches[place]), cached=False)
            self.trials[place] = Trials(work, self.slowdown)
        return self.trials[place](method, self.allowed)

    def largest(self, method: Method) -> LargestBatch:
        """Find the largest size that fits and whose next one does not, by halving.

        The sizes that were tried for other methods come first, from the largest down, so that one
        that fits though a smaller one does not is seen.
        """
        last = len(self.batches) - 1
        known = sorted({*self.trials, 0, last}, reverse=True)
        high = last + 1
        for low in known:
            trial = self.try_at(method, low)
            if trial.fits:
                break
            high = low
        else:
            return LargestBatch(method, None, trial, self.batches[0])
        while high - low > 1:
            middle = (low + high) // 2
            tried = self.try_at(method, middle)
            if tried.fits:
                low, trial = middle, tried
            else:
                high = middle
        following = self.batches[high] if high <= last else None
        return LargestBatch(method, self.batches[low], trial, following)
