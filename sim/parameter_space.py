"""What the parameters of a heuristic may be tried as: the rules that it declares, as a space.

It knows optuna's trials by what it asks of them, and needs no optuna.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import UnknownNameError, UsageError
from .heuristics.methods import get
from .heuristics.parameters import Number, OneOf, Truth, Whole
from .heuristics.registry import Heuristic, build, is_known, names

REACH = 4.0  # numbers are looked for up to so many times the default, unless a range is given
DIGITS = 3  # of a number that is tried, so that it can be written down

Values: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """The parameters of a heuristic, the values to begin with, and where to look for others.

    Attributes
    ----------
    name : str
        The heuristic, without parameters.
    start : dict
        What it is given with.
    heuristic : Heuristic
        The same, looked up.
    ranges : dict of str to (float, float)
        Where to look for numbers, in the place of `ends`' own rule.
    """

    name: str
    start: Values
    heuristic: Heuristic
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, method: str, ranges: Mapping[str, tuple[float, float]]) -> Space:
        """Look a heuristic up."""
        heuristic = get(method)
        name = method.partition("(")[0].strip()
        if not (is_known(name) and heuristic.parameters):
            tunable = ", ".join(known for known in names() if get(known).parameters)
            raise UsageError(f"{method}: it has no parameters to fit; these have some: {tunable}")
        start = dict(heuristic.parameters)
        for parameter, ends in ranges.items():
            rule = heuristic.allowed.get(parameter)
            if not isinstance(rule, Number | Whole):
                known = ", ".join(start)
                raise UnknownNameError(f"{name}: no range of {parameter!r}: it has {known}")
            for end in ends:
                rule.value(f"{name}: {parameter}", end)
        return cls(name, start, heuristic, ranges)

    def method(self, values: Values) -> str:
        """Write the heuristic with these values."""
        return build(self.name, **values).name

    def ask(self, trial: Any) -> Values:
        """Let a trial choose a value of each parameter."""
        return {name: self._ask(trial, name) for name in self.start}

    def _ask(self, trial: Any, name: str) -> Any:
        rule = self.heuristic.allowed[name]
        if isinstance(rule, Truth):
            return trial.suggest_categorical(name, [False, True])
        if isinstance(rule, OneOf):
            return trial.suggest_categorical(name, list(rule.known))
        if not isinstance(rule, Number | Whole):
            return self.start[name]
        low, high = self.ends(name, rule)
        if isinstance(rule, Whole):
            return trial.suggest_int(name, int(low), int(high))
        is_factor = low > 0 and rule.is_open
        tried = trial.suggest_float(name, low, high, log=is_factor)
        return min(max(float(f"{tried:.{DIGITS}g}"), low), high)

    def ends(self, name: str, rule: Number | Whole) -> tuple[float, float]:
        """Tell where to look for a number: a factor, which is above 0, as far down as up."""
        if name in self.ranges:
            return self.ranges[name]
        high = min(rule.most, REACH * max(1.0, self.start[name]))
        is_factor = isinstance(rule, Number) and rule.is_open and rule.least == 0
        return (1.0 / high if is_factor else rule.least), high


def parse_range(text: str) -> tuple[str, tuple[float, float]]:
    """Read ``name=low:high``, or ``name=value``, which fixes it.

    Examples
    --------
    >>> parse_range("exponent=0:3"), parse_range("exponent=1.5")
    (('exponent', (0.0, 3.0)), ('exponent', (1.5, 1.5)))
    """
    name, equals, ends = text.partition("=")
    low, colon, high = ends.partition(":")
    try:
        found = float(low), float(high if colon else low)
    except ValueError:
        found = math.nan, math.nan
    if not (name.strip() and found[0] <= found[1]):
        raise UsageError(f"range {text!r}: write name=low:high, or name=value")
    return name.strip(), found
