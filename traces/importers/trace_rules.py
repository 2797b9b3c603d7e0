"""The rules of a trace, on the columns of a trace file at once.

They are those that the builder checks event by event: what passes here is what a TraceBuilder
could have made, so that every Trace is legal wherever it comes from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, PHASES, RELEASE, TAGS
from ..tables import MAX_TOTAL
from ..trace import MAX_VALUE
from .trace_wire import N_REFERENCES, Columns, Places

MAX_ROWS = 2**31 - 1


class RuleError(Exception):
    """A rule is broken; the message says which."""


def check_shapes(columns: Columns, rows: dict[str, int]) -> None:
    """Check that the rows of the tables fit together.

    Parameters
    ----------
    columns : dict
        Those of numbers.
    rows : dict of str to int
        How many texts each column of texts is said to have; they have not been read yet.

    Raises
    ------
    RuleError
        They do not.
    """
    codes = columns["codes"]
    _require(len(codes), "there are no instructions: the trace is empty")
    _within(columns, "codes", 0, BACKWARD)
    for name in ("call_args", "call_results", "call_mutates"):
        _within(columns, name, 0, MAX_ROWS)
    counts = np.bincount(codes, minlength=BACKWARD + 1)
    results = int(columns["call_results"].sum(dtype=np.int64))
    expected = {
        "call_time_ns": ("calls", counts[CALL]),
        "constant_bytes": ("constants", counts[CONSTANT]),
        "references": ("references to names", counts @ N_REFERENCES),
        "args": ("operands", columns["call_args"].sum(dtype=np.int64)),
        "result_bytes": ("results", results),
        "mutate_args": ("mutated operands", columns["call_mutates"].sum(dtype=np.int64)),
    }
    for name, (what, count) in expected.items():
        found = len(columns[name])
        _require(found == count, f"there are {found:,} {what}, where {int(count):,} are announced")
    bound = int(counts[CONSTANT] + counts[COPY]) + results
    _require(rows["names"] == bound, f"there are {rows['names']:,} names, and {bound:,} are bound")
    _require(bound <= MAX_ROWS, f"{bound:,} names are too many")


def check_values(columns: Columns, fields: Columns, places: Places) -> None:
    """Check numbers and names.

    Raises
    ------
    RuleError
        One of them is out of range, used before it is bound or after it is released.
    """
    for name in ("constant_bytes", "call_time_ns", "call_workspace_bytes", "result_bytes"):
        _within(columns, name, 0, MAX_VALUE)
    _within(columns, "call_phase", 0, len(PHASES) - 1)
    _within(columns, "call_tags", 0, 2 ** len(TAGS) - 1)
    _within(columns, "call_operator", 0, len(columns["operators"]) - 1)
    _within(columns, "call_module", -1, len(columns["modules"]) - 1)
    _within(columns, "constant_kind", -1, len(columns["value_kinds"]) - 1)
    _within(columns, "result_kind", -1, len(columns["value_kinds"]) - 1)
    back = columns["call_forward"]
    is_earlier = (back >= 0) & (back <= np.arange(len(back), dtype=np.int32))
    _require(
        is_earlier.all(), "call_forward: a call is said to belong to one that is not before it"
    )
    _check_results(columns, fields)
    _check_mutations(columns, fields)
    _check_lives(columns, fields, places)
    _check_totals(columns)


def _check_results(columns: Columns, fields: Columns) -> None:
    """Check what results are views of."""
    at_views = np.flatnonzero(columns["result_alias"] != -1)
    alias = columns["result_alias"][at_views]
    calls = np.searchsorted(fields["result_offsets"], at_views, side="right") - 1
    position = at_views - fields["result_offsets"][calls]
    is_legal = (alias < columns["call_args"][calls]) & (alias > -position - 2)
    _require(is_legal.all(), "result_alias: a view of what the call does not have")
    has_bytes = columns["result_bytes"][at_views].any()
    _require(not has_bytes, "result_bytes: a view has 0 bytes")
    is_idle = (columns["call_results"] == 0) & (columns["call_mutates"] == 0)
    _require(not is_idle.any(), "a call has neither a result nor a mutated operand")


def _check_mutations(columns: Columns, fields: Columns) -> None:
    """Check which operands are mutated."""
    counts, positions = columns["call_mutates"], columns["mutate_args"]
    n_args = np.repeat(columns["call_args"], counts)
    is_operand = (positions >= 0) & (positions < n_args)
    _require(is_operand.all(), "mutate_args: not the position of an operand")
    slots = np.repeat(fields["arg_offsets"][:-1], counts) + positions
    _require(len(np.unique(slots)) == len(slots), "mutate_args: an operand is listed twice")


def _check_lives(columns: Columns, fields: Columns, places: Places) -> None:
    """Check that names are bound before they are used, and released once and last."""
    n_args, at = columns["call_args"], places.at
    for name, ids in (("args", fields["arg_names"]), ("references", _referred(fields, places))):
        is_bound = columns[name].min(initial=1) >= 1 and ids.min(initial=0) >= 0
        _require(is_bound, f"{name}: a name is referred to that is not bound yet")
    first, second = fields["instructions"][:, 1], fields["instructions"][:, 2]
    released = first[at[RELEASE]]
    dropped_at = np.full(places.n_names, MAX_ROWS, dtype=np.int32)
    dropped_at[released] = at[RELEASE]
    _require((dropped_at[released] == at[RELEASE]).all(), "a name is released twice")
    used = (
        (fields["arg_names"], np.repeat(at[CALL].astype(np.int32), n_args)),
        (second[at[COPY]], at[COPY]),
        (first[at[COPY_FROM]], at[COPY_FROM]),
        (second[at[COPY_FROM]], at[COPY_FROM]),
    )
    for ids, used_at in used:
        _require((used_at < dropped_at[ids]).all(), "a name is used after it is released")


def _referred(fields: Columns, places: Places) -> Any:
    """Give the names that instructions other than calls refer to, in any order."""
    first, second = fields["instructions"][:, 1], fields["instructions"][:, 2]
    at = places.at
    parts = [first[at[RELEASE]], second[at[COPY]], first[at[COPY_FROM]], second[at[COPY_FROM]]]
    return np.concatenate(parts)


def _check_totals(columns: Columns) -> None:
    """Refuse sizes or times that a replay could not add up; sums in floats do not wrap."""
    results, constants = columns["result_bytes"], columns["constant_bytes"]
    largest = max(results.max(initial=0), constants.max(initial=0))
    sizes = results.sum(dtype=float) + constants.sum(dtype=float)
    sizes += columns["call_workspace_bytes"].sum(dtype=float)
    sizes += float(largest) * len(columns["mutate_args"])
    for what, total in (("sizes", sizes), ("times", columns["call_time_ns"].sum(dtype=float))):
        _require(total <= MAX_TOTAL, f"all {what} together ({total:.3g}) are more than 2^60")


def _within(columns: Columns, name: str, lowest: int, highest: int) -> None:
    """Check that all values of a column are in a range."""
    values = columns[name]
    if len(values) and (values.min() < lowest or values.max() > highest):
        place = int(np.flatnonzero((values < lowest) | (values > highest))[0])
        rule = f"is not in {lowest}..{highest}"
        raise RuleError(f"{name}: entry {place} ({int(values[place])}) {rule}")


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise RuleError(message)
