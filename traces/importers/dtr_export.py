"""Traces that a DTR log cannot hold, said in other words, and what is lost by that.

``dtr_writer.py`` refuses what it cannot say; here calls are split so that it need not. Mutations
that mean every name of a storage are said as those of one name, and views derived again.
"""

from __future__ import annotations

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
    if n_views or n_both or trace.rebinding == "storage":
        trace = _Rewriter(trace).trace()
    return trace, {what: count for what, count in lost.items() if count}


class _Call(NamedTuple):
    """A call as names."""

    operator: str
    args: list[str]
    results: list[tuple[str, int, int]]
    mutates: list[int]
    labels: dict[str, Any]


class _Meanings:
    """What names mean: their storage, and whether they are its root or a view."""

    def __init__(self) -> None:
        self.storage: dict[str, int] = {}
        self.is_root: dict[str, bool] = {}
        self.constants: set[int] = set()
        self._names: list[dict[str, None]] = []

    def make(self, name: str, is_constant: bool = False) -> None:
        """Bind a name to a storage of its own."""
        self._names.append({})
        if is_constant:
            self.constants.add(len(self._names) - 1)
        self._set(name, len(self._names) - 1, True)

    def view(self, name: str, base: str, is_root: bool = False) -> None:
        """Bind a name to the storage of another."""
        self.drop(name)
        self._set(name, self.storage[base], is_root)

    def drop(self, name: str) -> None:
        """Drop a name, if it is there."""
        if name in self.storage:
            del self._names[self.storage.pop(name)][name]

    def others(self, name: str) -> list[str]:
        """Give the live names of a name's storage but itself."""
        return [other for other in self._names[self.storage[name]] if other != name]

    def _set(self, name: str, storage: int, is_root: bool) -> None:
        self.storage[name], self.is_root[name] = storage, is_root
        self._names[storage][name] = None


class _Rewriter:
    """Makes a trace again, with some calls in parts."""

    def __init__(self, trace: Trace) -> None:
        self._old = trace
        self._builder = TraceBuilder(trace.name, trace.source, "listed", trace.times_estimated)
        self._means_all = trace.rebinding == "storage"
        self._meanings = _Meanings()
        self._new_call: list[int] = []
        self._taken = set(trace.names)

    def trace(self) -> Trace:
        """Go through the instructions."""
        builder, names, meanings = self._builder, self._old.names, self._meanings
        for code, a, b in self._old.instructions.tolist():
            if code == CALL:
                self._add(self._call(a), int(self._old.call_time_ns[a]))
            elif code == CONSTANT:
                builder.constant(names[a], int(self._old.constant_bytes[b]))
                meanings.make(names[a], is_constant=True)
            elif code == RELEASE:
                builder.release(names[a])
                meanings.drop(names[a])
            elif code in (COPY, COPY_FROM):
                bind = builder.copy if code == COPY else builder.copy_from
                bind(names[a], names[b])
                if a != b:
                    meanings.view(names[a], names[b], meanings.is_root[names[b]])
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
        """Add a call: its results, its mutation, and the views of its results, each for itself.

        The time goes with new storages, to the mutation if it alone makes some.
        """
        own = [result for result in call.results if result[2] >= OWN]
        mutates = self._mutated(call)
        if not own and not mutates:  # writes to constants alone: in place, nothing is new
            marker = self._unused_name()
            own = [(marker, 0, OWN)]
        works_in_place = bool(mutates) and all(alias != OWN for _, _, alias in own)
        workspace = call.labels.pop("workspace_bytes")
        costs = [(0, 0), (time_ns, workspace)] if works_in_place else [(time_ns, workspace), (0, 0)]
        self._new_call.append(-1)
        if own:
            self._new_call[-1] = self._emit(call, own, [], costs[0])
        if mutates:
            made = self._emit(call, [], mutates, costs[1])
            self._new_call[-1] = made if works_in_place else self._new_call[-1]
            self._rebind(call, mutates)
        for name, _, alias in call.results:
            if alias < OWN:
                self._view(call, name, call.results[-alias - 2][0])
        if not call.results and not mutates:
            self._release(marker)

    def _mutated(self, call: _Call) -> list[int]:
        """Give the operands that a MUTATE has to list: one of each storage that is no constant."""
        if not self._means_all:
            return call.mutates
        storages = [self._meanings.storage[name] for name in call.args]
        first = {storages[k]: k for k in reversed(call.mutates)}
        return sorted(k for s, k in first.items() if s not in self._meanings.constants)

    def _emit(
        self,
        call: _Call,
        results: list[tuple[str, int, int]],
        mutates: list[int],
        costs: tuple[int, int],
    ) -> int:
        """Add one part of a call; costs are its time and workspace."""
        time_ns, workspace = costs
        number = self._builder.call(
            call.operator,
            call.args,
            results,
            time_ns,
            mutates=mutates,
            workspace_bytes=workspace,
            **call.labels,
        )
        for name, _, alias in results:
            if alias == OWN:
                self._meanings.make(name)
            else:
                self._meanings.view(name, call.args[alias])
        return number

    def _rebind(self, call: _Call, mutates: list[int]) -> None:
        """Let all names of mutated storages mean the new values."""
        for position in mutates:
            name = call.args[position]
            others = self._meanings.others(name) if self._means_all else []
            roots = [other for other in others if self._meanings.is_root[other]]
            self._meanings.drop(name)
            self._meanings.make(name)
            for other in others:
                base = name
                if other not in roots:
                    base = self._unused_name()
                    self._view(call, base, name)
                self._builder.copy_from(other, base)
                self._meanings.view(other, base, other in roots)
                if base != name:
                    self._release(base)

    def _view(self, call: _Call, name: str, base: str) -> None:
        """Add the call of a view."""
        self._builder.call("view", [base], [(name, 0, 0)], 0, **call.labels)
        self._meanings.view(name, base)

    def _release(self, name: str) -> None:
        self._builder.release(name)
        self._meanings.drop(name)

    def _unused_name(self) -> str:
        """Make up a name."""
        number = len(self._taken)
        while f"derived{number}" in self._taken:
            number += 1
        self._taken.add(f"derived{number}")
        return f"derived{number}"
