"""Files to traces: finds the content, and asks the cache before a reader.

``load_trace`` reads one trace, ``load_traces`` any number. Which format a file has and how it is
read is the business of ``importers/``; what a trace is, that of ``trace.py``.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import TraceError
from .bundled import PREFIX as BUNDLED
from .bundled import bundled_path
from .contents import Content, chunks_of
from .importers.reader import Request
from .importers.registry import find_reader, read_with
from .importers.trace_header import MAGIC as TRACE_FILE
from .storing import store_trace, stored_trace
from .synthetic import PREFIX as SYNTHETIC
from .synthetic import synthetic
from .trace import Trace
from .unpacking import ZIP, stem
from .wording import place, show

if TYPE_CHECKING:
    from .archives import Archive, Member

STANDARD_INPUT = "-"
SEPARATOR = "::"  # between a zip and the log in it that is meant
AnyPath = str | bytes | os.PathLike[str]


def load_trace(path: AnyPath, *, name: str | None = None, cache: bool = True) -> Trace:
    """Read one trace.

    Parameters
    ----------
    path : str or path
        A trace file, a log, or a file of any format that ``importers/`` reads, plain or packed
        (.gz, .zst): its content decides. ``x.zip::log`` for one of a zip, by its name in the
        manifest, its path or its stem; ``-`` for standard input;
        ``bundled:NAME`` for one that ships with rematsim; ``synthetic:chain:1000`` and the like
        (``synthetic.py``).
    name : str, optional
        What tables call the trace, in place of the manifest's name or the file's stem.
    cache : bool, optional
        Whether to look for it in the cache, and to put it there.

    Returns
    -------
    Trace

    Raises
    ------
    TraceError
        There is no such file, it is no log, or a line of it breaks a rule.
    """
    path = os.fsdecode(path)
    if path.startswith(SYNTHETIC):
        trace = synthetic(path)
        return replace(trace, name=name) if name else trace
    file = _File(path, cache)
    if not file.is_zip:
        return file.trace(name)
    archive = file.archive()
    return file.member_trace(archive, file.only_member(archive), name)


def load_traces(paths: Iterable[AnyPath], *, cache: bool = True) -> list[Trace]:
    """Read traces; a zip may hold several.

    Parameters
    ----------
    paths : iterable of str or path
        Each as for ``load_trace``; a zip stands for all its logs, in the manifest's order.
    cache : bool, optional
        As for ``load_trace``.

    Returns
    -------
    list of Trace

    Raises
    ------
    TraceError
        As ``load_trace``.
    """
    traces = []
    for path in map(os.fsdecode, paths):
        file = None if path.startswith(SYNTHETIC) else _File(path, cache)
        if file is None or not file.is_zip:
            traces.append(file.trace() if file else load_trace(path))
            continue
        archive = file.archive()
        members = [archive.find(file.wanted)] if file.wanted else archive.members
        traces.extend(file.member_trace(archive, member) for member in members)
    return traces


def open_content(path: AnyPath) -> Content:
    """Open one file for a reader.

    Parameters
    ----------
    path : str or path
        As for ``load_trace``, but ``synthetic:``.

    Raises
    ------
    TraceError
        It cannot be read, or is a zip of several files.
    """
    file = _File(os.fsdecode(path), cache=False)
    if not file.is_zip:
        return file.content
    archive = file.archive()
    return file.member_content(archive, file.only_member(archive))


class _File:
    """A file that the user named.

    Attributes
    ----------
    content : Content
    source : str
        How messages call it.
    wanted : str
        Which log of a zip is asked for, if one is.
    is_zip : bool
    """

    def __init__(self, path: str, cache: bool) -> None:
        given, _, self.wanted = path.partition(SEPARATOR)
        where = place(given)
        if given.startswith(BUNDLED):
            given = str(bundled_path(given))
            where = place(os.path.basename(given))  # noqa: PTH119 (a text, as where is)
        is_input = given == STANDARD_INPUT
        self.content = _read_input() if is_input else Content.of_file(given, where)
        self.content.name = "stdin" if is_input else stem(given)
        self.source = self.content.where
        head = self.content.packed_head()
        is_quick = head.startswith(TRACE_FILE)  # as the cache
        self._cached = cache and not (self.content.is_stream or is_quick)
        self.is_zip = head.startswith(ZIP)
        if self.wanted and not self.is_zip:
            raise TraceError(f"no zip, so there is no {show(self.wanted)} in it", self.source)

    def trace(self, name: str | None = None) -> Trace:
        """Read the file as one log."""
        return self._load("", name or self.content.name, self.source, lambda: self.content)

    def archive(self) -> Archive:
        """Open the file as a zip."""
        from .archives import Archive

        return Archive(self.content.packed_bytes(), self.source)

    def member_trace(self, archive: Archive, member: Member, name: str | None = None) -> Trace:
        """Read one log of the zip."""
        source = f"{self.source}{SEPARATOR}{place(member.path)}"
        return self._load(
            member.path, name or member.name, source, lambda: self.member_content(archive, member)
        )

    def only_member(self, archive: Archive) -> Member:
        """Pick the log that is asked for, or the only one."""
        if not self.wanted and len(archive.members) > 1:
            hint = f"take one with {self.source}{SEPARATOR}NAME, or all with load_traces or sweep"
            raise TraceError(f"a zip of several logs; {archive.choices()}; {hint}", self.source)
        return archive.find(self.wanted) if self.wanted else archive.members[0]

    def member_content(self, archive: Archive, member: Member) -> Content:
        """Unpack one log of the zip."""
        source = f"{self.source}{SEPARATOR}{place(member.path)}"
        return Content.of_bytes(archive.read(member.path), source, member.name)

    def _load(self, member: str, name: str, source: str, read: Callable[[], Content]) -> Trace:
        """Get a trace from the cache, or read it and put it there."""
        if not self._cached:
            return _read_trace(read(), name, source)
        key = f"{self._digest}-{member}"
        trace = stored_trace(key, name, source)
        if trace is None:
            trace = _read_trace(read(), name, source)
            store_trace(key, trace)
        return trace

    @functools.cached_property
    def _digest(self) -> str:
        return self.content.digest()


def _read_trace(content: Content, name: str, source: str) -> Trace:
    """Read a trace of whatever format."""
    return read_with(find_reader(content), Request(content, name, source)).trace


def _read_input() -> Content:
    """Read standard input."""
    where = "<stdin>"
    return Content.of_stream(chunks_of(sys.stdin.buffer, where), where)
