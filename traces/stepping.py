"""Cut a recording of several training steps into recordings of one or more steps each.

Needs no torch. A step's recording has its own constants: what was there when it began and is used
or goes in it. What goes before its first call is the step before's, and left out: gradients that a
loop drops before anything else were not there at any call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from ..errors import TraceError
from ..opcodes import PHASE_FORWARD
from .merging import are_equal, merge
from .recording import (
    Constant,
    Death,
    Event,
    RecordedCall,
    Recording,
    StepEnd,
    View,
)


def whole(recording: Recording) -> Recording:
    """Return all of a recording as one, its marks left out."""
    return next(_pieces(recording, [[e for e in recording.events if not isinstance(e, StepEnd)]]))


def repeats(
    recording: Recording, repeat: int, steps: int = 1, *, is_block: bool = False
) -> Recording:
    """Return one recording of ``steps`` steps, with median times over ``repeat`` of them.

    Parameters
    ----------
    recording : Recording
        With a mark at the end of each step.
    repeat, steps : int
    is_block : bool, optional
        Whether the recording is these steps and nothing else: what stands behind the last mark
        then belongs to the last step, and its like to each of them. Otherwise it is left out, and
        so are further steps.

    Returns
    -------
    Recording

    Raises
    ------
    TraceError
        There are fewer steps, or more in a block, or the repeats are not the same run.
    """
    events, ends = _marked(recording.events)
    wanted = repeat * steps
    if len(ends) < wanted or (is_block and len(ends) > wanted):
        raise TraceError(
            f"{len(ends)} steps instead of {wanted} ({repeat} repeats of {steps}): a step "
            "ends where the optimizer's does, or with rematsim.traces.mark_step()"
        )
    ends = ends[steps - 1 : wanted : steps]
    behind = len(events) - ends[-1]
    if is_block and behind:
        whole_steps = list(_pieces(recording, _cut(events, [end + behind for end in ends])))
        if are_equal(whole_steps):
            return merge(whole_steps)
    if not is_block and not _is_said(recording.events):
        settled = [_settled_end(events, 0, 0, ends[0]), *_settled(events, ends)]
        try:
            return merge(list(_pieces(recording, _cut(events, settled)))[1:])
        except TraceError:  # the program may have ended where the last step did
            pass
    return merge(list(_pieces(recording, _cut(events, ends))))


def _marked(events: Sequence[Event]) -> tuple[list[Event], list[int]]:
    """Return the events without marks, and how many of them stand before each that counts.

    Marks that the program makes count before an optimizer's.
    """
    is_said = _is_said(events)
    plain: list[Event] = []
    ends: list[int] = []
    for event in events:
        if not isinstance(event, StepEnd):
            plain.append(event)
        elif event.is_said == is_said:
            ends.append(len(plain))
    return plain, ends


def _is_said(events: Sequence[Event]) -> bool:
    """Say whether the program marks where its steps end."""
    return any(isinstance(event, StepEnd) and event.is_said for event in events)


def _settled(events: Sequence[Event], ends: Sequence[int]) -> list[int]:
    """Move the end of each step from its optimizer's behind the last that it leaves and that goes.

    A loop drops its gradients and its batch before the next forward pass begins, some loops after
    they have loaded the next batch: that is the end of a step, not the beginning of one.
    """
    starts, limits = [0, *ends], [*ends[1:], len(events)]
    return [
        _settled_end(events, start, end, limit)
        for start, end, limit in zip(starts, ends, limits, strict=False)
    ]


def _settled_end(events: Sequence[Event], start: int, end: int, limit: int) -> int:
    """Find where the step from ``start`` to ``end`` really ends, ``limit`` at the latest.

    Of a step before the first event nothing is known but what the first call shows.
    """
    seen = events[start:end] or events[:limit]
    calls = (event for event in seen if isinstance(event, RecordedCall))
    nodes = [call.autograd_node for call in (calls if end > start else islice(calls, 1))]
    last_node = max(nodes, default=-1)
    made: set[int] = set()
    settled = end
    for position in range(end, limit):
        event = events[position]
        if isinstance(event, Death):
            settled = settled if event.storage in made else position + 1
        elif isinstance(event, RecordedCall):
            if event.module or event.phase != PHASE_FORWARD or event.autograd_node > last_node:
                break  # the model runs again
            made.update(storage for storage, _ in event.bytes_after)
    return settled


def _cut(events: Sequence[Event], ends: Sequence[int]) -> list[Sequence[Event]]:
    """Return the stretches of events that end at some positions."""
    return [events[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _pieces(recording: Recording, windows: Sequence[Sequence[Event]]) -> Iterator[Recording]:
    """Yield a recording for each of some stretches of events that follow one another."""
    alive = dict(recording.constants)
    for window in windows:
        n_ended = sum(1 for _ in takewhile(lambda event: isinstance(event, Death), window))
        _advance(alive, window[:n_ended], recording)
        yield _piece(recording, window[n_ended:], alive)
        _advance(alive, window[n_ended:], recording)


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
