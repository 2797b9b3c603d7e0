"""Traces that a DTR log cannot hold, said in other words, and what is lost by that.

``dtr_writer.py`` refuses what it cannot say; here calls are split so that it need not. A trace
whose mutations mean every name of a storage cannot be said in this format at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...opcodes import CALL, CONSTANT, COPY, COPY_FROM, RELEASE
from ..builder import TraceBuilder
from ..trace import Trace

OWN = -1


def exportable(trace: Trace) -> tuple[Trace, dict[str, int]]:
    """Make a trace that a DTR log can hold.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    trace : Trace
        The same, or one in which calls are split; ``write_log`` may still refuse it.
    lost : dict of str to int
        What it does not say any more, with how many.
    """
    n_views = int((trace.result_alias < OWN).sum())
    mutating = np.diff(trace.mutate_offsets) > 0
    n_both = int((mutating & (np.diff(trace.result_offsets) > 0)).sum())
    n_kinds = int((trace.constant_kind >= 0).sum() + (trace.result_kind >= 0).sum())
    lost = {
        "dtypes and shapes": n_kinds,
        "views of another result (written as calls of their own)": n_views,
        "calls with results that mutate too (written as two calls)": n_both,
    }
    if trace.rebinding == "storage" and not mutating.any():
        trace = _renewed(trace, rebinding="listed")
    if n_views or (n_both and trace.rebinding == "listed"):
        trace = _Splitter(trace).trace()
    return trace, {what: count for what, count in lost.items() if count}


def _renewed(trace: Trace, **changes: Any) -> Trace:
    """Copy a trace with changes, without the digest that it had."""
    return replace(trace, names=trace.names, **changes)


class _Call(NamedTuple):
    """A call as names."""

    operator: str
    args: list[str]
    results: list[tuple[str, int, int]]
    mutates: list[int]
    labels: dict[str, Any]


class _Splitter:
    """Makes a trace again, with some calls in parts."""

    def __init__(self, trace: Trace) -> None:
        self._old = trace
        self._builder = TraceBuilder(
            trace.name, trace.source, trace.rebinding, trace.times_estimated
        )
        self._new_call: list[int] = []

    def trace(self) -> Trace:
        """Go through the instructions."""
        builder, names = self._builder, self._old.names
        for code, a, b in self._old.instructions.tolist():
            if code == CALL:
                self._add(self._call(a), int(self._old.call_time_ns[a]))
            elif code == CONSTANT:
                builder.constant(names[a], int(self._old.constant_bytes[b]))
            elif code == RELEASE:
                builder.release(names[a])
            elif code == COPY:
                builder.copy(names[a], names[b])
            elif code == COPY_FROM:
                builder.copy_from(names[a], names[b])
            else:
                builder.backward()
        return builder.build()

    def _call(self, call: int) -> _Call:
        """Read a call."""
        old, names = self._old, self._old.names
        args = old.arg_names[slice(*old.arg_offsets[call : call + 2])]
        results = slice(*old.result_offsets[call : call + 2])
        columns = (old.result_names[results], old.result_bytes[results], old.result_alias[results])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        module, forward = int(old.call_module[call]), int(old.call_forward[call])
        labels = {
            "workspace_bytes": int(old.call_workspace_bytes[call]),
            "phase": int(old.call_phase[call]),
            "module": old.modules[module] if module >= 0 else "",
            "forward": self._new_call[forward] if forward >= 0 else -1,
            "tags": int(old.call_tags[call]),
            "line": int(old.call_line[call]),
        }
        return _Call(
            old.operators[old.call_operator[call]],
            [names[k] for k in args],
            [(names[k], size, alias) for k, size, alias in rows],
            old.mutate_args[slice(*old.mutate_offsets[call : call + 2])].tolist(),
            labels,
        )

    def _add(self, call: _Call, time_ns: int) -> None:
        """Add a call: its mutation, its results, and the views of its results, each for itself."""
        own = [result for result in call.results if result[2] >= OWN]
        parts: list[tuple[list[tuple[str, int, int]], list[int]]] = [(own, [])] if own else []
        if call.mutates:
            returns_mutated = any(alias in call.mutates for _, _, alias in own)
            parts.insert(0 if returns_mutated else len(parts), ([], call.mutates))
        added = []
        for results, mutates in parts:
            number = self._builder.call(
                call.operator, call.args, results, time_ns, mutates=mutates, **call.labels
            )
            added.append(number)
            time_ns = call.labels["workspace_bytes"] = 0
        self._new_call.append(added[0])
        for name, _, alias in call.results:
            if alias < OWN:
                base = call.results[-alias - 2][0]
                self._builder.call("view", [base], [(name, 0, 0)], 0, **call.labels)
