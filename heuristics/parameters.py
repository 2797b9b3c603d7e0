"""What the parameters of heuristics and planners may be: a rule for each, in one spelling.

A method declares the rules of its parameters where it declares itself (``allowed=``); who looks it
up checks them, once. Nothing here knows a method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..texts import shown_number
from .user_files import load_function

LONGEST_VALUE = 60  # letters of a value that a message shows


@dataclass(frozen=True)
class Rule:
    """What a parameter may be.

    Attributes
    ----------
    words : str
        The rule, as it follows "it is".
    parse : callable
        From a text to a value; it raises ValueError where there is none.
    allows : callable
        Whether a value keeps the rule.
    """

    words: str
    parse: Callable[[str], Any]
    allows: Callable[[Any], bool]

    def value(self, where: str, given: Any) -> Any:
        """Read a text, or take a value, that keeps the rule.

        Parameters
        ----------
        where : str
            Method and parameter, for the message.

        Raises
        ------
        InputError
            If it does not keep it.
        """
        try:
            value = self.parse(given) if isinstance(given, str) else given
        except (ValueError, OverflowError):
            value = None
        if value is None or not self.allows(value):
            shown = str(given)
            shown = shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}..."
            raise InputError(f"{where} ({shown}): it is {self.words}")
        return value


Rules = Mapping[str, Rule]


def whole(least: int, most: int, *, also: int | None = None) -> Rule:
    """Allow whole numbers of a range, and perhaps one outside it."""

    def allows(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and (least <= value <= most or value == also)

    return Rule(f"a whole number from {least:,} to {most:,}{_or(also)}", int, allows)


def number(least: float, most: float, *, is_open: bool = False, also: float | None = None) -> Rule:
    """Allow numbers of a range, but for its lower end if that is open, and perhaps one outside."""

    def allows(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        is_inside = least < value <= most or (value == least and not is_open)
        return is_inside or (also is not None and value == also)

    ends = f"above {least:g} and at most" if is_open else f"from {least:g} to"
    return Rule(f"a number {ends} {most:g}{_or(also)}", _finite, allows)


def one_of(*known: str, has_functions: bool = False) -> Rule:
    """Allow some words, and perhaps functions of the user's, which are loaded to look at them."""

    def allows(value: Any) -> bool:
        if not isinstance(value, str):
            return has_functions and callable(value)
        return value in known or (has_functions and load_function(value) is not None)

    listed = [*known, *(["file.py:function"] if has_functions else [])]
    return Rule(f"{', '.join(listed[:-1])} or {listed[-1]}", str, allows)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


TRUTH = Rule("true or false", _truth, lambda value: isinstance(value, bool))
TEXT = Rule("a text", str, lambda value: isinstance(value, str))


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _or(also: float | None) -> str:
    return "" if also is None else f", or {also:g}"


def check_rules(method: str, defaults: Mapping[str, Any], rules: Rules) -> None:
    """Hold the rules of a method against its parameters: each has one, which its default keeps.

    Raises
    ------
    InputError
        If they do not belong together.
    """
    for name in [*defaults, *rules]:
        if name not in rules or name not in defaults:
            raise InputError(f"{method}: {name}: allowed= has a rule for each parameter, no others")
        rules[name].value(f"{method}: {name}", defaults[name])


def described(defaults: Mapping[str, Any], rules: Rules) -> str:
    """Say of each parameter what it is and may be.

    Examples
    --------
    >>> described({"cv": 0}, {"cv": whole(0, 9)})
    'cv=0: a whole number from 0 to 9'
    """
    told = (f"{name}={shown(defaults[name])}: {rule.words}" for name, rule in rules.items())
    return "; ".join(told)


def shown(value: Any) -> str:
    """Write a parameter's value as it would be given."""
    if isinstance(value, bool):
        return str(value).lower()
    return shown_number(value) if isinstance(value, float) else str(value)
