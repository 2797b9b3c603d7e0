"""Reader of DTR logs, as the registry asks for it; how a log is read is in ``dtr_log.py``."""

from __future__ import annotations

from . import dtr_log
from .reader import Imported, Request, Summary

FORMAT = "DTR log"
MARK = b'"INSTRUCTION"'


def recognizes(head: bytes) -> bool:
    """Say whether the first line is an instruction."""
    first = head.lstrip()
    return first.startswith(b"{") and MARK in first[: first.find(b"\n") + 1 or None]


def read(request: Request) -> Imported:
    """Read a log; nothing is inferred, and only marks that mean nothing are dropped."""
    trace = dtr_log.read(request.data.bytes(), request.name, request.where)
    taken = {"operator calls": trace.n_calls, "constants": trace.n_constants}
    return Imported(trace, Summary(taken))
