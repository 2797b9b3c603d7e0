"""What POFO's dynamic program knows of a chain, and its states: arrays that its kernels read.

The kernels are in ``offloaded_chains.py``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .jit import Bundle

# What is known of a chain of n stages.
CHAIN_FIELDS = np.dtype(
    [
        ("stages", "i8"),
        ("slots", "i8"),
        ("moves", "i8"),  # whether there is a way to the host and back
        ("to_host_time", "f8"),  # of a slot
        ("from_host_time", "f8"),
        ("record", "i8"),  # of the last stage
    ],
    align=True,
)
# A state but for what has to be back, the way on that is tried there, and what that comes to.
HERE_FIELDS = np.dtype(
    [
        ("stage", "i8"),
        ("form", "i8"),
        ("pinned", "i8"),
        ("leaving", "i8"),
        ("offloads", "i8"),  # whether the input goes to the host
        ("whole", "i8"),  # the input, and what of it the stage itself reads
        ("part", "i8"),
        ("joins", "i8"),  # slots that the queues get now, and the later one after the step
        ("late", "i8"),
        ("end", "i8"),  # the last stage of the segment to run without keeping, or ALL
        ("need", "i8"),  # slots that lack for the backward step, or the room to run again in
        ("again", "i8"),  # where the times of running again stand
        ("pinned_then", "i8"),  # of the state after it
        ("leaving_then", "i8"),
        ("next", "i8"),  # where the times of such states stand
        ("spent", "f8"),  # until the backward pass, beside what running all takes
        ("rerun", "i8"),  # slots that a segment has when it is run again
        ("coming", "i8"),  # what has to be back after it
    ],
    align=True,
)
# The best that was found in a state; the last three are of the next one.
CHOICE_FIELDS = np.dtype(
    [
        ("time", "f8"),
        ("end", "i8"),
        ("offloads", "i8"),
        ("rerun", "i8"),
        ("pinned", "i8"),
        ("leaving", "i8"),
        ("coming", "i8"),
    ],
    align=True,
)


class OffloadedChain(Bundle):
    """A chain in slots and units of time.

    ============= ======= =============================================================
    facts         record  one row of `CHAIN_FIELDS`
    whole, part   int64   by 2 * stage + form: the input; and of it what its stage reads
    forward       float64 by stage: when it begins, of the forward pass without waiting
    both          float64 time of the forward and the backward step
    least         float64 time of the rest of the chain, this stage included
    need_forward  int64   slots that a stage needs beside its input to leave all, and
    need_backward int64   to be differentiated
    sent, fetched int64   slots that the link moves before a stage begins, of the forward
                          pass; and likewise of the backward pass
    need          int64   by n * first + last: slots beside its input that a segment needs
                          to be run forward; ``need_sent``: less what has been sent by then
    again         float64 by (n * first + last) * (slots + 1) + room: least time of a segment
    moved         int32   slots that the link moves meanwhile, at most as many as there are
    ============= ======= =============================================================
    """

    LAYOUT: ClassVar[dict[str, Any]] = {
        "facts": CHAIN_FIELDS,
        "whole": np.int64,
        "part": np.int64,
        "forward": np.float64,
        "both": np.float64,
        "least": np.float64,
        "need_forward": np.int64,
        "need_backward": np.int64,
        "sent": np.int64,
        "fetched": np.int64,
        "need": np.int64,
        "need_sent": np.int64,
        "again": np.float64,
        "moved": np.int32,
    }
    facts: Any
    whole: Any
    part: Any
    forward: Any
    both: Any
    least: Any
    need_forward: Any
    need_backward: Any
    sent: Any
    fetched: Any
    need: Any
    need_sent: Any
    again: Any
    moved: Any


class Times(Bundle):
    """Least times of all states, and the state that is looked at.

    ====== ======= ==================================================================
    time   float64 by (2 * stage + form) * states of a stage + state: see `place_of`
    least  float64 by stage and, of pinned and of leaving slots, slots + 1 each: the least time
                   of the states whose input is an output
    start  int64   by pinned slots: the first state that has so many
    here   record  one row of `HERE_FIELDS`
    choice record  one row of `CHOICE_FIELDS`
    ====== ======= ==================================================================
    """

    LAYOUT: ClassVar[dict[str, Any]] = {
        "time": np.float64,
        "least": np.float64,
        "start": np.int64,
        "here": HERE_FIELDS,
        "choice": CHOICE_FIELDS,
    }
    time: Any
    least: Any
    start: Any
    here: Any
    choice: Any
