"""Saving figures: PNG, SVG or PDF, byte for byte the same each time, whole or not at all.

No dates or versions go into the files. A file is written beside its place and then renamed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ..errors import UnknownNameError
from ..files import write_atomically

DPI = 200

# Suffix -> entries that would otherwise differ from one day or one version to the next.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}
SETTINGS: dict[Any, Any] = {"svg.hashsalt": "rematsim", "svg.fonttype": "path", "pdf.fonttype": 42}


def check_suffix(path: str | Path) -> str:
    """Return the suffix of a figure's file, in lower case.

    Raises
    ------
    UnknownNameError
        If it is none of those that `save_figure` writes.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in METADATA:
        raise UnknownNameError(
            f"{path}: unknown kind of figure ({suffix or 'no suffix'!r}): "
            f"a figure ends in {', '.join(METADATA)}"
        )
    return suffix


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Save a figure in the format that the suffix says.

    Parameters
    ----------
    figure : Figure
        Any figure of this package.
    path : str or Path
        Ends in .png, .svg or .pdf; a file already there is replaced, in one step.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    UnknownNameError
        If the suffix is another one.
    OutputError
        If the file cannot be written; nothing is left behind then.
    """
    path = Path(path)
    suffix = check_suffix(path)
    with matplotlib.rc_context(SETTINGS), write_atomically(path) as file:
        figure.savefig(file, dpi=DPI, metadata=METADATA[suffix], format=suffix[1:])
    return path
