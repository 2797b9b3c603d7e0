"""`compare`: runs of one trace side by side: curves, where they part, what each keeps and pays for.

Reads event logs and simulates nothing; what one keeps and the other does not is `plan_diff.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .errors import InputError, UsageError
from .opcodes import (
    ACTIONS,
    BANISH_STORAGE,
    COMPUTE,
    DEALLOCATE,
    DROP_DUPLICATE,
    EVICT,
    PIN,
    RECOMPUTE,
    STALL,
)
from .overheads import overhead_parts, summed
from .plan import has_moved, plan_of_run
from .plan_diff import Difference, compare_plans
from .result import RunResult
from .story import NONE, Story
from .traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_RUNS, MOST_RUNS = 2, 26
LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PARTS = 10
DROPS = (EVICT, DEALLOCATE, BANISH_STORAGE)


@dataclass(frozen=True)
class Doing:
    """What one run does where two part.

    Attributes
    ----------
    action : str
        ``compute``, ``recompute``, ``evict`` and so on; ``end`` if the run does nothing more.
    row : int
        Of its event log; -1 at the end.
    time_ns, memory_bytes : int
        When, and what is in memory just before.
    call : str
        The call that runs; of an eviction the one that needs the room.
    storage, name : int, str
        The storage that is made or dropped; -1 at the end.
    bytes : int
    """

    action: str
    row: int
    time_ns: int
    memory_bytes: int
    call: str
    storage: int
    name: str
    bytes: int


@dataclass(frozen=True)
class Parting:
    """The first difference of two runs.

    Attributes
    ----------
    actions : int
        So many they do alike before it.
    first, second : Doing
        What each does then.
    """

    actions: int
    first: Doing
    second: Doing


class SideBySide:
    """Runs of one trace, the first of them the measure of the others.

    Parameters
    ----------
    runs : sequence of RunResult
        With their event logs.
    trace : Trace, optional
        What they are runs of.

    Attributes
    ----------
    labels : list of str
        ``A``, ``B`` and so on.
    """

    def __init__(self, runs: Sequence[RunResult], trace: Trace | None = None) -> None:
        if not LEAST_RUNS <= len(runs) <= MOST_RUNS:
            raise UsageError(
                f"runs ({len(runs)}): from {LEAST_RUNS} to {MOST_RUNS} are compared, "
                "as in rematsim compare A.run B.run"
            )
        self.runs, self.trace = list(runs), trace
        self.labels = list(LABELS[: len(runs)])
        for (label, run), (next_label, following) in pairwise(zip(self.labels, runs, strict=True)):
            _check_alike((label, run), (next_label, following))
        self.stories = [Story(run, trace) for run in runs]

    def curves(self, parts: int = PARTS) -> list[list[int | None]]:
        """Give the most memory of each run in equal parts of the longest one's time.

        Returns
        -------
        list of list of int or None
            A row for each part with a column for each run; None after a run's end.
        """
        ends = [_end_ns(run) for run in self.runs]
        edges = [max(ends) * part // parts for part in range(parts)]
        edges.append(max(ends) + 1)
        columns = [
            [_highest(story, low, high, end) for low, high in pairwise(edges)]
            for story, end in zip(self.stories, ends, strict=True)
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    @cached_property
    def overhead(self) -> list[tuple[str, list[int]]]:
        """Overhead by module: each module with the ns that it costs each run, the dearest first."""
        tables = [
            {part.module: part.total_ns for part in summed(overhead_parts(story), ("module",))}
            for story in self.stories
        ]
        modules = dict.fromkeys(module for table in tables for module in table)
        rows = [(module, [table.get(module, 0) for table in tables]) for module in modules]
        return sorted(rows, key=lambda row: (-max(row[1]), row[0]))

    def parting(self, other: int = 1) -> Parting | None:
        """Find the first action in which a run differs from the first one; None if in none.

        What no run decides (constants, pins, second copies) is left aside, and why a storage is
        dropped: a plan has one word for it.
        """
        return self._parting(other, _actions)

    def recomputation(self, other: int = 1) -> Parting | None:
        """Find the first difference in what is computed again, whatever else is done between."""
        return self._parting(other, _recomputed)

    def kept(self, other: int = 1) -> list[Difference] | None:
        """Say what the first run keeps or recomputes and another does not; see `compare_plans`.

        None where that cannot be told: `why_not_kept`.
        """
        if self.why_not_kept(other):
            return None
        pair = self.runs[0], self.runs[other]
        assert self.trace is not None
        program = self.stories[0].program
        assert program is not None
        return compare_plans(self.trace, *(plan_of_run(program, run) for run in pair))

    def why_not_kept(self, other: int = 1) -> str:
        """Say why `kept` cannot be told; nothing if it can."""
        pair = self.runs[0], self.runs[other]
        if self.trace is None:
            return "--trace tells"
        if any(run.status != "ok" for run in pair):
            return "both have to end ok to tell"
        if any(has_moved(run) for run in pair):
            return "not told of runs that move data"
        return ""

    def _parting(self, other: int, choose: Callable[[Story], NDArray[np.int64]]) -> Parting | None:
        stories = self.stories[0], self.stories[other]
        rows = [choose(story) for story in stories]
        first, second = (_codes(story, own) for story, own in zip(stories, rows, strict=True))
        common = min(len(first), len(second))
        differs = np.flatnonzero((first[:common] != second[:common]).any(axis=1))
        if not len(differs) and len(first) == len(second):
            return None
        at = int(differs[0]) if len(differs) else common
        return Parting(at, *(_doing(s, own, at) for s, own in zip(stories, rows, strict=True)))


def _check_alike(one: tuple[str, RunResult], other: tuple[str, RunResult]) -> None:
    """Refuse runs that have no common axis."""
    (label, run), (next_label, following) = one, other
    if run.trace_digest != following.trace_digest:
        raise InputError(
            f"runs of different traces: {label} is of {_trace_of(run)}, "
            f"{next_label} of {_trace_of(following)}"
        )
    if run.mutation != following.mutation:
        raise InputError(
            f"runs under different lowerings: {label} has mutation {run.mutation!r}, "
            f"{next_label} {following.mutation!r}; their storages are not the same"
        )


def _trace_of(run: RunResult) -> str:
    return f"{run.trace[:60]!r} ({run.trace_digest[:16]})"


def _end_ns(run: RunResult) -> int:
    assert run.events is not None
    return int(run.events["end_ns"].max(initial=0))


def _highest(story: Story, low: int, high: int, end: int) -> int | None:
    """Give the most memory from one time to another; None after the run's end."""
    if low >= end and low > 0:
        return None
    first, last = np.searchsorted(story.moments, (low, high)).tolist()
    first = max(first - 1, 0)  # what was there when this part began
    return int(story.memory[first : max(last, first + 1)].max(initial=0))


def _actions(story: Story) -> NDArray[np.int64]:
    """Rows of what a run decides or does."""
    action, call = story.events["action"], story.events["call"]
    is_idle = np.isin(action, (PIN, DROP_DUPLICATE, STALL))
    return np.flatnonzero(~is_idle & ((call >= 0) | (action != COMPUTE)))


def _recomputed(story: Story) -> NDArray[np.int64]:
    """Rows of recomputations."""
    return np.flatnonzero(story.events["action"] == RECOMPUTE)


def _codes(story: Story, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give what happens in rows so that equal things are equal: kind, storage, tensor."""
    action = story.events["action"][rows]
    kind = np.where(np.isin(action, DROPS), EVICT, action)
    return np.stack([kind, story.events["storage"][rows], story.events["tensor"][rows]], axis=1)


def _doing(story: Story, rows: NDArray[np.int64], at: int) -> Doing:
    """Say what a run does at one of some rows, or that it has ended."""
    events = story.events
    if at >= len(rows):
        last = int(story.memory[-1]) if len(story.memory) else 0
        return Doing("end", NONE, _end_ns(story.result), last, "", NONE, "", 0)
    row = int(rows[at])
    storage = int(events["storage"][row])
    call = int(max(events["call"][row], events["cause_call"][row]))
    return Doing(
        action=ACTIONS[events["action"][row]],
        row=row,
        time_ns=int(events["start_ns"][row]),
        memory_bytes=int(story.memory[row - 1]) if row else 0,
        call="" if call < 0 else story.name_of(call),
        storage=storage,
        name=str(story.storages["name"][storage]),
        bytes=int(events["bytes"][row]),
    )


def compare(runs: Sequence[RunResult], trace: Trace | None = None) -> SideBySide:
    """Put runs of one trace side by side.

    Parameters
    ----------
    runs : sequence of RunResult
        From two on, online or of plans, each with its event log.
    trace : Trace, optional
        What they are runs of: with it calls have their names, and `SideBySide.kept` can be told.

    Returns
    -------
    SideBySide

    Raises
    ------
    InputError
        If a run has no event log, or they are of different traces or lowerings.

    Examples
    --------
    >>> from rematsim.simulation import simulate
    >>> from rematsim.traces.synthetic import chain
    >>> trace = chain(6)
    >>> lru, largest = (simulate(trace, h, 5, event_log=True) for h in ("h_LRU", "h_size"))
    >>> both = compare([lru, largest], trace)
    >>> parting = both.parting()
    >>> parting.actions, parting.first.action, parting.first.name, parting.second.name
    (4, 'evict', 't1', 't3')
    >>> both.overhead
    [('', [2, 5])]
    >>> compare([lru, lru]).parting() is None
    True
    """
    return SideBySide(runs, trace)
