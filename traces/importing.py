"""Files of other tools to a trace, with a summary of what was made of them.

``load_trace`` reads the same files; here several of one run can be given, options say what a file
does not, and the summary is kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import TraceError, UnknownNameError, UsageError
from .devices import NAMES
from .devices import device as known_device
from .importers.json_files import NS_IN
from .importers.reader import Reader, Request, Summary
from .importers.registry import find_reader, read_with
from .loading import open_content
from .trace import MAX_VALUE, Trace
from .wording import show


class Import(NamedTuple):
    """What an import gives.

    Attributes
    ----------
    trace : Trace
    summary : Summary
        What was taken, inferred and dropped.
    format : str
        What the main file is.
    files : tuple of str
        The files: the main one, then its companions.
    """

    trace: Trace
    summary: Summary
    format: str
    files: tuple[str, ...]


def import_trace(
    paths: Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    device: str | None = None,
    time_unit: str | None = None,
    fixed_bytes: int = 0,
) -> Import:
    """Read the files of one run as one trace.

    Parameters
    ----------
    paths : sequence of str or path
        The file that is the trace, and others that say more about the same run, in any order.
    name : str, optional
        What the trace is to be called, in place of the file's stem.
    device : str, optional
        Device whose times are estimated where the files have none.
    time_unit : {"ns", "us", "ms", "s"}, optional
        Unit of times in a file that does not say it.
    fixed_bytes : int, optional
        Bytes in memory throughout that the files do not say (parameters beside a graph).

    Returns
    -------
    Import

    Raises
    ------
    TraceError
        A file breaks a rule of its format, or they do not belong together.
    UsageError
        No file is given, or a size that is none.
    UnknownNameError
        No device or unit has that name.
    """
    if not paths:
        raise UsageError("no files given: an import needs the one that is the trace")
    if device is not None and device not in NAMES:
        known_device(device)  # says which there are
    if time_unit is not None and time_unit not in NS_IN:
        raise UnknownNameError(f"time unit {show(time_unit)}: unknown; known: {', '.join(NS_IN)}")
    if not 0 <= fixed_bytes <= MAX_VALUE:
        raise UsageError(f"fixed bytes {show(fixed_bytes)}: not from 0 to 2^53")
    contents = [open_content(path) for path in paths]
    readers = [find_reader(content) for content in contents]
    main = _main(readers)
    reader, content = readers[main], contents[main]
    companions = tuple(contents[k] for k in range(len(contents)) if k != main)
    if companions and not getattr(reader, "TAKES_COMPANIONS", False):
        rule = f"{content.where} is a {reader.FORMAT}, which takes no companions"
        raise TraceError(f"not read: {rule}", companions[0].where)
    request = Request(
        content,
        name or content.name,
        content.where,
        companions,
        device=device,
        time_unit=time_unit,
        fixed_bytes=fixed_bytes,
    )
    imported = read_with(reader, request)
    files = (content.where, *(companion.where for companion in companions))
    return Import(imported.trace, imported.summary, reader.FORMAT, files)


def _main(readers: Sequence[Reader]) -> int:
    """Pick the file that is the trace: the first that can be one."""
    for k, reader in enumerate(readers):
        if not getattr(reader, "IS_COMPANION", False):
            return k
    return 0
