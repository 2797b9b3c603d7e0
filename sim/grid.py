"""What a sweep is asked for: traces x options x methods x budgets x seeds, as cells with keys.

Nothing here runs or stores anything. The key of a cell is made of content only, so that a cell
asked for again, from another file or folder, is known again (`store.py`, `sweeps.py`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from .budgets import Budget, BudgetLike, expand_budgets
from .errors import UsageError
from .heuristics.methods import get
from .heuristics.static.registry import Planner, sources_digest
from .heuristics.static.registry import get as get_planner
from .jit import engine_digest
from .result import NO_LINK, OPTIONS, OPTIONS_OF_PLANS
from .simulation import MAX_SEED, Options
from .store import CellKey

if TYPE_CHECKING:
    from .heuristics.registry import Heuristic
    from .traces.trace import Trace

MAX_SEEDS = 10_000

Seeds: TypeAlias = "int | str | Iterable[int]"


@dataclass(frozen=True)
class Method:
    """A heuristic as the user named it, and what is known of it before any run."""

    given: Any
    heuristic: Heuristic

    @property
    def name(self) -> str:
        """The heuristic's public name, as in the column ``method``."""
        return self.heuristic.name

    @property
    def is_random(self) -> bool:
        """Whether runs depend on the seed."""
        return self.heuristic.is_random

    @property
    def is_slow(self) -> bool:
        """Whether a run may take long: a user's function may be one that is not compiled."""
        return bool(self.heuristic.source)

    @property
    def sources(self) -> list[str]:
        """Digests of what its rows are made by."""
        return [self.heuristic.source, engine_digest()]

    def asked(self, options: Options) -> list[object]:
        """Tell apart the cells of the method, by its parameters and the options that it heeds."""
        chosen = [getattr(options, name) for name in OPTIONS]
        link = [options.link] if self.heuristic.moves else []
        return [repr(self.heuristic.parameters), chosen, *link]


@dataclass(frozen=True)
class StaticMethod:
    """A planner, and how long it may take.

    Of the options few change a row, and the link that of a planner that moves data.
    """

    planner: Planner
    time_limit: float | None = None
    is_slow: ClassVar[bool] = True

    @property
    def given(self) -> str:
        """What names it to a worker."""
        return self.planner.name

    @property
    def name(self) -> str:
        """The planner's name, as in the column ``method``."""
        return self.planner.name

    @property
    def is_random(self) -> bool:
        """Whether plans depend on the seed."""
        return self.planner.is_random

    @property
    def sources(self) -> list[str]:
        """Digests of what its rows are made by."""
        return [*self.planner.sources, sources_digest(), engine_digest()]

    def asked(self, options: Options) -> list[object]:
        """Tell apart the cells of the method."""
        link = options.link if self.planner.moves_data else NO_LINK
        chosen = [getattr(options, name) for name in OPTIONS_OF_PLANS]
        return ["static", self.time_limit, *chosen, link]


class Run(NamedTuple):
    """What a worker needs to run a cell, its trace aside; it travels between processes."""

    method: Any
    budget: Budget
    options: Options
    source: str = ""  # digest of the user's file that the method is to be found in


@dataclass(frozen=True)
class Cell:
    """One run of a sweep; ``seed`` is None for a method that draws no lots."""

    trace: Trace = field(repr=False)
    options: Options
    method: Method | StaticMethod
    budget: Budget
    seed: int | None

    @property
    def key(self) -> CellKey:
        """What names the cell, and the digest of all that its row is made from."""
        asked = [
            self.trace.digest,
            self.method.name,
            *self.method.asked(self.options),
            str(self.budget),
            self.seed,
        ]
        sources = self.method.sources
        made, counted = (
            _digest([asked, counts, *sources]) for counts in (self.options.count_accesses, True)
        )
        return CellKey(_digest(asked), made, counted)

    @property
    def run(self) -> Run:
        """What a worker is told."""
        options = replace(self.options, seed=self.seed or 0)
        if isinstance(self.method, StaticMethod):
            return Run(self.method, self.budget, options)
        return Run(self.method.given, self.budget, options, self.method.heuristic.source)

    def __str__(self) -> str:
        """Name the cell in messages."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.trace.name}, {self.method.name}, {self.budget}{seed}"


@dataclass(frozen=True)
class Grid:
    """The product of what is asked for, deterministic methods once for all seeds.

    Parameters
    ----------
    traces, methods, budgets, seeds, options : tuple
        In the order in which the rows will stand; traces outermost, then options.
    """

    traces: tuple[Trace, ...]
    methods: tuple[Method | StaticMethod, ...]
    budgets: tuple[Budget, ...]
    seeds: tuple[int, ...]
    options: tuple[Options, ...]

    def cells(self) -> dict[CellKey, Cell]:
        """Return the cells by their keys, in order."""
        cells = (
            Cell(trace, options, method, budget, seed)
            for trace, options, method, budget in itertools.product(
                self.traces, self.options, self.methods, self.budgets
            )
            for seed in (self.seeds if method.is_random else (None,))
        )
        return {cell.key: cell for cell in cells}


def find_methods(given: Any) -> tuple[Method, ...]:
    """Resolve heuristics: names, ``file.py:function``, functions or Heuristics, one or several.

    Raises
    ------
    UnknownNameError
        If there is no such heuristic.
    UsageError
        If there is none, or two of them have the same name, which would make their rows look alike.
    """
    items = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    methods: dict[str, Method] = {}
    for item in items:
        method = Method(item, get(item))
        other = methods.setdefault(method.name, method)
        if _content(other.heuristic) != _content(method.heuristic):
            raise UsageError(f"two different heuristics are called {method.name!r}: rename one")
    if not methods:
        raise UsageError("no heuristic given")
    return tuple(methods.values())


def expand_seeds(given: Seeds) -> tuple[int, ...]:
    """Read seeds: an int, ints, or text such as ``1,2,3`` or ``0:9`` (end included).

    Raises
    ------
    UsageError
        If they cannot be read, or there are none, or more than 10,000.

    Examples
    --------
    >>> expand_seeds("7,0:3")
    (7, 0, 1, 2, 3)
    """
    if isinstance(given, int):
        seeds = [given]
    elif isinstance(given, str):
        seeds = [seed for part in given.split(",") for seed in _seed_range(part)]
    else:
        seeds = list(given)
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise UsageError(f"seeds {given!r}: between 1 and {MAX_SEEDS} of them")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            raise UsageError(f"seed {seed!r}: a whole number from 0 to {MAX_SEED}")
    return tuple(dict.fromkeys(seeds))


def expand_options(**given: Any) -> tuple[Options, ...]:
    """Return every combination of options of a run, each of which may be one value or several.

    Parameters
    ----------
    **given
        Fields of `Options`; ``slowdown_limit`` None is no limit.
    """
    names, values = list(given), [_several(value) for value in given.values()]
    combinations = (dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values))
    return tuple(Options(**chosen) for chosen in combinations)


def find_planners(given: Any, time_limit: float | None = None) -> tuple[StaticMethod, ...]:
    """Resolve planners: names or Planners, one or several, or none.

    Raises
    ------
    UnknownNameError
        If there is no such planner.
    UsageError
        If the time limit is no time.
    """
    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"time limit ({time_limit!r}): a number of seconds above 0, or none")
    items = [given] if isinstance(given, str | Planner) else list(given)
    found = {planner.name: StaticMethod(planner, time_limit) for planner in map(get_planner, items)}
    return tuple(found.values())


def make_grid(
    traces: Iterable[Trace],
    heuristics: Any,
    budgets: BudgetLike | Iterable[BudgetLike],
    seeds: Seeds,
    options: tuple[Options, ...],
    planners: tuple[StaticMethod, ...] = (),
) -> Grid:
    """Read everything that a user may ask for in its many forms into a Grid.

    There may be planners only: then ``heuristics`` is empty.

    Raises
    ------
    UsageError
        If there is no trace, or something that is asked for is not what it should be.
    """
    unique: dict[str, Trace] = {}
    for trace in traces:
        unique.setdefault(trace.digest, trace)
    if not unique:
        raise UsageError("no trace given")
    return Grid(
        tuple(unique.values()),
        (*find_methods(heuristics), *planners) if heuristics or not planners else planners,
        tuple(expand_budgets(budgets)),
        expand_seeds(seeds),
        options,
    )


def _seed_range(text: str) -> range:
    """Read ``3`` or ``0:9``."""
    match = re.fullmatch(r"\s*(\d{1,10})\s*(?::\s*(\d{1,10})\s*)?", text, re.ASCII)
    if match is None:
        raise UsageError(f"seed {text!r}: a whole number, or a range 0:9 (end included)")
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if not first <= last < first + MAX_SEEDS:
        raise UsageError(f"seeds {text!r}: from low to high, at most {MAX_SEEDS} of them")
    return range(first, last + 1)


def _several(value: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple, each once."""
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    return (value,) if is_one else tuple(dict.fromkeys(value))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _content(heuristic: Heuristic) -> tuple[object, ...]:
    """Tell what two heuristics of one name must have in common."""
    own_function = heuristic.function if heuristic.source else None
    return heuristic.parameters, heuristic.source, own_function
