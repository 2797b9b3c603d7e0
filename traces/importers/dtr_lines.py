"""Lines of a DTR log: what each instruction holds, and how bytes become instructions.

Decoding a block of lines at once is quick but cannot say what is wrong; decoding them one by one
is slow and says so exactly. Both accept the same lines. What instructions mean is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NoReturn

import msgspec

from ...errors import TraceError
from ...opcodes import PHASES, TAGS
from ..trace import MAX_VALUE
from ..wording import place, reason, show

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_VALUE)]
AliasIndex = Annotated[int, msgspec.Meta(ge=-1, le=MAX_VALUE)]
CallIndex = Annotated[int, msgspec.Meta(ge=-1, le=MAX_VALUE, description="call")]
TagBits = Annotated[int, msgspec.Meta(ge=0, lt=2 ** len(TAGS))]
Phase = Literal["", "fwd", "bwd", "opt"]
Names = list[str]
Indices = list[Count]

# What a value that is refused should have been.
RULES: dict[Any, str] = {
    str: "not a string",
    Count: "not an integer from 0 to 2^53",
    AliasIndex: "neither -1 nor the index of an argument",
    CallIndex: "neither -1 nor the index of a call",
    TagBits: f"not an integer from 0 to {2 ** len(TAGS) - 1}",
    Phase: f"none of {', '.join(PHASES[1:])}",
    Names: "not an array of strings",
    Indices: "not an array of indices of arguments",
}


class Line(msgspec.Struct, tag_field="INSTRUCTION", rename="upper", gc=False):
    """One instruction; ``code`` tells its kind to arrays."""

    code: ClassVar[int]


class Annotate(Line, tag="ANNOTATE"):
    """A mark: START, BACKWARD, or something to be ignored."""

    code: ClassVar[int] = 0
    annotation: str
    rematsim_times: str = ""


class Constant(Line, tag="CONSTANT"):
    """A tensor that no call makes; MEMORY follows."""

    code: ClassVar[int] = 1
    name: str


class Memory(Line, tag="MEMORY"):
    """Size of the tensor just made."""

    code: ClassVar[int] = 2
    name: str
    memory: Count


class Alias(Line, tag="ALIAS"):
    """Which argument the result is a view of."""

    code: ClassVar[int] = 3
    name: str
    alias: AliasIndex


class Operator(Line, kw_only=True):
    """What a call and a mutating call have in common."""

    name: str
    args: Names
    time: Count
    phase: Phase = ""
    module: str = ""
    rematsim_workspace: Count = 0
    rematsim_forward: CallIndex = -1
    rematsim_tags: TagBits = 0


class Call(Operator, tag="CALL"):
    """An operator call; MEMORY and ALIAS of each result follow."""

    code: ClassVar[int] = 4
    mutate: ClassVar[tuple[int, ...]] = ()
    result: Names


class Mutate(Operator, tag="MUTATE"):
    """An operator that changes some of its arguments."""

    code: ClassVar[int] = 5
    result: ClassVar[tuple[str, ...]] = ()
    mutate: Indices


class Copy(Line, tag="COPY"):
    """Another name for a tensor."""

    code: ClassVar[int] = 6
    dst: str
    src: str


class CopyFrom(Line, tag="COPY_FROM"):
    """A name that means another tensor from now on."""

    code: ClassVar[int] = 7
    dst: str
    src: str


class Release(Line, tag="RELEASE"):
    """A name that the program drops."""

    code: ClassVar[int] = 8
    name: str


Instruction = Annotate | Constant | Memory | Alias | Call | Mutate | Copy | CopyFrom | Release
KINDS: dict[str, type[Line]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Annotate, Constant, Memory, Alias, Call, Mutate, Copy, CopyFrom, Release)
}
NEWLINE = ord("\n")
ABOUT_A_TENSOR = ("MEMORY", "ALIAS", "RELEASE")
Numbered = tuple[int, Instruction]

_decoder = msgspec.json.Decoder(Instruction, strict=False)
_FAILURES = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


def find_start(data: bytes) -> tuple[int, int, Annotate | None]:
    """Find where the log proper begins: after the first START, or at the top without one.

    Returns
    -------
    offset, line : int
        Of the first line to read.
    start : Annotate or None
        The mark, if there is one.
    """
    found = data.find(b'"START"')
    while found >= 0:
        begin = data.rfind(b"\n", 0, found) + 1
        end = data.find(b"\n", found) + 1 or len(data)
        try:
            record = _decoder.decode(data[begin:end])
        except _FAILURES:
            record = None
        if isinstance(record, Annotate) and record.annotation == "START":
            return end, data.count(b"\n", 0, end) + 1, record
        found = data.find(b'"START"', end)
    return 0, 1, None


def decode_block(data: bytes, begin: int, end: int) -> list[Instruction] | None:
    """Decode lines at once.

    Parameters
    ----------
    data : bytes
    begin, end : int
        Where the lines are.

    Returns
    -------
    list of Instruction, or None
        None if some line is no instruction, or there are blank lines, or two on one.
    """
    try:
        records = _decoder.decode_lines(memoryview(data)[begin:end])
    except _FAILURES:
        return None
    n_lines = data.count(b"\n", begin, end) + (data[end - 1] != NEWLINE)
    n_begins = data.count(b"\n{", begin, end) + data.startswith(b"{", begin)
    return records if len(records) == n_lines == n_begins else None


def decode_one_by_one(
    data: bytes, first_line: int, source: str, begin: int = 0
) -> Iterator[Numbered]:
    """Decode line by line, from ``begin`` on; blank lines are passed over.

    Raises
    ------
    TraceError
        At the first line that is no instruction; the message says why.
    """
    number = first_line
    while begin < len(data):
        end = data.find(b"\n", begin) + 1 or len(data)
        line = data[begin:end].strip()
        if line:
            try:
                record = _decoder.decode(line)
            except _FAILURES as error:
                is_cut = end == len(data) and not data.endswith(b"\n")
                _explain(line, place(source, number), is_cut, error)
            yield number, record
        number, begin = number + 1, end


def _explain(line: bytes, where: str, is_cut: bool, error: Exception) -> NoReturn:
    """Say what is wrong with a line that cannot be decoded."""
    try:
        values = msgspec.json.decode(line)
    except _FAILURES as failure:
        is_cut = is_cut and "truncated" in str(failure)
        hint = "; the file ends in the middle of it, it may be cut off" if is_cut else ""
        raise TraceError(f"not JSON ({reason(failure)}){hint}", where) from None
    if not isinstance(values, dict):
        raise TraceError(f"not an instruction: {show(values)} is no JSON object", where)
    given = values.get("INSTRUCTION")
    if "INSTRUCTION" not in values:
        raise TraceError("not an instruction: no INSTRUCTION", where)
    if not isinstance(given, str) or given not in KINDS:
        raise TraceError(f"unknown instruction {show(given)}; known: {', '.join(KINDS)}", where)
    what = given
    if isinstance(values.get("NAME"), str):
        what += f"{' of' if given in ABOUT_A_TENSOR else ''} {show(values['NAME'])}"
    for field in msgspec.structs.fields(KINDS[given]):
        key = field.encode_name
        if key not in values:
            if field.required:
                raise TraceError(f"{what}: no {key}", where)
        elif not _fits(values[key], field.type):
            said = show(values[key]) if key == given else f"{key} {show(values[key])}"
            raise TraceError(f"{what}: {said} is {RULES[field.type]}", where)
    raise TraceError(f"not an instruction ({reason(error)})", where)


def _fits(value: Any, kind: Any) -> bool:
    """Say whether a decoded value is what a field takes."""
    try:
        msgspec.convert(value, kind, strict=False)
    except _FAILURES:
        return False
    return True
