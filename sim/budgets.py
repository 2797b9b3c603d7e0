"""Budgets as people write them: bytes, fractions of the unlimited peak, lists and ranges.

Everything is read and expanded in decimal, so that ``0.1x:1.0x:0.1x`` has ten members and the
third is ``0.3x``. What a budget means for a trace is one line: `Budget.resolve`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from numbers import Integral, Real
from typing import TypeAlias

from .errors import BudgetError

# What may stand where a message is about: a number of bytes, one budget, several.
IN_BYTES = "a number of bytes is needed, as 6GiB or 500MB"
_BYTES, _FRACTION = "bytes (6GiB, 500MB, 1.5e9)", "a fraction of the unlimited peak (0.5x)"
ONE = f"allowed: {_BYTES}, {_FRACTION} or unlimited"
SEVERAL = (
    f"allowed: {_BYTES}, {_FRACTION}, a range (0.1x:1.0x:0.1x, 1GiB:4GiB:512MiB), a list of these "
    "with commas, or unlimited"
)
MAX_BYTES = 2**62
MIN_FRACTION, MAX_FRACTION = Decimal("1e-9"), 1000
MAX_BUDGETS = 10_000
MAX_TEXT = 64

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{prefix}b": 10 ** (3 * k) for k, prefix in enumerate("kmgtp", 1)}
_UNITS |= {f"{prefix}ib": 2 ** (10 * k) for k, prefix in enumerate("kmgtp", 1)}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,4})?)\s*([a-z]*)", re.ASCII)
_EXACT = Context(prec=4 * MAX_TEXT)


@dataclass(frozen=True)
class Budget:
    """One memory limit, as it was asked for.

    Parameters
    ----------
    kind : str
        ``"bytes"``, ``"fraction"`` or ``"unlimited"``.
    value : int or float or None
        Bytes, the fraction, or None for unlimited.
    """

    kind: str
    value: int | float | None = None

    @property
    def fraction(self) -> float | None:
        """The fraction of the unlimited peak that was asked for, if one was."""
        return float(self.value) if self.kind == "fraction" and self.value is not None else None

    def resolve(self, unlimited_peak: int) -> int | None:
        """Return the budget in bytes for a trace, None for unlimited.

        Parameters
        ----------
        unlimited_peak : int
            Bytes at the peak of the run without a budget, under banish.

        Raises
        ------
        BudgetError
            If a fraction comes to more than 2^62 bytes.

        Notes
        -----
        A fraction is the double nearest its decimal literal, times the peak, truncated.

        Examples
        --------
        >>> parse_budget("0.3x").resolve(10)
        3
        """
        if self.value is None:
            return None
        if self.kind == "bytes":
            return int(self.value)
        resolved = int(self.value * unlimited_peak)
        if resolved > MAX_BYTES:
            raise BudgetError(
                f"budget {self} of a peak of {unlimited_peak} bytes: above 2^62 bytes"
            )
        return resolved

    def __str__(self) -> str:
        """Write the budget so that `parse_budget` reads it back."""
        return {"bytes": f"{self.value}B", "fraction": f"{self.value}x"}.get(self.kind, self.kind)


UNLIMITED = Budget("unlimited")
BudgetLike: TypeAlias = str | int | float | Budget | None


def parse_budget(given: BudgetLike) -> Budget:
    """Read one budget.

    Parameters
    ----------
    given : str, int, float, Budget or None
        Text as on the command line; an int is bytes, a float a fraction of the unlimited peak,
        None is unlimited.

    Returns
    -------
    Budget

    Raises
    ------
    BudgetError
        If it is no budget, is zero, negative or not finite, or is a list or a range.

    Examples
    --------
    >>> parse_budget("1.5KiB"), parse_budget("0.5x")
    (Budget(kind='bytes', value=1536), Budget(kind='fraction', value=0.5))
    """
    if isinstance(given, str) and ("," in given or ":" in given):
        raise BudgetError(f"budget {_shortened(given)}: one is wanted, no list or range; {ONE}")
    return _parse(given, ONE)


def _parse(given: BudgetLike, allowed: str) -> Budget:
    """Read one budget, where ``allowed`` says what there may be."""
    if given is None:
        return UNLIMITED
    if isinstance(given, Budget):
        return given
    if isinstance(given, str):
        return _budget_of(given, *_quantity(given, allowed), allowed)
    if type(given) is int and 1 <= given <= MAX_BYTES:
        return Budget("bytes", given)
    number: object = given  # numpy's numbers are welcome, too
    if isinstance(number, Real) and not isinstance(given, bool):
        if isinstance(number, Integral):
            return _budget_of(given, "bytes", Decimal(int(number)), allowed)
        return _budget_of(given, "fraction", Decimal(repr(float(number))), allowed)
    raise BudgetError(f"budget {given!r}: {type(given).__name__} is no budget; {allowed}")


def parse_bytes(given: BudgetLike) -> int:
    """Read a number of bytes.

    Parameters
    ----------
    given : str or int
        As for `parse_budget`.

    Returns
    -------
    int

    Raises
    ------
    BudgetError
        If it is no budget, or not one in bytes.

    Examples
    --------
    >>> parse_bytes("1KiB")
    1024
    """
    budget = _parse(given, IN_BYTES)
    if budget.kind != "bytes" or budget.value is None:
        raise BudgetError(f"{given!r}: {IN_BYTES}")
    return int(budget.value)


def expand_budgets(given: BudgetLike | Iterable[BudgetLike]) -> list[Budget]:
    """Read budgets, lists and ranges of them, in order and each once.

    Parameters
    ----------
    given : str, int, float, Budget or None, or an iterable of these
        As for `parse_budget`; texts may also hold lists with commas, and ranges
        ``start:end:step``, which are expanded in decimal, the end included.

    Returns
    -------
    list of Budget

    Raises
    ------
    BudgetError
        If something in it cannot be read, or there are none, or more than 10,000.

    Examples
    --------
    >>> [str(budget) for budget in expand_budgets("0.1x:0.3x:0.1x,unlimited")]
    ['0.1x', '0.2x', '0.3x', 'unlimited']
    """
    items = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    budgets: dict[Budget, None] = {}
    for item in items:
        parts = item.split(",") if isinstance(item, str) else [item]
        for part in parts:
            is_range = isinstance(part, str) and ":" in part
            expanded = _expand_range(str(part)) if is_range else [_parse(part, SEVERAL)]
            budgets.update(dict.fromkeys(expanded))
            _check_count(part, len(budgets))
    if not budgets:
        raise BudgetError(f"no budget given; {SEVERAL}")
    return list(budgets)


def _expand_range(text: str) -> list[Budget]:
    """Expand ``start:end:step`` in decimal, the end included."""
    parts = text.split(":")
    if len(parts) != 3:
        raise BudgetError(f"budget {text!r}: a range is start:end:step, as 0.1x:1.0x:0.1x")
    quantities = [_quantity(part, SEVERAL) for part in parts]
    kinds = {kind for kind, _ in quantities}
    if len(kinds) > 1 or "unlimited" in kinds:
        raise BudgetError(
            f"budget {text!r}: start, end and step of a range must all be bytes or all be "
            "fractions (0.1x:1.0x:0.1x)"
        )
    (kind, start), (_, end), (_, step) = quantities
    for part, (_, value) in zip(parts, quantities, strict=True):
        _budget_of(part, kind, value, SEVERAL)
    if start > end:
        raise BudgetError(f"budget {text!r}: the range starts above its end")
    count = int(_EXACT.divide_int(_EXACT.subtract(end, start), step)) + 1
    _check_count(text, count)
    return [_budget_of(text, kind, _EXACT.fma(step, k, start), SEVERAL) for k in range(count)]


def _quantity(text: str, allowed: str) -> tuple[str, Decimal]:
    """Read a number and its unit: the kind of budget, and the bytes or the fraction."""
    lowered = text.strip().lower()
    if lowered == "unlimited":
        return "unlimited", Decimal(0)
    match = _QUANTITY.fullmatch(lowered) if len(lowered) <= MAX_TEXT else None
    if match is None:
        raise BudgetError(f"budget {_shortened(text)}: cannot be read; {allowed}")
    number, unit = match.groups()
    try:
        value = _EXACT.create_decimal(number)
    except InvalidOperation:
        raise BudgetError(f"budget {text!r}: cannot be read; {allowed}") from None
    if unit == "x":
        return "fraction", value
    if unit not in _UNITS:
        raise BudgetError(_unit_message(text, unit, allowed))
    return "bytes", _EXACT.multiply(value, Decimal(_UNITS[unit]))


def _budget_of(given: object, kind: str, value: Decimal, allowed: str) -> Budget:
    """Check the number and make the Budget."""
    if kind == "unlimited":
        return UNLIMITED
    if not value.is_finite() or value <= 0:
        raise BudgetError(f"budget {given!r}: must be a finite number above 0; {allowed}")
    if kind == "fraction":
        if not MIN_FRACTION <= value <= MAX_FRACTION:
            raise BudgetError(
                f"budget {given!r}: a fraction of the unlimited peak (a number with x; in Python a "
                f"float) is at least {MIN_FRACTION} and at most {MAX_FRACTION}"
            )
        return Budget(kind, float(value))
    if value < 1:
        raise BudgetError(
            f"budget {given!r}: less than one byte; a fraction of the unlimited peak is written "
            f"{str(given).split(':')[0].strip()}x"
        )
    if value > MAX_BYTES:
        raise BudgetError(f"budget {given!r}: above 2^62 bytes; use unlimited")
    return Budget(kind, int(value))


def _unit_message(text: str, unit: str, allowed: str) -> str:
    """Say which units there are, and settle the ambiguous single letters."""
    hint = (
        f"; write {unit.upper()}B (decimal) or {unit.upper()}iB (binary)" if unit in "kmgtp" else ""
    )
    return f"budget {text!r}: unknown unit {unit!r}{hint}; {allowed}"


def _check_count(given: object, count: int) -> None:
    """Refuse lists and ranges that no sweep could want."""
    if count > MAX_BUDGETS:
        raise BudgetError(f"budget {given!r}: more than {MAX_BUDGETS} budgets; use a larger step")


def _shortened(text: str) -> str:
    """Quote a text, cut where it is too long for a message."""
    return repr(text) if len(text) <= MAX_TEXT else repr(text[:MAX_TEXT]) + "..."
