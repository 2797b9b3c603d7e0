"""What a recorder saw: operator calls and deaths of storages, in order, as plain values.

The layer between ``recorder.py``, which needs torch, and ``lowering.py``, which makes a Trace; it
needs neither torch nor the names of a log, so both sides are tested without the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import TraceError


class View(NamedTuple):
    """A tensor, told by its storage and its geometry (offset, shape, strides, dtype).

    Two tensors of one storage with the same geometry hold the same values, whatever their
    identity in Python: what autograd saves and unpacks again is the same View.
    """

    storage: int
    geometry: Hashable


class RecordedCall(NamedTuple):
    """One operator call.

    ``bytes_after`` has the storages that the call made or resized, with their size afterwards;
    ``written`` the positions in ``arguments`` that it wrote to; ``autograd_node`` the number that
    a forward call and its backward calls share, or -1.
    """

    operator: str
    arguments: tuple[View, ...]
    results: tuple[View, ...]
    written: tuple[int, ...]
    bytes_after: tuple[tuple[int, int], ...]
    time_ns: int
    phase: int
    module: str
    tags: int
    autograd_node: int


class Death(NamedTuple):
    """The last reference to a storage is gone."""

    storage: int


class BackwardEntered(NamedTuple):
    """The autograd engine starts to run."""


class Constant(NamedTuple):
    """A storage that was there before the first call: a weight, an input, optimizer state."""

    label: str
    bytes: int


Event = RecordedCall | Death | BackwardEntered


@dataclass(frozen=True)
class Recording:
    """The events of one captured run and the storages that were there before it.

    Storages are numbered in the order in which the recorder first saw them.
    """

    constants: dict[int, Constant]
    events: tuple[Event, ...]

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The operator calls alone."""
        return tuple(event for event in self.events if isinstance(event, RecordedCall))


def live_bytes(recording: Recording) -> Iterator[int]:
    """Yield the bytes of the living storages after each call, constants counted from the start."""
    sizes = {storage: constant.bytes for storage, constant in recording.constants.items()}
    total = sum(sizes.values())
    for event in recording.events:
        if isinstance(event, Death):
            total -= sizes.pop(event.storage)
        elif isinstance(event, RecordedCall):
            for storage, size in event.bytes_after:
                total += size - sizes.get(storage, 0)
                sizes[storage] = size
            yield total


def merge(recordings: Sequence[Recording]) -> Recording:
    """Return one recording with each call's median time over equal repeats.

    Parameters
    ----------
    recordings : sequence of Recording, at least one
        The same step, captured several times.

    Raises
    ------
    TraceError
        If two repeats differ in anything but times.
    """
    first = recordings[0]
    for number, other in enumerate(recordings[1:], start=2):
        _check_equal(first, other, number)
    times = zip(*([call.time_ns for call in each.calls] for each in recordings), strict=True)
    medians = (round(statistics.median(column)) for column in times)
    return Recording(
        first.constants,
        tuple(
            event._replace(time_ns=next(medians)) if isinstance(event, RecordedCall) else event
            for event in first.events
        ),
    )


def _check_equal(first: Recording, other: Recording, number: int) -> None:
    """Refuse a repeat whose events are not those of the first one."""
    for position, (a, b) in enumerate(zip(first.events, other.events, strict=False)):
        if _without_noise(a) != _without_noise(b):
            raise TraceError(
                f"repeat {number} differs from repeat 1 at event {position}: "
                f"{_describe(b)} instead of {_describe(a)}; every repeat must run the same step"
            )
    if len(first.events) != len(other.events) or first.constants != other.constants:
        raise TraceError(
            f"repeat {number} has {len(other.events)} events and {len(other.constants)} constants,"
            f" repeat 1 has {len(first.events)} and {len(first.constants)};"
            " every repeat must run the same step"
        )


def _without_noise(event: Event) -> Event:
    """Blank what may differ between two runs of one step: times and autograd's running numbers."""
    if isinstance(event, RecordedCall):
        return event._replace(time_ns=0, autograd_node=-1)
    return event


def _describe(event: Event) -> str:
    """Name an event in an error message."""
    return f"a call of {event.operator}" if isinstance(event, RecordedCall) else repr(event)


def split_by_tensor(call: RecordedCall, width: int) -> Iterator[RecordedCall]:
    """Take a call over ``width`` lists' elements apart into one call for each element.

    ``torch._foreach_*`` updates a whole list at once; as one copy-on-write call it would hold
    every tensor twice. Arguments and results are ordered list by list; those beyond a multiple of
    ``width`` belong to every part. The time is divided evenly.
    """
    sizes = dict(call.bytes_after)
    lists = len(call.arguments) // width * width
    for part in range(width):
        positions = [*range(part, lists, width), *range(lists, len(call.arguments))]
        arguments = tuple(call.arguments[position] for position in positions)
        results = call.results[part::width]
        touched = dict.fromkeys(view.storage for view in (*arguments, *results))
        yield call._replace(
            arguments=arguments,
            results=results,
            written=tuple(new for new, old in enumerate(positions) if old in set(call.written)),
            bytes_after=tuple((s, sizes.pop(s)) for s in touched if s in sizes),
            time_ns=call.time_ns // width + (call.time_ns % width > part),
        )
