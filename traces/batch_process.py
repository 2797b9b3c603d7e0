"""The process that captures a user's step at batch sizes it is told: one line asks, one answers.

It needs torch, and runs a user's code; `batches.BatchCaptures` starts it and reads its answers, so
that whatever happens to it is a line there. What the user's code prints goes to standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, MissingExtraError, RematsimError
from .saving import save_trace

INPUT, MISSING = "input", "missing"  # kinds of failures


def main() -> None:
    """Answer until standard input ends; each request is a batch size and a file for its trace."""
    spec, target, device = sys.argv[1:]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            batch, path = json.loads(line)
            print(
                json.dumps(_answer(spec, batch, path, (target, device))), file=answers, flush=True
            )


def _answer(spec: str, batch: int, path: str, where: tuple[str, str]) -> dict[str, Any]:
    """Capture a batch size, and say how that went."""
    try:
        from .faking import capture_fake

        make = _function(spec)
        target, device = where
        log = capture_fake(
            lambda: make(batch), target=target, device_name=device, name=f"batch {batch}"
        )
        save_trace(log.trace, path)
    except MissingExtraError as error:
        return {"failure": MISSING, "message": str(error)}
    except RematsimError as error:
        return {"failure": INPUT, "message": f"{spec} at batch {batch}: {error}"}
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        place = _place(error, spec)
        return {"failure": INPUT, "message": f"{place}: {spec} failed at batch {batch}: {told}"}
    return {"notes": list(log.notes)}


def _function(spec: str) -> Callable[[int], Any]:
    """Import the user's function, ``module:function`` or ``file.py:function``."""
    module, _, name = spec.rpartition(":")
    found = getattr(_imported(module), name, None)
    if not callable(found):
        raise InputError(f"no function {name!r} there")
    function: Callable[[int], Any] = found
    return function


def _imported(module: str) -> ModuleType:
    """Import a module by its name, from here, or by its file."""
    if not module.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(module)
    path = Path(module).resolve()
    if path.stem not in sys.modules:
        sys.path.insert(0, str(path.parent))
        made = importlib.util.spec_from_file_location(path.stem, path)
        if not path.is_file() or made is None or made.loader is None:
            raise InputError(f"{module}: no such file")
        sys.modules[path.stem] = importlib.util.module_from_spec(made)
        made.loader.exec_module(sys.modules[path.stem])
    return sys.modules[path.stem]


def _place(error: BaseException, spec: str) -> str:
    """Give the last place in the user's own module, if it is among the frames."""
    module = spec.rpartition(":")[0]
    known = sys.modules.get(Path(module).stem if module.endswith(".py") else module)
    file = getattr(known, "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f"{file}:{lines[-1]}" if lines else module


if __name__ == "__main__":
    main()
