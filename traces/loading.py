"""Files to traces."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from .importers import dtr_log
from .trace import Trace


def _stem(path: str) -> str:
    name = Path(path).name
    for suffix in (".gz", ".zst", ".log", ".jsonl"):
        name = name.removesuffix(suffix)
    return name


def load_trace(path: str | Path, *, name: str | None = None, cache: bool = True) -> Trace:
    """Read a trace."""
    path, _, member = str(path).partition("::")
    if member:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(member)
    else:
        data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return dtr_log.read(data, name or _stem(member or path), str(path))


def load_traces(paths: Iterable[str | Path], *, cache: bool = True) -> list[Trace]:
    """Read traces; a zip holds several."""
    traces = []
    for path in paths:
        if not str(path).endswith(".zip"):
            traces.append(load_trace(path))
            continue
        with zipfile.ZipFile(path) as archive:
            for model in msgspec.json.decode(archive.read("logs/manifest.json"))["models"]:
                traces.append(load_trace(f"{path}::{model['log']}", name=model["name"]))
    return traces
