"""Make one recording of several of the same step: find those that are equal, take median times.

Needs no torch. Two recordings are the same workload where operators, storages, sizes, shapes,
strides, dtypes, updates, phases, modules and deaths are the same, in the same order. Offsets in
storages are not compared: each step takes another batch of the same data.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..errors import TraceError
from ..opcodes import PHASES
from .recording import Constant, Death, Event, RecordedCall, Recording, View

_RULE = "every repeat must run the same step"

# What a program writes where it is not what the operator is called.
_WRITTEN = {"_local_scalar_dense": "_local_scalar_dense (.item(), or printing a tensor)"}


class UnlikeRepeatsError(TraceError):
    """Repeats of a step that are not the same step.

    Parameters
    ----------
    message : str
        In what they differ.
    period : int
        After how many they come again; 0: after none.
    """

    def __init__(self, message: str, period: int) -> None:
        super().__init__(message)
        self.period = period


def merge(recordings: Sequence[Recording]) -> Recording:
    """Return one recording with each call's median time over equal repeats.

    Parameters
    ----------
    recordings : sequence of Recording, at least one
        The same step, captured several times. Fewer than half may differ, such as one in which an
        epoch ends; they are left out, and a note says so. Kinds of steps that take turns are not
        the same step.

    Raises
    ------
    UnlikeRepeatsError
        If no more than half of them are equal, or no two that follow one another; the message
        says in what they differ.
    """
    workloads = [_workload(recording) for recording in recordings]
    equal_to = [workloads.index(workload) for workload in workloads]
    usual = statistics.mode(equal_to)
    equal = [n for n, first in enumerate(equal_to) if first == usual]
    others = [n for n, first in enumerate(equal_to) if first != usual]
    notes = recordings[usual].notes
    if others:
        differs = _difference(recordings, usual, others[0])
        if len(equal) <= len(others) or all(b - a > 1 for a, b in pairwise(equal)):
            raise UnlikeRepeatsError(f"{differs}; {_RULE}", _period(equal_to))
        notes += (f"{len(others)} of {len(recordings)} repeats left out: {differs}",)
    times = [[call.time_ns for call in recordings[n].calls] for n in equal]
    medians = (round(statistics.median(column)) for column in zip(*times, strict=True))
    events = (
        event._replace(time_ns=next(medians)) if isinstance(event, RecordedCall) else event
        for event in recordings[usual].events
    )
    totals = tuple(map(sum, times))
    return replace(
        recordings[usual], events=tuple(events), notes=notes, repeats=len(equal), totals_ns=totals
    )


def _period(kinds: Sequence[int]) -> int:
    """Say after how many places all kinds come again, at least twice; 0: after none."""
    for period in range(1, len(kinds) // 2 + 1):
        if all(a == b for a, b in zip(kinds, kinds[period:], strict=False)):
            return period
    return 0


def are_equal(recordings: Sequence[Recording]) -> bool:
    """Say whether all recordings are of the same workload."""
    first = _workload(recordings[0])
    return all(_workload(recording) == first for recording in recordings[1:])


def _workload(recording: Recording) -> tuple[list[Event], list[int]]:
    """Return what makes a step what it is: no times, offsets, running numbers and names."""
    views: dict[View, View] = {}
    sizes = [constant.bytes for constant in recording.constants.values()]
    return [_comparable(event, views) for event in recording.events], sizes


def _comparable(event: Event, views: dict[View, View]) -> Event:
    if not isinstance(event, RecordedCall):
        return event

    def without_offset(view: View) -> View:
        known = views.get(view)
        if known is None:
            known = views[view] = View(view.storage, view.geometry._replace(offset=0))
        return known

    return event._replace(
        time_ns=0,
        autograd_node=-1,
        arguments=tuple(map(without_offset, event.arguments)),
        results=tuple(map(without_offset, event.results)),
    )


def _difference(recordings: Sequence[Recording], usual: int, other: int) -> str:
    """Say in what two different recordings differ first."""
    numbers = sorted((usual, other))
    (own, own_sizes), (its, its_sizes) = (_workload(recordings[n]) for n in numbers)
    first, second = (recordings[n] for n in numbers)
    head = f"repeat {numbers[1] + 1} differs from repeat {numbers[0] + 1}"
    calls = 0
    for a, b in zip(own, its, strict=False):
        if a != b:
            return f"{head} at call {calls}: {_between(a, b, first, second)}"
        calls += isinstance(a, RecordedCall)
    if len(own) != len(its):
        longer, who = (first, numbers[0]) if len(own) > len(its) else (second, numbers[1])
        event = longer.events[min(len(own), len(its))]
        return f"{head}: only repeat {who + 1} goes on, with {_told(event, longer)}"
    constants = zip(first.constants.values(), second.constants.values(), strict=True)
    a_constant, b_constant = next((a, b) for a, b in constants if a.bytes != b.bytes)
    return f"{head} in what it begins with: {_held(b_constant)} instead of {_held(a_constant)}"


def _held(constant: Constant) -> str:
    return f"{constant.label} ({constant.bytes} bytes)"


def _between(a: Event, b: Event, first: Recording, second: Recording) -> str:
    """Say in what two events differ."""
    if not isinstance(a, RecordedCall) or not isinstance(b, RecordedCall):
        return f"{_told(b, second)} instead of {_told(a, first)}"
    if a.operator != b.operator:
        return f"{_operator(b)} instead of {_operator(a)}"
    for what, own, its in (
        ("argument", a.arguments, b.arguments),
        ("result", a.results, b.results),
    ):
        if own != its:
            return f"{_between_views(what, own, its, (first, second))} (of {a.operator})"
    for field, old, new in zip(RecordedCall._fields, a, b, strict=True):
        if old != new:
            show = _SHOWN.get(field, str)
            return f"{field} {show(new)} instead of {show(old)} (of {a.operator})"
    raise AssertionError("equal events")  # pragma: no cover


_SHOWN: dict[str, Callable[[Any], str]] = {
    "phase": lambda phase: PHASES[phase],
    "module": lambda module: module or "none",
    "bytes_after": lambda sizes: ", ".join(f"{n} of storage {s}" for s, n in sizes) or "none",
}


def _between_views(
    what: str, own: Sequence[View], its: Sequence[View], recordings: tuple[Recording, Recording]
) -> str:
    """Say in what the tensors of two calls differ."""
    if len(own) != len(its):
        return f"{len(its)} {what}s instead of {len(own)}"
    number, a, b = next((n, a, b) for n, (a, b) in enumerate(zip(own, its, strict=True)) if a != b)
    if a.storage != b.storage:
        shown = [_named(view.storage, each) for view, each in zip((a, b), recordings, strict=True)]
        return f"{what} {number} is {shown[1]} instead of {shown[0]}"
    field, old, new = next(
        (field, old, new)
        for field, old, new in zip(a.geometry._fields, a.geometry, b.geometry, strict=True)
        if old != new
    )
    return f"{what} {number} has {field} {new} instead of {old}"


def _operator(call: RecordedCall) -> str:
    return _WRITTEN.get(call.operator, call.operator)


def _told(event: Event, recording: Recording) -> str:
    """Name an event."""
    if isinstance(event, RecordedCall):
        return f"a call of {_operator(event)}"
    if isinstance(event, Death):
        return f"the end of {_named(event.storage, recording)}"
    return "the begin of a backward pass"


def _named(storage: int, recording: Recording) -> str:
    """Name a storage: what it was called before the step, or what makes it."""
    if storage in recording.constants:
        return _held(recording.constants[storage])
    for call in recording.calls:
        for made, size in call.bytes_after:
            if made == storage:
                return f"a result of {call.operator} ({size} bytes)"
    return f"storage {storage}"
