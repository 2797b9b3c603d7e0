"""Kernels: buffers get addresses one after another, and the order is changed to lower the height.

First fit takes the lowest hole among those that live at the same time, best fit the smallest. A
*step* of the search moves a buffer to another place in the order, most often one that stands too
high to an earlier one, and keeps what spills less over the target.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .arena import MOST_BYTES
from .jit import Bundle, kernel, shared_kernel
from .pieces import add_bytes, best_fit, clear, cut, open_area, set_free
from .randomness import draw_below
from .space import LOW, NONE, PIECE_FIELDS, SPACE_FIELDS

FIRST_FIT, BEST_FIT = 0, 1
PLACING_FIELDS = np.dtype(
    [("random", "i8"), ("rule", "i8"), ("target", "i8"), ("placed", "i8"), ("height", "i8"),
     ("spill", "f8"), ("kept_spill", "f8"), ("best_height", "i8"), ("stale", "i8")],
    align=True,
)  # fmt: skip
PATIENCE = 40  # steps that gain nothing, after which something worse is taken
SAMPLES = 8  # places looked at for a buffer that stands too high


class BufferArrays(Bundle):
    """What kernels read of Buffers."""

    lower: Any
    upper: Any
    size: Any
    alignment: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "lower": np.int64,
        "upper": np.int64,
        "size": np.int64,
        "alignment": np.int64,
    }


class Holes(Bundle):
    """What is free at a moment of time, and where buffers lie, for `place_in_time`."""

    entering: Any  # all buffers by the start of their lives
    leaving: Any  # and by the end
    piece: Any  # each one's, NONE: without bytes
    at: Any  # addresses
    pieces: Any
    space: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "entering": np.int32,
        "leaving": np.int32,
        "piece": np.int32,
        "at": np.int64,
        "pieces": PIECE_FIELDS,
        "space": SPACE_FIELDS,
    }


class Placing(Bundle):
    """The order reached, the one tried, and what came of them."""

    order: Any
    trial: Any
    by_address: Any  # those placed, lowest address first
    at: Any  # addresses
    best: Any  # addresses
    run: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "order": np.int32,
        "trial": np.int32,
        "by_address": np.int32,
        "at": np.int64,
        "best": np.int64,
        "run": PLACING_FIELDS,
    }


@kernel
def aligned(address: int, alignment: int) -> int:
    """Round an address up."""
    return (address + alignment - 1) // alignment * alignment


@kernel
def find_hole(buffers: BufferArrays, placing: Placing, count: int, buffer: int) -> int:
    """Give the address for a buffer among so many that are placed."""
    lower, upper, size = buffers.lower[buffer], buffers.upper[buffer], buffers.size[buffer]
    alignment = buffers.alignment[buffer]
    floor, chosen, least = 0, -1, 0
    for place in range(count):
        other = placing.by_address[place]
        if buffers.lower[other] >= upper or buffers.upper[other] <= lower:
            continue
        start = placing.at[other]
        at = aligned(floor, alignment)
        if start - at >= size and (chosen < 0 or start - at < least):
            if placing.run[0].rule == FIRST_FIT:
                return at
            chosen, least = at, start - at
        floor = max(floor, start + buffers.size[other])
    return chosen if chosen >= 0 else aligned(floor, alignment)


@kernel
def insert_by_address(placing: Placing, count: int, buffer: int) -> None:
    """Put a buffer among those placed."""
    at = count
    while at > 0 and placing.at[placing.by_address[at - 1]] > placing.at[buffer]:
        placing.by_address[at] = placing.by_address[at - 1]
        at -= 1
    placing.by_address[at] = buffer


@kernel
def begin(placing: Placing) -> None:
    """Forget what is placed."""
    here = placing.run[0]
    here.placed, here.height, here.spill = 0, 0, 0.0


@shared_kernel
def place_until(buffers: BufferArrays, placing: Placing, end: int) -> None:
    """Go on until so many of the order tried are placed; of all, keep the lowest plan.

    Notes the height, and what spills over the target.
    """
    here = placing.run[0]
    for count in range(here.placed, end):
        buffer = placing.trial[count]
        at = find_hole(buffers, placing, count, buffer)
        placing.at[buffer] = at
        insert_by_address(placing, count, buffer)
        top = at + buffers.size[buffer]
        here.height = max(here.height, top)
        if top > here.target:
            over = min(top - here.target, buffers.size[buffer])
            here.spill += float(over) * float(buffers.upper[buffer] - buffers.lower[buffer])
    here.placed = end
    if end == len(placing.trial) and here.height < here.best_height:
        here.best_height = here.height
        for buffer in range(len(placing.at)):
            placing.best[buffer] = placing.at[buffer]


@kernel
def move(placing: Placing, source: int, target: int) -> None:
    """Move what stands at a place of the order tried to another."""
    buffer = placing.trial[source]
    step = 1 if target > source else -1
    at = source
    while at != target:
        placing.trial[at] = placing.trial[at + step]
        at += step
    placing.trial[target] = buffer


@kernel
def draw_high(buffers: BufferArrays, placing: Placing) -> int:
    """Draw a place in the order: the first of some whose buffer spills, else any."""
    count = len(placing.trial)
    start = draw_below(placing, count)  # type: ignore[arg-type]
    for i in range(count):
        at = (start + i) % count
        buffer = placing.order[at]
        if placing.at[buffer] + buffers.size[buffer] > placing.run[0].target:
            return at
    return start


@kernel
def change(buffers: BufferArrays, placing: Placing) -> None:
    """Make the order tried from the one reached."""
    count = len(placing.order)
    for place in range(count):
        placing.trial[place] = placing.order[place]
    source = draw_high(buffers, placing)
    if draw_below(placing, 4) == 0:  # type: ignore[arg-type]
        source = draw_below(placing, count)  # type: ignore[arg-type]
        move(placing, source, draw_below(placing, count))  # type: ignore[arg-type]
    elif source > 0:
        reach = source if draw_below(placing, 2) else min(source, SAMPLES)  # type: ignore[arg-type]
        move(placing, source, source - 1 - draw_below(placing, reach))  # type: ignore[arg-type]


def place(buffers: BufferArrays, placing: Placing, end: int) -> int:
    """Go on with the order tried until so many are placed, from none on anew; give the height."""
    if placing.run[0].placed == 0:
        begin(placing)
    place_until(buffers, placing, end)
    return placing.run[0].height  # type: ignore[no-any-return]


def place_in_time(buffers: BufferArrays, holes: Holes, unit: int) -> int:
    """Place all in the order of time, as an arena does that knows no future; give the height.

    The smallest hole that is large enough is found in logarithmic time. Sizes and alignments are
    multiples of the unit.
    """
    clear(holes)  # type: ignore[arg-type]
    area = open_area(holes)  # type: ignore[arg-type]
    add_bytes(holes, area, 0, MOST_BYTES)  # type: ignore[arg-type]
    height, gone = 0, 0
    for step in range(len(holes.entering)):
        buffer = holes.entering[step]
        while buffers.upper[holes.leaving[gone]] <= buffers.lower[buffer]:
            leave(holes, holes.leaving[gone])
            gone += 1
        enter(buffers, holes, buffer, area, unit)
        height = max(height, holes.at[buffer] + buffers.size[buffer])
    return height


@kernel
def enter(buffers: BufferArrays, holes: Holes, buffer: int, area: int, unit: int) -> None:
    """Give a buffer the smallest hole in which it can be aligned; one without bytes needs none."""
    holes.piece[buffer], holes.at[buffer] = NONE, 0
    if buffers.size[buffer] == 0:
        return
    room = buffers.size[buffer] + buffers.alignment[buffer] - unit
    piece = best_fit(holes, area, room)  # type: ignore[arg-type]
    cut(holes, piece, room, LOW)  # type: ignore[arg-type]
    holes.pieces[piece].storage = buffer
    holes.piece[buffer] = piece
    holes.at[buffer] = aligned(holes.pieces[piece].address, buffers.alignment[buffer])


@kernel
def leave(holes: Holes, buffer: int) -> None:
    """Let a buffer's place go."""
    if holes.piece[buffer] != NONE:
        set_free(holes, holes.piece[buffer])  # type: ignore[arg-type]


def improve_order(buffers: BufferArrays, placing: Placing, steps: int) -> int:
    """Take a number of steps, fewer if the target is reached; give how many there were."""
    here = placing.run[0]
    for step in range(steps):
        if here.best_height <= here.target:
            return step
        change(buffers, placing)
        begin(placing)
        place_until(buffers, placing, len(placing.order))
        here.stale += 1
        if here.spill < here.kept_spill:
            here.stale = 0
        if here.spill <= here.kept_spill or here.stale > PATIENCE:
            here.kept_spill = here.spill
            here.stale = 0 if here.stale > PATIENCE else here.stale
            for at in range(len(placing.order)):
                placing.order[at] = placing.trial[at]
    return steps
