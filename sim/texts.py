"""Texts that users write, and numbers in what they read: rules that several modules share."""

from __future__ import annotations

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "us"))


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


def format_ns(time: int) -> str:
    """Write nanoseconds with a unit of sensible size.

    Examples
    --------
    >>> format_ns(1_500_000), format_ns(12)
    ('1.50 ms', '12 ns')
    """
    for size, unit in _TIMES:
        if time >= size:
            return f"{time / size:.2f} {unit}"
    return f"{time} ns"


def format_bytes(count: int | None) -> str:
    """Write bytes with a binary unit.

    Examples
    --------
    >>> format_bytes(1536), format_bytes(12), format_bytes(None)
    ('1.50 KiB', '12 B', 'unlimited')
    """
    if count is None:
        return "unlimited"
    power = min(max(count.bit_length() - 1, 0) // 10, len(_BYTES) - 1)
    return f"{count} B" if power == 0 else f"{count / 2 ** (10 * power):.2f} {_BYTES[power]}"


def format_count(count: int) -> str:
    """Write a count with thousands set apart.

    Examples
    --------
    >>> format_count(12345)
    '12,345'
    """
    return f"{count:,}"
