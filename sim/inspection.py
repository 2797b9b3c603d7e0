"""Runs of a heuristic with every choice made in Python, where each score can be looked at.

The means of `conformance.py`: what it is tried on, and how closely. No verdicts here.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from . import compiled, report
from .arena import ALIGNMENT
from .budgets import parse_budget
from .heuristics.registry import Heuristic, place_of
from .opcodes import DEALLOCATIONS, STATUSES
from .program import Program
from .pythonchoice import PythonScan
from .runner import Chooser, Run, Settings, remat_limit_ns
from .simulation import UPKEEP
from .state import State
from .traces.loading import load_trace
from .traces.trace import Trace
from .workload import workload

# Traces, small ones, with the budgets that each is tried at.
TRACES = {
    "synthetic:chain:16": ("0.4x", "0.7x"),
    "synthetic:tree:3,steps=2": ("0.4x", "0.7x"),
    "synthetic:random:3,n_calls=30": ("0.6x", "0.8x"),
    "synthetic:transformer:2": ("0.7x",),
}
LIMIT = 2.0  # slowdown
SUMS = {"ancestors": "ancestor_ns", "descendants": "descendant_ns", "classes": "class_ns"}
FACTS = ("memory", "next_free", "storages", "holds", "pool", "defined")


@dataclass(frozen=True)
class Trial:
    """One run that a heuristic is tried on."""

    trace: Trace
    budget: str
    deallocation: str

    def __str__(self) -> str:
        return f"{self.trace.name} at {self.budget} under {self.deallocation}"


class BrokenRuleError(Exception):
    """A check found that a rule is broken; the message says which."""


@functools.cache
def trials() -> tuple[Trial, ...]:
    """Give the runs that heuristics are tried on."""
    return tuple(
        Trial(trace, budget, policy)
        for trace, budgets in ((load_trace(name), budgets) for name, budgets in TRACES.items())
        for budget, policy in product(budgets, DEALLOCATIONS)
    )


class Recorder(PythonScan):
    """Scans in Python and keeps the scores."""

    def __init__(self, heuristic: Heuristic) -> None:
        super().__init__(heuristic, False, str)
        self.scores: list[tuple[int, float]] = []

    def score(self, program: Program, state: State, s: int) -> float:
        """Score a storage and note it."""
        value = super().score(program, state, s)
        self.scores.append((s, value))
        return value


class Inspector(Recorder):
    """Looks closely at each score: what it is, what it changes, how it grows."""

    def __init__(self, heuristic: Heuristic) -> None:
        super().__init__(heuristic)
        self.sums = [SUMS[need] for need in heuristic.needs if need in SUMS]
        self.fallen = ""

    def score(self, program: Program, state: State, s: int) -> float:
        """Score a storage, and score it again."""
        compiled.refresh().function(program, state, s)
        before = _content(state, FACTS)
        value = super().score(program, state, s)
        is_changed = before != _content(state, FACTS)
        before = _content(state, ("run",))
        again = self._call(state, s)
        if is_changed or before != _content(state, ("run",)):
            raise self._broken("it changes the state; a score only reads it")
        if not isinstance(again, numbers.Real | np.bool_):
            raise self._broken(f"it returns {again!r} ({type(again).__name__}), not a number")
        if float(again) != value:
            raise self._broken(f"asked twice about one storage, it says {value:g}, then {again:g}")
        if self.sums and not self.fallen:
            self._grow(state, s, value)
        return value

    def _call(self, state: State, s: int) -> Any:
        with np.errstate(all="ignore"):
            return self.heuristic.function(state, s)

    def _grow(self, state: State, s: int, value: float) -> None:
        """See whether the score falls when the evicted neighborhood grows."""
        for field in self.sums:
            state.storages[field][s] += 1_000
        grown = float(self._call(state, s))
        for field in self.sums:
            state.storages[field][s] -= 1_000
        if not grown >= value:
            self.fallen = f"from {value:g} to {grown:g} with 1,000 ns more in the neighborhood"

    def _broken(self, what: str) -> BrokenRuleError:
        return BrokenRuleError(f"{place_of(self.heuristic.function)}: {what}")


def _content(state: State, names: tuple[str, ...]) -> list[bytes]:
    return [getattr(state, name).tobytes() for name in names]


@functools.cache
def enlarged(trace: Trace) -> Trace:
    """Give a trace all bytes of which are multiplied, for memory that rounds sizes up."""
    return dataclasses.replace(
        trace,
        constant_bytes=trace.constant_bytes * ALIGNMENT,
        result_bytes=trace.result_bytes * ALIGNMENT,
        call_workspace_bytes=trace.call_workspace_bytes * ALIGNMENT,
    )


def run_in_python(trial: Trial, scan: PythonScan) -> tuple[Any, ...]:
    """Do a run with every choice made in Python; give its figures."""
    work = workload(trial.trace)
    scan.names = lambda s: report.storage_names(work.trace, work.program)[s]
    needs = scan.heuristic.needs_bits
    settings = Settings(
        budget_bytes=parse_budget(trial.budget).resolve(work.unlimited_peak_bytes),
        policy=DEALLOCATIONS.index(trial.deallocation),
        remat_limit_ns=remat_limit_ns(work.program, LIMIT),
        needs=needs,
        upkeep=needs & UPKEEP,
    )
    run = Run(work.program, settings)
    status = STATUSES[run.finish(Chooser(compiled.choose_in_python(), scan))]
    clock, peak = int(run.state.next_free[0]), int(run.state.room["peak_bytes"])
    return status, clock, peak, run.fact("evictions"), run.evict_sha
