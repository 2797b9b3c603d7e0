"""Codes that traces, programs and kernels share: instructions, phases, tags, actions, statuses.

Plain integers, because compiled kernels compare them; the tuples beside them give their names.
"""

from __future__ import annotations

# Instructions of a Trace (operands: columns 1 and 2 of its instruction table).
CONSTANT = 0  # a: name, b: index into constant_bytes
CALL = 1  # a: call
COPY = 2  # a: new name, b: name that it copies
COPY_FROM = 3  # a: name that is bound anew, b: name whose tensor it takes
RELEASE = 4  # a: name
BACKWARD = 5  # the backward pass begins
INSTRUCTIONS = ("CONSTANT", "CALL", "COPY", "COPY_FROM", "RELEASE", "BACKWARD")

# Phases of a call.
PHASE_UNKNOWN, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER = 0, 1, 2, 3
PHASES = ("", "fwd", "bwd", "opt")

# Tags of a call: bits.
TAG_RANDOM, TAG_COLLECTIVE, TAG_DATA_DEPENDENT = 1, 2, 4
TAGS = ("random", "collective", "data_dependent")

# Deallocation policies: what a release of the program does (docs/semantics.md, 5).
IGNORE, EAGER, BANISH = 0, 1, 2
DEALLOCATIONS = ("ignore", "eager", "banish")

# How a run ended.
OK, OOM, THRASHED = 0, 1, 2
STATUSES = ("ok", "oom", "thrashed", "infeasible", "no_plan", "refused")

# A run makes no progress after so many recomputations in a row that take no time, by calls.
IDLE_REMATS_PER_CALL = 1000

# Actions of an event log.
ACTIONS = (
    "compute",
    "recompute",
    "drop_duplicate",
    "evict",
    "deallocate",
    "banish",
    "pin",
    "offload",
    "prefetch",
    "discard",
    "stall",
    "take_over",
    "save",
)
(
    COMPUTE,
    RECOMPUTE,
    DROP_DUPLICATE,
    EVICT,
    DEALLOCATE,
    BANISH_STORAGE,
    PIN,
    OFFLOAD,
    PREFETCH,
    DISCARD,
    STALL,
    TAKE_OVER,
    SAVE,
) = range(len(ACTIONS))

# Streams of the time model.
STREAMS = ("compute", "to_host", "from_host")
