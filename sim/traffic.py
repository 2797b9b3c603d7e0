"""The records of transfers between device and host, and the constants that stand in them.

Columns of the State (`state.py`), written by the kernels of ``transfers.py`` and
``transferring.py`` where a plan moves data, by those of ``moving.py`` where a heuristic does.
"""

from __future__ import annotations

import numpy as np

NO_TRANSFER = -1
NOT_YET = -1  # in place of a time, or an instruction

# What connects the device to the host, and the accounts of it.
LINK_FIELDS = np.dtype(
    [
        ("host_limit_bytes", "i8"),
        ("is_half_duplex", "i8"),
        ("is_online", "i8"),  # a heuristic moves data, not a plan
        ("is_planned", "i8"),  # a plan does
        ("prefetches", "i8"),  # it brings back what the trace uses next, ahead of that
        ("away_ns", "i8"),  # time that copies back of all that is on the host alone would take
        ("passed_over", "i8"),  # what stands before that place of the pool is not to be saved
        ("queue_ns", "i8"),  # at the latest choice, until a copy to the host could begin
        ("first_back", "i8"),  # what is used first of what is on the host alone; -1: not known
        ("away", "i8"),  # so many storages are on the host alone: State.away[0:away]
        ("now_ns", "i8"),  # transfers have been followed up to here, as the clock reads
        ("issued", "i8"),  # transfers so far
        ("to_host", "i8"),  # no transfer each way before this one has not ended
        ("from_host", "i8"),
        ("passing_bytes", "i8"),  # workspace and second copies of the call that runs
        ("call_waits", "i8"),  # a call has asked for room and has none yet
        ("is_refused", "i8"),  # who is first in line found no place; nothing has been freed since
        ("host_bytes", "i8"),
        ("host_peak_bytes", "i8"),
        ("offloaded_bytes", "i8"),
        ("prefetched_bytes", "i8"),
        ("stall_ns", "i8"),
        ("awaited", "i8"),  # of a call that waits for ever: the transfer, or NO_TRANSFER: room
    ],
    align=True,
)
# One OFFLOAD or PREFETCH, in the order in which they were issued.
TRANSFER_FIELDS = np.dtype(
    [
        ("start_ns", "i8"),
        ("end_ns", "i8"),
        ("discarded_by", "i8"),  # the instruction that waits for its end, or NOT_YET
        ("address", "i8"),  # where it copies from, or to
        ("piece", "i4"),  # what lies there, while no storage has it; or space.NONE
        ("storage", "i4"),
        ("instruction", "i4"),
        ("source", "i4"),  # the transfer that brings what it copies, or NO_TRANSFER
        ("is_to_host", "u1"),
        ("has_asked", "u1"),  # a PREFETCH whose turn has come and that wants room
        ("is_behind_call", "u1"),  # a call has asked for room before it
        ("has_ended", "u1"),
        ("is_disowned", "u1"),  # an OFFLOAD whose storage is another one's business by now
    ],
    align=True,
)
# Where a storage is, as a plan has said so far or a heuristic has chosen; how long moving takes.
MOVE_FIELDS = np.dtype(
    [
        ("to_host_ns", "i8"),
        ("from_host_ns", "i8"),
        ("is_here", "i4"),  # in memory, or on its way there
        ("is_on_host", "i4"),  # likewise
        ("arrival", "i4"),  # the PREFETCH that brings it, or NO_TRANSFER
        ("departure", "i4"),  # the OFFLOAD that made the host copy, or NO_TRANSFER
        # Of runs that a heuristic decides; these know is_on_host, too.
        ("busy_until_ns", "i8"),  # the latest copy of it ends then, as the clock reads
        ("readable_at_ns", "i8"),  # the latest copy back likewise
        ("away_slot", "i4"),  # index into State.away
        ("next_use", "i4"),  # the call that uses it next, noted when it went away
        ("is_away", "u1"),  # on the host alone
    ],
    align=True,
)
