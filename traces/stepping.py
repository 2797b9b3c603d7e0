"""Cut a recording of several training steps into recordings of one or more steps each.

Needs no torch. A step's recording has its own constants: what was there when it began and is used
or goes in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import TraceError
from .recording import (
    Constant,
    Death,
    Event,
    RecordedCall,
    Recording,
    StepEnd,
    View,
    merge,
    same_run,
)


def whole(recording: Recording) -> Recording:
    """Return all of a recording as one, its marks left out."""
    return next(_pieces(recording, [[e for e in recording.events if not isinstance(e, StepEnd)]]))


def repeats(recording: Recording, repeat: int, steps: int = 1) -> Recording:
    """Return one recording of ``steps`` steps, with median times over ``repeat`` of them.

    Parameters
    ----------
    recording : Recording
        With a mark at the end of each step; what stands behind the last one is left out.
    repeat, steps : int

    Returns
    -------
    Recording

    Raises
    ------
    TraceError
        There are more or fewer steps, or the repeats are not the same run.

    Notes
    -----
    The first of three or more may differ from the others: what a loop does after its optimizer's
    step, such as dropping gradients, is missing at its start. It is then left out.
    """
    found = _between_marks(recording.events)
    if len(found) != repeat * steps:
        raise TraceError(
            f"{len(found)} steps instead of {repeat * steps} ({repeat} repeats of {steps}): a step "
            "ends where the optimizer's does, or with rematsim.traces.mark_step()"
        )
    windows = [
        [event for step in found[start : start + steps] for event in step]
        for start in range(0, len(found), steps)
    ]
    recordings = list(_pieces(recording, windows))
    if repeat > 2 and not same_run(recordings[0], recordings[1]):
        del recordings[0]
    return merge(recordings)


def _between_marks(events: Sequence[Event]) -> list[list[Event]]:
    """Return the events of each step; marks that the program makes count before an optimizer's."""
    is_said = any(isinstance(event, StepEnd) and event.is_said for event in events)
    found: list[list[Event]] = []
    step: list[Event] = []
    for event in events:
        if not isinstance(event, StepEnd):
            step.append(event)
        elif event.is_said == is_said:
            found.append(step)
            step = []
    return found


def _pieces(recording: Recording, windows: Sequence[Sequence[Event]]) -> Iterator[Recording]:
    """Yield a recording for each of some stretches of events that follow one another."""
    alive = dict(recording.constants)
    for window in windows:
        yield _piece(recording, window, alive)
        _advance(alive, window, recording)


def _advance(alive: dict[int, Constant], window: Sequence[Event], recording: Recording) -> None:
    """Bring the living storages up to the end of a stretch."""
    for event in window:
        if isinstance(event, Death):
            alive.pop(event.storage, None)
        elif isinstance(event, RecordedCall):
            for storage, size in event.bytes_after:
                known = alive.get(storage)
                label = known.label if known else recording.labels.get(storage, "")
                alive[storage] = Constant(label, size)


def _piece(recording: Recording, window: Sequence[Event], alive: dict[int, Constant]) -> Recording:
    """Return a stretch with storages numbered anew, in the order in which it meets them."""
    numbers: dict[int, int] = {}
    uses: dict[int, View] = {}
    for event in window:
        if isinstance(event, Death):
            numbers.setdefault(event.storage, len(numbers))
        elif isinstance(event, RecordedCall):
            for view in (*event.arguments, *event.results):
                numbers.setdefault(view.storage, len(numbers))
            for view in event.arguments:
                uses.setdefault(view.storage, view)
    before = {new: old for old, new in numbers.items() if old in alive}
    constants = {
        new: _named(alive[old], position, uses.get(old))
        for position, (new, old) in enumerate(before.items())
    }
    events = tuple(_renumbered(event, numbers) for event in window)
    return replace(recording, constants=constants, events=events, labels={})


def _named(constant: Constant, number: int, use: View | None) -> Constant:
    """Complete a constant: the kind is that of its first use, a name tells what it was for."""
    if use is None:
        return Constant(constant.label or f"held:{number}", constant.bytes)
    return Constant(
        constant.label or f"constant:{number}", constant.bytes, use.geometry.kind.text()
    )


def _renumbered(event: Event, numbers: dict[int, int]) -> Event:
    """Return an event with its storages' new numbers."""
    if isinstance(event, Death):
        return Death(numbers[event.storage])
    if not isinstance(event, RecordedCall):
        return event
    return event._replace(
        arguments=tuple(View(numbers[view.storage], view.geometry) for view in event.arguments),
        results=tuple(View(numbers[view.storage], view.geometry) for view in event.results),
        bytes_after=tuple((numbers[storage], size) for storage, size in event.bytes_after),
    )
