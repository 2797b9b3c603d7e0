"""Texts that fit: how wide a label is, and how to break or shorten a long one.

Widths are measured from the font itself, before anything is drawn.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import accumulate, takewhile

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

# Points.
TITLE_SIZE, NOTE_SIZE, LABEL_SIZE, TICK_SIZE, LEGEND_SIZE = 8.0, 6.5, 8.0, 7.0, 7.0

TITLE_LINES = 3

# No label has room for more; the rest of a text is cut before anything is measured.
MOST_LETTERS = 1000

# A screen rounds the width of each letter to whole pixels, mostly up.
HINTING = 1.08


def wrap(text: str, width: float, size: float, lines: int = TITLE_LINES) -> str:
    """Break a name into lines at most `width` inches wide; leave out its middle where too many."""
    text = shorten(text, MOST_LETTERS)
    pieces = _broken(text, width, size)
    if len(pieces) <= lines:
        return "\n".join(pieces)
    fits, leaves = 1, len(text)
    while leaves - fits > 1:
        middle = (fits + leaves) // 2
        if len(_broken(shorten(text, middle), width, size)) <= lines:
            fits = middle
        else:
            leaves = middle
    return "\n".join(_broken(shorten(text, fits), width, size))


def told_apart(names: Iterable[str], cut: Callable[[str], str]) -> list[str]:
    """Shorten names so that different ones stay different.

    Names that `cut` makes equal lose what they have in common at their begin; those that are
    equal even then get a number.

    Examples
    --------
    >>> told_apart(["resnet-a-large", "resnet-b-large", "gpt"], lambda name: shorten(name, 11))
    ['…a-large', '…b-large', 'gpt']
    """
    texts = {name: cut(name) for name in names}
    groups = defaultdict(list)
    for name, text in texts.items():
        groups[text].append(name)
    for group in groups.values():
        common = len(os.path.commonprefix(group))
        if len(group) > 1:
            texts |= {name: cut("…" + name[common:]) for name in group}
    taken: set[str] = set()
    number = 1
    for name, text in texts.items():
        while text in taken:
            number += 1
            text = cut(f"({number}) {name}")
        texts[name] = text
        taken.add(text)
    return [texts[name] for name in names]


def wrap_all(
    names: Sequence[str], width: float, size: float, lines: int = TITLE_LINES
) -> list[str]:
    """Break names into lines as `wrap` does; different ones stay different."""
    return told_apart(names, lambda name: wrap(name, width, size, lines))


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
    """Write a size with a binary unit, to three digits.

    Examples
    --------
    >>> print(bytes_text(2**30 * 9.37), bytes_text(2**10 * 999.6))
    9.37 GiB 0.976 MiB
    """
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while abs(count) >= 999.5 and len(units) > 1:  # in three digits that is 1000
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
        ends = accumulate(_letter_width(letter) * size for letter in text)
        fits = max(sum(1 for _ in takewhile(lambda end: end <= width, ends)), 1)
        if fits < len(text):
            separators = [match.end() for match in re.finditer(r"[-_/.,:(= ]", text[:fits])]
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
