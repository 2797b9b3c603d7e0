"""What the parameters of heuristics and planners may be: a rule for each, in one spelling.

A method declares the rules of its parameters where it declares itself (``allowed=``); who looks it
up checks them, once. Nothing here knows a method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, UsageError
from ..texts import shown_number
from .user_files import load_function

LONGEST_VALUE = 60  # letters of a value that a message shows


class Rule(ABC):
    """What a parameter may be; it travels between processes with its method."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The rule, as it follows "it is"."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Read a value; ValueError where there is none."""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Say whether a value keeps the rule."""

    def value(self, where: str, given: Any) -> Any:
        """Read a text, or take a value, that keeps the rule.

        Parameters
        ----------
        where : str
            Method and parameter, for the message.

        Raises
        ------
        UsageError
            If it does not keep it.
        """
        try:
            value = self.parse(given) if isinstance(given, str) else given
        except (ValueError, OverflowError):
            value = None
        if value is None or not self.allows(value):
            told = str(given)
            told = told if len(told) <= LONGEST_VALUE else f"{told[:LONGEST_VALUE]}..."
            raise UsageError(f"{where} ({told}): it is {self.words}")
        return value


Rules = Mapping[str, Rule]


@dataclass(frozen=True)
class Whole(Rule):
    """Whole numbers of a range, and perhaps one outside it."""

    least: int
    most: int
    also: int | None = None

    @property
    def words(self) -> str:
        """The rule, as it follows "it is"."""
        return f"a whole number from {self.least:,} to {self.most:,}{_or(self.also)}"

    def parse(self, text: str) -> int:
        """Read a whole number."""
        return int(text)

    def allows(self, value: Any) -> bool:
        """Say whether a value is in the range, or the other one."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and (self.least <= value <= self.most or value == self.also)


@dataclass(frozen=True)
class Number(Rule):
    """Numbers of a range, but for its lower end if that is open, and perhaps one outside it."""

    least: float
    most: float
    is_open: bool = False
    also: float | None = None

    @property
    def words(self) -> str:
        """The rule, as it follows "it is"."""
        ends = f"above {self.least:g} and at most" if self.is_open else f"from {self.least:g} to"
        return f"a number {ends} {self.most:g}{_or(self.also)}"

    def parse(self, text: str) -> float:
        """Read a number."""
        return float(text)

    def allows(self, value: Any) -> bool:
        """Say whether a value is in the range, or the other one; what is no number is not."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        is_inside = self.least < value <= self.most or (value == self.least and not self.is_open)
        return is_inside or (self.also is not None and value == self.also)


@dataclass(frozen=True)
class OneOf(Rule):
    """Some words, and perhaps functions of the user's, which are loaded to look at them."""

    known: tuple[str, ...]
    has_functions: bool = False

    @property
    def words(self) -> str:
        """The rule, as it follows "it is"."""
        listed = [*self.known, *(["file.py:function"] if self.has_functions else [])]
        return f"{', '.join(listed[:-1])} or {listed[-1]}"

    def parse(self, text: str) -> str:
        """Take a word."""
        return text

    def allows(self, value: Any) -> bool:
        """Say whether a value is one of the words, or such a function."""
        if not isinstance(value, str):
            return self.has_functions and callable(value)
        return value in self.known or (self.has_functions and load_function(value) is not None)


@dataclass(frozen=True)
class Truth(Rule):
    """True or false."""

    words = "true or false"

    def parse(self, text: str) -> bool:
        """Read one of the two words."""
        return {"true": True, "false": False}.get(text.lower())  # type: ignore[return-value]

    def allows(self, value: Any) -> bool:
        """Say whether it is one."""
        return isinstance(value, bool)


@dataclass(frozen=True)
class Text(Rule):
    """Any text."""

    words = "a text"

    def parse(self, text: str) -> str:
        """Take it."""
        return text

    def allows(self, value: Any) -> bool:
        """Say whether it is one."""
        return isinstance(value, str)


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
    >>> described({"cv": 0}, {"cv": Whole(0, 9)})
    'cv=0: a whole number from 0 to 9'
    """
    told = (f"{name}={shown(defaults[name])}: {rule.words}" for name, rule in rules.items())
    return "; ".join(told)


def shown(value: Any) -> str:
    """Write a parameter's value as it would be given."""
    if isinstance(value, bool):
        return str(value).lower()
    return shown_number(value) if isinstance(value, float) else str(value)
