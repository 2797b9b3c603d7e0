"""Where heuristics are known: the decorators that declare one, and their lookup by name.

A heuristic is one plain function in one file of this folder; importing the folder's files
registers them. Nothing here chooses or scores.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, UnknownNameError
from ..jit import inlineable
from ..partition import NO_PARTITION
from ..state import NEEDS
from .own_sources import own_digest
from .parameters import Rules, check_rules, shown

Score = Callable[..., float]
ENTRY_POINTS = "rematsim.heuristics"

# Whether a heuristic moves data.
MOVES = NOTHING, ON_DEMAND, AHEAD = "", "on demand", "ahead"

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Heuristic:
    """How to choose a victim.

    Attributes
    ----------
    name : str
        What tables and the command line call it.
    function : callable
        ``(state, s) -> float``: the storage with the lowest value is evicted.
    needs : tuple of str
        What the engine must keep up for its terms (``state.NEEDS``).
    reference : str
        Where the formula comes from.
    summary : str
        The formula in words.
    is_monotone : bool
        Whether the score can only grow when the evicted neighborhood does; the engine may then
        pass over storages by a lower bound. Not declared: every score is computed.
    is_offline : bool
        Whether it looks ahead in the trace.
    is_random : bool
        Whether runs depend on the seed.
    kind : str
        ``"score"`` (scan the pool), ``"random"`` (any storage of the pool) or ``"window"`` (the
        cheapest neighbors by address).
    parameters : tuple of (str, value)
        The values of its parameters.
    allowed : mapping of str to Rule
        What these may be.
    samples : bool
        Whether only a random part of the pool is looked at.
    least_size : float
        Storages below this part of the mean size are passed over.
    partition : str
        Whether expensive results are placed apart from cheap ones (``partition.PARTITIONS``).
    drops_intermediates : bool
        Whether what is recomputed only to recompute something else is dropped at once.
    moves : {"", "on demand", "ahead"}
        Whether it may evict to the host, over a link; and whether what the trace uses next is
        brought back ahead of that.
    source : str
        Digest of what a user's function is made of, empty for those of the package.
    """

    name: str
    function: Score
    needs: tuple[str, ...] = ()
    reference: str = ""
    summary: str = ""
    is_monotone: bool = False
    is_offline: bool = False
    is_random: bool = False
    kind: str = "score"
    parameters: tuple[tuple[str, Any], ...] = ()
    samples: bool = False
    least_size: float = 0.0
    partition: str = NO_PARTITION
    drops_intermediates: bool = False
    moves: str = NOTHING
    source: str = field(default="", compare=False)
    allowed: Rules = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note where the function comes from."""
        if not self.source:
            object.__setattr__(self, "source", _source_digest(self.function))

    @property
    def needs_addresses(self) -> bool:
        """Whether it is of use only where memory has addresses."""
        return self.kind == "window" or self.partition != NO_PARTITION

    @property
    def needs_bits(self) -> int:
        """What it needs, as the bits that kernels know."""
        return sum(NEEDS[need] for need in self.needs)


def _source_digest(function: Any) -> str:
    """Digest what a user's function is made of; nothing for one of the package."""
    is_ours = (getattr(function, "__module__", "") or "").startswith(f"{PACKAGE}.")
    return "" if is_ours else own_digest(function)


def place_of(function: Any) -> str:
    """Name the file and line where a function stands."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


Factory = Callable[..., Heuristic]
_factories: dict[str, Factory] = {}


def _register(name: str, factory: Factory) -> None:
    if name in _factories:
        raise InputError(f"heuristic {name!r} is declared twice")
    _factories[name] = factory


def _summary(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")


def _check_needs(name: str, needs: tuple[str, ...]) -> None:
    for need in needs:
        if need not in NEEDS:
            raise UnknownNameError(
                f"heuristic {name!r}: needs {need!r}: it is one of {', '.join(NEEDS)}"
            )


def heuristic(
    name: str,
    *,
    needs: tuple[str, ...] = (),
    reference: str = "",
    monotone: bool = False,
    offline: bool = False,
    moves: str = NOTHING,
) -> Callable[[Score], Score]:
    """Declare a function ``(state, s) -> float`` as a heuristic.

    Parameters
    ----------
    name : str
        What tables and the command line call it.
    needs : tuple of str
        What its terms need: of ``ancestors, descendants, classes, set, next_use, last_step,
        call``.
    reference : str
        Where the formula comes from.
    monotone : bool
        Whether its score can only grow when the evicted neighborhood grows.
    offline : bool
        Whether it looks ahead.
    moves : {"", "on demand", "ahead"}
        Whether its victims go to the host where that costs less; and whether copies begin ahead of
        their need.

    Returns
    -------
    callable
        A decorator that leaves the function as it is.

    Raises
    ------
    UnknownNameError
        If the engine does not know one of the needs, or that way of moving.
    """
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"heuristic {name!r}: its name is a text")
    _check_needs(name, needs)
    if moves not in MOVES:
        known = ", ".join(map(repr, MOVES))
        raise UnknownNameError(f"heuristic {name!r}: moves {moves!r}: it is one of {known}")

    def declare(function: Score) -> Score:
        is_ours = function.__module__.startswith(f"{__package__}.")
        function = inlineable(function) if is_ours else function
        made = Heuristic(
            *(name, function, needs, reference, _summary(function), monotone, offline),
            moves=moves,
        )
        function.heuristic = made  # type: ignore[attr-defined]
        if is_ours:
            _register(name, _fixed(made))
        return function

    return declare


def family(
    name: str,
    *,
    allowed: Rules | None = None,
    needs: tuple[str, ...] = (),
    reference: str = "",
    monotone: bool = False,
    offline: bool = False,
    traits: Callable[[dict[str, Any]], dict[str, Any]] = lambda values: {},
) -> Callable[[Callable[..., Score]], Callable[..., Score]]:
    """Declare a function of parameters with defaults that returns the score ``(state, s)``.

    ``allowed`` says what each of the parameters may be; ``traits`` gives further attributes of the
    Heuristic from the parameters' values.
    """
    _check_needs(name, needs)
    rules = allowed or {}

    def declare(make: Callable[..., Score]) -> Callable[..., Score]:
        defaults = {p.name: p.default for p in inspect.signature(make).parameters.values()}
        check_rules(name, defaults, rules)

        @functools.lru_cache(maxsize=64)  # one function for a set of parameters is compiled once
        def made(*values: Any) -> Heuristic:
            parameters = tuple(zip(defaults, values, strict=True))
            told = ",".join(f"{k}={shown(v)}" for k, v in parameters if v != defaults[k])
            return Heuristic(
                f"{name}({told})" if told else name,
                inlineable(make(*values)),
                needs,
                reference,
                _summary(make),
                monotone,
                offline,
                parameters=parameters,
                allowed=rules,
                **traits(dict(parameters)),
            )

        def build(**given: Any) -> Heuristic:
            for key in given:
                if key not in defaults:
                    known = ", ".join(defaults) or "none"
                    raise UnknownNameError(f"{name}: parameter {key!r}: it has {known}")
            values = {**defaults, **given}
            read = [rules[k].value(f"{name}: {k}", v) for k, v in values.items()]
            return made(*(v if isinstance(v, str | bool) else float(v) for v in read))

        _register(name, build)
        return make

    return declare


def declare_random(name: str, reference: str, summary: str) -> None:
    """Declare the policy that takes any storage of the pool."""
    made = Heuristic(name, _no_score, (), reference, summary, is_random=True, kind="random")
    _register(name, _fixed(made))


def _fixed(made: Heuristic) -> Factory:
    """Make the factory of a heuristic that has no parameters."""

    def build(**given: Any) -> Heuristic:
        if given:
            raise UnknownNameError(f"{made.name}: it has no parameters ({', '.join(given)})")
        return made

    return build


def _no_score(state: Any, s: int) -> float:
    raise NotImplementedError("a random choice has no score")


@functools.cache
def _load_all() -> None:
    """Import every file of the folder; those that declare heuristics register them."""
    package = importlib.import_module(__package__ or "rematsim.heuristics")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}")


def names() -> list[str]:
    """Name the built-in heuristics, sorted."""
    _load_all()
    return sorted(_factories, key=str.lower)


def is_known(name: str) -> bool:
    """Say whether there is a built-in heuristic of that name."""
    _load_all()
    return name in _factories


def build(name: str, **parameters: Any) -> Heuristic:
    """Make a built-in heuristic from its name and parameters.

    Raises
    ------
    UnknownNameError
        If there is none of that name, with the nearest that there is.
    InputError
        If a parameter is not what it may be.
    """
    _load_all()
    if name not in _factories:
        if ".py" in name:
            raise UnknownNameError(
                f"heuristic {name!r}: name a function of your own as file.py:function, and no "
                "parameters"
            )
        raise UnknownNameError(
            f"unknown heuristic {name!r}{_hint(name)}; known: {', '.join(names())}, "
            "or file.py:function of your own"
        )
    return _factories[name](**parameters)


def _hint(name: str) -> str:
    """Say what may have been meant."""
    from .static.registry import is_known as is_planner

    if is_planner(name.partition("(")[0].strip()):
        return " (it is a planner: see plan, or --method of sweep)"
    if "," in name.partition("(")[0]:
        return " (one is asked for: sweep and compare take several)"
    lowered = {known.lower(): known for known in _factories}
    close = difflib.get_close_matches(name.lower(), lowered, 1, 0.5)
    return f" (did you mean {lowered[close[0]]}?)" if close else ""
