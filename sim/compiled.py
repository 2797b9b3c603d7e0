"""The compiled entry points: the engine once, a `choose` for each heuristic, small inspections.

Each is compiled, or loaded from the disk cache, when it is first asked for.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any

import numpy as np

from . import choosing, engine
from .jit import Entry, entry, signature
from .program import Program
from .state import State


@functools.cache
def _called_signature() -> Any:
    return signature("int64", Program, State, "int64")


@functools.cache
def run() -> Entry:
    """Get the compiled engine."""
    return entry(engine.run, _called_signature())


def choose(function: choosing.Choose, name: str, *, cached: bool) -> Entry:
    """Compile a `choose` that the engine can call by its address.

    The name tells it from others of the same factory: the linker knows functions by their names
    alone, and two loaded from the disk cache under one name would be one function.
    """
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    function.__name__ = f"choose_{re.sub(r'[^A-Za-z0-9]', '_', name)}_{digest}"
    function.__qualname__ = function.__name__
    return entry(function, _called_signature(), cached=cached, called_by_python=False)


@functools.cache
def refresh() -> Entry:
    """Get the compiled `choosing.refresh`."""
    return entry(choosing.refresh, _called_signature())


@functools.cache
def render() -> Entry:
    """Get the compiled `render_decimals`."""
    numbers, text = np.dtype(np.int32), np.dtype(np.uint8)
    return entry(render_decimals, signature("int64", numbers, "int64", text))


def render_decimals(numbers: Any, count: int, text: Any) -> int:
    """Write numbers in decimal, a comma before each, as ASCII; give the length."""
    end = 0
    for i in range(count):
        text[end] = 44
        end += 1
        value = numbers[i]
        digits = 1
        bound = 10
        while value >= bound:
            digits += 1
            bound *= 10
        for place in range(digits - 1, -1, -1):
            text[end + place] = 48 + value % 10
            value //= 10
        end += digits
    return end
