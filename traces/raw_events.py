"""What a recorder notes at each operator, and the recording's events that are made of it.

Notes are made quickly and read once. Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER, TAG_RANDOM
from .clocks import Clock
from .module_paths import CallOwners
from .recording import (
    BackwardEntered,
    Death,
    Event,
    Geometry,
    RecordedCall,
    StepEnd,
    View,
    split_by_tensor,
)
from .schemas import Traits

RawView = tuple[int, int, tuple[int, ...], tuple[int, ...], Any]  # storage, then its Geometry

BACKWARD = BackwardEntered()
STEP_END = (StepEnd(False), StepEnd(True))
WITHOUT_GRAD = -1  # as a phase: outside the engine and an optimizer's step, with gradients off


class OpenCall(NamedTuple):
    """What is known of a call before it runs.

    Attributes
    ----------
    arguments, parts : sequence of RawView, sequence of int
        Its tensors, and which element of lists each belongs to (-1: to all).
    written : sequence of int
        Positions in ``arguments`` that it writes to.
    width : int
        Length of the lists that the operator goes through; 0: it takes no lists apart.
    storages : dict or None
        The written storages and their bytes, by number; emptied when the call has run. None: sizes
        stay as they are.
    """

    arguments: list[RawView]
    parts: Any
    written: Any
    width: int
    storages: dict[int, tuple[Any, int]] | None

    def add(self, view: RawView, tensor: torch.Tensor, is_written: bool, part: int) -> None:
        """Note an argument."""
        if is_written and self.storages is not None:
            self.written.append(len(self.arguments))
            storage = tensor.untyped_storage()
            self.storages[view[0]] = (storage, storage.nbytes())
        self.arguments.append(view)
        self.parts.append(part)

    def add_resized(self, view: RawView, storage: Any, before: int) -> None:
        """Note a storage, as an argument, that has been given another size already."""
        assert self.storages is not None, "a call that writes"
        self.storages[view[0]] = (storage, before)
        self.written.append(len(self.arguments))
        self.arguments.append(view)
        self.parts.append(-1)

    def resized(self) -> list[tuple[int, int]]:
        """Return the written storages that have another size now; let go of all of them."""
        if self.storages is None:  # a call that leaves sizes alone
            return []
        sizes = [
            (number, storage.nbytes())
            for number, (storage, before) in self.storages.items()
            if storage.nbytes() != before
        ]
        self.storages.clear()
        return sizes


BegunCall = list[RawView] | OpenCall  # the arguments alone where the traits say what is written

# Traits, what was noted before, results, sizes, whether contents are kept, the clock before and
# after, phase, the module that runs; then as in RecordedCall.
RawCall = tuple[
    Traits,
    BegunCall,
    list[RawView],
    list[tuple[int, int]],
    bool,
    Any,
    Any,
    int,
    str | None,
    int,
    bool,
]
RawEvent = BegunCall | int | BackwardEntered | StepEnd  # a number: that storage died
_BEGUN, _STARTED, _ENDED = 1, 5, 6


def events_of(notes: Sequence[RawEvent], calls: Sequence[RawCall], clock: Clock) -> Iterator[Event]:
    """Yield a recording's events, calls over lists taken apart.

    Parameters
    ----------
    notes : sequence of RawEvent
        What was noted, in order; of a call, that it began.
    calls : sequence of RawCall
        Those that ended, and not in an exception, in order.
    clock : Clock
        Makes nanoseconds of what it returned at each call.
    """
    times = clock.elapsed_ns([call[_STARTED] for call in calls], [call[_ENDED] for call in calls])
    ended = {id(call[_BEGUN]): (call, time) for call, time in zip(calls, times, strict=True)}
    views: dict[RawView, View] = {}
    owners = CallOwners()
    phases = Phases(BACKWARD in notes)
    for note in notes:
        if isinstance(note, int):
            yield Death(note)
        elif isinstance(note, StepEnd):
            owners = CallOwners()  # autograd's numbers of the last step mean nothing any more
            yield note
        elif isinstance(note, BackwardEntered):
            yield note
        elif id(note) in ended:
            yield from _calls_of(*ended[id(note)], views, owners, phases)


class Phases:
    """Tell the phase of each call of a run, in order.

    What is done without gradients, outside all modules, between a backward pass and the next
    forward pass belongs to the optimizer: clipping, unscaling, averages of weights.

    Parameters
    ----------
    has_backward : bool
        Whether the run has a backward pass: then its beginning follows one like it.
    """

    def __init__(self, has_backward: bool) -> None:
        self._is_behind = has_backward
        self._node: int | None = None

    def of_call(self, traits: Traits, noted: int, running: str | None, node: int) -> int:
        """Return the phase of the next call.

        Parameters
        ----------
        traits : Traits
        noted : int
            Its phase as it was noted, or ``WITHOUT_GRAD``.
        running : str or None
            The module that was running.
        node : int
            As in RecordedCall.
        """
        if noted == PHASE_BACKWARD:
            self._is_behind, self._node = True, None  # recomputation makes nodes, too
            return noted
        makes_node = self._node is not None and node > self._node
        self._node = node
        if noted == PHASE_OPTIMIZER or traits.name.startswith("_amp_"):
            self._is_behind = True
            return PHASE_OPTIMIZER
        if running or (noted == PHASE_FORWARD and makes_node):
            self._is_behind = False
        is_update = noted == WITHOUT_GRAD and self._is_behind and not traits.tags & TAG_RANDOM
        return PHASE_OPTIMIZER if is_update else PHASE_FORWARD


def _calls_of(
    note: RawCall,
    time_ns: int,
    views: dict[RawView, View],
    owners: CallOwners,
    phases: Phases,
) -> Iterator[RecordedCall]:
    traits, begun, results, sizes, keeps_contents, _, _, noted, running, node, is_again = note
    phase = phases.of_call(traits, noted, running, node)
    if not isinstance(begun, OpenCall):
        begun = OpenCall(begun, (), (0,) if traits.writes_first else (), 0, None)
    call = RecordedCall(
        traits.name,
        _views(begun.arguments, views),
        _views(results, views),
        () if keeps_contents else tuple(begun.written),
        tuple(sizes),
        time_ns,
        phase,
        owners.of_call(running, phase == PHASE_BACKWARD, node),
        traits.tags,
        node,
        is_again,
    )
    if begun.width > 1:
        yield from split_by_tensor(call, begun.parts, begun.width)
    else:
        yield call


def _views(notes: Iterable[RawView], known: dict[RawView, View]) -> tuple[View, ...]:
    """Make views of what was noted; equal ones are one object."""
    return tuple(
        known.get(note) or known.setdefault(note, View(note[0], _plain(*note[1:])))
        for note in notes
    )


def _plain(
    offset: int, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype
) -> Geometry:
    """Make a geometry of plain Python values."""
    return Geometry(int(offset), tuple(shape), tuple(strides), str(dtype).removeprefix("torch."))
