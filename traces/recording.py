"""What a recorder saw: operator calls and deaths of storages, in order, as plain values.

The layer between ``recorder.py``, which needs torch, and ``lowering.py``, which makes a Trace; it
needs neither torch nor the names of a log, so both sides are tested without the other. Cutting a
recording into steps is for ``stepping.py``, comparing them for ``merging.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .costs import TensorKind


class Geometry(NamedTuple):
    """Where and how a tensor lies in its storage; offset and strides in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    @property
    def kind(self) -> TensorKind:
        """Dtype and shape."""
        return TensorKind(str(self.dtype).removeprefix("torch."), tuple(self.shape))


class View(NamedTuple):
    """A tensor, told by its storage and its geometry.

    Two tensors of one storage with the same geometry hold the same values, whatever their
    identity in Python: what autograd saves and unpacks again is the same View.
    """

    storage: int
    geometry: Geometry


class RecordedCall(NamedTuple):
    """One operator call.

    ``bytes_after`` has the storages that the call made or resized, with their size afterwards;
    ``written`` the positions in ``arguments`` that it wrote to; ``autograd_node`` the number that
    a forward call and its backward calls share, or -1; ``is_recomputed``: activation
    checkpointing runs it a second time, for the backward pass; ``workspace_bytes``: what it takes
    while it runs, beyond what it leaves, where that was measured.
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
    is_recomputed: bool = False
    workspace_bytes: int = 0


class Death(NamedTuple):
    """The last reference to a storage is gone."""

    storage: int


class BackwardEntered(NamedTuple):
    """The autograd engine starts to run."""


class StepEnd(NamedTuple):
    """A training step ends here: the program said so, or its optimizer has stepped."""

    is_said: bool


class Constant(NamedTuple):
    """A storage that was there before the first call: a weight, an input, optimizer state.

    The label is empty where nobody knows a name for it.
    """

    label: str
    bytes: int
    kind: str = ""


Event = RecordedCall | Death | BackwardEntered | StepEnd


@dataclass(frozen=True)
class Recording:
    """The events of one captured run and the storages that were there before it.

    Storages are numbered in the order in which the recorder first saw them. ``times_estimated``:
    the times are a cost model's. ``labels``: names of storages that were made in the run.
    ``repeats``: how many runs the times are medians of; ``totals_ns``: how long each of them took.
    ``notes``: what a user should know of it.
    """

    constants: dict[int, Constant]
    events: tuple[Event, ...]
    times_estimated: bool = False
    labels: Mapping[int, str] = field(default_factory=dict)
    repeats: int = 1
    totals_ns: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

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


def split_by_tensor(call: RecordedCall, parts: Sequence[int], width: int) -> Iterator[RecordedCall]:
    """Take a call over lists of ``width`` elements apart into one call for each element.

    ``torch._foreach_*`` updates a whole list at once; as one copy-on-write call it would hold
    every tensor twice. The time is divided evenly.

    Parameters
    ----------
    call : RecordedCall
        With its results ordered list by list.
    parts : sequence of int
        For each argument the element that it belongs to; -1: to all of them.
    width : int
        Length of the lists.
    """
    sizes = dict(call.bytes_after)
    written = set(call.written)
    belongs: list[list[int]] = [[] for _ in range(width)]
    for position, part in enumerate(parts):
        for positions in (belongs[part],) if part >= 0 else belongs:
            positions.append(position)
    for part, positions in enumerate(belongs):
        arguments = tuple(call.arguments[position] for position in positions)
        results = call.results[part::width]
        touched = dict.fromkeys(view.storage for view in (*arguments, *results))
        yield call._replace(
            arguments=arguments,
            results=results,
            written=tuple(new for new, old in enumerate(positions) if old in written),
            bytes_after=tuple((s, sizes.pop(s)) for s in touched if s in sizes),
            time_ns=call.time_ns // width + (call.time_ns % width > part),
        )
