"""What is in a trace file, as columns: a Trace without what follows from the rest, and back.

Names are told by how many names were bound since, so that a layer looks like the one before it;
which names are bound follows from the calls. The columns are described in docs/trace-format.md,
and how their bytes lie in the file in ``trace_columns.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, RELEASE
from ..trace import Trace

Columns = dict[str, Any]
Ints = NDArray[np.int64]

# Column -> its type and which table it is of; tables have so many rows each.
NUMBERS: dict[str, tuple[str, str]] = {
    "codes": ("int8", "instructions"),
    "references": ("int32", "references"),
    "constant_bytes": ("int64", "constants"),
    "constant_kind": ("int32", "constants"),
    "call_operator": ("int32", "calls"),
    "call_time_ns": ("int64", "calls"),
    "call_workspace_bytes": ("int64", "calls"),
    "call_phase": ("int8", "calls"),
    "call_module": ("int32", "calls"),
    "call_forward": ("int32", "calls"),
    "call_tags": ("uint8", "calls"),
    "call_line": ("int32", "calls"),
    "call_args": ("int32", "calls"),
    "call_results": ("int32", "calls"),
    "call_mutates": ("int32", "calls"),
    "args": ("int32", "args"),
    "result_bytes": ("int64", "results"),
    "result_alias": ("int32", "results"),
    "result_kind": ("int32", "results"),
    "mutate_args": ("int32", "mutates"),
}
TEXTS = ("names", "operators", "modules", "value_kinds")
AS_THEY_ARE = (
    *("constant_bytes", "constant_kind", "call_operator", "call_time_ns", "call_workspace_bytes"),
    *("call_phase", "call_module", "call_tags", "call_line"),
    *("result_bytes", "result_alias", "result_kind", "mutate_args"),
)
COUNTED = {
    "call_args": "arg_offsets",
    "call_results": "result_offsets",
    "call_mutates": "mutate_offsets",
}
# How many names an instruction refers to by its code, calls aside.
N_REFERENCES = (0, 0, 1, 2, 1, 0)


class Places(NamedTuple):
    """Where the instructions of each code are, and what is bound before each instruction.

    Attributes
    ----------
    at : list of ndarray of int64
        By code: the positions of the instructions.
    bound_before : ndarray of int64, shape (n_instructions,)
        Names bound before each.
    n_names : int
        Names bound by all.
    """

    at: list[Ints]
    bound_before: Ints
    n_names: int


def places_of(codes: Any, call_results: Any) -> Places:
    """Find them; a constant and a copy bind one name, a call as many as it has results."""
    at = [np.flatnonzero(codes == code) for code in range(BACKWARD + 1)]
    bound = np.zeros(len(codes), dtype=np.int64)
    bound[at[CONSTANT]] = bound[at[COPY]] = 1
    bound[at[CALL]] = call_results
    after = bound.cumsum()
    return Places(at, after - bound, int(after[-1]))


def columns_of(trace: Trace) -> Columns:
    """Turn a trace into the columns of a file."""
    codes, first, second = trace.instructions.T
    counts = {name: np.diff(getattr(trace, field)) for name, field in COUNTED.items()}
    places = places_of(codes, counts["call_results"])
    before_calls = places.bound_before[places.at[CALL]]
    forward = trace.call_forward
    columns: Columns = {name: getattr(trace, name) for name in AS_THEY_ARE}
    columns |= counts
    columns["codes"] = codes
    columns["args"] = np.repeat(before_calls, counts["call_args"]) - trace.arg_names
    columns["references"] = _references(places, first, second)
    columns["call_forward"] = np.where(forward < 0, 0, np.arange(len(forward)) - forward)
    columns = {
        name: np.ascontiguousarray(columns[name], dtype=dtype)
        for name, (dtype, _) in NUMBERS.items()
    }
    return columns | {name: getattr(trace, name) for name in TEXTS}


def fields_of(columns: Columns, places: Places) -> Columns:
    """Turn columns, whose rows fit together, into those fields of a trace that are arrays.

    Names that do not exist come out as numbers out of range; nothing else is checked either.
    """
    fields = {name: columns[name] for name in AS_THEY_ARE}
    for name, field in COUNTED.items():
        fields[field] = _offsets(columns[name])
    before_calls = places.bound_before[places.at[CALL]].astype(np.int32)
    fields["instructions"] = _instructions(columns["codes"], places, columns["references"])
    fields["arg_names"] = np.repeat(before_calls, columns["call_args"]) - columns["args"]
    fields["result_names"] = _bound_by_calls(places)
    back = columns["call_forward"]
    calls = np.arange(len(back), dtype=np.int32)
    fields["call_forward"] = np.where(back == 0, np.int32(-1), calls - back)
    return fields


def _bound_by_calls(places: Places) -> Any:
    """Give the names that are bound by no constant and by no copy."""
    is_result = np.ones(places.n_names, dtype=bool)
    for code in (CONSTANT, COPY):
        is_result[places.bound_before[places.at[code]]] = False
    return np.flatnonzero(is_result).astype(np.int32)


def _references(places: Places, first: Any, second: Any) -> Ints:
    """Tell the names that instructions other than calls refer to, in order."""
    starts, total = _reference_starts(places)
    references = np.empty(total, dtype=np.int64)
    for code, columns in ((RELEASE, [first]), (COPY, [second]), (COPY_FROM, [first, second])):
        at = places.at[code]
        for k, column in enumerate(columns):
            references[starts[code] + k] = places.bound_before[at] - column[at]
    return references


def _instructions(codes: Any, places: Places, references: Any) -> Any:
    """Make the table of instructions."""
    at, before = places.at, places.bound_before
    rows = np.zeros((len(codes), 3), dtype=np.int32)
    starts, _ = _reference_starts(places)
    rows[:, 0] = codes
    rows[at[CONSTANT], 1] = before[at[CONSTANT]]
    rows[at[CONSTANT], 2] = np.arange(len(at[CONSTANT]))
    rows[at[CALL], 1] = np.arange(len(at[CALL]))
    rows[at[COPY], 1] = before[at[COPY]]
    for code, columns in ((RELEASE, [1]), (COPY, [2]), (COPY_FROM, [1, 2])):
        for k, column in enumerate(columns):
            rows[at[code], column] = before[at[code]] - references[starts[code] + k]
    return rows


def _reference_starts(places: Places) -> tuple[dict[int, Ints], int]:
    """Say where the references of the instructions of each code begin, and how many there are."""
    referring = [code for code, count in enumerate(N_REFERENCES) if count]
    if not len(places.at[COPY]) and not len(places.at[COPY_FROM]):  # as in most traces
        none, releases = np.arange(0), np.arange(len(places.at[RELEASE]))
        return {COPY: none, COPY_FROM: none, RELEASE: releases}, len(releases)
    at = np.concatenate([places.at[code] for code in referring])
    counts = np.repeat([N_REFERENCES[k] for k in referring], [len(places.at[k]) for k in referring])
    order = np.argsort(at, kind="stable")
    ends = counts[order].cumsum()
    starts = np.empty(len(at), dtype=np.int64)
    starts[order] = ends - counts[order]
    parts = np.split(starts, np.cumsum([len(places.at[code]) for code in referring])[:-1])
    return dict(zip(referring, parts, strict=True)), int(ends[-1]) if len(ends) else 0


def _offsets(counts: Any) -> Ints:
    """Turn counts into the offsets of a ragged table."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
