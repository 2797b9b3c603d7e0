"""Writer of the DTR log format: what it writes, the reader reads as an equal trace.

What the format cannot say is either said with keys and marks that other readers pass over
(``REMATSIM_...``) or, where passing over it would change what the log means, refused.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from ...errors import TraceError
from ...files import write_atomically
from ...opcodes import CALL, CONSTANT, COPY, COPY_FROM, PHASES, RELEASE
from ..trace import Trace
from ..wording import place, show

HINT = "a .trace keeps it, and rematsim export makes a log of that"

STANDARD_OUTPUT = "-"
LINES_PER_WRITE = 4096


def write_log(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as a DTR log.

    Parameters
    ----------
    trace : Trace
    path : str or path
        Compressed if it ends in .gz or .zst; ``-`` is standard output.

    Raises
    ------
    TraceError
        The format cannot say what the trace says.
    OutputError
        The file cannot be written; there is none then, or the old one.
    """
    refuse_inexpressible(trace)
    path = os.fspath(path)
    with _open(path) as raw, _packed(raw, path) as file:
        for chunk in encoded(trace):
            file.write(chunk)


def refuse_inexpressible(trace: Trace) -> None:
    """Raise TraceError if the format cannot say what a trace says."""
    views = np.flatnonzero(trace.result_alias < -1)
    mutating = np.diff(trace.mutate_offsets) > 0
    both = np.flatnonzero(mutating & (np.diff(trace.result_offsets) > 0))
    if len(views):
        call = int(np.searchsorted(trace.result_offsets, views[0], side="right")) - 1
        _refuse(trace, call, "a result is a view of another result")
    if len(both):
        _refuse(trace, int(both[0]), "it has results and mutates operands")
    if trace.rebinding != "listed":
        rule = "a mutation there changes what the listed names mean, not all names of the storage"
        where = place(trace.source or trace.name)
        raise TraceError(f"cannot be written as a DTR log: {rule}; {HINT}", where)


def _refuse(trace: Trace, call: int, why: str) -> None:
    """Name the call that cannot be written."""
    operator = show(trace.operators[trace.call_operator[call]])
    where = place(trace.source or trace.name, int(trace.call_line[call]))
    raise TraceError(
        f"call {call} ({operator}) cannot be written as a DTR log: {why}; {HINT}", where
    )


def encoded(trace: Trace) -> Iterator[bytes]:
    """Give a log as bytes, many lines at a time; the trace is one that the format can express."""
    encoder, lines = msgspec.json.Encoder(), log_lines(trace)
    while batch := list(islice(lines, LINES_PER_WRITE)):
        yield encoder.encode_lines(batch)


def log_lines(trace: Trace) -> Iterator[dict[str, Any]]:
    """Give the instructions of a log, in order."""
    names = trace.names
    start = {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}
    yield start | ({"REMATSIM_TIMES": "estimated"} if trace.times_estimated else {})
    for code, a, b in trace.instructions.tolist():
        if code == CALL:
            yield from _call_lines(trace, a)
        elif code == CONSTANT:
            yield {"INSTRUCTION": "CONSTANT", "NAME": names[a]}
            yield _memory_line(names[a], int(trace.constant_bytes[b]))
        elif code == RELEASE:
            yield {"INSTRUCTION": "RELEASE", "NAME": names[a]}
        elif code == COPY:
            yield {"INSTRUCTION": "COPY", "DST": names[a], "SRC": names[b]}
        elif code == COPY_FROM:
            yield {"INSTRUCTION": "COPY_FROM", "DST": names[a], "SRC": names[b]}
        else:
            yield {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "BACKWARD"}


def _call_lines(trace: Trace, call: int) -> Iterator[dict[str, Any]]:
    """Give the lines of a call and of its results."""
    names = trace.names
    args = slice(*trace.arg_offsets[call : call + 2])
    results = slice(*trace.result_offsets[call : call + 2])
    mutates = slice(*trace.mutate_offsets[call : call + 2])
    line = {
        "INSTRUCTION": "CALL",
        "NAME": trace.operators[trace.call_operator[call]],
        "ARGS": [names[k] for k in trace.arg_names[args]],
        "RESULT": [names[k] for k in trace.result_names[results]],
        "TIME": str(trace.call_time_ns[call]),
    }
    if not line["RESULT"]:
        del line["RESULT"]
        line |= {"INSTRUCTION": "MUTATE", "MUTATE": trace.mutate_args[mutates].tolist()}
    yield line | _optional(trace, call)
    for k in range(results.start, results.stop):
        name = names[trace.result_names[k]]
        yield _memory_line(name, int(trace.result_bytes[k]))
        yield {"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": str(trace.result_alias[k])}


def _optional(trace: Trace, call: int) -> dict[str, Any]:
    """Give the keys that a call has only if there is something to say."""
    module, forward = trace.call_module[call], int(trace.call_forward[call])
    said = {
        "PHASE": PHASES[trace.call_phase[call]],
        "MODULE": trace.modules[module] if module >= 0 else "",
        "REMATSIM_WORKSPACE": int(trace.call_workspace_bytes[call]),
        "REMATSIM_TAGS": int(trace.call_tags[call]),
    }
    said = {key: value for key, value in said.items() if value}
    return said | ({"REMATSIM_FORWARD": forward} if forward >= 0 else {})


def _memory_line(name: str, size_bytes: int) -> dict[str, str]:
    """Give the line that says how large a tensor is."""
    return {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": str(size_bytes)}


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    """Open what is written to; a pipe or a device is not replaced."""
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir():
        with Path(path).open("wb") as file:
            yield file
    else:
        with write_atomically(os.path.realpath(path)) as file:
            yield file


def _packed(raw: IO[bytes], path: str) -> Any:
    """Compress what is written, if the name says so."""
    if path.endswith(".gz"):
        return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
    if path.endswith(".zst"):
        import zstandard

        return zstandard.ZstdCompressor().stream_writer(raw, closefd=False)
    return nullcontext(raw)
