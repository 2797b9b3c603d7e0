"""Files to traces: finds the bytes, unpacks them, and asks the cache before a reader.

``load_trace`` reads one trace, ``load_traces`` any number. How a log is read is the business of
``importers/``; what a trace is, that of ``trace.py``.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from ..errors import TraceError
from .bundled import PREFIX as BUNDLED
from .bundled import bundled_path
from .importers import dtr_log
from .storing import store_trace, stored_trace
from .synthetic import PREFIX as SYNTHETIC
from .synthetic import synthetic
from .trace import Trace
from .unpacking import CHUNK, ZIP, check_size, stem, unpack
from .wording import place, show

if TYPE_CHECKING:
    from .archives import Archive, Member

STANDARD_INPUT = "-"
SEPARATOR = "::"  # between a zip and the log in it that is meant
AnyPath = str | os.PathLike[str]


def load_trace(path: AnyPath, *, name: str | None = None, cache: bool = True) -> Trace:
    """Read one trace.

    Parameters
    ----------
    path : str or path
        A log, plain or packed (.gz, .zst: its content decides); ``x.zip::log`` for one of a zip,
        by its name in the manifest, its path or its stem; ``-`` for standard input;
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
    if os.fspath(path).startswith(SYNTHETIC):
        trace = synthetic(os.fspath(path))
        return replace(trace, name=name) if name else trace
    file = _File(os.fspath(path), cache)
    if not file.is_zip:
        return file.trace(name)
    archive = file.archive()
    if not file.wanted and len(archive.members) > 1:
        hint = f"take one with {file.source}{SEPARATOR}NAME, or all with load_traces or sweep"
        raise TraceError(f"a zip of several logs; {archive.choices()}; {hint}", file.source)
    member = archive.find(file.wanted) if file.wanted else archive.members[0]
    return file.member_trace(archive, member, name)


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
    for path in paths:
        file = None if os.fspath(path).startswith(SYNTHETIC) else _File(os.fspath(path), cache)
        if file is None or not file.is_zip:
            traces.append(file.trace() if file else load_trace(path))
            continue
        archive = file.archive()
        members = [archive.find(file.wanted)] if file.wanted else archive.members
        traces.extend(file.member_trace(archive, member) for member in members)
    return traces


class _File:
    """A file that the user named, as bytes.

    Attributes
    ----------
    source : str
        How messages call it.
    wanted : str
        Which log of a zip is asked for, if one is.
    is_zip : bool
    """

    def __init__(self, path: str, cache: bool) -> None:
        self._given, _, self.wanted = path.partition(SEPARATOR)
        if self._given.startswith(BUNDLED):
            self._given = str(bundled_path(self._given))
        self._is_input = self._given == STANDARD_INPUT
        self.source = "<stdin>" if self._is_input else place(self._given)
        self._cached = cache and not self._is_input
        self._data = _read_input() if self._is_input else _read_file(self._given)
        self.is_zip = self._data.startswith(ZIP)
        if self.wanted and not self.is_zip:
            raise TraceError(f"no zip, so there is no {show(self.wanted)} in it", self.source)

    def trace(self, name: str | None = None) -> Trace:
        """Read the file as one log."""
        name = name or ("stdin" if self._is_input else stem(self._given))
        return self._load("", name, self.source, lambda: self._data)

    def archive(self) -> Archive:
        """Open the file as a zip."""
        from .archives import Archive

        return Archive(self._data, self.source)

    def member_trace(self, archive: Archive, member: Member, name: str | None = None) -> Trace:
        """Read one log of the zip."""
        source = f"{self.source}{SEPARATOR}{place(member.path)}"
        return self._load(
            member.path, name or member.name, source, lambda: archive.read(member.path)
        )

    def _load(self, member: str, name: str, source: str, read: Callable[[], bytes]) -> Trace:
        """Get a trace from the cache, or read it and put it there."""
        if not self._cached:
            return dtr_log.read(unpack(read(), source), name, source)
        key = f"{self._digest}-{member}"
        trace = stored_trace(key, name, source)
        if trace is None:
            trace = dtr_log.read(unpack(read(), source), name, source)
            store_trace(key, trace)
        return trace

    @functools.cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self._data).hexdigest()


def _read_input() -> bytes:
    """Read standard input."""
    return _read(sys.stdin.buffer, "<stdin>")


def _read_file(path: str) -> bytes:
    """Read a file."""
    where = place(path)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (a null character must not crash)
            return _read(file, where)
    except IsADirectoryError:
        raise TraceError("a folder; name the logs in it", where) from None
    except FileNotFoundError:
        raise TraceError("no such file", where) from None
    except OSError as error:
        raise TraceError(f"it cannot be read ({error.strerror})", where) from None
    except ValueError as error:
        raise TraceError(f"it cannot be read ({error})", where) from None


def _read(file: IO[bytes], where: str) -> bytes:
    """Read all there is, unless it is too much."""
    parts, size = [], 0
    while chunk := file.read(CHUNK):
        parts.append(chunk)
        size += len(chunk)
        check_size(size, size, where)
    return b"".join(parts)
