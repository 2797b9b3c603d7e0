"""Traces to files: the ending of the name decides the format.

``.trace`` is rematsim's own and keeps everything; ``.log`` and its like are DTR logs, for other
tools. Reading is the business of ``loading.py``.
"""

from __future__ import annotations

import os
from typing import Any

from ..errors import InputError, UnknownNameError
from .trace import Trace
from .unpacking import PACKED_SUFFIXES
from .wording import place, show

TRACE_SUFFIX = ".trace"
LOG_SUFFIX = ".log"
STANDARD_OUTPUT = "-"


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace.

    Parameters
    ----------
    trace : Trace
    path : str or path
        ``.trace``: a trace file, which keeps the whole trace. ``.log``, ``.log.gz``, ``.log.zst``,
        or ``-`` for standard output: a DTR log.

    Raises
    ------
    UnknownNameError
        The name ends in something else.
    TraceError
        A DTR log cannot say what the trace says.
    OutputError
        The file cannot be written; there is none then, or the old one.
    """
    path = file_name(path)
    if is_log(path):
        from .importers.dtr_writer import write_log

        write_log(trace, path)
    else:
        from .importers.trace_writer import write_trace

        write_trace(trace, path)


def file_name(path: Any) -> str:
    """Return the name of a file to write; refuse what is none.

    Raises
    ------
    InputError
        It is neither text nor a path.
    """
    try:
        return os.fsdecode(path)
    except TypeError:
        raise InputError(f"path {show(path)}: expected the name of a file") from None


def is_log(path: str) -> bool:
    """Say whether a name is that of a DTR log and not of a trace file.

    Raises
    ------
    UnknownNameError
        It is neither.
    """
    if path.endswith(TRACE_SUFFIX):
        return False
    name = path
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    if path == STANDARD_OUTPUT or name.endswith(LOG_SUFFIX):
        return True
    rule = "the name ends in .trace (keeps everything), or .log, .log.gz, .log.zst (DTR log)"
    raise UnknownNameError(f"{place(path)}: {rule}")
