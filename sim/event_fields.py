"""The record of a row of the event log while a run goes on; what the columns mean: `result.py`."""

from __future__ import annotations

import numpy as np

EVENT_FIELDS = np.dtype(
    [
        ("start_ns", "i8"),
        ("end_ns", "i8"),
        ("score", "f8"),
        ("bytes", "i8"),
        ("memory_after_bytes", "i8"),
        ("address", "i8"),
        ("reserved_after_bytes", "i8"),
        ("host_after_bytes", "i8"),
        ("instruction", "i8"),
        ("call", "i8"),
        ("storage", "i8"),
        ("cause_call", "i8"),
        ("action", "i8"),
        ("tensor", "i8"),
    ],
    align=True,
)
