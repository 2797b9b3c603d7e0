"""Check what the functions of capture are given, before anything runs. Needs no torch."""

from __future__ import annotations

import inspect
from numbers import Integral
from typing import Any

from ..errors import InputError
from .wording import show


def check_count(what: str, value: Any, least: int = 1) -> None:
    """Refuse how many runs or steps there are to be, if it is no whole number from ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{what} {show(value)}: expected a whole number")
    if value < least:
        raise InputError(f"{what} {value}: at least {least}")


def check_step(what: str, step: Any) -> None:
    """Refuse what is to be called without arguments and cannot be."""
    if not callable(step):
        raise InputError(f"{what} {show(step)}: expected a function without arguments")
    try:
        inspect.signature(step).bind()
    except TypeError as error:
        raise InputError(f"{what}: {error}; expected a function without arguments") from None
    except ValueError:  # written in C, without a signature
        pass


def check_name(name: Any) -> None:
    """Refuse a trace's name that is no text, or empty."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name {show(name)}: expected some text")
