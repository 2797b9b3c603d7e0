"""Functions in a user's own file, ``file.py:function``: loaded once for what the file says."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import HeuristicError

_FILE = re.compile(r"^(?P<path>.+\.py):(?P<function>\w+)$")


class UserFunction(NamedTuple):
    """A function, its name in the file that it is in, and the digest of that file."""

    function: Callable[..., Any]
    name: str
    path: Path
    digest: str


def load_function(text: str) -> UserFunction | None:
    """Load what ``file.py:function`` names; None if the text is not of this form.

    Raises
    ------
    HeuristicError
        If the file cannot be loaded or has no such function.
    """
    named = _FILE.match(text)
    if named is None:
        return None
    path, function = Path(named["path"]), named["function"]
    try:
        source = path.read_bytes()
    except OSError as error:
        raise HeuristicError(f"{path}: {error.strerror or error}") from None
    name = f"rematsim_user_{hashlib.sha256(str(path.resolve()).encode() + source).hexdigest()[:16]}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise HeuristicError(f"{path}: {place_of(error, path)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        known = [
            n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == name
        ]
        raise HeuristicError(
            f"{path}: no function {function!r}; it has {', '.join(known) or 'none'}"
        )
    return UserFunction(found, function, path, hashlib.sha256(source).hexdigest())


def place_of(error: BaseException, path: Path) -> str:
    """Say what failed and in which line of the user's file."""
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = trace.tb_lineno
        trace = trace.tb_next
    said = error.msg if isinstance(error, SyntaxError) else error  # its text repeats the place
    return f"line {line}: {type(error).__name__}: {said}" if line else f"{error}"
