"""The State: all mutable facts of one run, as arrays that kernels write and scores read.

`allocate` makes one for a Program; `runner.py` sets it up and empties its buffers, kernels do the
rest. Scores read it through the terms in ``heuristics/terms.py`` and see only what has happened so
far.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .event_fields import EVENT_FIELDS
from .jit import Bundle
from .program import Program
from .space import PIECE_FIELDS, PLACE_FIELDS, SETTINGS_LENGTH, SPACE_FIELDS
from .traffic import LINK_FIELDS, MOVE_FIELDS, TRANSFER_FIELDS

# Where the data of a storage is.
EVICTED = 0  # not in memory: never computed yet, or dropped
RESIDENT = 1
PINNED = 2  # in memory for good
BANISHED = 3  # dropped for good: its neighbors ignore it
REVIVED = 4  # banished, and in memory again beside a sibling that was recomputed

# What a heuristic needs the engine to keep up (bits).
NEEDS_ANCESTORS = 1  # cost of the evicted ancestors
NEEDS_DESCENDANTS = 2  # cost of the evicted descendants
NEEDS_CLASSES = 4  # union-find classes of evicted storages
NEEDS_SET = 8  # the evicted neighborhood as one set, walked for each score
NEEDS_NEXT_USE = 16  # when the trace uses the storage next: looks ahead
NEEDS_LAST_STEP = 32  # when its counterpart of the step before was used next
NEEDS_CALL = 64  # the classes of what its own call reads and makes; with classes
NEEDS = {
    "ancestors": NEEDS_ANCESTORS,
    "descendants": NEEDS_DESCENDANTS,
    "classes": NEEDS_CLASSES,
    "set": NEEDS_SET,
    "next_use": NEEDS_NEXT_USE,
    "last_step": NEEDS_LAST_STEP,
    "call": NEEDS_CALL,
}

NEVER = np.iinfo(np.int64).min  # the last access of a storage that was never accessed
NO_LIMIT = np.iinfo(np.int64).max
MAX_CLOCK = 2**62  # ns: 146 years; a run that would go on longer has thrashed

ASKED_FIELDS = [
    ("remat_limit_ns", "i8"),
    ("idle_limit", "i8"),  # most recomputations in a row that take no time
    ("policy", "i8"),  # opcodes.DEALLOCATIONS
    ("needs", "i8"),  # what the heuristic declares
    ("upkeep", "i8"),  # sums and look-ups kept as bounds; 0 where all is walked afresh
    ("refresh", "i8"),  # address of `choosing.refresh`, for a heuristic that needs something
    ("tracks_waiting", "i8"),  # banish's sets are kept
    ("logs_events", "i8"),
    ("in_place", "i8"),  # results may take over the bytes of operands
    ("drops_intermediates", "i8"),  # what was recomputed for a recomputation only goes at once
    ("pause_at_bytes", "i8"),  # stop when this much is in use
    ("random", "i8"),  # of the generator
]
RUN_FIELDS = np.dtype(
    [
        *ASKED_FIELDS,
        # where the run is
        ("instruction", "i8"),
        ("depth", "i8"),  # frames in use
        ("created_tensors", "i8"),
        ("current_call", "i8"),  # the call issued last; the number of calls after the last one
        # accounts
        ("model_ns", "i8"),
        ("remat_ns", "i8"),
        ("evictions", "i8"),
        ("pressure_evictions", "i8"),
        ("rematerializations", "i8"),
        ("idle_remats", "i8"),  # the latest of them, in a row, that took no time
        ("evaluations", "i8"),
        ("metadata_accesses", "i8"),
        ("search_steps", "i8"),  # storages or pieces considered to make room
        ("created_storages", "i8"),  # with a size; and the bytes of them: for mean sizes
        ("created_bytes", "i8"),
        # pool: State.pool[0:pool_end], holes are -1
        ("pool_end", "i8"),
        ("pool_count", "i8"),
        # neighborhoods: how often some may have grown; that count at the last walk for a score
        ("growth", "i8"),
        ("walked_at", "i8"),
        ("looked_at_call", "i8"),  # the call whose results walks have begun to meet
        # walks, classes, random numbers
        ("stamp", "i8"),
        ("lost_ns", "i8"),  # cost that classes have lost so far
        ("class_end", "i8"),
        ("class_floor_ns", "i8"),  # no class costs less: 0, until one does
        # of the storage being scored: its evicted neighborhood as a set, its call's, its next use
        ("set_ns", "i8"),
        ("set_last_access", "i8"),
        ("call_ns", "i8"),
        ("next_use_ns", "f8"),
        # victims chosen, and the score of the first; buffers that Python empties
        ("victims", "i8"),
        ("score", "f8"),
        ("recorded", "i8"),
        ("events", "i8"),
    ],
    align=True,
)
FACT = {name: place for place, name in enumerate(RUN_FIELDS.names or ())}
MEMORY_FIELDS = np.dtype(
    [
        ("used_bytes", "i8"),
        ("budget_bytes", "i8"),
        ("peak_bytes", "i8"),
        ("serve", "i8"),  # address of the memory model's entry point (`serving.py`); 0: none
    ],
    align=True,
)
# One cache line a storage: what scores read.
STORAGE_FIELDS = np.dtype(
    [
        ("cost_ns", "i8"),  # of the distinct calls that made its tensors so far
        ("size_bytes", "i8"),
        ("last_access", "i8"),  # clock reading, or NEVER
        ("ancestor_ns", "i8"),  # cost of its evicted ancestors: exact, or a lower bound
        ("descendant_ns", "i8"),
        ("class_ns", "i8"),  # cost of the classes next to it, plus RUN lost_ns at that time
        ("ancestors_at", "i4"),  # RUN growth when ancestor_ns was walked; negative: since reduced
        ("descendants_at", "i4"),
        ("pool_slot", "i4"),  # index into the pool, or -1
        ("residence", "i4"),
    ],
    align=True,
)
# What holds a storage, and its place in the graph.
HOLD_FIELDS = np.dtype(
    [
        ("references", "i4"),  # held by the program
        ("locks", "i4"),  # held by running calls and pins
        ("waiting", "i4"),  # tensors that still need it (banish)
        ("parent_edges", "i4"),  # edges created so far
        ("child_edges", "i4"),
        ("evicted_at", "i4"),  # RUN growth from which walks may have met it as evicted
        ("evicted_neighbors", "i4"),  # edges to evicted storages
        ("remat_count", "i4"),
        ("class_node", "i4"),  # its node in the union-find forest, or -1
        ("is_pinned", "u1"),
        ("is_irreplaceable", "u1"),  # cannot be recomputed: only banish's rule frees it
        ("has_siblings", "u1"),  # its call makes other storages, too
    ],
    align=True,
)
CLASS_FIELDS = np.dtype(
    [
        ("parent", "i4"),
        ("members", "i4"),  # at a root: evicted storages in the class
        ("cost_ns", "i8"),  # at a root: running cost
        ("mark", "i8"),  # the last look-up that counted the class
    ],
    align=True,
)
FRAME_FIELDS = np.dtype(
    [
        ("tensor", "i4"),  # wanted
        ("next", "i4"),  # next of its undefined operands: pending[next:end]
        ("end", "i4"),
        ("is_remat", "i4"),
    ],
    align=True,
)
RECORD_CAPACITY = 1 << 15  # evictions between two visits of Python
EVENT_CAPACITY = 1 << 15


class State(Bundle):
    """All mutable facts of one run.

    Attributes
    ----------
    facts, asked : ndarray of int64
        The row of ``run`` as Python reads it quickly, a field at `FACT` of its name; and of that
        what is asked for, in the order of ``ASKED_FIELDS``.
    room : void
        The row of ``memory``.
    has_addresses, can_move : bool
        Whether there is room for pieces, and to note what a heuristic moves.

    Notes
    -----
    ============== ======= ============================================================
    run            record  one row of `RUN_FIELDS`: settings, position, accounts
    memory         record  one row of `MEMORY_FIELDS`, changed by ``memory.py`` alone
    next_free      int64   when each stream is next free; the first is the clock
    storages       record  `STORAGE_FIELDS`: what scores read, one row a storage
    holds          record  `HOLD_FIELDS`: references, locks, visible edges
    defined        uint8   by tensor
    waiting        uint8   by tensor and source: the tensor waits for that storage (banish)
    pool           int32   storages that may be evicted, in order of entry, with holes (-1)
    scores         float64 values of a scan, beside the pool
    frames         record  `FRAME_FIELDS`: the stack of calls being materialized
    pending        int32   the stack of their undefined operands
    victims        int32   storages that `choose` picked
    classes        record  `CLASS_FIELDS`: union-find forest of the evicted classes
    mark           int64   by storage: the last walk that saw it
    up, down       int32   a walk each way: its storages from the front, its frontier from the back
    recorded       int32   root tensors evicted since Python last looked
    events         record  `EVENT_FIELDS`, likewise
    text           uint8   what is recorded, in decimal, once it is rendered
    space          record  one row of `SPACE_FIELDS`; this and what follows: with addresses only
    settings       int64   of the memory model
    pieces         record  `PIECE_FIELDS`: all addresses, in use or free
    places         record  by storage: its piece, and the address that it has, or had last
    placed         record  likewise by result of the call under way; the workspace after the last
    sides          uint8   by call: the end of a free piece at which its results are placed
    link           record  one row of `LINK_FIELDS`
    moves          record  `MOVE_FIELDS`, by storage; this and the next two: of transfers only
    transfers      record  `TRANSFER_FIELDS`, in the order of issue
    away           int32   those on the host alone, in any order
    ============== ======= ============================================================
    """

    run: Any
    memory: Any
    next_free: NDArray[np.int64]
    storages: Any
    holds: Any
    defined: NDArray[np.uint8]
    waiting: NDArray[np.uint8]
    pool: NDArray[np.int32]
    scores: NDArray[np.float64]
    frames: Any
    pending: NDArray[np.int32]
    victims: NDArray[np.int32]
    classes: Any
    mark: NDArray[np.int64]
    up: NDArray[np.int32]
    down: NDArray[np.int32]
    recorded: NDArray[np.int32]
    events: Any
    text: NDArray[np.uint8]
    space: Any
    settings: NDArray[np.int64]
    pieces: Any
    places: Any
    placed: Any
    sides: NDArray[np.uint8]
    link: Any
    moves: Any
    transfers: Any
    away: NDArray[np.int32]

    LAYOUT: ClassVar[dict[str, Any]] = {
        "run": RUN_FIELDS,
        "memory": MEMORY_FIELDS,
        "next_free": np.int64,
        "storages": STORAGE_FIELDS,
        "holds": HOLD_FIELDS,
        "defined": np.uint8,
        "waiting": np.uint8,
        "pool": np.int32,
        "scores": np.float64,
        "frames": FRAME_FIELDS,
        "pending": np.int32,
        "victims": np.int32,
        "classes": CLASS_FIELDS,
        "mark": np.int64,
        "up": np.int32,
        "down": np.int32,
        "recorded": np.int32,
        "events": EVENT_FIELDS,
        "text": np.uint8,
        "space": SPACE_FIELDS,
        "settings": np.int64,
        "pieces": PIECE_FIELDS,
        "places": PLACE_FIELDS,
        "placed": PLACE_FIELDS,
        "sides": np.uint8,
        "link": LINK_FIELDS,
        "moves": MOVE_FIELDS,
        "transfers": TRANSFER_FIELDS,
        "away": np.int32,
    }

    def __init__(self, **arrays: Any) -> None:
        super().__init__(**arrays)
        self.facts = self.run.view(np.int64, np.ndarray)
        self.asked = self.facts[: len(ASKED_FIELDS)]
        self.room = self.memory.view(MEMORY_FIELDS, np.ndarray)[0]
        self.has_addresses = len(self.pieces) > 1
        self.can_move = len(self.away) > 1

    def remember(self, start: NDArray[np.uint8]) -> None:
        """Keep a copy of the bytes of ``PUT_BACK``, from which each later run starts."""
        self._start, self._as_new = start, start.copy()

    def put_back(self) -> None:
        """Forget the last run."""
        self._start[:] = self._as_new


# What a new run finds put back; the rest is written before it is read.
PUT_BACK = ("run", "memory", "next_free", "storages", "holds", "defined", "waiting", "mark",
            "link", "moves")  # fmt: skip
ADDRESSED = ("settings", "pieces", "places", "placed", "sides")
_ALIGNMENT = 64


def _lengths(
    program: Program, logs_events: bool, has_addresses: bool, transfers: int
) -> dict[str, int]:
    """Give the length of each array of a State."""
    count, calls, tensors = len(program.storages) - 1, program.calls, program.tensors
    results = int((calls["end_result"] - calls["first_result"]).max(initial=0))
    with_addresses = {
        "settings": SETTINGS_LENGTH,
        # In use at once: a storage each, a call's results and workspace, what is on its way out; as
        # many free ones between.
        "pieces": 2 * (count + len(calls) + results + max(transfers, 0)) + 64,
        "places": count,
        "placed": results + 1,
        "sides": len(calls),
    }
    waits = len(tensors) and int(
        tensors["first_wait"][-1] + calls["end_source"][-1] - calls["first_source"][-1]
    )
    return {
        **dict.fromkeys(("run", "memory", "space", "link"), 1),
        "next_free": 3,
        "storages": count,
        "holds": count,
        "defined": len(tensors),
        "waiting": waits,
        "pool": 2 * count + 64,
        "scores": 2 * count + 64,
        "frames": len(calls) + 2,
        "pending": len(program.parents) + 1,
        "classes": 4 * count + 64,
        "mark": count,
        **dict.fromkeys(("victims", "up", "down"), count + 1),
        "recorded": RECORD_CAPACITY + count,
        "text": 12 * (RECORD_CAPACITY + count),
        "events": EVENT_CAPACITY + 2 * (count + max(transfers, 0)) if logs_events else 1,
        "moves": count if transfers >= 0 else 1,
        "transfers": max(transfers, 1),
        "away": count if transfers == 0 else 1,
        **(with_addresses if has_addresses else dict.fromkeys(ADDRESSED, 1)),
    }


def allocate(
    program: Program, logs_events: bool = False, has_addresses: bool = False, transfers: int = -1
) -> State:
    """Make the State of a run that has not begun.

    Parameters
    ----------
    program : Program
        What will be run.
    logs_events : bool
        Whether room for an event log is wanted.
    has_addresses : bool
        Whether room for pieces is, which a memory model with addresses needs.
    transfers : int
        How many transfers a plan has; 0 where a heuristic moves data; -1: nothing moves.
    """
    lengths = _lengths(program, logs_events, has_addresses, transfers)
    state, start = _laid_out(lengths)
    state.next_free.fill(1)
    storages = state.storages.view(np.ndarray)
    storages["size_bytes"] = program.storages["size_bytes"][:-1]
    storages["last_access"] = NEVER
    storages["pool_slot"] = -1
    state.holds.view(np.ndarray)["class_node"] = -1
    state.facts[FACT["looked_at_call"]] = -1
    state.remember(start)
    return state


def blank(lengths: dict[str, int]) -> State:
    """Make a State of no Program, with arrays of these lengths and all others of one item."""
    full = dict.fromkeys(State.LAYOUT, 1) | {"settings": SETTINGS_LENGTH} | lengths
    return _laid_out(full)[0]


def _laid_out(lengths: dict[str, int]) -> tuple[State, NDArray[np.uint8]]:
    """Make all arrays, zeros, in one piece; give also the bytes of those of ``PUT_BACK``."""
    order = [*PUT_BACK, *(name for name in State.LAYOUT if name not in PUT_BACK)]
    starts, end = {}, 0
    for name in order:
        starts[name] = end
        size = lengths[name] * np.dtype(State.LAYOUT[name]).itemsize
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    room = np.zeros(end + _ALIGNMENT, np.uint8)
    room = room[-room.ctypes.data % _ALIGNMENT :][:end]
    arrays: dict[str, Any] = {}
    for name, start in starts.items():
        dtype = np.dtype(State.LAYOUT[name])
        array = room[start : start + lengths[name] * dtype.itemsize].view(dtype)
        arrays[name] = array.view(np.recarray) if dtype.names else array
    return State(**arrays), room[: starts[order[len(PUT_BACK)]]]
