"""rematsim.traces: what a model did, as a raw and immutable Trace.

Nothing here knows how a trace will be replayed. Start with ``trace.py`` (the value), then
``builder.py`` (the only way to make one) and ``loading.py`` (files to traces).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capturing import capture as capture
    from .capturing import capture_steps as capture_steps

__all__ = ["capture", "capture_steps"]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'rematsim.traces' has no attribute {name!r}")
    from . import capturing

    return getattr(capturing, name)
