"""Sizes and costs of a graph's nodes as whole bytes and nanoseconds; every fault in one line.

Files give plain numbers without a unit, fractions among them. Rounding could make half of a cost
vanish, so they are scaled: all sizes alike, and all costs alike. What is rounded nevertheless is
counted, with how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ...errors import TraceError
from ..trace import MAX_VALUE
from ..wording import show

Number: TypeAlias = int | float

MOST_DIGITS = 9  # after the point, that scaling keeps
CLOSE = Decimal("1e-9")  # of a number: what scaling further would not be worth


class Amounts(NamedTuple):
    """Numbers of a file as whole ones.

    Attributes
    ----------
    whole : list of int
    scale : int
        What 1 in the file counts as.
    n_fractions : int
        How many were not whole, in the unit that the file has or was given.
    n_rounded : int
        How many are not what the file says, times the scale.
    most_change : float
        The largest change of one of these, as a part of it; 1 where it is 0 now.
    """

    whole: list[int]
    scale: int
    n_fractions: int
    n_rounded: int = 0
    most_change: float = 0.0

    @property
    def rounding(self) -> str:
        """Say how many were rounded, and by how much; nothing if none was."""
        if not self.n_rounded:
            return ""
        return f"{self.n_rounded:,} rounded, by up to {100 * self.most_change:.3g}%"


def numbers(
    nodes: Sequence[Mapping[str, Any]], name: str, rivals: Sequence[str], where: str
) -> list[Number]:
    """Read a number of each node.

    Parameters
    ----------
    nodes : sequence of mapping
    name : str
        The attribute.
    rivals : sequence of str
        What others call it: said where a node has one of these instead.
    where : str
        The file, for messages.

    Raises
    ------
    TraceError
        A node has none, or what it has is no number from 0 to 2^53.
    """
    return [_number(node, f"node {k}", (name, rivals), where) for k, node in enumerate(nodes)]


def _number(
    node: Mapping[str, Any], what: str, names: tuple[str, Sequence[str]], where: str
) -> Number:
    name, rivals = names
    if name not in node:
        other = next((f", but {show(rival)}" for rival in rivals if rival in node), "")
        rule = "all nodes say it under one name, in one unit"
        raise TraceError(f"{what}: no {show(name)}{other}: {rule}", where)
    value = node[name]
    if isinstance(value, str):
        rule = "numbers stand without a unit, all in the same"
        raise TraceError(f"{what}: {name} {show(value)} is text: {rule}", where)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_VALUE:  # false for what is not a number
        raise TraceError(f"{what}: {name} {show(value)} is not a number from 0 to 2^53", where)
    number: Number = value
    return number


def in_unit(values: Sequence[Number], unit: int, name: str, where: str) -> Amounts:
    """Count numbers in a unit that is known: what is left of it is rounded.

    Raises
    ------
    TraceError
        One of them is too large in that unit.
    """
    for position, value in enumerate(values):
        if value * unit > MAX_VALUE:
            rule = f"is more than 2^53 ns, at {unit} ns each"
            raise TraceError(f"node {position}: {name} {show(value)} {rule}", where)
    exact = [_exact(value) * unit for value in values]
    return _counted(exact, unit, sum(value != round(value) for value in exact))


def scaled(values: Sequence[Number]) -> Amounts:
    """Count numbers in a unit so small that they are whole, as far as `MOST_DIGITS` goes.

    Examples
    --------
    >>> scaled([3, 2.25, 0])
    Amounts(whole=[300, 225, 0], scale=100, n_fractions=1, n_rounded=0, most_change=0.0)
    """
    exact = [_exact(value) for value in values]
    fractions = [value for value in exact if value != round(value)]
    scale, total = 1, sum(exact)
    while (
        any(_change(value * scale) > CLOSE for value in fractions)
        and scale < 10**MOST_DIGITS
        and total * scale * 10 <= MAX_VALUE
    ):
        scale *= 10
    return _counted([value * scale for value in exact], scale, len(fractions))


def _exact(value: Number) -> Decimal:
    """Take a number as the file writes it: 0.1 is a tenth."""
    return Decimal(repr(value))


def _counted(exact: Sequence[Decimal], scale: int, n_fractions: int) -> Amounts:
    changes = [change for value in exact if (change := _change(value))]
    most_change = float(max(changes, default=0))
    return Amounts([round(v) for v in exact], scale, n_fractions, len(changes), most_change)


def _change(value: Decimal) -> Decimal:
    """Say how much of a number rounding changes."""
    change = abs(value - round(value))
    return change / value if change else change
