"""How results are written: numbers for people, JSON and CSV for programs.

Files appear whole or not at all. Nothing here knows what the numbers mean.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO

import click

from ..errors import OutputError
from ..files import as_cell, write_atomically
from ..texts import format_bytes as format_bytes
from ..texts import format_count as format_count
from ..texts import format_ns as format_ns
from ..traces.wording import IN_LINE as IN_LINE
from ..traces.wording import name_cell as name_cell
from ..traces.wording import place, printable

MOST_LETTERS = 1000  # of a value


def format_counts(counts: Mapping[str, int]) -> list[str]:
    """Write how many there are of what, names first: they fit one as well as many.

    What there is none of is left out.

    Examples
    --------
    >>> format_counts({"calls": 1234, "copies": 0}), format_counts({})
    (['calls: 1,234'], ['nothing'])
    """
    return [f"{kind}: {format_count(n)}" for kind, n in counts.items() if n] or ["nothing"]


def tell(line: str) -> None:
    """Say something beside the results, on standard error; names in it stay harmless."""
    click.echo(f"rematsim: {printable(line)}", err=True)


def print_path(path: str) -> None:
    """Print the path of what was written: as it is for a program, harmlessly on a terminal."""
    click.echo(printable(path) if sys.stdout.isatty() else path)


def print_json(value: object) -> None:
    """Print JSON: a list with an item a line, an object with a field a line."""
    if isinstance(value, list):
        lines = ",\n".join(json.dumps(item, allow_nan=False) for item in value)
        click.echo(f"[\n{lines}\n]" if lines else "[]")
    else:
        click.echo(json.dumps(value, indent=2, allow_nan=False))


def print_fields(fields: Mapping[str, str]) -> None:
    """Print names and values in two columns; a value that a name makes endless loses its middle."""
    width = max(map(len, fields))
    for name, value in fields.items():
        half = MOST_LETTERS // 2
        shown = value if len(value) <= MOST_LETTERS else f"{value[:half]}…{value[-half:]}"
        click.echo(printable(f"{name:<{width}}  {shown}".rstrip()))


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], n_text: int | Collection[int] = 1
) -> None:
    """Print a table of text and numbers: ``n_text`` first columns are text, or these columns."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, title in enumerate(header):
        is_text = index < n_text if isinstance(n_text, int) else index in n_text
        table.add_column(title, justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(printable(str(cell)) for cell in row))
    # Never cut to the width of a terminal: a wide table is meant to be scrolled or piped.
    console = Console(highlight=False, markup=False, soft_wrap=True, width=10_000)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        if line.strip():
            click.echo(line.rstrip())


def write_csv(
    path: str | Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]
) -> None:
    """Write rows as CSV; None is an empty field, and no text a formula.

    Raises
    ------
    OutputError
        If the file cannot be written; one that was there before is then unchanged.
    """
    with _opened(Path(path)) as binary:
        file = TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", newline="")
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: as_cell(cell) for name, cell in row.items()} for row in rows)
        file.flush()
        file.detach()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written whole; a device or a pipe, which cannot be replaced, as it is."""
    if path.is_file() or not path.exists():
        with write_atomically(path) as file:
            yield file
        return
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {error.strerror or error}") from None


def check_writable(path: str | Path | None) -> None:
    """Refuse a place where nothing can be written, before any work is done for it."""
    if path is None:
        return
    path = Path(path)
    folder, shown = path.resolve().parent, place(str(path))
    if path.is_dir():
        raise OutputError(f"{shown}: is a folder; give the name of a file in it")
    if not folder.is_dir():
        raise OutputError(f"{shown}: there is no folder {place(str(folder))}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise OutputError(f"{shown}: cannot be written (no permission)")
