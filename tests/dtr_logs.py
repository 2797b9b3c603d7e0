"""DTR logs as text, a line at a time, for tests of the reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

START = '{"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}'
BACKWARD = '{"INSTRUCTION":"ANNOTATE","ANNOTATION":"BACKWARD"}'


def line(instruction: str, **keys: object) -> str:
    return json.dumps({"INSTRUCTION": instruction, **keys})


def constant(name: str, memory: object = "8") -> str:
    return "\n".join([line("CONSTANT", NAME=name), line("MEMORY", NAME=name, MEMORY=memory)])


def call(
    operator: str,
    args: Sequence[object],
    results: Sequence[str],
    *,
    memory: object = "4",
    alias: object = "-1",
    time: object = "10",
    **keys: object,
) -> str:
    lines = [line("CALL", NAME=operator, ARGS=args, RESULT=results, TIME=time, **keys)]
    for name in results:
        lines.append(line("MEMORY", NAME=name, MEMORY=memory))
        lines.append(line("ALIAS", NAME=name, ALIAS=alias))
    return "\n".join(lines)


def mutate(args: Sequence[str], positions: Sequence[object], **keys: object) -> str:
    return line("MUTATE", NAME="add_", ARGS=args, MUTATE=positions, TIME="5", **keys)


def copy(dst: str, src: str) -> str:
    return line("COPY", DST=dst, SRC=src)


def copy_from(dst: str, src: str) -> str:
    return line("COPY_FROM", DST=dst, SRC=src)


def release(name: str) -> str:
    return line("RELEASE", NAME=name)


def log(*lines: str) -> bytes:
    return "".join(f"{text}\n" for text in lines).encode()


def valid_lines() -> Iterable[str]:
    """A small log with everything in it."""
    return [
        line("ANNOTATE", ANNOTATION="warm-up"),
        START,
        constant("w", 64),
        constant("x", "16"),
        call("conv", ["x", "w"], ["y", "z"], PHASE="fwd", MODULE="net.0"),
        call("view", ["y"], ["v"], alias=0, memory="4"),
        copy("y2", "y"),
        release("y"),
        mutate(["y2", "w"], [0], PHASE="fwd"),
        release("never defined"),
        BACKWARD,
        constant("late", 0),
        call("conv_backward", ["y2", "v", "v"], ["g"], PHASE="bwd", MODULE="net.0", time=0),
        copy_from("z", "g"),
        line("ANNOTATE", ANNOTATION="BACKWARD of a name"),
        release("y2"),
    ]
