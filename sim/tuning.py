"""Tuning: the parameters of a heuristic, fitted to traces by optuna, and tried on others.

A training step repeats, so parameters that suit its trace suit the steps that follow. Whether they
suit other models is another question, which only traces that were not fitted to can answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from .budgets import Budget, BudgetLike, expand_budgets
from .errors import MissingExtraError, UnknownNameError, UsageError
from .parameter_space import Space, Values
from .simulation import Options, simulate

if TYPE_CHECKING:
    from .traces.trace import Trace

DEFAULT_METHOD = "h_MegEngine"
BUDGETS = "0.4x:0.8x:0.1x"
TRIALS = 60
MOST_FOLDS = 5

Report: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class Search:
    """How parameters are looked for, and what is held out.

    Attributes
    ----------
    trials : int
        Sets of parameters that are tried for each fit.
    seed : int
        Of the search: the same one gives the same parameters.
    ranges : dict of str to (float, float)
        Narrower or wider ranges of numbers; one number fixes a parameter.
    hold_out : tuple of str
        Families that are not fitted to, only tried; none: in turn, each part of the families.
    folds : int or None
        Parts; None: one for each family, but at most `MOST_FOLDS`.
    families : dict of str to str
        Families of traces, by their names, where `family_of` does not tell.
    """

    trials: int = TRIALS
    seed: int = 0
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    hold_out: tuple[str, ...] = ()
    folds: int | None = None
    families: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.trials < 1:
            raise UsageError(f"trials ({self.trials}): at least 1")
        if self.folds is not None and (self.folds < 2 or self.hold_out):
            raise UsageError(
                f"folds ({self.folds}): 2 or more, and not beside families to hold out"
            )

    def parts(self, traces: Sequence[Trace]) -> list[list[Trace]]:
        """Return the parts of the traces that are held out one after the other, by family."""
        known = {trace.name for trace in traces}
        for name in self.families:
            if name not in known:
                raise UnknownNameError(f"trace {name!r}: it is one of {', '.join(sorted(known))}")
        families: dict[str, list[Trace]] = {}
        for trace in traces:
            families.setdefault(self.families.get(trace.name, family_of(trace.name)), []).append(
                trace
            )
        for name in self.hold_out:
            if name not in families:
                raise UnknownNameError(f"family {name!r}: it is one of {', '.join(families)}")
        if self.hold_out:
            return [[trace for name in self.hold_out for trace in families[name]]]
        count = self.folds or min(len(families), MOST_FOLDS)
        if self.folds and count > len(families):
            raise UsageError(f"folds ({count}): there are {len(families)} families")
        groups = list(families.values())
        parts = [sum(groups[start::count], []) for start in range(count)]
        return parts if count > 1 else []


@dataclass(frozen=True)
class Figure:
    """What some runs come to.

    Attributes
    ----------
    runs, failures : int
        How many there are, and how many of them did not end ok.
    slowdown : float
        Their geometric mean, in which a failed run counts as the slowdown limit.
    """

    runs: int
    failures: int
    slowdown: float

    @property
    def loss(self) -> float:
        """What is to be small: first the failures, then the slowdown."""
        return self.failures + 1.0 - 1.0 / self.slowdown


@dataclass(frozen=True)
class Compared:
    """The same runs with the parameters given and with those fitted."""

    given: Figure
    fitted: Figure


@dataclass(frozen=True)
class Tuned:
    """Fitted parameters, and what is known of them.

    Attributes
    ----------
    method : str
        The heuristic with the fitted parameters, as every command takes it.
    given : str
        The heuristic that the search began with.
    parameters : dict
        All its parameters, as fitted.
    fitted_to : tuple of str
        Names of the traces that they are fitted to.
    fit : Compared
        Runs of these.
    held_out : Compared or None
        Runs of traces with parameters that were not fitted to them; None: there were none.
    parts : tuple of (names, method)
        What was held out together, and the method that was fitted to the others.
    """

    method: str
    given: str
    parameters: Values
    fitted_to: tuple[str, ...]
    fit: Compared
    held_out: Compared | None
    parts: tuple[tuple[tuple[str, ...], str], ...]


def family_of(name: str) -> str:
    """Tell the family of a trace by its name: the letters that it begins with.

    Examples
    --------
    >>> family_of("resnet32"), family_of("vit_2steps"), family_of("7")
    ('resnet', 'vit', '7')
    """
    found = re.match(r"[^\W\d_]+", name)
    return found[0].lower() if found else name


def require_optuna() -> Any:
    """Import optuna.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError(f"tuning needs optuna ({error}): pip install optuna") from error
    return optuna


def tune(
    traces: Sequence[Trace],
    method: str = DEFAULT_METHOD,
    budgets: BudgetLike | Iterable[BudgetLike] = BUDGETS,
    *,
    search: Search | None = None,
    options: Options | None = None,
    report: Report | None = None,
) -> Tuned:
    """Fit the parameters of a heuristic to traces, and try it on traces that are held out.

    Parameters
    ----------
    traces : sequence of Trace
        What is replayed.
    method : str
        A heuristic with parameters; the values that it has are tried first.
    budgets : str, int, float or Budget, or several
        As for `rematsim.sweep`.
    search : Search, optional
        How to search, and what to hold out.
    options : Options, optional
        Of the runs. There has to be a slowdown limit, as which a failed run counts.
    report : callable, optional
        Called with the numbers of finished and of all trials.

    Returns
    -------
    Tuned

    Raises
    ------
    UsageError
        If there is nothing to fit, or nothing to fit it to.
    MissingExtraError
        If optuna is not installed.
    """
    require_optuna()
    search = search or Search()
    space = Space.of(method, search.ranges)
    bench = _Bench(space, tuple(expand_budgets(budgets)), options or Options())
    traces = list({trace.digest: trace for trace in traces}.values())
    parts = search.parts(traces)
    rests = [[trace for trace in traces if trace not in part] for part in parts]
    if not (traces and all(rests)):
        raise UsageError("no trace to fit to")
    fit = _Fitting(bench, search, len(parts) + (not search.hold_out), report)
    chosen = [fit.best(rest) for rest in rests]
    fitted_to, best = (rests[0], chosen[0]) if search.hold_out else (traces, fit.best(traces))
    held_out = [(trace, own) for part, own in zip(parts, chosen, strict=True) for trace in part]
    as_given = [(trace, space.start) for trace, _ in held_out]
    return Tuned(
        space.method(best),
        space.method(space.start),
        best,
        tuple(trace.name for trace in fitted_to),
        Compared(bench.figure(fitted_to, space.start), bench.figure(fitted_to, best)),
        Compared(bench.joined(as_given), bench.joined(held_out)) if parts else None,
        tuple(
            (tuple(trace.name for trace in part), space.method(own))
            for part, own in zip(parts, chosen, strict=True)
        ),
    )


@dataclass(frozen=True)
class _Bench:
    """Runs of the heuristic, each done once."""

    space: Space
    budgets: tuple[Budget, ...]
    options: Options
    done: dict[tuple[str, str], list[float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse options under which a failed run counts as nothing."""
        if self.options.slowdown_limit is None:
            raise UsageError(
                "slowdown limit (none): tuning needs one, as which a failed run counts"
            )

    def figure(self, traces: Iterable[Trace], values: Values) -> Figure:
        """Sum up the runs of traces with some parameters."""
        return self.joined((trace, values) for trace in traces)

    def joined(self, pairs: Iterable[tuple[Trace, Values]]) -> Figure:
        """Sum up the runs of traces, each with parameters of its own."""
        limit = self.options.slowdown_limit
        slowdowns = [one for trace, values in pairs for one in self._slowdowns(trace, values)]
        mean = fmean(math.log(limit if one is None else one) for one in slowdowns)  # type: ignore[arg-type]
        return Figure(len(slowdowns), slowdowns.count(None), math.exp(mean))

    def _slowdowns(self, trace: Trace, values: Values) -> list[float | None]:
        """Run a trace under every budget; None stands for a run that failed."""
        method = self.space.method(values)
        key = (method, trace.digest)
        if key not in self.done:
            given = asdict(self.options)
            runs = [simulate(trace, method, budget, **given) for budget in self.budgets]
            self.done[key] = [run.slowdown if run.status == "ok" else None for run in runs]
        return self.done[key]


class _Fitting:
    """Searches, one after the other, and how far they are."""

    def __init__(self, bench: _Bench, search: Search, count: int, report: Report | None) -> None:
        self._bench, self._search, self._report = bench, search, report
        self._total, self._tried = search.trials * count, 0
        self._tell()

    def best(self, traces: list[Trace]) -> Values:
        """Return the best parameters for the traces; of equal ones, the first tried."""
        optuna = require_optuna()
        space = self._bench.space
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self._search.seed))
        finally:
            optuna.logging.set_verbosity(level)
        best, least = space.start, self._bench.figure(traces, space.start).loss
        for _ in range(self._search.trials):
            trial = study.ask()
            values = space.ask(trial)
            loss = self._bench.figure(traces, values).loss
            study.tell(trial, loss)
            if loss < least:
                best, least = values, loss
            self._tried += 1
            self._tell()
        return best

    def _tell(self) -> None:
        if self._report is not None:
            self._report(self._tried, self._total)
