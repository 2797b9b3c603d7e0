"""What is in memory at an instant of a run, and where an instant is in its event log.

Every byte of the row's `memory_after_bytes` is in the answer, once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from .errors import UsageError
from .opcodes import RECOMPUTE
from .story import NONE, Step, Story

PEAK, END = "peak", "end"
UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_TIME = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*(ns|us|µs|ms|s)")
FORMS = "a call's number (120), a time (1.5ms), peak or end"


@dataclass(frozen=True)
class LivePart:
    """Storages of one category, module and operator that are in memory.

    Attributes
    ----------
    category, module, operator : str
    bytes, recomputed_bytes : int
        All of it, and what of it was recomputed.
    storages : int
        How many.
    """

    category: str
    module: str
    operator: str
    bytes: int
    recomputed_bytes: int
    storages: int


@dataclass(frozen=True)
class LiveStorage:
    """A storage that is in memory, and whether its data are original or recomputed."""

    storage: int
    name: str
    bytes: int
    category: str
    module: str
    operator: str
    is_recomputed: bool


@dataclass(frozen=True)
class Instant:
    """What is in memory at one instant.

    Attributes
    ----------
    moment : str
        The peak, the end, a call or a time, as it was asked for.
    time_ns : int
    running : str
        The call that is running then; empty where none is.
    total_bytes : int
        Of the storages below, second copies and workspace.
    second_copy_bytes, workspace_bytes : int
        Results of the running call that were there already; what it needs only while it runs.
    parts : list of LivePart
        The largest first.
    storages : list of LiveStorage
        The largest first.
    is_exact : bool
        False at a peak that only the trace could place: with a workspace, of an unknown call.
    """

    moment: str
    time_ns: int
    running: str
    total_bytes: int
    second_copy_bytes: int
    workspace_bytes: int
    parts: list[LivePart]
    storages: list[LiveStorage]
    is_exact: bool = True

    def by(self, *fields: str) -> list[LivePart]:
        """Sum the parts by some of category, module and operator; the others are empty."""
        return merged(self.parts, fields)


def merged(parts: Iterable[LivePart], fields: tuple[str, ...]) -> list[LivePart]:
    """Sum parts by some of their texts, the largest first."""
    sums: dict[tuple[str, ...], LivePart] = {}
    for part in parts:
        key = tuple(getattr(part, field) for field in fields)
        known = sums.get(key)
        if known is None:
            empty = {f: "" for f in ("category", "module", "operator") if f not in fields}
            sums[key] = replace(part, **empty)  # type: ignore[arg-type]
        else:
            counts = ("bytes", "recomputed_bytes", "storages")
            added = {name: getattr(known, name) + getattr(part, name) for name in counts}
            sums[key] = replace(known, **added)
    return sorted(sums.values(), key=lambda p: (-p.bytes, p.category, p.module, p.operator))


def instant(story: Story, at: str | int = PEAK) -> Instant:
    """Say what is in memory at an instant of a run.

    Parameters
    ----------
    story : Story
    at : str or int
        ``"peak"``, ``"end"``, a call's number (while it runs for the first time, its results
        placed), or a time as in ``"1.5ms"`` (after all that happens then).

    Returns
    -------
    Instant

    Raises
    ------
    InputError
        If it cannot be read, or the run has no such instant.
    """
    text = str(at).strip()
    if text in (PEAK, END) and not len(story.memory):  # not even a constant fitted
        return Instant(text, 0, "", 0, 0, 0, [], [])
    if text == PEAK:
        row, step = _at_row(story, story.peak_row)
    elif text == END:
        row, step = len(story.memory) - 1, None
    elif text.isdecimal():
        step = first_step(story, int(text[:20]))
        row = step.last_row
    else:
        row, step = _at_time(story, text)
    return _instant(story, text, row, step)


def first_step(story: Story, call: int) -> Step:
    """Find the first run of a call."""
    found = next((step for step in story.steps if step.call == call), None)
    if found is None:
        raise UsageError(
            f"call {call}: the run has none of that number; "
            f"its calls go from 0 to {max((s.call for s in story.steps), default=NONE)}"
        )
    return found


def _at_row(story: Story, row: int) -> tuple[int, Step | None]:
    """Give the step that a row is the last of, if it is one."""
    step = story.step_at(row)
    return row, step if step is not None and step.last_row == row else None


def _at_time(story: Story, text: str) -> tuple[int, Step | None]:
    """Find the last row that has happened at a time, and what is running then."""
    read = _TIME.fullmatch(text)
    if read is None:
        raise UsageError(f"instant ({text[:40]!r}): it is {FORMS}")
    time_ns = int(Decimal(read[1]) * UNITS[read[2]])
    end_ns = int(story.events["end_ns"].max(initial=0))
    if time_ns > end_ns or not len(story.memory):
        raise UsageError(f"instant ({text}): the run ends at {end_ns} ns")
    row = int(np.searchsorted(story.moments, time_ns, "right")) - 1
    step = story.step_at(row)
    return row, step if step is not None and step.end_ns > time_ns else None


def _instant(story: Story, moment: str, row: int, step: Step | None) -> Instant:
    held = np.zeros(len(story.storages["bytes"]), np.int64)
    np.add.at(held, story.events["storage"][: row + 1], story.changes[: row + 1])
    sizes = np.asarray(story.storages["bytes"], np.int64)
    copies = int(np.maximum(held - sizes, 0).sum())
    held = np.minimum(held, sizes)
    workspace = story.workspace_of(step) if step is not None else 0
    total = int(story.memory[row]) + workspace
    live = _live_storages(story, row, held)
    return Instant(
        moment=moment,
        time_ns=int(story.events["start_ns"][row]) if step is None else step.start_ns,
        running="" if step is None else story.name_of(step.call),
        total_bytes=total,
        second_copy_bytes=copies,
        workspace_bytes=workspace,
        parts=merged(map(_part, live), ("category", "module", "operator")),
        storages=live,
        is_exact=moment != PEAK or total == story.result.peak_bytes,
    )


def _live_storages(story: Story, row: int, held: np.ndarray) -> list[LiveStorage]:
    """List what is in memory, the largest first."""
    placed = story.placements[story.placements <= row]
    last = np.zeros(len(held), np.int64)
    np.maximum.at(last, story.events["storage"][placed], placed)
    again = story.events["action"][last] == RECOMPUTE
    there = np.flatnonzero(held)
    there = there[np.argsort(-held[there], kind="stable")]
    texts = ("category", "module", "operator")
    return [
        LiveStorage(
            storage=s,
            name=str(story.storages["name"][s]),
            bytes=int(held[s]),
            **{field: str(story.storages[field][s]) for field in texts},
            is_recomputed=bool(again[s]),
        )
        for s in there.tolist()
    ]


def _part(live: LiveStorage) -> LivePart:
    again = live.bytes if live.is_recomputed else 0
    return LivePart(live.category, live.module, live.operator, live.bytes, again, 1)
