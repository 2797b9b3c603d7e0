"""Laying out a Program: from the lists of a lowering to arrays, without loops over calls.

Edges, sources and uses are worked out here, once for all runs; what a name means was settled
before, in `lowering.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .opcodes import (
    PHASE_BACKWARD,
    PHASE_FORWARD,
    PHASE_OPTIMIZER,
    TAG_COLLECTIVE,
    TAG_DATA_DEPENDENT,
)
from .program import (
    CALL_FIELDS,
    EDGE_FIELDS,
    INSTRUCTION_FIELDS,
    STORAGE_FIELDS,
    TENSOR_FIELDS,
    Program,
    freeze,
)

if TYPE_CHECKING:
    from .lowering import Lowering


def _offsets(counts: Any) -> Any:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _expand(first: Any, counts: Any) -> Any:
    """Concatenate ``range(first[i], first[i] + counts[i])``."""
    starts = np.repeat(first - _offsets(counts)[:-1], counts)
    return starts + np.arange(int(counts.sum()), dtype=np.int64)


def _pairs(parent: Any, child: Any) -> Any:
    edges = np.zeros(len(parent), EDGE_FIELDS)
    edges["parent"], edges["child"] = parent, child
    return edges


class Layout:
    """Turns the lists of a lowering into a Program's arrays, without loops over calls."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.trace = lowering.trace
        self.n_calls = len(lowering.call_origin)
        self.n_storages = len(lowering.storage_bytes)
        self.origin = np.array(lowering.call_origin, dtype=np.int64)
        self.tensor_storage = np.array(lowering.tensor_storage, dtype=np.int64)
        self.tensor_call = np.array(lowering.tensor_call, dtype=np.int64)
        self.first_result = np.array(
            [*lowering.call_first_result, len(lowering.tensor_call)], dtype=np.int64
        )
        self.parent_counts = np.array([len(p) for p in lowering.call_parents], dtype=np.int64)
        self.parents = np.array(
            [t for parents in lowering.call_parents for t in parents], dtype=np.int64
        )

    def program(self) -> Program:
        """Lay out everything."""
        calls = self._calls()
        storages = self._storages()
        tensors = self._tensors()
        sources = self._sources(calls)
        parent, child = self._edges(calls, sources)
        tensors["first_wait"] = self._first_waits()
        start_ns = _offsets(calls["cost_ns"])
        return Program(
            instructions=freeze(np.array(self.lowering.instructions, INSTRUCTION_FIELDS)),
            parent_edges=self._adjacency(storages, "first_parent_edge", child, parent),
            child_edges=self._adjacency(storages, "first_child_edge", parent, child),
            views=self._adjacency(
                storages, "first_tensor", self.tensor_storage, np.arange(len(self.tensor_storage))
            ),
            uses=self._uses(storages, sources),
            counterparts=self._counterparts(calls, storages),
            calls=freeze(calls),
            tensors=freeze(tensors),
            storages=freeze(storages),
            parents=freeze(self.parents, np.int32),
            sources=freeze(sources, np.int32),
            edges=freeze(_pairs(parent, child)),
            call_start_ns=freeze(start_ns),
            outputs=freeze(self.lowering.outputs(), np.int32),
        )

    def _calls(self) -> Any:
        calls = np.zeros(self.n_calls, CALL_FIELDS)
        is_real = (self.origin >= 0) & ~np.array(self.lowering.call_is_view, dtype=bool)
        real = self.origin[is_real]
        calls["origin"] = self.origin
        calls["cost_ns"][is_real] = self.trace.call_time_ns[real]
        calls["workspace_bytes"][is_real] = self.trace.call_workspace_bytes[real]
        calls["phase"][is_real] = self.trace.call_phase[real]
        calls["is_recomputable"] = 1
        is_lasting = (self.trace.call_tags[real] & (TAG_COLLECTIVE | TAG_DATA_DEPENDENT)) != 0
        calls["is_recomputable"][is_real] = ~is_lasting
        ends = _offsets(self.parent_counts)
        calls["first_parent"], calls["end_parent"] = ends[:-1], ends[1:]
        calls["first_result"], calls["end_result"] = self.first_result[:-1], self.first_result[1:]
        own_bytes = np.zeros(len(self.tensor_call), np.int64)
        own_bytes[self.lowering.storage_root] = self.lowering.storage_bytes
        before = _offsets(own_bytes)
        calls["result_bytes"] = before[calls["end_result"]] - before[calls["first_result"]]
        calls["previous"] = self._previous_calls(calls)
        return calls

    def _previous_calls(self, calls: Any) -> Any:
        """Pair each call with the one at the same place of the training step before.

        A step ends where a forward call follows a backward or an optimizer call; what is used is
        known online. A step that takes another course has no counterparts from there on.
        """
        previous = np.full(self.n_calls, -1, np.int64)
        before: list[int] = []
        current: list[int] = []
        was_late = matches = False
        operators = self.trace.call_operator
        for call, (phase, origin) in enumerate(
            zip(calls["phase"].tolist(), self.origin.tolist(), strict=True)
        ):
            if origin < 0:
                continue
            if phase == PHASE_FORWARD and was_late:
                before, current, matches = current, [], True
                was_late = False
            was_late = was_late or phase in (PHASE_BACKWARD, PHASE_OPTIMIZER)
            place = len(current)
            current.append(call)
            matches = matches and place < len(before)
            matches = matches and operators[self.origin[before[place]]] == operators[origin]
            if matches:
                previous[call] = before[place]
        return previous

    def _storages(self) -> Any:
        storages = np.zeros(self.n_storages + 1, STORAGE_FIELDS)
        storages["size_bytes"][:-1] = self.lowering.storage_bytes
        storages["root"][:-1] = self.lowering.storage_root
        storages["is_constant"][:-1] = self.lowering.storage_is_constant
        return storages

    def _tensors(self) -> Any:
        tensors = np.zeros(len(self.tensor_call), TENSOR_FIELDS)
        tensors["call"] = self.tensor_call
        tensors["storage"] = self.tensor_storage
        tensors["takes_over"] = self.lowering.tensor_takes_over
        tensors["ends_old"] = self.lowering.tensor_ends_old
        key = self.tensor_call * max(self.n_storages, 1) + self.tensor_storage
        tensors["adds_cost"][np.unique(key, return_index=True)[1]] = 1
        return tensors

    def _sources(self, calls: Any) -> Any:
        """Distinct parent storages of each call, in operand order."""
        caller = np.repeat(np.arange(self.n_calls), self.parent_counts)
        storage = self.tensor_storage[self.parents]
        first = np.unique(caller * max(self.n_storages, 1) + storage, return_index=True)[1]
        first.sort()
        ends = _offsets(np.bincount(caller[first], minlength=self.n_calls))
        calls["first_source"], calls["end_source"] = ends[:-1], ends[1:]
        self.source_counts = ends[1:] - ends[:-1]
        return storage[first]

    def _edges(self, calls: Any, sources: Any) -> Any:
        """Edges between distinct storages, each with the call from which on it exists."""
        tensor_sources = self.source_counts[self.tensor_call]
        child = np.repeat(self.tensor_storage, tensor_sources)
        maker = np.repeat(self.tensor_call, tensor_sources)
        parent = sources[_expand(calls["first_source"][self.tensor_call], tensor_sources)]
        first = np.unique(parent * max(self.n_storages, 1) + child, return_index=True)[1]
        first.sort()
        first = first[parent[first] != child[first]]
        ends = _offsets(np.bincount(maker[first], minlength=self.n_calls))
        calls["first_edge"], calls["end_edge"] = ends[:-1], ends[1:]
        return parent[first], child[first]

    def _first_waits(self) -> Any:
        return _offsets(self.source_counts[self.tensor_call])[:-1]

    def _adjacency(self, storages: Any, field: str, keys: Any, values: Any) -> Any:
        """Group values by storage, keeping their order, and note where each group begins."""
        storages[field] = _offsets(np.bincount(keys, minlength=self.n_storages))
        return freeze(values[np.argsort(keys, kind="stable")], np.int32)

    def _uses(self, storages: Any, sources: Any) -> Any:
        """List the calls that read each storage; an output is read at the very end."""
        outputs = np.unique(self.tensor_storage[self.lowering.outputs()])
        storage = np.concatenate([sources, outputs])
        caller = np.concatenate(
            [
                np.repeat(np.arange(self.n_calls), self.source_counts),
                np.full(len(outputs), self.n_calls),
            ]
        )
        return self._adjacency(storages, "first_use", storage, caller)

    def _counterparts(self, calls: Any, storages: Any) -> Any:
        """Pair each storage with the one made at the same place of the step before."""
        root = storages["root"][:-1].astype(np.int64)
        maker = self.tensor_call[root]
        previous = calls["previous"][maker].astype(np.int64)
        twin = self.first_result[previous] + root - self.first_result[maker]
        exists = (previous >= 0) & (twin < self.first_result[previous + 1])
        counterparts = np.full(self.n_storages, -1, np.int64)
        counterparts[exists] = self.tensor_storage[twin[exists]]
        return freeze(counterparts, np.int32)
