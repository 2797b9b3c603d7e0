"""Zip files of several logs, with an optional manifest.json that names them.

It finds the logs and hands out their bytes; nothing is ever written to disk. What is in a log is
not looked at here.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple, NoReturn

import msgspec

from ..errors import TraceError
from .unpacking import CHUNK, PACKED_SUFFIXES, check_size, stem
from .wording import place, reason, show

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20
LOG_SUFFIXES = (".log", ".jsonl", ".json", ".trace")
OTHER_SUFFIXES = (".csv", ".et", ".onnx", ".pickle")  # what may also be read, if there is no log
SAVED_RUN = "head.npy"  # in what RunResult.save writes, which is a zip
# What zipfile raises on damaged or hostile files.
_FAILURES = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
)


class Member(NamedTuple):
    """A log in a zip: what to call it, and its path there."""

    name: str
    path: str


class _Model(msgspec.Struct):
    name: str
    log: str


class _Manifest(msgspec.Struct):
    models: list[_Model]


class Archive:
    """A zip of logs.

    Parameters
    ----------
    data : bytes
        The zip.
    source : str
        Its path; errors start with it.

    Attributes
    ----------
    members : list of Member
        The logs: those that the manifest names, in its order, or else all of them.

    Raises
    ------
    TraceError
        It is damaged, holds no log, or a path in it leaves it or occurs twice.
    """

    def __init__(self, data: bytes, source: str) -> None:
        self._where = place(source)
        self._packed_bytes = len(data)
        self._unpacked_bytes = 0
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except _FAILURES as error:
            self._fail(f"the zip is damaged ({reason(error)})")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            self._check_path(entry.orig_filename)
            if entry.filename in self._entries and not entry.is_dir():
                self._fail(f"two files in the zip have the path {show(entry.filename)}")
            self._entries[entry.filename] = entry
        manifest = self._find_manifest()
        self.members = self._listed(manifest) if manifest else self._found()

    def find(self, wanted: str) -> Member:
        """Find a log by its name, by its path, or by its stem if no other log has that one."""
        for kind in range(3):
            found = {
                member.path: member
                for member in reversed(self.members)
                if wanted == (member.name, member.path, stem(member.path))[kind]
            }
            if len(found) > 1:
                paths = [place(path) for path in reversed(found)]
                shown = ", ".join(paths[:10]) + ", ..." * (len(paths) > 10)
                hint = "take one by its path"
                raise TraceError(f"{show(wanted)} is ambiguous: {shown}; {hint}", self._where)
            for member in found.values():
                return member
        raise TraceError(f"no log {show(wanted)} in it; {self.choices()}", self._where)

    def choices(self) -> str:
        """Say which logs there are."""
        shown = ", ".join(show(member.name) for member in self.members[:10])
        return f"it holds {shown}" + ", ..." * (len(self.members) > 10)

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Unpack one file of the zip, as long as it is no bomb."""
        entry = self._entries[path]
        where = f"{self._where}::{place(path)}"
        if entry.flag_bits & 1:
            raise TraceError("it is encrypted: unpack the zip with its password first", where)
        packed = min(entry.compress_size, self._packed_bytes)
        parts: list[bytes] = []
        size = 0
        check_size(entry.file_size, packed, where)
        try:
            with self._zip.open(entry) as file:
                while chunk := file.read(CHUNK):
                    parts.append(chunk)
                    size += len(chunk)
                    check_size(size, packed, where)
                    check_size(self._unpacked_bytes + size, self._packed_bytes, self._where)
                    if limit is not None and size > limit:
                        raise TraceError(f"larger than {limit:,} bytes", where)
        except _FAILURES as error:
            raise TraceError(f"it cannot be unpacked ({reason(error)})", where) from None
        self._unpacked_bytes += size
        return b"".join(parts)

    def _check_path(self, path: str) -> None:
        """Refuse a path that leaves the zip."""
        parts = path.replace("\\", "/").split("/")
        if ".." in parts or path.startswith(("/", "\\")) or "\0" in path or path[1:2] == ":":
            self._fail(f"the path {show(path)} leaves the zip")

    def _found(self) -> list[Member]:
        """List every log of a zip without a manifest."""
        for suffixes in (LOG_SUFFIXES, OTHER_SUFFIXES):
            paths = [path for path in self._entries if _is_log(path, suffixes)]
            if paths:
                break
        else:
            if SAVED_RUN in self._entries:
                self._fail("a saved run, no trace: rematsim plot draws it")
            known = ", ".join((*LOG_SUFFIXES, *OTHER_SUFFIXES))
            self._fail(f"no log in the zip: none of its files ends in one of {known}")
        names = _apart(_apart([stem(path) for path in paths], map(_bare, paths)), paths)
        return [Member(name, path) for name, path in zip(names, paths, strict=True)]

    def _find_manifest(self) -> str | None:
        """Find the manifest nearest the top."""
        named = [path for path in self._entries if path.rsplit("/", 1)[-1] == MANIFEST]
        return min(named, key=lambda path: path.count("/"), default=None)

    def _listed(self, manifest: str) -> list[Member]:
        """List the logs that the manifest names."""
        where = f"{self._where}::{place(manifest)}"
        try:
            models = msgspec.json.decode(self.read(manifest, MAX_MANIFEST_BYTES), type=_Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"no manifest of logs ({reason(error)})", where) from None
        folder = manifest[: -len(MANIFEST)]
        members: dict[str, Member] = {}
        for model in models.models:
            path = model.log if model.log in self._entries else folder + model.log
            if path not in self._entries:
                raise TraceError(f"log {show(model.log)}: no such file in the zip", where)
            if model.name in members:
                raise TraceError(f"two logs have the name {show(model.name)}", where)
            members[model.name] = Member(model.name, path)
        if not members:
            raise TraceError("it names no logs", where)
        return list(members.values())

    def _fail(self, message: str) -> NoReturn:
        """Reject the zip."""
        raise TraceError(message, self._where)


def _apart(names: list[str], longer: Iterable[str]) -> list[str]:
    """Replace the names that occur more than once by their longer forms."""
    counts = Counter(names)
    pairs = zip(names, longer, strict=True)
    return [name if counts[name] == 1 else long for name, long in pairs]


def _bare(path: str) -> str:
    """Leave out the suffix of a path, and that of packing."""
    for suffix in PACKED_SUFFIXES:
        path = path.removesuffix(suffix)
    return str(PurePosixPath(path).with_suffix(""))


def _is_log(path: str, suffixes: tuple[str, ...]) -> bool:
    """Say whether a file looks like a log."""
    name = path.rsplit("/", 1)[-1]
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.endswith(suffixes) and not name.startswith(".") and "__MACOSX" not in path
