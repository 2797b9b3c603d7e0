"""Reader of DTR logs, as the registry asks for it; how a log is read is in ``dtr_log.py``."""

from __future__ import annotations

from . import dtr_log
from .dtr_lines import find_start
from .reader import Imported, Request, Summary

FORMAT = "DTR log"
MARK = b'"INSTRUCTION"'


def recognizes(head: bytes) -> bool:
    """Say whether the first line is an instruction."""
    first = head.lstrip()
    return first.startswith(b"{") and MARK in first[: first.find(b"\n") + 1 or None]


def read(request: Request) -> Imported:
    """Read a log; nothing is inferred, and what stands before the step, if anything, is dropped."""
    data = request.data.bytes()
    trace = dtr_log.read(data, request.name, request.where)
    _, line, start = find_start(data)
    n_before = line - 2 if start else 0
    taken = {"operator calls": trace.n_calls, "constants": trace.n_constants}
    dropped = {"lines before START (warm-up)": n_before} if n_before else {}
    return Imported(trace, Summary(taken, dropped=dropped))
