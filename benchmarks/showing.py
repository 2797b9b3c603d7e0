"""What benchmarks show: tables of numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def say(text: str) -> None:
    print(text, flush=True)


def table(title: str, rows: Sequence[Row]) -> None:
    """Print rows under their keys."""
    cells = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    say(f"\n{title}")
    for line in cells:
        words = [
            f"{w:<{n}}" if i == 0 else f"{w:>{n}}"
            for i, (w, n) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(words))
    say("")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
