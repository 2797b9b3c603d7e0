"""Instructions of a DTR log as columns of events: the quick way from lines to a TraceBuilder.

It only sorts. Whether the events are legal is checked where they go; if the lines that describe a
result are not where they belong, there are no columns and the lines have to be read one by one.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, PHASES, RELEASE
from ..bulk import Events
from .dtr_lines import (
    KINDS,
    Alias,
    Annotate,
    Call,
    Constant,
    Copy,
    CopyFrom,
    Instruction,
    Memory,
    Mutate,
    Release,
)

Ints = NDArray[np.int64]
Kinds = NDArray[np.int8]
Columns = dict[str, Any]

NO_EVENT = -1
N_KINDS = len(KINDS)
MAKERS = (Call, Constant)
PHASE_CODES = {phase: code for code, phase in enumerate(PHASES)}
EVENT_OF_KIND = np.full(N_KINDS, NO_EVENT, dtype=np.int8)
EVENT_OF_KIND[Constant.code] = CONSTANT
EVENT_OF_KIND[[Call.code, Mutate.code]] = CALL
EVENT_OF_KIND[Copy.code] = COPY
EVENT_OF_KIND[CopyFrom.code] = COPY_FROM
EVENT_OF_KIND[Release.code] = RELEASE


def complete(records: list[Instruction]) -> int:
    """Count the instructions up to the last one whose describing lines are all there."""
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if isinstance(record, MAKERS):
            needed = 2 * len(record.result) if isinstance(record, Call) else 1
            return len(records) if index + needed < len(records) else index
    return len(records)


def events_of(records: list[Any], first_line: int) -> Events | None:
    """Sort instructions into columns.

    Parameters
    ----------
    records : list of Instruction
        Complete, and one a line.
    first_line : int
        The line of the first.

    Returns
    -------
    Events, or None
        None if MEMORY and ALIAS do not follow what they describe.
    """
    kinds = np.fromiter([record.code for record in records], np.int8, len(records))
    at = [np.flatnonzero(kinds == kind) for kind in range(N_KINDS)]
    at[Call.code] = np.sort(np.concatenate([at[Call.code], at[Mutate.code]]))
    codes = EVENT_OF_KIND[kinds]
    marks = [k for k in at[Annotate.code].tolist() if records[k].annotation == "BACKWARD"]
    codes[marks] = BACKWARD
    at_events = np.flatnonzero(codes != NO_EVENT)
    columns: Columns = {"codes": codes[at_events], "lines": at_events + first_line}
    for described in (_constants(records, kinds, at), _calls(records, kinds, at)):
        if described is None:
            return None
        columns |= described
    return Events(**columns, **_names(records, at))


def _constants(records: list[Any], kinds: Kinds, at: list[Ints]) -> Columns | None:
    """Sort constants and their sizes."""
    names = [record.name for record in _take(records, at[Constant.code])]
    sizes = _follow(records, kinds, at[Constant.code] + 1, Memory.code)
    if [record.name for record in sizes] != names:
        return None
    return {"constant_names": names, "constant_bytes": [record.memory for record in sizes]}


def _calls(records: list[Any], kinds: Kinds, at: list[Ints]) -> Columns | None:
    """Sort calls, mutating ones too, and what describes their results."""
    calls = _take(records, at[Call.code])
    results = [call.result for call in calls]
    counts = np.fromiter(map(len, results), np.int64, len(results))
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    at_sizes = np.repeat(at[Call.code], counts) + 1 + 2 * within
    sizes = _follow(records, kinds, at_sizes, Memory.code)
    views = _follow(records, kinds, at_sizes + 1, Alias.code)
    names = list(chain.from_iterable(results))
    if [record.name for record in sizes] != names or [record.name for record in views] != names:
        return None
    n_described = len(names) + len(at[Constant.code])
    if len(at[Memory.code]) != n_described or len(at[Alias.code]) != len(names):
        return None
    return {
        "operators": [call.name for call in calls],
        "times_ns": [call.time for call in calls],
        "workspace_bytes": [call.rematsim_workspace for call in calls],
        "phases": [PHASE_CODES[call.phase] for call in calls],
        "modules": [call.module for call in calls],
        "forwards": [call.rematsim_forward for call in calls],
        "tags": [call.rematsim_tags for call in calls],
        "args": [call.args for call in calls],
        "results": results,
        "mutates": [call.mutate for call in calls],
        "result_bytes": [record.memory for record in sizes],
        "result_alias": [record.alias for record in views],
    }


def _names(records: list[Any], at: list[Ints]) -> Columns:
    """Sort what names are bound to."""
    copies, moves = _take(records, at[Copy.code]), _take(records, at[CopyFrom.code])
    return {
        "copy_dst": [record.dst for record in copies],
        "copy_src": [record.src for record in copies],
        "copy_from_dst": [record.dst for record in moves],
        "copy_from_src": [record.src for record in moves],
        "released": [record.name for record in _take(records, at[Release.code])],
    }


def _take(records: list[Any], places: Ints) -> list[Any]:
    """Pick the instructions at some places."""
    return [records[k] for k in places.tolist()]


def _follow(records: list[Any], kinds: Kinds, places: Ints, kind: int) -> list[Any]:
    """Pick the instructions at some places if all are of one kind; nothing otherwise."""
    is_there = places.max(initial=-1) < len(kinds) and (kinds[places] == kind).all()
    return _take(records, places) if is_there else []
