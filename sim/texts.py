"""Texts that users write, and numbers in what they read: rules that several modules share."""

from __future__ import annotations


def split_list(text: str) -> list[str]:
    """Split at the commas that stand outside brackets.

    Examples
    --------
    >>> split_list("h_LRU, ignore_small(h_DTR, 0.01)")
    ['h_LRU', 'ignore_small(h_DTR, 0.01)']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def shown_number(value: float) -> str:
    """Write a number as shortly as tells it from every other.

    Examples
    --------
    >>> shown_number(2.0), shown_number(0.01), shown_number(2.0000001)
    ('2', '0.01', '2.0000001')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
