"""Reader of the DTR log format: JSON, one instruction a line.

It turns lines into builder calls and knows nothing else; what a log means is in ``builder.py``.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...opcodes import PHASES
from ..builder import MAX_VALUE, TraceBuilder
from ..trace import Trace

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_VALUE)]


class Line(msgspec.Struct, tag_field="INSTRUCTION", rename="upper", gc=False):
    """An instruction of the log."""


class Annotate(Line, tag="ANNOTATE"):
    annotation: str


class Constant(Line, tag="CONSTANT"):
    name: str


class Memory(Line, tag="MEMORY"):
    name: str
    memory: Count


class Alias(Line, tag="ALIAS"):
    name: str
    alias: int


class Call(Line, tag="CALL"):
    name: str
    args: list[str]
    result: list[str]
    time: Count
    phase: str = ""
    module: str = ""


class Mutate(Line, tag="MUTATE"):
    name: str
    args: list[str]
    mutate: list[int]
    time: Count
    phase: str = ""
    module: str = ""


class Copy(Line, tag="COPY"):
    dst: str
    src: str


class CopyFrom(Line, tag="COPY_FROM"):
    dst: str
    src: str


class Release(Line, tag="RELEASE"):
    name: str


DECODER = msgspec.json.Decoder(
    Annotate | Constant | Memory | Alias | Call | Mutate | Copy | CopyFrom | Release, strict=False
)


def read(data: bytes, name: str, source: str) -> Trace:
    """Read a log."""
    builder = TraceBuilder(name, source)
    records = DECODER.decode_lines(data)
    start = next(
        (i for i, r in enumerate(records) if isinstance(r, Annotate) and r.annotation == "START"),
        -1,
    )
    i = start + 1
    while i < len(records):
        r = records[i]
        i += 1
        line = i
        if isinstance(r, Release):
            builder.release(r.name, line)
        elif isinstance(r, Copy):
            builder.copy(r.dst, r.src, line)
        elif isinstance(r, CopyFrom):
            builder.copy_from(r.dst, r.src, line)
        elif isinstance(r, Constant):
            builder.constant(r.name, records[i].memory, line)
            i += 1
        elif isinstance(r, Mutate):
            builder.call(
                r.name,
                r.args,
                (),
                r.time,
                mutates=r.mutate,
                line=line,
                phase=PHASES.index(r.phase),
                module=r.module,
            )
        elif isinstance(r, Call):
            results = []
            for n in r.result:
                results.append((n, records[i].memory, records[i + 1].alias))
                i += 2
            builder.call(
                r.name,
                r.args,
                results,
                r.time,
                line=line,
                phase=PHASES.index(r.phase),
                module=r.module,
            )
        elif isinstance(r, Annotate) and r.annotation == "BACKWARD":
            builder.backward(line)
    return builder.build()
