"""Processes that tests start: which of a group are left, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def processes_of(group: int) -> list[int]:
    """Find the processes of a group that are not dead already."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 300.0) -> bool:
    """Wait for something that other processes do, after they have compiled what they need."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
