"""The events of a real allocator, replayed by the model ``caching``.

It answers whether the model does as the real one did. Sizes and order of requests are the
profile's; where blocks lie, what is reserved, and so which allocation gets whose place, is the
model's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .allocation_layout import FreeBlocks, Layout, starting_layout
from .allocator_settings import AllocatorSettings, parse_settings
from .errors import InputError, UsageError
from .event_replay import (
    ALLOCATE,
    EVENT_ROWS,
    HELD,
    LARGE_SEGMENT,
    PASS,
    RELEASE,
    SMALL_SEGMENT,
    replay_events,
)
from .traces.memory_events import (
    ALLOC,
    ALLOCATED_SIGNS,
    FREE,
    RESERVED_SIGNS,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    MemoryEvents,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Difference:
    """How far the model's curve is from the recorded one, after each allocation and free.

    Attributes
    ----------
    model_peak_bytes, recorded_peak_bytes : int
    largest_bytes : int
        The largest distance, up or down.
    mean_bytes : float
        The mean distance.
    moves : bool
        Whether the recorded curve changes at all.
    """

    model_peak_bytes: int
    recorded_peak_bytes: int
    largest_bytes: int
    mean_bytes: float
    moves: bool


@dataclass(frozen=True)
class Reuse:
    """Allocations at an address where an earlier block had been, and what the model does there.

    Attributes
    ----------
    allocations : int
    reuses : int
        Those that begin where a block began that was freed before, while the profile ran.
    predicted : int
        Of these, those that the model places where it had placed that block: its last owner.
    told : int
        Of these, those whose address is the model's choice when it is told where everything
        before really lay.
    told_of_all : int
        The same, of all allocations.
    """

    allocations: int
    reuses: int
    predicted: int
    told: int
    told_of_all: int


@dataclass(frozen=True)
class AllocationComparison:
    """A real allocator and the model, side by side.

    Attributes
    ----------
    profile, profile_format, device : str
    settings : AllocatorSettings
    counts_blocks : bool
        Whether the profile counts bytes of blocks; otherwise those that were asked for.
    start : Layout
        What there was before the first event.
    n_streams : int
    frees, unseen_frees, unknown_frees : int
        All; those of blocks whose allocation was not seen; of these, those that are not in
        ``start`` either, and so change nothing in the model.
    allocated : Difference
    reserved : Difference or None
        Where the profile says what was reserved.
    reuse : Reuse
    retries : int
        Of the model.
    curves : list of (str, ndarray, ndarray)
        Label, place from 0 to 1, bytes.
    """

    profile: str
    profile_format: str
    device: str
    settings: AllocatorSettings
    counts_blocks: bool
    start: Layout
    n_streams: int
    frees: int
    unseen_frees: int
    unknown_frees: int
    allocated: Difference
    reserved: Difference | None
    reuse: Reuse
    retries: int
    curves: list[tuple[str, Any, Any]]

    def table(self) -> pd.DataFrame:
        """Give the curves as a table: curve, place, bytes; what the figure is drawn from."""
        import pandas as pd

        parts = [
            pd.DataFrame({"curve": label, "place": where, "bytes": size})
            for label, where, size in self.curves
        ]
        table = pd.concat(parts, ignore_index=True)
        name = f"caching({self.settings})" if str(self.settings) else "caching"
        table.attrs.update(trace=name, profile=self.profile, device=self.device)
        return table


def compare_allocations(
    events: MemoryEvents,
    settings: AllocatorSettings | None = None,
    *,
    budget_bytes: int | None = None,
) -> AllocationComparison:
    """Replay the events of a real allocator through the model.

    Parameters
    ----------
    events : MemoryEvents
    settings : AllocatorSettings, optional
        By default those that the profile says.
    budget_bytes : int, optional
        The memory of the device; by default there is no limit.

    Returns
    -------
    AllocationComparison

    Raises
    ------
    InputError
        The profile's settings are not what can be modelled, or it is of a CPU.

    Notes
    -----
    What the profile says was allocated (reserved) before its first event, and is not in the
    starting layout, is added to the model's curve, for no event touches it.
    """
    if events.device == "cpu":
        rule = "of a CPU, whose memory is not PyTorch's caching allocator's"
        raise InputError(f"{events.source}: its events are {rule}; profile a GPU")
    if settings is None:
        settings = _own_settings(events)
    start = starting_layout(events, settings)
    rows, unseen, unknown = _rows(events, start)
    state = replay_events(rows, settings, budget_bytes)
    n_before = len(rows) - len(events.kinds)
    after = rows[n_before:]
    changes = ALLOCATED_SIGNS[events.kinds] * events.sizes
    allocated = _aligned(
        after["allocated_bytes"], events.allocated_bytes, changes, start.held_bytes
    )
    curves = _curves(events, allocated)
    reserved = None
    if events.reserved_bytes is not None:
        taken = RESERVED_SIGNS[events.kinds] * events.sizes
        held = _aligned(after["reserved_bytes"], events.reserved_bytes, taken, start.reserved_bytes)
        reserved = _difference(events, held, events.reserved_bytes)
        curves.append(("model_reserved", curves[0][1], held))
    return AllocationComparison(
        events.name,
        events.format,
        events.device,
        settings,
        events.counts_blocks,
        start,
        events.n_streams,
        int((events.kinds == FREE).sum()),
        unseen,
        unknown,
        _difference(events, allocated, events.allocated_bytes),
        reserved,
        _reuse(events, start, settings, rows, n_before),
        int(state.space[0].retries),
        curves,
    )


def _own_settings(events: MemoryEvents) -> AllocatorSettings:
    """Read the settings that a profile has."""
    try:
        return parse_settings(events.settings)
    except UsageError as error:
        hint = "other ones can be given (--allocator-settings)"
        raise UsageError(f"{events.source}: {error}; {hint}") from None


def _rows(events: MemoryEvents, start: Layout) -> tuple[NDArray[Any], int, int]:
    """Lay out what was there and what happened, as the kernels read it; count unseen frees."""
    begun: list[tuple[int, int, int, int]] = []
    owner: dict[int, int] = {}
    for segment in start.segments:
        kind = SMALL_SEGMENT if segment.is_small else LARGE_SEGMENT
        begun.append((kind, *segment.block, 0))
        for block in segment.held:
            owner[block.address] = len(begun)
            begun.append((HELD, *block, 0))
    n_before, unseen, unknown = len(begun), 0, 0
    for kind, address, size in _triples(events):
        if kind == ALLOC:
            owner[address] = len(begun)
            begun.append((ALLOCATE, 0, size, 0))
        elif kind == FREE and address in owner:
            row = owner.pop(address)
            unseen += row < n_before
            begun.append((RELEASE, 0, 0, row))
        else:
            unseen += kind == FREE
            unknown += kind == FREE
            begun.append((PASS, 0, 0, 0))
    rows = np.zeros(len(begun), EVENT_ROWS)
    for name, column in zip(
        ("kind", "address", "size_bytes", "allocated_by"), zip(*begun, strict=True), strict=True
    ):
        rows[name] = column
    return rows, unseen, unknown


def _triples(events: MemoryEvents) -> list[tuple[int, int, int]]:
    """Give kind, address and size of each event."""
    return list(
        zip(events.kinds.tolist(), events.addresses.tolist(), events.sizes.tolist(), strict=True)
    )


def _aligned(model: Int64, recorded: Int64, changes: Int64, known: int) -> Int64:
    """Add to the model's curve what the profile had at the start and the model does not know."""
    return np.asarray(model + (int(recorded[0]) - int(changes[0]) - known), np.int64)


def _difference(events: MemoryEvents, model: Int64, recorded: Int64) -> Difference:
    """Compare two curves where the model has had its say: it takes segments as it allocates."""
    is_told = np.isin(events.kinds, (ALLOC, FREE))
    distance = np.abs(model - recorded)[is_told]
    return Difference(
        int(model.max()),
        int(recorded.max()),
        int(distance.max(initial=0)),
        float(distance.mean()) if len(distance) else 0.0,
        bool(recorded.min() < recorded.max()),
    )


def _curves(events: MemoryEvents, allocated: Int64) -> list[tuple[str, Any, Any]]:
    """Lay the curves along the share of all bytes that have been allocated."""
    taken = np.cumsum(np.where(events.kinds == ALLOC, events.sizes, 0), dtype=np.float64)
    places = taken / (taken[-1] or 1.0)
    curves = [("replay", places, allocated), ("allocated", places, events.allocated_bytes)]
    if events.reserved_bytes is not None:
        curves.append(("reserved", places, events.reserved_bytes))
    return curves


def _reuse(
    events: MemoryEvents,
    start: Layout,
    settings: AllocatorSettings,
    rows: NDArray[Any],
    n_before: int,
) -> Reuse:
    """Count re-uses of addresses, and those that the model has as well."""
    known = FreeBlocks(start, settings)
    places = rows["address"].tolist()
    kinds, by = rows["kind"].tolist(), rows["allocated_by"].tolist()
    last_place: dict[int, int] = {}  # of the block that was freed at an address, in the model
    allocations = reuses = predicted = told = told_of_all = 0
    for i, (kind, address, size) in enumerate(_triples(events), n_before):
        if kind == ALLOC:
            is_told = known.best_fit(size) == address
            allocations, told_of_all = allocations + 1, told_of_all + is_told
            if address in last_place:
                reuses, told = reuses + 1, told + is_told
                predicted += last_place[address] == places[i]
            known.take(address, size)
        elif kind == FREE:
            last_place[address] = places[by[i]] if kinds[i] == RELEASE else NOWHERE
            known.free(address, size)
        elif kind == SEGMENT_ALLOC:
            known.take_segment(address, size)
        elif kind == SEGMENT_FREE:
            known.give_back_segment(address, size)
    return Reuse(allocations, reuses, predicted, told, told_of_all)


NOWHERE = -2  # in the model, of a block that it has never seen
