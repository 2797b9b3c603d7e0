"""A report of several files: a section for each, and what all of it was made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from .content import Fact, Report, Section, shown
from .run_section import run_section

if TYPE_CHECKING:
    from ..explaining import Explanation

PIECE = 1 << 20


def report(parts: Sequence[Explanation | str | Path], files: Iterable[str | Path] = ()) -> Report:
    """Put a report together.

    Parameters
    ----------
    parts : sequence of Explanation, str or Path
        Runs, as `explain` tells them, and tables of runs, as the .sqlite or .csv of a sweep.
    files : iterable of str or Path, optional
        What it was made of: their digests stand in it.

    Returns
    -------
    Report
    """
    sections = [_section(part) for part in parts]
    title = sections[0].title if len(sections) == 1 else f"{len(sections)} files"
    digests: list[Fact] = [(shown(Path(path).name), f"sha256 {_digest(path)}") for path in files]
    return Report(title, sections, [("rematsim", __version__), *digests])


def _section(part: Explanation | str | Path) -> Section:
    if isinstance(part, str | Path):
        from .table_section import table_section

        return table_section(part)
    return run_section(part)


def _digest(path: str | Path) -> str:
    """Give the digest of a file."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
