"""Taking apart what users write: the rules that more than one reader of it shares."""

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
