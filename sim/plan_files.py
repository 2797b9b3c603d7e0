"""Plans in files: JSON lines, a head and then an action a line, plain or compressed by gzip.

The format is described in docs/plan-format.md. Whatever is wrong with a file is one line that names
the file, and the line where there is one.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import msgspec
import numpy as np

from .errors import PlanError
from .files import write_atomically
from .lowering import MUTATIONS
from .plan import PLAN_ACTIONS, Plan
from .traces.unpacking import ChunkFile

PLAN_FORMAT = "rematsim plan 1"
GZIP = b"\x1f\x8b"
MAX_HEAD, MAX_LINE = 1 << 16, 64  # bytes
MAX_TARGET = 2**31 - 1
MAX_ACTIONS = 50_000_000  # a small file can unpack to very much
MAX_EMPTY = 1000  # lines without anything, beyond one for each action
CHUNK, UNPACKED_CHUNK = 1 << 16, 1 << 20  # bytes
_MARK = PLAN_FORMAT.rpartition(" ")[0].encode()
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Head(msgspec.Struct):
    """The first line of a file."""

    format: str
    trace_digest: str
    mutation: str
    actions: int
    trace: str = ""
    method: str = ""
    source: str = ""


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan to a file; compressed if its name ends in ``.gz``.

    Raises
    ------
    OutputError
        If the file cannot be written; then there is none.
    """
    names = (
        name.encode("utf-8", "backslashreplace").decode()
        for name in (plan.trace, plan.method, plan.source)
    )
    head = Head(PLAN_FORMAT, plan.trace_digest, plan.mutation, len(plan), *names)
    lines = [msgspec.json.encode(head).decode()]
    lines += [f'["{PLAN_ACTIONS[action]}",{target}]' for action, target in plan]
    content = ("\n".join(lines) + "\n").encode()
    with write_atomically(path) as file:
        is_packed = str(path).lower().endswith(".gz")
        file.write(gzip.compress(content, 6, mtime=0) if is_packed else content)


def load_plan(path: str | Path) -> Plan:
    """Read a plan from a file that `save_plan`, or somebody, wrote.

    Raises
    ------
    PlanError
        If there is no such file, or it is not what docs/plan-format.md says.
    """
    try:
        with Path(path).open("rb") as file:
            is_packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            content = io.BufferedReader(ChunkFile(_unpacked(file))) if is_packed else file
            return _Reader(str(path), content).plan()
    except (EOFError, zlib.error) as error:
        raise PlanError(f"{path}: damaged, it cannot be unpacked ({error})") from None
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or error}") from None


def looks_like_plan(path: str | Path) -> bool:
    """Say whether a file is meant to be a plan, by how it begins or by its name."""
    if str(path).lower().endswith((".plan", ".plan.gz")):
        return True
    try:
        with Path(path).open("rb") as file:
            begin = file.read(CHUNK)
    except OSError:
        return False
    if begin.startswith(GZIP):
        try:
            begin = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16).decompress(begin, CHUNK)
        except zlib.error:
            return False
    return begin.lstrip().startswith(b"{") and _MARK in begin.partition(b"\n")[0]


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """Unpack one part of gzip, of which a plan is, in little memory whatever is in it."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)
    while not unpacker.eof:
        chunk = unpacker.unconsumed_tail or file.read(CHUNK)
        if not chunk:
            raise EOFError("its end is missing")
        yield unpacker.decompress(chunk, UNPACKED_CHUNK)
    if unpacker.unused_data or file.read(1):
        raise EOFError("something stands behind its end")


class _Reader:
    """Reads one file, a line at a time, none of them longer than it may be."""

    def __init__(self, where: str, content: IO[bytes]) -> None:
        self.where = where
        self.content = content

    def plan(self) -> Plan:
        """Read the head and then the actions."""
        head = self._head()
        code_of = {name: code for code, name in enumerate(PLAN_ACTIONS)}
        action, target = bytearray(), array("i")
        decode = msgspec.json.Decoder(tuple[str, int]).decode
        for number, line in self._lines(head.actions + MAX_EMPTY):
            if len(action) == head.actions:
                self._fail(f"line {number}: more than the {head.actions:,} actions of its head")
            try:
                name, where = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._fail(f'line {number} ({_shown(line)}): an action is as ["FREE", 12]')
            if name not in code_of:
                known = ", ".join(PLAN_ACTIONS)
                self._fail(f"line {number}: action {_shown(name.encode())}: it is one of {known}")
            if not 0 <= where <= MAX_TARGET:
                self._fail(f"line {number}: {name} {where}: a number from 0 to {MAX_TARGET:,}")
            action.append(code_of[name])
            target.append(where)
        if len(target) < head.actions:
            self._fail(f"ends after {len(target):,} of its {head.actions:,} actions")
        return Plan(
            np.frombuffer(bytes(action), np.int8),
            np.frombuffer(target, np.intc).astype(np.int32),
            head.trace_digest,
            head.mutation,
            head.trace,
            head.method,
            head.source,
            self.where,
        )

    def _head(self) -> Head:
        line = self.content.readline(MAX_HEAD)
        try:
            stated: Any = msgspec.json.decode(line)
            version = stated["format"]
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, KeyError, RecursionError):
            self._fail("no plan: its first line is not the head of one")
        if version != PLAN_FORMAT:
            self._fail(f"format {_shown(str(version).encode())}: expected {PLAN_FORMAT!r}")
        try:
            head = msgspec.convert(stated, Head)
        except msgspec.MsgspecError as error:
            self._fail(f"head: {error}")
        if not _DIGEST.fullmatch(head.trace_digest):
            self._fail("head: trace_digest: 64 hexadecimal digits")
        if head.mutation not in MUTATIONS:
            self._fail(f"head: mutation {head.mutation!r}: it is one of {', '.join(MUTATIONS)}")
        if not 0 <= head.actions <= MAX_ACTIONS:
            self._fail(f"head: actions ({head.actions}): a number from 0 to {MAX_ACTIONS:,}")
        return head

    def _lines(self, most_empty: int) -> Iterator[tuple[int, bytes]]:
        """Give the numbers and texts of the lines that are not empty."""
        number, empty = 1, 0
        while line := self.content.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                self._fail(f"line {number}: longer than {MAX_LINE} bytes")
            if text := line.strip():
                yield number, text
                continue
            empty += 1
            if empty > most_empty:
                self._fail(f"line {number}: more than {most_empty:,} empty lines")

    def _fail(self, message: str) -> NoReturn:
        raise PlanError(f"{self.where}: {message}")


def _shown(text: bytes) -> str:
    """Show what stands in a file, cut and on one line."""
    return ascii(text[:40].decode("utf-8", "replace"))
