"""Writing files so that a reader never sees half of one, and no spreadsheet runs what is in it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import OutputError

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


@contextmanager
def write_atomically(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside ``path``; it takes its place when the block ends well.

    Raises
    ------
    OutputError
        If the file cannot be made, written or put in place; then nothing is left behind.
    """
    path = Path(path).resolve()  # a link stays a link
    if path.is_dir():
        raise OutputError(f"{path}: it is a folder")
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
        with _open_special(path) as file:
            yield file
        return
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OutputError(f"{path}: cannot write here: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {error.strerror or error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


@contextmanager
def _open_special(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def as_cell(value: object) -> object:
    """Keep a spreadsheet from taking a text for a formula: a quotation mark goes before it.

    Examples
    --------
    >>> as_cell("=1+1"), as_cell("unet"), as_cell("-1"), as_cell(-1)
    ("'=1+1", 'unet', '-1', -1)
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _is_number(value):
        return value
    return f"'{value}"


def from_cell(text: str) -> str:
    """Take that quotation mark away.

    Examples
    --------
    >>> from_cell("'=1+1"), from_cell("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
