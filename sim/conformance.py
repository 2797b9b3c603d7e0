"""Whether a heuristic keeps the rules that all heuristics keep: for its author, and for tests.

`check_heuristic` runs it on small traces in every way that the engine may, and compares. It says
nothing about how good the heuristic is.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import HeuristicError
from .heuristics.methods import get
from .heuristics.registry import Heuristic, place_of
from .inspection import (
    LIMIT,
    SUMS,
    BrokenRuleError,
    Inspector,
    Recorder,
    Trial,
    enlarged,
    run_in_python,
    trials,
)
from .jit import is_compiling
from .memory_models import ARENA
from .opcodes import COMPUTE
from .result import RunResult
from .simulation import simulate
from .state import NEEDS
from .traces.trace import Trace
from .workload import workload

OK, NOTE, FAILED = "ok", "note", "failed"

FIRST = ("signature", "compiles", "scores")  # the other checks are of no use without
CUTS = (0.4, 0.6, 0.8)
FIGURES = ("status", "clock", "peak_bytes", "evictions", "evict_sha")


@dataclass(frozen=True)
class Verdict:
    """What came out of one check.

    Attributes
    ----------
    check : str
        Its name.
    outcome : str
        ``ok``, ``note`` (allowed, but worth knowing) or ``failed``.
    text : str
        One line for a person.
    """

    check: str
    outcome: str
    text: str


@dataclass(frozen=True)
class Report:
    """What came out of all checks of a heuristic."""

    heuristic: str
    verdicts: tuple[Verdict, ...]

    @property
    def is_ok(self) -> bool:
        """Whether no rule is broken."""
        return all(verdict.outcome != FAILED for verdict in self.verdicts)

    def __str__(self) -> str:
        """Show a line for each check."""
        lines = [f"{v.outcome:<8}{v.check:<14}{v.text}".rstrip() for v in self.verdicts]
        return "\n".join([f"{self.heuristic}: {'ok' if self.is_ok else 'breaks a rule'}", *lines])


def check_heuristic(heuristic: Any) -> Report:
    """Try a heuristic on small traces, and say which rules it keeps.

    Parameters
    ----------
    heuristic : str, callable or Heuristic
        As for `rematsim.simulate`.

    Returns
    -------
    Report
        A verdict for each check; after a failure that makes the others meaningless, no more.

    Raises
    ------
    UnknownNameError, HeuristicError
        If there is no such heuristic, or its file cannot be loaded.

    Examples
    --------
    >>> check_heuristic("h_LRU").is_ok
    True
    """
    given = get(heuristic)
    checks = _Checks(given)
    verdicts = []
    for name, check in checks.all().items():
        try:
            verdict = check()
        except BrokenRuleError as error:
            verdict = (FAILED, str(error))
        except (Exception, SystemExit) as error:
            text = str(error) if isinstance(error, HeuristicError) else _named(error)
            verdict = (FAILED, text)
        verdicts.append(Verdict(name, *verdict))
        if verdict[0] == FAILED and name in FIRST:
            break
    return Report(given.name, tuple(verdicts))


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class _Checks:
    """The checks of one heuristic; what one finds out, later ones use."""

    def __init__(self, heuristic: Heuristic) -> None:
        self.heuristic = heuristic
        self.is_compiled = is_compiling()
        self.fallen = ""

    def all(self) -> dict[str, Callable[[], tuple[str, str]]]:
        """Name the checks, in order."""
        return {
            "signature": self.signature,
            "compiles": self.compiles,
            "scores": self.scores,
            "repeats": self.repeats,
            "needs": self.needs,
            "monotone": self.monotone,
            "online": self.online,
            "all options": self.all_options,
        }

    @property
    def has_scores(self) -> bool:
        """Whether there are scores to look at: a random choice has none."""
        return self.heuristic.kind != "random"

    @property
    def is_partial(self) -> bool:
        """Whether it is not the pool that is looked at, which is all that Python's scan does."""
        return (
            self.heuristic.samples
            or self.heuristic.least_size > 0
            or self.heuristic.needs_addresses
            or self.heuristic.drops_intermediates
        )

    def signature(self) -> tuple[str, str]:
        """Check that it takes (state, s)."""
        if not self.has_scores:
            return OK, "draws lots: it has no scores"
        function = self.heuristic.function
        parameters = inspect.signature(function).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty]
        if len(needed) > 2 or len(parameters) < 2:
            raise BrokenRuleError(
                f"{place_of(function)}: it takes ({', '.join(p.name for p in parameters)}); "
                "a heuristic takes (state, s)"
            )
        return OK, f"({', '.join(p.name for p in list(parameters)[:2])})"

    def compiles(self) -> tuple[str, str]:
        """See whether it can be compiled; if not, it runs slowly."""
        if not self.is_compiled:
            return NOTE, "not tried: compilation is switched off (NUMBA_DISABLE_JIT)"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._simulate(trials()[0])
        told = [str(w.message) for w in caught if "cannot be compiled" in str(w.message)]
        if told:
            self.is_compiled = False
            return NOTE, told[0]
        return OK, ""

    def scores(self) -> tuple[str, str]:
        """Check that each score is a number, and that scoring changes nothing."""
        if not self.has_scores:
            return OK, "none"
        count, finite, distinct = 0, 0, set()
        for trial in trials():
            inspector = Inspector(self.heuristic)
            run_in_python(trial, inspector)
            self.fallen = self.fallen or inspector.fallen
            values = [value for _, value in inspector.scores]
            count, finite = count + len(values), finite + int(np.isfinite(values).sum())
            distinct |= set(values)
        text = f"{count:,} scores, {count - finite:,} infinite, {len(distinct):,} different"
        return (OK if len(distinct) > 1 else NOTE), text

    def repeats(self) -> tuple[str, str]:
        """Check that each run comes out the same again, compiled or not."""
        is_bounded_wrongly = self.heuristic.is_monotone and bool(self.fallen)
        is_compared = self.is_compiled and self.has_scores and not self.is_partial
        is_compared = is_compared and not is_bounded_wrongly  # `monotone` tells that
        for trial in trials():
            first, again = self._figures(trial), self._figures(trial)
            if first != again:
                raise BrokenRuleError(f"two runs of {trial} differ: {first} and {again}")
            if is_compared:
                plain = run_in_python(trial, Recorder(self.heuristic))
                if plain != first:
                    raise BrokenRuleError(f"{trial}: compiled {first}, in Python {plain}")
        return OK, f"{len(trials())} runs{', compiled and in Python' * is_compared}"

    def needs(self) -> tuple[str, str]:
        """Check that what its terms read is declared: else it is not kept up."""
        if not self.has_scores:
            return OK, "none"
        declared = self.heuristic.needs
        rivals = {"next_use": "last_step", "last_step": "next_use"}  # they share a place
        missing = [
            need
            for need in NEEDS
            if need not in declared
            and rivals.get(need) not in declared
            and self._changes((*declared, need))
        ]
        if missing:
            raise BrokenRuleError(
                f"{place_of(self.heuristic.function)}: it reads what {missing[0]!r} keeps up: "
                f"declare needs={(*declared, *missing)!r}"
            )
        idle = [n for n in declared if not self._changes(tuple(set(declared) - {n}))]
        if idle:
            return NOTE, f"declared, but no score depends on it here: {', '.join(idle)}"
        return OK, ", ".join(declared) or "none"

    def monotone(self) -> tuple[str, str]:
        """Check that scores do not fall when the neighborhood grows, where that is declared."""
        bounded = [need for need in self.heuristic.needs if need in SUMS]
        if not self.heuristic.is_monotone:
            if bounded and not self.fallen and self.heuristic.kind == "score":
                return NOTE, "not declared, yet no score fell: monotone=True would be faster"
            return OK, "not declared"
        if self.fallen:
            raise BrokenRuleError(
                f"{place_of(self.heuristic.function)}: declared monotone, but a score fell "
                f"{self.fallen}"
            )
        careful = dataclasses.replace(
            self.heuristic, name=f"{self.heuristic.name} unbounded", is_monotone=False
        )
        for trial in trials():
            fast, full = self._figures(trial), self._figures(trial, careful)
            if fast != full:
                raise BrokenRuleError(f"{trial}: {fast} with bounds, {full} without")
        return OK, "declared, and no decision depends on it"

    def online(self) -> tuple[str, str]:
        """Check that what comes later in a trace changes nothing, unless it is declared offline."""
        traces = dict.fromkeys(trial.trace for trial in trials())
        different = [text for trace in traces for text in self._hindsight(trace)]
        if self.heuristic.is_offline:
            if different:
                return OK, "declared offline: it looks ahead"
            return NOTE, "declared offline, but nothing that comes later changed a decision"
        if different:
            raise BrokenRuleError(f"it looks ahead, but is not declared offline: {different[0]}")
        return OK, "cutting a trace changes no decision before the cut"

    def all_options(self) -> tuple[str, str]:
        """Check that no option, and no budget however small, ends it in an exception."""
        count = 0
        for trial in trials():
            for options in ({"count_accesses": True}, {"mutation": "inplace"}):
                self._simulate(trial, **options)
                count += 1
            for budget in ("unlimited", "1", "0.1x"):
                self._simulate(dataclasses.replace(trial, budget=budget))
                count += 1
        return OK, f"{count} runs"

    def _simulate(
        self, trial: Trial, heuristic: Heuristic | None = None, **options: Any
    ) -> RunResult:
        asked = {"deallocation": trial.deallocation, "slowdown_limit": LIMIT, **options}
        trace = trial.trace
        if self.heuristic.needs_addresses:
            asked["memory"], trace = ARENA, enlarged(trace)
        with warnings.catch_warnings():
            if not self.is_compiled:
                warnings.simplefilter("ignore")
            return simulate(trace, heuristic or self.heuristic, trial.budget, **asked)

    def _figures(self, trial: Trial, heuristic: Heuristic | None = None) -> tuple[Any, ...]:
        result = self._simulate(trial, heuristic)
        return tuple(result.row[figure] for figure in FIGURES)

    def _changes(self, needs: tuple[str, ...]) -> bool:
        """Whether scores are others if the engine keeps up something else."""
        other = dataclasses.replace(self.heuristic, needs=needs)
        return any(
            scores != self._scores_of(trial, other) for trial, scores in self._own_scores.items()
        )

    @functools.cached_property
    def _own_scores(self) -> dict[Trial, list[tuple[int, float]]]:
        return {
            trial: self._scores_of(trial, self.heuristic)
            for trial in trials()
            if trial.deallocation == "eager"
        }

    def _scores_of(self, trial: Trial, heuristic: Heuristic) -> list[tuple[int, float]]:
        recorder = Recorder(heuristic)
        run_in_python(trial, recorder)
        return recorder.scores

    def _hindsight(self, trace: Trace) -> Iterator[str]:
        """Name the cuts of a trace that change what was decided before them."""
        whole_trace = enlarged(trace) if self.heuristic.needs_addresses else trace
        budget = str(int(0.6 * workload(whole_trace).unlimited_peak_bytes))
        whole = self._events(trace, budget)
        for cut in CUTS:
            end = int(cut * trace.n_instructions)
            part = dataclasses.replace(trace, instructions=trace.instructions[:end])
            events = self._events(part, budget)
            last = np.flatnonzero(events["action"] == COMPUTE)
            count = min(int(last[-1]), len(whole["action"])) if last.size else 0
            for column in ("action", "storage", "score"):
                ours, theirs = events[column][:count], whole[column][:count]
                if not np.array_equal(ours, theirs, equal_nan=column == "score"):
                    yield f"{trace.name} cut after {end} of {trace.n_instructions} instructions"
                    break

    def _events(self, trace: Trace, budget: str) -> Any:
        trial = Trial(trace, budget, "eager")
        return self._simulate(trial, event_log=True, slowdown_limit=None, cached=False).events
