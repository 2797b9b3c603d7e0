"""What a user's function is made of, as a digest: rows of another one are not taken for its own."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from types import CodeType, ModuleType
from typing import Any


def own_digest(function: Any) -> str:
    """Digest the file of a function, its code, and the values that it finds outside of itself."""
    content = repr((_file_of(function), _parts_of(function, [])))
    return hashlib.sha256(content.encode()).hexdigest()


def _file_of(function: Any) -> str:
    try:
        return inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):
        return ""


def _parts_of(value: Any, above: list[Any]) -> object:
    """Take apart what a function is or reads; ``above`` are the functions that this is a part of.

    Functions of other modules count by their names. What has no content that can be told has its
    address here, and is another in each process.
    """
    value = getattr(value, "py_func", value)  # of a function that numba compiles
    if any(value is other for other in above):
        return "itself"
    code = getattr(value, "__code__", None)
    is_near = not above or getattr(value, "__module__", None) == above[0].__module__
    if isinstance(code, CodeType) and is_near:
        outside = [value.__defaults__, value.__kwdefaults__, *_read_by(value)]
        return _code_parts(code), [_parts_of(part, [*above, value]) for part in outside]
    if isinstance(value, ModuleType):
        return value.__name__
    try:
        return pickle.dumps(value)
    except Exception:  # an object may refuse by any of them
        return repr(value)


def _read_by(function: Any) -> list[Any]:
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # a variable that has no value yet
        return []
    outside = {**found.globals, **found.nonlocals}
    return [outside[name] for name in sorted(outside)]


def _code_parts(code: CodeType) -> tuple[object, ...]:
    constants = [_code_parts(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, constants
