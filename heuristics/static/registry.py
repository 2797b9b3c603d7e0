"""Where planners are known: what they answer, the decorator that declares one, lookup by name.

A planner is a function in one file of this folder::

    @planner("checkmate", allowed={"form": OneOf(("tight", "paper"))})
    def checkmate(graph, budget, *, starts=(), time_limit=None, seed=0, form="tight"):
        '''Solve the MILP over stages.'''
        ...
        return PlannerResult(OPTIMAL, schedule, bound=cost, bound_scope=IN_ORDER)

``budget`` is the bytes allowed at once, the graph's ``fixed_bytes`` among them, or None for no
limit; ``starts`` are schedules known already, the best first; ``time_limit`` is in seconds, and
kept by a `Clock`, which is over on Ctrl-C too: then the best so far is the answer.
One that moves data takes ``link``, a `Link` or None, too, and its schedules may have transfers.
Keyword parameters after these are the planner's own, as in ``checkmate(form=paper)``; ``allowed``
has the rule of each (``heuristics/parameters.py``). What a planner says of cost and peak does not
count: `Planner.plan` evaluates its schedule.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import InputError, UnknownNameError
from ...links import NO_WAY, Link, can_move
from ...moved_schedules import evaluate_moves, moves_values
from ...static_graph import Evaluation, Schedule, StaticGraph, evaluate, least_budget
from ...texts import split_list
from ..parameters import Rules, check_rules, shown
from ..registry import is_known as is_heuristic
from ..user_files import load_function
from .clock import Clock

# How a planner ended.
OPTIMAL = "optimal"  # proven, for that graph and order, with no limit on recomputations
FEASIBLE = "feasible"  # a schedule within the budget; how good, the bound says
INFEASIBLE = "infeasible"  # proven: no schedule fits
NO_PLAN = "no_plan"  # this method has none that fits, which proves nothing
TIME_LIMIT = "time_limit"  # ended, or interrupted, without a schedule, as the next two are
MEMORY_LIMIT = "memory_limit"
SOLVER_FAILED = "solver_failed"
NOT_INSTALLED = "not_installed"  # the message says which install brings what is missing
NOT_APPLICABLE = "not_applicable"  # the graph lacks something, say, a backward pass
OPTIMAL_FOR_CV = "optimal_for_cv="  # and a number: with at most so many computations of a node
STATUSES = (OPTIMAL, FEASIBLE, INFEASIBLE, NO_PLAN, TIME_LIMIT, MEMORY_LIMIT, SOLVER_FAILED,
            NOT_INSTALLED, NOT_APPLICABLE)  # fmt: skip

# What a bound holds for.
ANY_SCHEDULE = "any schedule"  # whose first computations are in the graph's order
IN_ORDER = "stages"  # at most one computation of a node between two first computations
ROUNDING = 1e-6  # what a solver's arithmetic may add to a bound, as a fraction
LATE = "the time was up before a plan that fits"
_COMMON = ("graph", "budget", "starts", "time_limit", "seed", "link")
_CALL = re.compile(r"^(?P<name>[\w-]+)\((?P<arguments>.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class PlannerResult:
    """What a planner answers.

    Attributes
    ----------
    status : str
        One of ``STATUSES``, or ``"optimal_for_cv=3"``.
    schedule : Schedule or None
        The plan on the static graph.
    bound : float or None
        No schedule within the budget costs less, in the graph's unit.
    bound_scope : str
        Which schedules the bound speaks of: `ANY_SCHEDULE`, `IN_ORDER`, or words of its own.
    message : str
        One line for a person, above all where there is no schedule.
    details : dict
        What else the planner has to tell, as plain values.
    predicted : Evaluation or None
        Cost and peak of the schedule; set by `Planner.plan`.
    solve_seconds : float
        Time that it took; set by `Planner.plan`.
    """

    status: str
    schedule: Schedule | None = None
    bound: float | None = None
    bound_scope: str = ANY_SCHEDULE
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    predicted: Evaluation | None = None
    solve_seconds: float = 0.0


def without_plan(clock: Clock, message: str) -> PlannerResult:
    """Say that there is no plan: why, if all was tried; else that the time was up before that."""
    if clock.is_over:
        return PlannerResult(TIME_LIMIT, message=LATE)
    return PlannerResult(NO_PLAN, message=message)


Function = Callable[..., PlannerResult]


@dataclass(frozen=True)
class Planner:
    """A static method.

    Attributes
    ----------
    name : str
        What tables and the command line call it.
    function : callable
        As this module describes.
    reference, summary : str
        Where it comes from; what it does in a sentence.
    parameters : dict of str
        Its own, with their values.
    allowed : mapping of str to Rule
        What these may be.
    uses_starts : bool
        Whether it wants schedules to start from, which are made for it then.
    is_random : bool
        Whether what it finds depends on the seed.
    uses_solver : bool
        Whether it asks the solvers' process.
    moves_data : bool
        Whether it takes ``link``, and its schedules may have transfers.
    """

    name: str
    function: Function
    reference: str = ""
    summary: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    allowed: Rules = field(default_factory=dict, repr=False, compare=False)
    uses_starts: bool = False
    is_random: bool = False
    uses_solver: bool = False
    moves_data: bool = False

    def __post_init__(self) -> None:
        """Refuse values of parameters that break their rules."""
        for key, rule in self.allowed.items():
            rule.value(f"{self.name.partition('(')[0]}: {key}", self.parameters[key])

    @property
    def sources(self) -> list[str]:
        """Digests of the files of a user's own functions, ``file.py:function``, if it has any."""
        texts = [value for value in self.parameters.values() if isinstance(value, str)]
        return [found.digest for text in texts if (found := load_function(text)) is not None]

    def plan(
        self,
        graph: StaticGraph,
        budget: int | None = None,
        *,
        starts: Sequence[Schedule] = (),
        time_limit: float | None = None,
        seed: int = 0,
        link: Link | None = None,
    ) -> PlannerResult:
        """Plan within a budget, and evaluate what comes of it.

        Parameters
        ----------
        graph : StaticGraph
        budget : int or None
            Bytes allowed at once, fixed ones included; None: no limit.
        starts : sequence of Schedule
            Schedules known already, the best first.
        time_limit : float or None
            Seconds.
        seed : int
            For planners that draw random numbers.
        link : Link or None
            What connects device and host, for planners that move data.

        Returns
        -------
        PlannerResult
            Its schedule, if there is one, is legal and within the budget.
        """
        clock = Clock()
        need, node = least_budget(graph)
        if budget is not None and budget < need:
            return PlannerResult(INFEASIBLE, message=_too_small(graph, budget, need, node))
        own = {**self.parameters, "link": link} if self.moves_data else self.parameters
        result = self.function(
            graph, budget, starts=starts, time_limit=time_limit, seed=seed, **own
        )
        result = replace(_result_of(self.name, result), solve_seconds=clock.spent)
        return _evaluated(graph, budget, result, (link or NO_WAY) if self.moves_data else None)

    def can_move(self, link: Link | None) -> bool:
        """Say whether its plans may move data over a link; else they are judged as all others."""
        return self.moves_data and can_move(link)


def _result_of(name: str, returned: object) -> PlannerResult:
    """Refuse what a user's planner returns in the place of a result, such as a bare schedule."""
    if not isinstance(returned, PlannerResult):
        kind = type(returned).__name__
        raise InputError(f"planner {name!r}: it returns a {kind}, not a PlannerResult")
    return returned


def _too_small(graph: StaticGraph, budget: int, need: int, node: int) -> str:
    what = graph.operator[node] if node >= 0 else ""
    return (
        f"budget {budget:,} bytes is below {need:,}, what the largest single call needs, constants "
        f"included (node {node}{', ' + what if what else ''})"
    )


def _evaluated(
    graph: StaticGraph, budget: int | None, result: PlannerResult, link: Link | None
) -> PlannerResult:
    """Add what the schedule costs, and let status and bound agree with it.

    Where data can move, over a link, the time is that of the execution, of any schedule: so all of
    them compare. Else all views of what runs again are counted.
    """
    if result.status == INFEASIBLE:
        return result
    bound = max(result.bound or 0, graph.base_cost)
    if result.schedule is None:
        return replace(result, bound=bound)
    if link is not None and moves_values(result.schedule):
        return _held_to(graph, result, evaluate_moves(graph, result.schedule, link, budget))
    predicted = evaluate(graph, result.schedule)
    if budget is not None and predicted.peak_bytes > budget:
        message = f"its plan takes {predicted.peak_bytes:,} bytes, the budget is {budget:,}"
        return replace(result, status=NO_PLAN, schedule=None, bound=bound, message=message)
    if can_move(link):
        predicted = evaluate_moves(graph, result.schedule, link, budget)
    return _held_to(graph, result, predicted)


def _held_to(graph: StaticGraph, result: PlannerResult, predicted: Evaluation) -> PlannerResult:
    """Let status and bound agree with what the schedule costs."""
    bound = max(result.bound or 0, graph.base_cost)
    result = replace(result, bound=min(bound, predicted.cost), predicted=predicted)
    if predicted.cost == graph.base_cost:  # every node runs once, and nothing is cheaper
        return replace(result, status=OPTIMAL, bound_scope=ANY_SCHEDULE)
    if bound > predicted.cost * (1 + ROUNDING):
        # Only of a narrower space, out of which a start may lead: then it says nothing of this.
        assert result.bound_scope != ANY_SCHEDULE, f"bound {bound} of a cost of {predicted.cost}"
        bound_scope = ANY_SCHEDULE
        return replace(result, status=FEASIBLE, bound=graph.base_cost, bound_scope=bound_scope)
    return result


_planners: dict[str, Planner] = {}


def planner(
    name: str,
    *,
    reference: str = "",
    allowed: Rules | None = None,
    uses_starts: bool = False,
    is_random: bool = False,
    uses_solver: bool = False,
) -> Callable[[Function], Function]:
    """Declare a function as a planner; it stays as it is.

    Parameters
    ----------
    name : str
        What tables and the command line call it.
    reference : str
        Where it comes from.
    allowed : mapping of str to Rule
        What its own parameters may be, each of them.
    uses_starts, is_random, uses_solver : bool
        Whether it wants schedules to start from; whether it depends on the seed; whether it asks
        the solvers' process.
    """
    if name in _planners:
        raise InputError(f"planner {name!r} is declared twice")
    rules = allowed or {}

    def declare(function: Function) -> Function:
        own = {
            key: parameter.default
            for key, parameter in inspect.signature(function).parameters.items()
            if key not in _COMMON and parameter.kind is not parameter.VAR_KEYWORD
        }
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        check_rules(name, own, rules)
        moves_data = "link" in inspect.signature(function).parameters
        flags = (uses_starts, is_random, uses_solver, moves_data)
        _planners[name] = Planner(name, function, reference, summary, own, rules, *flags)
        return function

    return declare


@functools.cache
def sources_digest() -> str:
    """Digest the files of this folder: what another version planned is out of date."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def _load_all() -> None:
    """Import every file of the folder; those that declare planners register them."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def names() -> list[str]:
    """Name the planners, sorted."""
    _load_all()
    return sorted(_planners)


def is_known(name: str) -> bool:
    """Say whether there is a planner of that name."""
    _load_all()
    return name in _planners


def get(method: str | Planner) -> Planner:
    """Find a planner by its name, with parameters in parentheses if some are to be other.

    Raises
    ------
    UnknownNameError
        If there is no such planner or parameter.
    UsageError
        If a parameter is not what it may be.

    Examples
    --------
    >>> get("keep-all").name
    'keep-all'
    """
    if isinstance(method, Planner):
        return method
    _load_all()
    text = str(method).strip()
    called = _CALL.match(text)
    name = called["name"] if called else text
    if name not in _planners:
        raise UnknownNameError(
            f"unknown planner {name!r}{_hint(name)}; known: {', '.join(names())}"
        )
    found = _planners[name]
    arguments = split_list(called["arguments"]) if called else []
    return _with_parameters(found, [a for a in arguments if a])


def _hint(name: str) -> str:
    """Say what may have been meant."""
    if is_heuristic(name):
        return " (it is a heuristic: see replay, or --heuristic of sweep)"
    close = difflib.get_close_matches(name, _planners, 1, 0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _with_parameters(found: Planner, arguments: list[str]) -> Planner:
    given: dict[str, Any] = {}
    for argument in arguments:
        key, equals, value = (part.strip() for part in argument.partition("="))
        if not equals or key in given:
            raise UnknownNameError(
                f"{found.name}({argument}): write each parameter once, as name=value"
            )
        if key not in found.parameters:
            known = ", ".join(found.parameters) or "none"
            raise UnknownNameError(f"{found.name}: parameter {key!r}: it has {known}")
        given[key] = found.allowed[key].value(f"{found.name}: {key}", value)
    changed = {k: v for k, v in given.items() if v != found.parameters[k]}
    if not changed:
        return found
    told = ",".join(f"{k}={shown(v)}" for k, v in sorted(changed.items()))
    return replace(found, name=f"{found.name}({told})", parameters={**found.parameters, **changed})
