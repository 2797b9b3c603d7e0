"""How messages show what users wrote: on one line, whatever is in it, and never at length.

Every message of this package that quotes a name, a value or a path does it through here.
"""

from __future__ import annotations

from collections.abc import Iterator

MAX_SHOWN = 60
MAX_REASON = 120
MAX_PATH = 500


def show(value: object) -> str:
    r"""Quote a name or a value: control characters escaped, a long one cut.

    >>> print(show("x1"), show("a\nb"), show(None), show(1.5))
    'x1' 'a\nb' null 1.5
    >>> print(show("x" * 100))
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... (100 characters)
    """
    if isinstance(value, str):
        if len(value) > MAX_SHOWN:
            return f"{ascii(value[:40])}... ({len(value)} characters)"
        return repr(value) if value.isprintable() else ascii(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict | list):
        return _begun(value)
    return f"a {type(value).__name__}"


def _begun(value: object) -> str:
    """Write a list or an object as far as it is shown: it may be endless, or hold itself."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > MAX_SHOWN:
            return f"{text[:40]}..."
    return text


def _pieces(value: object) -> Iterator[str]:
    """Write a value piece by piece; each level gives one, so what is cut is not deep either."""
    if isinstance(value, list):
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(item)
        yield "]"
    elif isinstance(value, dict):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield ", " if place else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    else:
        yield show(value)


def printable(text: str) -> str:
    r"""Escape what is not printable: a terminal obeys control characters.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


IN_LINE = 100  # letters of a name in a line of its own, in place of a cell


def name_cell(name: str, most: int = 48) -> str:
    r"""Write a name from a trace into a cell: harmless, its middle left out where it is long.

    Examples
    --------
    >>> print(name_cell("a\x1b[31mb"), name_cell(""), name_cell("x" * 99, 7))
    a\x1b[31mb - xxx…xxx
    """
    text = printable(name if len(name) <= most else name[:most] + name[-most:])
    if len(text) > most or len(name) > most:
        head = most // 2
        text = f"{text[:head]}…{text[head + 1 - most :]}"
    return text or "-"


def place(path: str, line: int = 0) -> str:
    """Say where, for the start of a message: ``file:line``, or the file alone."""
    shown = path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}..."
    shown = shown if shown.isprintable() else ascii(shown)
    return f"{shown}:{line}" if line and shown else shown


def reason(error: Exception) -> str:
    """Quote the message of a library's error: on one line, and not the file that it may quote."""
    text = ascii(str(error) or type(error).__name__)[1:-1]
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}..."
