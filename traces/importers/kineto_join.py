"""Times and frees of an execution trace's operators, from the Kineto trace of the same run.

Which event is which operator is settled in ``kineto_match.py``. Memory events have addresses, no
ids: an allocation while an operator runs, of a size that fits, is that of a storage it makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .et_operators import Run
from .et_storages import END, Lives, Step
from .kineto import Profile
from .kineto_match import NONE, match

Int64 = NDArray[np.int64]

CUDA, CPU = 1, 0
# What summaries call storages whose allocation, and whose free, has been found.
FOUND, FREED = "storages found among the allocations", "storages freed in the profile"
ROUNDING = 512  # the GPU allocator's, bytes
MAX_EXCESS = 1 << 20  # what it may leave at a block's end beyond that, bytes


class Joined(NamedTuple):
    """What a profile tells about steps.

    Attributes
    ----------
    times_ns, workspaces : list of int
        Of each step; workspaces are measured if there are memory events, else None.
    taken, inferred, dropped : dict of str to int
        As in ``Summary``.
    """

    times_ns: list[int]
    workspaces: list[int] | None
    taken: dict[str, int]
    inferred: dict[str, int]
    dropped: dict[str, int]


class _Spans(NamedTuple):
    """When each step ran, for one occurrence of the run; -1 where it was not found."""

    thread: Int64
    start_ns: Int64
    end_ns: Int64


def join(run: Run, lives: Lives, profile: Profile) -> Joined:
    """Take times, and date the storages whose frees the profile has.

    Parameters
    ----------
    run : Run
    lives : Lives
        Its storages are dated where the profile says when they were freed.
    profile : Profile

    Returns
    -------
    Joined

    Raises
    ------
    TraceError
        The profile is of another run.
    """
    nodes = [node for node in run.nodes if node.schema]
    matched = match(nodes, profile)
    place_of = {node.id: place for place, node in enumerate(nodes)}
    places = [place_of.get(step.operator.node, NONE) for step in lives.steps]
    rows = np.where(np.array(places) == NONE, NONE, matched.rows[:, places])
    columns = profile.operators.arrays()
    spans = [_spans(row, columns) for row in rows]
    found = rows != NONE
    taken = {
        f"operators found by {matched.how}": int((matched.rows[-1] != NONE).sum()),
        "occurrences of the run in the profile": len(rows),
    }
    dropped: dict[str, int] = {}
    if len(profile.work) and lives.device != "cpu":
        times, dropped = _device_times(spans, profile)
    else:
        times = np.where(found, columns["duration_ns"][np.maximum(rows, 0)], 0)
    medians = _medians(times, found)
    inferred = {"calls not found in the profile, 0 ns": int((~found.any(axis=0)).sum())}
    workspaces = None
    if len(profile.memory):
        memory = _Memory(lives, spans[-1], profile, _next_start(matched.rows[-1], columns))
        memory.replay()
        workspaces = memory.workspaces
        taken |= memory.taken
        dropped |= memory.dropped
    return Joined(medians, workspaces, taken, _nonzero(inferred), _nonzero(dropped))


def _nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {what: count for what, count in counts.items() if count}


def _spans(rows: Int64, columns: dict[str, Int64]) -> _Spans:
    """Look up when steps ran."""
    kept = np.maximum(rows, 0)
    is_found = rows != NONE
    start = np.where(is_found, columns["start_ns"][kept], NONE)
    end = np.where(is_found, start + columns["duration_ns"][kept], NONE)
    return _Spans(np.where(is_found, columns["thread"][kept], NONE), start, end)


def _next_start(rows: Int64, columns: dict[str, Int64]) -> int:
    """Say when the first operator began that came after all of the run; END if none did."""
    found = rows[rows != NONE]
    ended = (columns["start_ns"][found] + columns["duration_ns"][found]).max(initial=NONE)
    starts = columns["start_ns"]
    return int(starts[starts > ended].min(initial=END))


def _medians(times: Int64, found: NDArray[np.bool_]) -> list[int]:
    """Give the median time of each step over the times that it occurs."""
    if len(times) == 1:
        return [int(time) for time in times[0]]
    middle = [
        np.median(column[seen]) if seen.any() else 0 for column, seen in _columns(times, found)
    ]
    return [int(time) for time in middle]


def _columns(times: Int64, found: NDArray[np.bool_]) -> Iterator[tuple[Int64, NDArray[np.bool_]]]:
    return zip(times.T, found.T, strict=True)


def _device_times(spans: list[_Spans], profile: Profile) -> tuple[Int64, dict[str, int]]:
    """Add up, for each step, the kernels and copies that it launched."""
    launches, work = profile.launches.arrays(), profile.work.arrays()
    order = np.argsort(launches["correlation"], kind="stable")
    known = launches["correlation"][order]
    places = np.minimum(np.searchsorted(known, work["correlation"]), max(len(known) - 1, 0))
    is_launched = known[places] == work["correlation"] if len(known) else np.zeros(0, bool)
    launch = order[places[is_launched]] if len(known) else np.zeros(0, np.int64)
    durations = work["duration_ns"][is_launched] if len(known) else np.zeros(0, np.int64)
    thread, start = launches["thread"][launch], launches["start_ns"][launch]
    times = np.zeros((len(spans), len(spans[0].thread)), np.int64)
    used = 0
    for occurrence, span in enumerate(spans):
        step = _step_at(span, thread, start)
        np.add.at(times[occurrence], step[step != NONE], durations[step != NONE])
        used += int((step != NONE).sum())
    return times, {"kernels outside of all calls": len(profile.work) - used}


def _step_at(span: _Spans, thread: Int64, when: Int64) -> Int64:
    """Find the step that ran on a thread at a time, or -1; steps of a thread do not overlap."""
    found = np.full(len(when), NONE, np.int64)
    for number in np.unique(span.thread[span.thread != NONE]):
        steps = np.flatnonzero(span.thread == number)
        steps = steps[np.argsort(span.start_ns[steps], kind="stable")]
        mine = np.flatnonzero(thread == number)
        place = np.searchsorted(span.start_ns[steps], when[mine], side="right") - 1
        candidate = steps[np.maximum(place, 0)]
        is_in = (place >= 0) & (when[mine] <= span.end_ns[candidate])
        found[mine[is_in]] = candidate[is_in]
    return found


class _Memory:
    """Replays memory events against steps, and dates storages.

    What is freed after the last step and before ``next_start``, when something else ran, is freed
    by the run.
    """

    def __init__(self, lives: Lives, span: _Spans, profile: Profile, next_start: int) -> None:
        self._steps = lives.steps
        self._device = lives.device
        events = profile.memory.arrays()
        kept = np.flatnonzero(_is_on(events, lives.device))
        kept = kept[np.argsort(events["start_ns"][kept], kind="stable")]
        self._address = events["address"][kept].tolist()
        self._bytes = events["bytes"][kept].tolist()
        when, thread = events["start_ns"][kept], events["thread"][kept]
        self._in_step = _step_at(span, thread, when).tolist()
        started = np.where(span.start_ns == NONE, -1, span.start_ns)
        begun = np.maximum.accumulate(started) if len(started) else started
        self._after = (np.searchsorted(begun, when, side="right") - 1).tolist()
        self._is_late = (when > next_start).tolist()
        self._counts: Counter[str] = Counter()
        self._freed_in: dict[int, int] = {}  # allocation -> the step in which it is freed
        self.workspaces = [0] * len(lives.steps)

    @property
    def taken(self) -> dict[str, int]:
        """What was used."""
        return _nonzero({what: self._counts[what] for what in (FOUND, FREED)})

    @property
    def dropped(self) -> dict[str, int]:
        """What was not."""
        return {what: n for what, n in self._counts.items() if what not in (FOUND, FREED)}

    def replay(self) -> None:
        """Find the allocations of the storages that each step makes, and with them the frees."""
        ends = self._ends()
        by_step: dict[int, list[int]] = {}
        for event in ends:
            step = self._in_step[event]
            if step == NONE:
                self._counts["allocations outside of all calls"] += 1
            elif ends[event] != step or not self._is_inside(event):
                by_step.setdefault(step, []).append(event)
        for place, step in enumerate(self._steps):
            self._assign(step, by_step.get(place, []), ends)
        self._measure_workspaces()

    def _ends(self) -> dict[int, int]:
        """Give for each allocation the step after which it is freed, or END."""
        ends: dict[int, int] = {}
        held: dict[int, int] = {}
        for event, size in enumerate(self._bytes):
            address = self._address[event]
            if size > 0:
                held[address] = event
                ends[event] = END
            elif size < 0 and (allocated := held.pop(address, NONE)) != NONE:
                if not self._is_late[event]:
                    ends[allocated] = self._after[event]
                    self._freed_in[allocated] = self._in_step[event]
            elif size < 0:
                self._counts["frees of what was allocated before the profile"] += 1
        return ends

    def _is_inside(self, event: int) -> bool:
        """Say whether an allocation is freed by the step that made it."""
        return bool(self._freed_in.get(event, NONE) == self._in_step[event])

    def _assign(self, step: Step, events: list[int], ends: dict[int, int]) -> None:
        """Say which allocation is which storage: the size decides, then when it was freed."""
        left = [s for s in step.births() if s.size_bytes and s.device == self._device]
        left.sort(key=lambda storage: storage.last_use)
        for fits in (_is_same, _is_rounded, _is_larger):
            remaining = []
            for storage in left:
                fitting = [
                    event
                    for event in events
                    if ends[event] >= storage.last_use
                    and fits(self._bytes[event], storage.size_bytes)
                ]
                if not fitting:
                    remaining.append(storage)
                    continue
                event = min(fitting, key=lambda event: (self._bytes[event], ends[event]))
                events.remove(event)
                storage.freed = ends[event]
                self._counts[FOUND] += 1
                self._counts[FREED] += storage.freed != END
            left = remaining
        self._counts["storages without an allocation that fits"] += len(left)

    def _measure_workspaces(self) -> None:
        """Measure what a step needed beyond what it left: the highest sum of its own events."""
        step_of, sums, peaks = {}, Counter[int](), Counter[int]()
        for event, size in enumerate(self._bytes):
            step, address = self._in_step[event], self._address[event]
            if size > 0:
                step_of[address] = step
            elif step_of.pop(address, None) != step:
                continue
            if step != NONE:
                sums[step] += size
                peaks[step] = max(peaks[step], sums[step])
        for step, peak in peaks.items():
            self.workspaces[step] = peak - max(sums[step], 0)


def _is_on(events: dict[str, Int64], device: str) -> NDArray[np.bool_]:
    """Mark the events of a device of an execution trace."""
    name, _, number = device.partition(":")
    if name == "cpu":
        return np.asarray(events["device_type"] == CPU)
    is_gpu = events["device_type"] != CPU
    return np.asarray(is_gpu & (events["device"] == int(number)) if number.isdecimal() else is_gpu)


def _is_same(event_bytes: int, storage_bytes: int) -> bool:
    return event_bytes == storage_bytes


def _is_rounded(event_bytes: int, storage_bytes: int) -> bool:
    return event_bytes == -(-storage_bytes // ROUNDING) * ROUNDING


def _is_larger(event_bytes: int, storage_bytes: int) -> bool:
    return 0 <= event_bytes - storage_bytes <= MAX_EXCESS
