"""A limit on the memory that a library may take while it reads what may be hostile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def memory_limited(more_bytes: int) -> Iterator[None]:
    """Let the process take only so much more memory, on systems that know how."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        now = pages * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = now + more_bytes
        if soft != resource.RLIM_INFINITY:
            limit = min(limit, soft)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ImportError, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
