"""The records of memory with addresses, and the constants that stand in them.

Columns of the State (`state.py`), written by the kernels of ``pieces.py``, ``serving.py`` and the
memory models.
"""

from __future__ import annotations

import numpy as np

FREE, SCRATCH, HEAD = -1, -2, -3  # in place of a storage; SCRATCH: while a call runs only
NONE = -1  # no piece
LOW, HIGH = 0, 1  # ends of a piece, by address
SETTINGS_LENGTH = 24  # most settings of a memory model

# What a memory model with addresses accounts for.
SPACE_FIELDS = np.dtype(
    [
        ("size_bytes", "i8"),  # that it may hand out in all
        ("occupied_bytes", "i8"),  # of pieces in use, rounded as the model does
        ("reserved_bytes", "i8"),  # taken from the device
        ("reserved_peak_bytes", "i8"),
        # the last request that failed: what found no place, as it was asked for; its side
        ("wanted_bytes", "i8"),
        ("wanted_side", "i8"),
        ("failed_at", "i8"),  # RUN pressure_evictions then; -1 once a call fits
        ("retries", "i8"),
        ("crowded", "i8"),  # calls that were placed after evictions; bytes free before that, summed
        ("crowded_free_bytes", "i8"),
        # pieces: how many records have been in use, the first that is spare, the last priority
        ("pieces", "i8"),
        ("spare", "i8"),
        ("priority", "i8"),
        # what has never been in use: of an arena one stretch, of its small area the end
        ("untouched_begin", "i8"),
        ("untouched_end", "i8"),
        ("small_untouched_bytes", "i8"),
    ],
    align=True,
)
# A stretch of addresses, one cache line (`pieces.py`).
PIECE_FIELDS = np.dtype(
    [
        ("address", "i8"),
        ("size_bytes", "i8"),
        ("storage", "i4"),  # that lies in it; FREE, SCRATCH or HEAD
        ("area", "i4"),  # whose piece it is
        ("before", "i4"),  # neighbors by address; the area's head at either end
        ("after", "i4"),
        ("left", "i4"),  # in the tree of free pieces
        ("right", "i4"),
        ("priority", "i4"),
        ("mark", "i4"),  # this and the rest are for the model's own use
        ("asked_bytes", "i8"),
        ("stamp", "i8"),
    ],
    align=True,
)
PLACE_FIELDS = np.dtype([("address", "i8"), ("piece", "i8")], align=True)
