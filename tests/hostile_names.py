"""Names that no reader of them may obey, and a trace that is full of them."""

from __future__ import annotations

import unicodedata
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
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "$x^2$ \\frac{",
    LONG,
    "שלום",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\u2028\u2029&amp;&#0;",
)
CONTROL = {"Cc", "Cf", "Zl", "Zp", "Cs"}  # categories of letters that a terminal may obey


def obeyed(text: str) -> set[str]:
    """The letters of a text that a terminal may obey, ends of lines aside."""
    return {letter for letter in text if letter != "\n" and unicodedata.category(letter) in CONTROL}


def save_hostile(folder: Path, name: str = "hostile") -> str:
    """Save a chain whose names, operators and modules are hostile; give the path."""
    builder = TraceBuilder(HOSTILE[0] * 50, times_estimated=True)
    builder.constant("w", 1)
    before = "w"
    for called in HOSTILE:
        builder.call(called, [before], [(called, 8, -1)], 5, module=called)
        before = called
    builder.backward()
    for called in reversed(HOSTILE):
        builder.call(called, [before, called], [(f"g{called}", 8, -1)], 5, module=called)
        if before != called:
            builder.release(before)
        builder.release(called)
        before = f"g{called}"
    path = str(folder / f"{name}.trace")
    save_trace(builder.build(), path)
    return path
