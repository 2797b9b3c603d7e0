"""Names that no reader of them may obey: a terminal, a page, a spreadsheet, a figure."""

from __future__ import annotations

from pathlib import Path

from rematsim.traces.builder import TraceBuilder
from rematsim.traces.saving import save_trace

LONG = "x" * 10**5
HOSTILE = (
    "a\x1b[31mred\x07",
    "line\nbreak\ttab\r",
    "\u202eright-to-left",
    "<script>alert(1)</script>",
    "[bold]markup[/bold]",
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "$x^2$ \\frac{",
    LONG,
    "שלום",
)
CONTROL = {"Cc", "Cf", "Zl", "Zp", "Cs"}  # categories of letters that a terminal may obey


def hostile_trace(path: Path) -> str:
    """Write a chain of calls whose names, operators and modules are hostile."""
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
    save_trace(builder.build(), str(path))
    return str(path)
