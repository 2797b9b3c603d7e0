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
from typing import NamedTuple, NoReturn

import msgspec

from ..errors import TraceError
from .unpacking import CHUNK, PACKED_SUFFIXES, check_size, stem
from .wording import place, reason, show

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20
LOG_SUFFIXES = (".log", ".jsonl", ".json", ".trace")
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
        It is damaged, holds no log, or a path in it leaves it.
    """

    def __init__(self, data: bytes, source: str) -> None:
        self._where = place(source)
        self._packed_bytes = len(data)
        self._unpacked_bytes = 0
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            self._entries = {entry.filename: entry for entry in self._zip.infolist()}
        except _FAILURES as error:
            self._fail(f"the zip is damaged ({reason(error)})")
        for entry in self._entries.values():
            self._check_path(entry.orig_filename)
        manifest = self._find_manifest()
        self.members = self._listed(manifest) if manifest else self._found()

    def find(self, wanted: str) -> Member:
        """Find a log by the manifest's name, by its path, or by its stem."""
        for kind in range(3):
            for member in self.members:
                if wanted == (member.name, member.path, stem(member.path))[kind]:
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
        paths = [path for path in self._entries if _is_log(path)]
        if not paths:
            self._fail(f"no log in the zip: none of its files ends in {' or '.join(LOG_SUFFIXES)}")
        return [Member(stem(path), path) for path in paths]

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


def _is_log(path: str) -> bool:
    """Say whether a file looks like a log."""
    name = path.rsplit("/", 1)[-1]
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.endswith(LOG_SUFFIXES) and not name.startswith(".") and "__MACOSX" not in path
