"""rematsim: replay operator logs of deep-learning training under a memory budget.

The folder ``sim/`` *is* the package ``rematsim``; the folders beside it are its subpackages.
Everything public is loaded on first use, so that ``import rematsim`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .execution import execute as execute
    from .explaining import explain as explain
    from .fitting import fits as fits
    from .plan_files import load_plan as load_plan
    from .plan_files import save_plan as save_plan
    from .planning import plan_trace as plan_trace
    from .side_by_side import compare as compare
    from .simulation import simulate as simulate
    from .sweeps import sweep as sweep
    from .traces.importing import import_trace as import_trace
    from .traces.loading import load_trace as load_trace
    from .traces.saving import save_trace as save_trace

__version__ = "0.1.0"

_LAZY = {
    "compare": "rematsim.side_by_side",
    "execute": "rematsim.execution",
    "explain": "rematsim.explaining",
    "fits": "rematsim.fitting",
    "import_trace": "rematsim.traces.importing",
    "load_plan": "rematsim.plan_files",
    "load_trace": "rematsim.traces.loading",
    "plan_trace": "rematsim.planning",
    "save_plan": "rematsim.plan_files",
    "save_trace": "rematsim.traces.saving",
    "simulate": "rematsim.simulation",
    "sweep": "rematsim.sweeps",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'rematsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    """Public names, whether loaded or not."""
    return sorted(__all__)
