"""The traces that ship with rematsim: their names and where they are.

They are trace files of real training steps; ``data/README.md`` says how each was made. Reading
them is the business of ``loading.py``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ..errors import UnknownNameError

PREFIX = "bundled:"
_SUFFIX = ".trace"


def bundled_traces() -> dict[str, Path]:
    """Return the path of each bundled trace by its name, in alphabetical order.

    Examples
    --------
    >>> "resnet32" in bundled_traces()
    True
    """
    folder = Path(str(resources.files(__package__))) / "data"
    return {path.stem: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}


def bundled_path(name: str) -> Path:
    """Return the path of one bundled trace; ``name`` may begin with ``bundled:``.

    Raises
    ------
    UnknownNameError
        If no bundled trace has that name.
    """
    known = bundled_traces()
    try:
        return known[name.removeprefix(PREFIX)]
    except KeyError:
        raise UnknownNameError(
            f"bundled trace {name.removeprefix(PREFIX)!r}: unknown; known: {', '.join(known)}"
        ) from None
