"""Names that no reader of them may obey, and a trace that is full of them."""

from __future__ import annotations

from pathlib import Path

from rematsim.traces.builder import TraceBuilder
from rematsim.traces.saving import save_trace

LONG = "n" * 100_000
HOSTILE = (
    "a\x1b[31mred\x07",
    "line\nbreak\ttab\r",
    "\u202eright-to-left",
    "<script>alert(1)</script>",
    "[bold]markup[/bold]",
    "=1+1",
    "$x^2$ \\frac{",
    LONG,
    "שלום",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\u2028\u2029&amp;&#0;",
)


def save_hostile(folder: Path) -> str:
    """Save a chain whose names, operators and modules are hostile; give the path."""
    builder = TraceBuilder(HOSTILE[0] * 50, times_estimated=True)
    builder.constant("w", 1)
    before = "w"
    for name in HOSTILE:
        builder.call(name, [before], [(name, 8, -1)], 5, module=name)
        before = name
    builder.backward()
    for name in reversed(HOSTILE):
        builder.call(name, [before, name], [(f"g{name}", 8, -1)], 5, module=name)
        if before != name:
            builder.release(before)
        builder.release(name)
        before = f"g{name}"
    path = str(folder / "hostile.trace")
    save_trace(builder.build(), path)
    return path
