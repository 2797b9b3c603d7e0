"""rematsim.heuristics: how a victim is chosen. One file each; `get` finds them by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .methods import get as get
    from .registry import Heuristic as Heuristic
    from .registry import heuristic as heuristic
    from .registry import names as names

_LAZY = {
    "get": "methods",
    "Heuristic": "registry",
    "heuristic": "registry",
    "names": "registry",
}
__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
