"""From what a user writes to a Heuristic: names, parameters, wrappers, files, entry points.

``h_DTR``, ``h_next_use(exponent=2)``, ``sample(h_DTR_eq)``, ``ignore_small(sample(h_DTR), 0.01)``,
``file.py:function`` or a function.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import HeuristicError, UsageError
from ..texts import shown_number, split_list
from . import registry
from .parameters import Number
from .registry import ENTRY_POINTS, Heuristic, place_of
from .user_files import UserFunction, load_function

SMALL = 0.01
FRACTION = Number(0, 1, is_open=True)
_CALL = re.compile(r"^(?P<name>\w+)\((?P<arguments>.*)\)$", re.DOTALL)


def get(method: str | Callable[..., Any] | Heuristic) -> Heuristic:
    """Find or make the heuristic that a text, a function or a Heuristic stands for.

    Parameters
    ----------
    method : str, callable or Heuristic
        A built-in's name, with parameters in parentheses if it has some; a wrapper around one;
        ``file.py:function``; the name of an entry point; or a function ``(state, s) -> float``.

    Returns
    -------
    Heuristic

    Raises
    ------
    UnknownNameError
        If there is no such heuristic, wrapper or parameter.
    HeuristicError
        If a user's file cannot be loaded or has no such function.

    Examples
    --------
    >>> get("h_next_use(exponent=2)").name
    'h_next_use(exponent=2)'
    >>> get("ignore_small(h_LRU)").name
    'ignore_small(h_LRU,0.01)'
    """
    if isinstance(method, Heuristic):
        return method
    if callable(method):
        return _named_apart(_from_function(method))
    if not isinstance(method, str):
        raise UsageError(f"heuristic {method!r}: a name, a function or a Heuristic")
    text = method.strip()
    if registry.is_known(text):
        return registry.build(text)
    if (in_file := load_function(text)) is not None:
        return _from_file(in_file)
    if called := _CALL.match(text):
        return _from_call(called["name"], [a for a in split_list(called["arguments"]) if a])
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == text:
            return dataclasses.replace(_from_function(_loaded(point)), name=text)
    return registry.build(text)


def _loaded(point: EntryPoint) -> Callable[..., Any]:
    """Load what an installed package offers under a name."""
    try:
        return point.load()  # type: ignore[no-any-return]
    except (Exception, SystemExit) as error:
        raise HeuristicError(
            f"entry point {point.name} = {point.value}: {type(error).__name__}: {error}"
        ) from error


def sample(inner: Heuristic) -> Heuristic:
    """Look only at a random part of the pool: strides of 1 to floor(sqrt(n)) (DTR prototype)."""
    return dataclasses.replace(inner, name=f"sample({inner.name})", samples=True, is_random=True)


def ignore_small(inner: Heuristic, fraction: float | str = SMALL) -> Heuristic:
    """Pass over storages below a part of the mean size, while there are others (DTR prototype)."""
    least = float(FRACTION.value("ignore_small: fraction", fraction))
    return dataclasses.replace(
        inner, name=f"ignore_small({inner.name},{shown_number(least)})", least_size=least
    )


def _from_call(name: str, arguments: list[str]) -> Heuristic:
    if name in ("sample", "ignore_small"):
        if not arguments or len(arguments) > (1 if name == "sample" else 2):
            raise UsageError(f"{name}(...): it takes a heuristic, as in {name}(h_DTR_eq)")
        inner = get(arguments[0])
        if inner.kind == "random":
            raise UsageError(f"{name}({inner.name}): a random choice has no scores to shorten")
        if inner.kind == "window":
            raise UsageError(
                f"{name}({inner.name}): a window leaves no storage between its ends out"
            )
        if name == "sample":
            return sample(inner)
        return ignore_small(inner, *arguments[1:])
    parameters: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise UsageError(f"{name}({argument}): write parameters as name=value")
        if key.strip() in parameters:
            raise UsageError(f"{name}: parameter {key.strip()!r} is given twice")
        parameters[key.strip()] = value.strip()
    return registry.build(name, **parameters)


def _from_file(loaded: UserFunction) -> Heuristic:
    found, name, path, digest = loaded
    made = _from_function(found)
    own_name = made.name if hasattr(found, "heuristic") else f"{path.name}:{name}"
    _named_apart(dataclasses.replace(made, name=own_name))
    return dataclasses.replace(made, name=own_name, source=digest)


def _named_apart(own: Heuristic) -> Heuristic:
    """Refuse a user's heuristic whose rows would be taken for those of a built-in one."""
    if own.source and registry.is_known(own.name):
        raise HeuristicError(
            f"{place_of(own.function)}: a heuristic called {own.name!r}: there is a built-in one, "
            "give it another name"
        )
    return own


def _takes_two(signature: inspect.Signature) -> bool:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(kinds) == 2 and all(kind in by_place for kind in kinds)


def _from_function(function: Callable[..., Any]) -> Heuristic:
    declared = getattr(function, "heuristic", None)
    if isinstance(declared, Heuristic):
        return declared
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    if signature is not None and not _takes_two(signature):
        raise HeuristicError(
            f"{place_of(function)}: it takes {signature}; a heuristic takes (state, s)"
        )
    name = getattr(function, "__name__", type(function).__name__)
    return Heuristic(name, function, summary=inspect.getdoc(function) or "")
