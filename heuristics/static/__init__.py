"""rematsim.heuristics.static: planners, which decide everything before the run. One file each.

A planner sees a `StaticGraph` and a budget and answers with a `PlannerResult`: see ``registry.py``.
`get` finds them by name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .registry import Planner as Planner
    from .registry import PlannerResult as PlannerResult
    from .registry import get as get
    from .registry import names as names
    from .registry import planner as planner

_PUBLIC = ("Planner", "PlannerResult", "get", "names", "planner")
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".registry", __name__), name)
