"""Texts that fit: how wide a label is, and how to break or shorten a long one.

Widths are measured from the font itself, before anything is drawn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

# Points.
TITLE_SIZE, NOTE_SIZE, LABEL_SIZE, TICK_SIZE, LEGEND_SIZE = 8.0, 6.5, 8.0, 7.0, 7.0

TITLE_LINES = 3

# A screen rounds the width of each letter to whole pixels, mostly up.
HINTING = 1.08


def wrap(text: str, width: float, size: float, lines: int = TITLE_LINES) -> str:
    """Break a name into lines at most `width` inches wide; leave out its middle where too many."""
    pieces = _broken(text, width, size)
    kept = len(text)
    while len(pieces) > lines:
        kept -= 1
        pieces = _broken(shorten(text, kept), width, size)
    return "\n".join(pieces)


def shorten(text: str, letters: int) -> str:
    """Leave out the middle of a text that is longer than so many letters."""
    if len(text) <= letters:
        return text
    head = math.ceil((letters - 1) / 2)
    return text[:head] + "…" + text[len(text) - (letters - 1 - head) :]


def literal(text: str) -> str:
    """Escape a text so that matplotlib does not read it as mathematics."""
    return text.replace("$", r"\$")


def text_width(text: str, size: float) -> float:
    """Width of one line of text, in inches."""
    return sum(_letter_width(letter) for letter in text) * size


def bytes_text(count: float) -> str:
    """Write a size with a binary unit, to three digits (``9.37 GiB``)."""
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while abs(count) >= 1000 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{count:.3g} {units[0]}"


def number_texts(values: Sequence[float]) -> list[str]:
    """Write numbers of one axis with the same decimals, as few as tell them all exactly."""
    for decimals in range(7):
        texts = [f"{value:.{decimals}f}" for value in values]
        if all(abs(float(text) - value) < 1e-9 for text, value in zip(texts, values, strict=True)):
            return texts
    return [f"{value:.6g}" for value in values]


def count_text(count: float) -> str:
    """Write a count in little room: ``500``, ``2k``, ``50M``, ``1e+12``."""
    for unit, size in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if count < size * 1000:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0e}"


def _broken(text: str, width: float, size: float) -> list[str]:
    """Break a text into lines that fit, after a separator where there is one."""
    lines = []
    while text:
        fits = len(text)
        while fits > 1 and text_width(text[:fits], size) > width:
            fits -= 1
        if fits < len(text):
            separators = [match.end() for match in re.finditer(r"[-_/.,: ]", text[:fits])]
            fits = separators[-1] if separators and separators[-1] > fits // 3 else fits
        lines.append(text[:fits].strip())
        text = text[fits:]
    return lines or [""]


@cache
def _letter_width(letter: str) -> float:
    """Width of one letter in inches, at a size of one point."""
    sample = 100.0
    font = FontProperties(size=sample)
    width, _, _ = TextToPath().get_text_width_height_descent(letter * 10, font, ismath=False)
    return float(width) / 10 / sample / 72 * HINTING
