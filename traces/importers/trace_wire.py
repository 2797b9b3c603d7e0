"""What is in a trace file, as columns: a Trace without what follows from the rest, and back.

Names are told by how many names were bound since, so that a layer looks like the one before it;
which names are bound follows from the calls. The columns are described in docs/trace-format.md,
and how their bytes lie in the file in ``trace_columns.py``.
"""

from __future__ import annotations

from typing import Any

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
# How many names an instruction refers to, and binds, by its code; a call binds its results.
N_REFERENCES = np.array([0, 0, 1, 2, 1, 0])
N_BOUND = np.array([1, 0, 1, 0, 0, 0])


def columns_of(trace: Trace) -> Columns:
    """Turn a trace into the columns of a file."""
    codes, first, second = trace.instructions.T
    counts = {name: np.diff(getattr(trace, field)) for name, field in COUNTED.items()}
    before = _bound_before(codes, counts["call_results"])
    at_calls = np.flatnonzero(codes == CALL)
    at_args = np.repeat(before[at_calls], counts["call_args"])
    forward = trace.call_forward
    columns: Columns = {name: getattr(trace, name) for name in AS_THEY_ARE}
    columns |= counts
    columns["codes"] = codes
    columns["args"] = at_args - trace.arg_names
    columns["references"] = _references(codes, before, first, second)
    columns["call_forward"] = np.where(forward < 0, 0, np.arange(len(forward)) - forward)
    columns = {
        name: np.ascontiguousarray(columns[name], dtype=dtype)
        for name, (dtype, _) in NUMBERS.items()
    }
    return columns | {name: getattr(trace, name) for name in TEXTS}


def fields_of(columns: Columns) -> Columns:
    """Turn columns, whose rows fit together, into the fields of a trace.

    Names that do not exist come out as numbers out of range; nothing else is checked either.
    """
    codes = columns["codes"]
    before = _bound_before(codes, columns["call_results"])
    at_calls = np.flatnonzero(codes == CALL)
    results = columns["call_results"]
    fields = {name: columns[name] for name in (*AS_THEY_ARE, *TEXTS)}
    for name, field in COUNTED.items():
        fields[field] = np.concatenate([[0], columns[name].cumsum(dtype=np.int64)])
    fields["instructions"] = _instructions(codes, before, columns["references"])
    fields["arg_names"] = _as_int32(
        np.repeat(before[at_calls], columns["call_args"]) - columns["args"]
    )
    starts = before[at_calls] - fields["result_offsets"][:-1]
    fields["result_names"] = _as_int32(np.repeat(starts, results) + np.arange(results.sum()))
    back = columns["call_forward"]
    fields["call_forward"] = _as_int32(np.where(back == 0, -1, np.arange(len(back)) - back))
    return fields


def _bound_before(codes: Any, call_results: Any) -> Ints:
    """Count the names that are bound before each instruction."""
    bound = N_BOUND[codes]
    bound[codes == CALL] = call_results
    counted: Ints = bound.cumsum() - bound
    return counted


def _references(codes: Any, before: Ints, first: Any, second: Any) -> Ints:
    """Tell the names that instructions other than calls refer to, in order."""
    starts, total = _reference_starts(codes)
    references = np.empty(total, dtype=np.int64)
    for code, columns in ((RELEASE, [first]), (COPY, [second]), (COPY_FROM, [first, second])):
        at = np.flatnonzero(codes == code)
        for k, column in enumerate(columns):
            references[starts[at] + k] = before[at] - column[at]
    return references


def _instructions(codes: Any, before: Ints, references: Any) -> Any:
    """Make the table of instructions."""
    rows = np.zeros((len(codes), 3), dtype=np.int32)
    starts, _ = _reference_starts(codes)
    at = [np.flatnonzero(codes == code) for code in range(BACKWARD + 1)]
    rows[:, 0] = codes
    rows[at[CONSTANT], 1] = before[at[CONSTANT]]
    rows[at[CONSTANT], 2] = np.arange(len(at[CONSTANT]))
    rows[at[CALL], 1] = np.arange(len(at[CALL]))
    rows[at[COPY], 1] = before[at[COPY]]
    for code, columns in ((RELEASE, [1]), (COPY, [2]), (COPY_FROM, [1, 2])):
        for k, column in enumerate(columns):
            rows[at[code], column] = before[at[code]] - references[starts[at[code]] + k]
    return rows


def _reference_starts(codes: Any) -> tuple[Ints, int]:
    """Say where the references of each instruction begin, and how many there are."""
    counts = N_REFERENCES[codes]
    ends = counts.cumsum()
    return ends - counts, int(ends[-1]) if len(ends) else 0


def _as_int32(values: Any) -> Any:
    return values.astype(np.int32)
