"""Saving figures: PNG, SVG or PDF, byte for byte the same each time, whole or not at all.

No dates or versions go into the files. A file is written beside its place and then renamed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ..errors import OutputError, UnknownNameError

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
    beside = path.with_name(f".rematsim-{os.getpid()}{suffix}")
    try:
        try:
            with matplotlib.rc_context(SETTINGS):
                figure.savefig(beside, dpi=DPI, metadata=METADATA[suffix], format=suffix[1:])
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
    return path
