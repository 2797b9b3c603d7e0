"""What kernels of the tree search for addresses read and write; the search: ``stacking.py``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .jit import Bundle

# How a search ends.
FOUND, IMPOSSIBLE, GOING_ON, NO_ROOM = 1, 0, -1, -2
NOT_PLACED, NONE, FAR = -1, -1, 1 << 61
MIXED = 2862933555777941757  # odd, and far from anything regular: mixes keys of states

RUN_FIELDS = np.dtype(
    [("capacity", "i8"), ("depth", "i8"), ("is_entering", "i8"), ("trail", "i8"), ("waiting", "i8"),
     ("low", "i8"), ("limit", "i8"), ("nodes", "i8")],
    align=True,
)  # fmt: skip
# A node of the path: its part of time and where it begins in the stacks.
FRAME_FIELDS = np.dtype(
    [("first", "i8"), ("end", "i8"), ("address", "i8"), ("rank", "i8"), ("next_part", "i8"),
     ("back", "i8"), ("left", "i8"), ("left_end", "i8"), ("choice", "i8"), ("choice_end", "i8"),
     ("next_choice", "i8"), ("placed", "i8"), ("trail", "i8"), ("waiting", "i8"), ("key", "i8")],
    align=True,
)  # fmt: skip
PART_FIELDS = np.dtype(
    [("first", "i8"), ("end", "i8"), ("address", "i8"), ("rank", "i8"), ("next_part", "i8"),
     ("back", "i8")],
    align=True,
)  # fmt: skip
TRAIL_FIELDS = np.dtype([("buffer", "i8"), ("address", "i8")], align=True)
FAILED_FIELDS = np.dtype([("key", "i8"), ("address", "i8"), ("rank", "i8")], align=True)


class Stack(Bundle):
    """The buffers: their sections, sizes, who lives with whom, and the order of preference."""

    first: Any
    end: Any
    size: Any
    alignment: Any
    rank: Any
    by_rank: Any
    neighbor_pointer: Any
    neighbors: Any
    code: Any  # a random number for each

    LAYOUT: ClassVar[dict[str, Any]] = {
        "first": np.int32,
        "end": np.int32,
        "size": np.int64,
        "alignment": np.int64,
        "rank": np.int32,
        "by_rank": np.int32,
        "neighbor_pointer": np.int64,
        "neighbors": np.int32,
        "code": np.int64,
    }


class Tree(Bundle):
    """Where a search is."""

    lowest: Any  # by buffer: the lowest address that those placed leave it
    bound: Any  # by buffer, of those left: no solution below this node has it lower
    at: Any  # addresses
    load: Any  # by section: bytes left to place
    by_bound: Any  # those left, sorted
    floor: Any  # by section: nothing is placed below from here on; then what is to be above
    failures: Any  # by section: how often what was left did not fit
    cover: Any  # by section: buffers left that live across its beginning
    left: Any  # stack of the buffers that are left at each node
    choices: Any  # stack of those that can be next
    frames: Any
    parts: Any  # stack of parts of time that wait
    trail: Any  # what to undo in `lowest`
    failed: Any  # states that have no solution
    run: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "lowest": np.int64,
        "bound": np.int64,
        "at": np.int64,
        "load": np.int64,
        "by_bound": np.int32,
        "floor": np.int64,
        "failures": np.int64,
        "cover": np.int32,
        "left": np.int32,
        "choices": np.int32,
        "frames": FRAME_FIELDS,
        "parts": PART_FIELDS,
        "trail": TRAIL_FIELDS,
        "failed": FAILED_FIELDS,
        "run": RUN_FIELDS,
    }
