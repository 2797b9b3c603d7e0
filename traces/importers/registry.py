"""Which readers there are, and which one a file is for: its content decides, never its name.

A reader is a module beside this one (``reader.py`` says what is in it). Modules are imported only
until one recognizes the file, so the common formats stand first.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ...errors import TraceError
from ...garbage import collection_paused
from ..provenance import Provenance
from .dtr_reader import MARK
from .reader import Content, Imported, Reader, Request

# Modules, in the order in which they are asked. What none of them recognizes is taken for a DTR
# log, whose reader says at which line it is none, if it looks like JSON or like a log further on.
READERS = (
    "trace_file",
    "dtr_reader",
    "nx_graph",
    "fx_graph",
    "op_table",
    "tensor_table",
    "execution_trace",
    "kineto",
    "chakra",
    "onnx_model",
    "memory_snapshot",
    "memory_timeline",
)
FALLBACK = "dtr_reader"
SQLITE = b"SQLite format 3\0"
PLAN = b'"rematsim plan '  # in the first line


def load_reader(module: str) -> Reader:
    """Import the reader of one of the modules in ``READERS``."""
    return cast(Reader, import_module(f".{module}", __package__))


def find_reader(content: Content) -> Reader:
    """Find the reader of a file.

    Raises
    ------
    TraceError
        The file cannot be unpacked, or is of no known format.
    """
    head = content.head
    for module in READERS:
        reader = load_reader(module)
        if reader.recognizes(head):
            return reader
    is_json = head.lstrip()[:1] in (b"", b"{", b"[")
    if not (is_json or MARK in head) or PLAN in head.partition(b"\n")[0]:
        raise TraceError(_unknown(head, content.where), content.where)
    return load_reader(FALLBACK)


def _unknown(head: bytes, where: str) -> str:
    """Say of a file that is of no known format what it may be."""
    if head.startswith(SQLITE):
        return "a table of runs (SQLite), no trace: rematsim plot draws it"
    if PLAN in head.partition(b"\n")[0]:
        return "a plan, no trace: rematsim execute runs it on its trace"
    if where.endswith(".py"):
        return "a script, no trace: rematsim capture makes one of it"
    return "none of the formats that rematsim reads: see rematsim list formats"


def read_with(reader: Reader, request: Request) -> Imported:
    """Read a file; readers make many objects and no cycles, so none are looked for meanwhile.

    The trace knows its provenance.

    Raises
    ------
    TraceError
        The file breaks a rule of its format.
    """
    with collection_paused():
        imported = reader.read(request)
    if getattr(reader, "KEEPS_PROVENANCE", False):
        return imported
    files = (request.where, *(companion.where for companion in request.companions))
    provenance = Provenance(reader.FORMAT, files, imported.summary)
    return imported._replace(trace=imported.trace.made_from(provenance))
