"""rematsim.traces: what a model did, as a raw and immutable Trace.

Nothing here knows how a trace will be replayed. Start with ``trace.py`` (the value), then
``builder.py`` (the only way to make one) and ``loading.py`` (files to traces).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capturing import capture as capture
    from .capturing import capture_steps as capture_steps
    from .capturing import measure_workspaces as measure_workspaces
    from .faking import capture_fake as capture_fake
    from .marks import mark_step as mark_step

# Public name -> its module; all but marks need torch, and are imported when asked for (PEP 562).
_PLACES = {
    "capture": "capturing",
    "capture_fake": "faking",
    "capture_steps": "capturing",
    "mark_step": "marks",
    "measure_workspaces": "capturing",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    """Import what is public when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module 'rematsim.traces' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
