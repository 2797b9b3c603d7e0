"""Traces in the cache: as they were read, so that a log is decoded only once.

It turns a Trace into what ``cache.py`` stores and back; when to look there is for ``loading.py``.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from .cache import Value, cache_get, cache_put
from .provenance import Provenance
from .trace import ARRAYS, TEXTS, Trace

SEPARATOR = "\0"


@functools.cache
def reader_digest() -> str:
    """Digest the sources of this package: what another version made of a log is not trusted."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted([*folder.glob("*.py"), *folder.glob("importers/*.py")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def stored_trace(key: str, name: str, source: str) -> Trace | None:
    """Get the trace that was stored under a key, if there is one."""
    entry = cache_get(f"trace-{reader_digest()}-{key}")
    if entry is None:
        return None
    fields: dict[str, Any] = {field: entry[field] for field in ARRAYS}
    for field in TEXTS:
        texts = entry[field]
        if isinstance(texts, str):
            fields[f"packed_{field}"] = texts
        else:
            fields[field] = tuple(texts)
    fields["rebinding"] = entry["rebinding"]
    fields["times_estimated"] = entry["times_estimated"] == "yes"
    fields["digest"] = entry["digest"]
    fields["provenance"] = _provenance(str(entry["provenance"]), source)
    return Trace.restore({**fields, "name": name, "source": source})


def store_trace(key: str, trace: Trace) -> None:
    """Store a trace under a key."""
    entry: dict[str, Value] = {field: getattr(trace, field) for field in ARRAYS}
    for field in TEXTS:
        entry[field] = _join(getattr(trace, field))
    entry["rebinding"] = trace.rebinding
    entry["times_estimated"] = "yes" if trace.times_estimated else "no"
    entry["digest"] = trace.digest
    entry["provenance"] = msgspec.json.encode(trace.provenance).decode()
    cache_put(f"trace-{reader_digest()}-{key}", entry)


def _provenance(text: str, source: str) -> Provenance | None:
    """Read what was stored of a file, which may be at another place now."""
    provenance = msgspec.json.decode(text, type=Provenance | None)
    return provenance and replace(provenance, files=(source,))


def _join(texts: tuple[str, ...]) -> str | list[str]:
    """Make one text of many, where none holds the separator."""
    joined = SEPARATOR.join(texts)
    return joined if texts and joined.count(SEPARATOR) == len(texts) - 1 else list(texts)
