"""`fits`: does a trace fit into a budget, at what slowdown, by which method, and if not, why.

A yes is a run of the simulator, which a command repeats; a no is proven by a bound that holds for
every run; and where neither is found, that is the answer. Which methods are tried is in
``trials.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .bounds import lower_bound
from .budgets import parse_budget
from .errors import BudgetError
from .floors import Floor, floor_of
from .headroom import Headroom, parse_headroom
from .showing import Shown
from .static_graph import naive_peak_bytes
from .texts import format_bytes, shown_number
from .traces.loading import load_trace
from .traces.trace import Trace
from .trials import DEFAULT_SLOWDOWN, PLAIN, Method, Trial, Trials, check_slowdown, methods
from .workload import Workload, workload

YES, NO, NONE_FOUND = "yes", "no", "none found"
MEMORY, TIME = "memory", "time"  # what proves a no
# Parts of the way from the lowest budget to what the plain run takes: how closely runs are tried,
# and bounds asked for.
PARTS, BOUND_PARTS = 128, 32


@dataclass(frozen=True)
class Smallest:
    """The smallest budget for which a method was found.

    Attributes
    ----------
    budget_bytes : int
        Headroom included.
    trial : Trial
        The run; its peak is all that it needs.
    none_below_bytes : int
        Proven: no run fits into less, headroom included.
    resolution_bytes : int
        Runs were tried at budgets so far apart. A method may do with less yet, since less memory
        is not always slower.
    """

    budget_bytes: int
    trial: Trial
    none_below_bytes: int
    resolution_bytes: int


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """What `fits` says.

    Attributes
    ----------
    trace : Trace
    budget_bytes, headroom_bytes : int
        What was asked for; what is to stay free of it.
    slowdown : float
        The most that was asked for.
    verdict : str
        ``yes``; ``no``, which is proven; or ``none found``, which proves nothing.
    proof : str
        Of a no: ``memory`` (no run fits at all), or ``time`` (none is quick enough).
    bound_slowdown : float or None
        No run within the budget is quicker; None if none fits.
    trials : list of Trial
        Methods tried at the budget: those that fit first, the quickest of them first.
    smallest : Smallest
        For the same slowdown.
    floor : Floor
    unlimited_peak_bytes : int
    """

    trace: Trace
    budget_bytes: int
    headroom_bytes: int
    slowdown: float
    verdict: str
    proof: str
    bound_slowdown: float | None
    trials: list[Trial]
    smallest: Smallest
    floor: Floor
    unlimited_peak_bytes: int

    def facts(self) -> dict[str, str]:
        """Name what was asked and what came out."""
        facts = {
            "trace": self.trace.name,
            "budget": format_bytes(self.budget_bytes),
            "slowdown at most": shown_number(self.slowdown),
            "answer": self.verdict,
        }
        if best := self.recommended:
            facts["method"] = best.method.name
            facts["slowdown"] = f"{best.row.slowdown:.4f}"
            facts["peak"] = format_bytes(best.row.peak_bytes)
        return facts

    @property
    def allowed_bytes(self) -> int:
        """The budget without the headroom: what the runs may take."""
        return self.budget_bytes - self.headroom_bytes

    @property
    def fitting(self) -> list[Trial]:
        """The methods that fit, the quickest first."""
        return [trial for trial in self.trials if trial.fits]

    @property
    def recommended(self) -> Trial | None:
        """The quickest method that fits, if one does."""
        return next(iter(self.fitting), None)

    def command(self, trial: Trial, source: str = "") -> str:
        """Write the command that repeats a trial; ``source`` is how the trace was named."""
        budget = trial.row.budget_bytes
        assert budget is not None, "every trial has a budget"
        return trial.method.command(source or self.trace.source, budget, self.slowdown)

    def command_of_smallest(self, source: str = "") -> str:
        """Write the command of the run with the smallest budget, headroom left out.

        A heuristic does the same within a budget of its run's peak; a planner may not, though the
        plan fits.
        """
        trial = self.smallest.trial
        if not trial.method.deallocation:
            return self.command(trial, source)
        named = source or self.trace.source
        return trial.method.command(named, trial.row.peak_bytes, self.slowdown)


def fits(
    trace: Trace | str | Path,
    budget: Any,
    *,
    slowdown: float = DEFAULT_SLOWDOWN,
    headroom: str | int | Headroom = 0,
    cached: bool = True,
) -> Answer:
    """Say whether a trace fits into a budget, by which methods, and what it would take.

    Parameters
    ----------
    trace : Trace, str or Path
        What the model did, or the file to read it from.
    budget : str, int, float or Budget
        As for `simulate`: all bytes at once, constants and outputs included.
    slowdown : float
        The most that is acceptable, from 1.
    headroom : str, int or Headroom
        What is to stay free of the budget: ``"10%"``, ``"2GiB"``, or bytes.
    cached : bool
        As in `simulation.Options`.

    Returns
    -------
    Answer

    Raises
    ------
    InputError
        If the trace is not what it should be; `UsageError`, if what is asked is not.

    Notes
    -----
    Memory is counted in bytes, and an update in place as a copy, as planners and bounds have it.

    Examples
    --------
    >>> answer = fits("synthetic:chain:16", 8, slowdown=1.5)
    >>> answer.verdict, answer.recommended.method.name, answer.recommended.row.slowdown
    ('yes', 'h_DTR', 1.28125)
    """
    check_slowdown(slowdown)
    free = parse_headroom(headroom)
    if not isinstance(trace, Trace):
        trace = load_trace(trace)
    work = workload(trace, cached=cached)
    budget_bytes = parse_budget(budget).resolve(work.unlimited_peak_bytes)
    if budget_bytes is None:
        raise BudgetError("budget unlimited: everything fits; give bytes, or a fraction as 0.5x")
    asked = _Asked(work, budget_bytes - free.of(budget_bytes), slowdown)
    return Answer(
        trace,
        budget_bytes,
        free.of(budget_bytes),
        slowdown,
        *asked.verdict(),
        asked.bound_slowdown(),
        asked.tried,
        asked.smallest(free),
        asked.floor,
        work.unlimited_peak_bytes,
    )


class _Asked:
    """One question, and what has been found out about it."""

    def __init__(self, work: Workload, allowed: int, slowdown: float) -> None:
        self.work, self.allowed = work, allowed
        self.trials = Trials(work, slowdown)
        self.floor = floor_of(work)
        self.methods = methods(work.trace.n_calls)
        self.bound = lower_bound(work.program, allowed)
        self.proof = self._proof(self.bound)
        self.tried = [] if self.proof else self._tried()

    def _proof(self, bound: float) -> str:
        """Say what a bound proves: that no run fits, or that none is quick enough."""
        if math.isinf(bound):
            return MEMORY
        is_slow = bound - self.work.program.base_compute_ns > self.trials.remat_limit_ns
        return TIME if is_slow else ""

    def _tried(self) -> list[Trial]:
        """Try all methods at the budget; none but the plain run, if that fits."""
        plain, *others = self.methods
        first = self.trials(plain, self.allowed)
        if first.fits:
            return [first]
        tried = [first, *(self.trials(method, self.allowed) for method in others)]
        return sorted(tried, key=lambda trial: trial.row.remat_ns if trial.fits else math.inf)

    def verdict(self) -> tuple[str, str]:
        """Give the verdict, and what proves it if it is a no."""
        if self.proof:
            return NO, self.proof
        return (YES if any(trial.fits for trial in self.tried) else NONE_FOUND), ""

    def bound_slowdown(self) -> float | None:
        """Give the bound at the budget as a slowdown."""
        base = self.work.program.base_compute_ns
        if math.isinf(self.bound):
            return None
        return self.bound / base if base else 1.0

    def smallest(self, free: Headroom) -> Smallest:
        """Look for the smallest budget for the slowdown."""
        plain = self.trials(Method(PLAIN), naive_peak_bytes(self.work.graph))
        known = [plain, *(trial for trial in self.tried if trial.fits)]
        best = min(known, key=lambda trial: trial.row.peak_bytes)
        low = min(self.floor.total_bytes, best.row.peak_bytes)
        step = max((plain.row.peak_bytes - low) // PARTS, 1)
        proven = self._proven(best.row.peak_bytes, step * PARTS // BOUND_PARTS)
        for method in self._in_order():
            best = self._smaller(method, best, max(low, proven), step)
        return Smallest(free.budget_for(best.row.peak_bytes), best, free.budget_for(proven), step)

    def _proven(self, high: int, step: int) -> int:
        """Find by halving below which budget no run is quick enough.

        What bounds a budget bounds every smaller one.
        """
        low = 0
        while high - low > step:
            middle = (low + high) // 2
            is_proven = self._proof(lower_bound(self.work.program, middle))
            low, high = (middle, high) if is_proven else (low, middle)
        return low + 1

    def _in_order(self) -> list[Method]:
        """Give the methods, those first that did well at the budget."""
        done = [trial.method for trial in self.tried]
        return [*done, *(method for method in self.methods if method not in done)]

    def _smaller(self, method: Method, best: Trial, low: int, step: int) -> Trial:
        """Search with a method for a smaller budget, by halving if a little less will do.

        A run within a budget of its peak is the same run: so what is found is its peak.
        """
        at = best.row.peak_bytes - step
        for _ in range(method.probes):
            if at < low:
                break
            trial = self.trials(method, at)
            if trial.fits:
                best = trial
            elif at == best.row.peak_bytes - step:
                break
            else:
                low = at
            if best.row.peak_bytes - low <= step:
                break
            at = (low + best.row.peak_bytes) // 2
        return best
