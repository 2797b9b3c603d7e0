"""Lowering: `compile_trace` turns a Trace (names) into a Program (integers).

What happens to mutated operands is decided here: copied (``mutation="copy"``, the DTR log's way)
or taken over in place. The rules are those of replay-semantics 1 and 2; nothing is simulated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import UnknownNameError
from .opcodes import (
    BACKWARD,
    CALL,
    CONSTANT,
    COPY,
    COPY_FROM,
    PHASE_BACKWARD,
    PHASE_FORWARD,
    PHASE_OPTIMIZER,
    RELEASE,
    TAG_COLLECTIVE,
    TAG_DATA_DEPENDENT,
)
from .program import (
    BEGIN_BACKWARD,
    CALL_FIELDS,
    EDGE_FIELDS,
    INSTRUCTION_FIELDS,
    RELEASE_STORAGE,
    RETAIN,
    RUN_CALL,
    STORAGE_FIELDS,
    TENSOR_FIELDS,
    Program,
    freeze,
)
from .traces.trace import Trace

MUTATIONS = ("copy", "inplace")


def compile_trace(trace: Trace, mutation: str = "copy") -> Program:
    """Lower a trace to the arrays that the engine runs.

    Parameters
    ----------
    trace : Trace
        What the model did.
    mutation : {"copy", "inplace"}
        Whether a mutated operand's new value is a new storage beside the old one, or takes over
        the old one's bytes when the call runs.

    Returns
    -------
    Program
        Read-only; the same for every run.

    Raises
    ------
    UnknownNameError
        If there is no such lowering.
    """
    if mutation not in MUTATIONS:
        raise UnknownNameError(f"mutation {mutation!r}: it is one of {', '.join(MUTATIONS)}")
    return _Lowering(trace, mutation == "inplace").program()


class _Lowering:
    """Walks the instructions once, keeping which tensor each name means."""

    def __init__(self, trace: Trace, in_place: bool) -> None:
        self.trace = trace
        self.in_place = in_place
        self.instructions: list[tuple[int, int]] = []
        self.meaning: list[int] = [-1] * trace.n_names  # name -> tensor
        self.live: dict[int, None] = {}  # names that hold a reference
        self.tensor_call: list[int] = []
        self.tensor_storage: list[int] = []
        self.tensor_takes_over: list[int] = []
        self.first_name: list[int] = []  # tensor -> the name that first meant it
        self.references: list[int] = []  # by tensor
        self.storage_bytes: list[int] = []
        self.storage_root: list[int] = []
        self.storage_is_constant: list[bool] = []
        self.call_origin: list[int] = []
        self.call_parents: list[list[int]] = []
        self.call_first_result: list[int] = []
        self.call_is_view: list[bool] = []  # a view derived again: free of cost
        self.columns = {
            column: getattr(trace, column).tolist()
            for column in (
                "arg_offsets", "arg_names", "result_offsets", "result_names",
                "result_bytes", "result_alias", "mutate_offsets", "mutate_args",
            )
        }  # fmt: skip

    def program(self) -> Program:
        """Walk the trace, then lay out the arrays."""
        steps = {
            CONSTANT: self._constant,
            CALL: self._call,
            COPY: self._copy,
            COPY_FROM: self._copy_from,
            RELEASE: self._release,
            BACKWARD: self._backward,
        }
        for code, a, b in self.trace.instructions.tolist():
            steps[code](a, b)
        return _Layout(self).program()

    def _new_tensor(self, call: int, storage: int, name: int) -> int:
        tensor = len(self.tensor_call)
        self.tensor_call.append(call)
        self.tensor_storage.append(storage)
        self.tensor_takes_over.append(-1)
        self.first_name.append(name)
        self.references.append(1)
        if name >= 0:
            self.meaning[name] = tensor
            self.live[name] = None
        return tensor

    def _new_storage(self, size: int, is_constant: bool = False) -> int:
        self.storage_bytes.append(size)
        self.storage_root.append(len(self.tensor_call))
        self.storage_is_constant.append(is_constant)
        return len(self.storage_bytes) - 1

    def _new_call(self, origin: int, parents: list[int], is_view: bool = False) -> int:
        self.call_origin.append(origin)
        self.call_parents.append(parents)
        self.call_first_result.append(len(self.tensor_call))
        self.call_is_view.append(is_view)
        return len(self.call_origin) - 1

    def _constant(self, name: int, ordinal: int) -> None:
        call = self._new_call(-1, [])
        storage = self._new_storage(int(self.trace.constant_bytes[ordinal]), is_constant=True)
        self._new_tensor(call, storage, name)
        self.instructions.append((RUN_CALL, call))

    def _call(self, origin: int, _: int) -> None:
        c = self.columns
        args = c["arg_names"][c["arg_offsets"][origin] : c["arg_offsets"][origin + 1]]
        parents = [self.meaning[name] for name in args]
        call = self._new_call(origin, parents)
        first = len(self.tensor_call)
        for i in range(c["result_offsets"][origin], c["result_offsets"][origin + 1]):
            alias = c["result_alias"][i]
            if alias >= 0:
                storage = self.tensor_storage[parents[alias]]
            elif alias == -1:
                storage = self._new_storage(c["result_bytes"][i])
            else:
                storage = self.tensor_storage[first - alias - 2]
            self._new_tensor(call, storage, c["result_names"][i])
        positions = c["mutate_args"][c["mutate_offsets"][origin] : c["mutate_offsets"][origin + 1]]
        self.instructions.append((RUN_CALL, call))
        if positions and self.trace.rebinding == "listed":
            self._rebind_listed(call, args, parents, positions)
        elif positions:
            self._rebind_storages(call, parents, positions, first)

    def _new_value(self, call: int, storage: int, name: int) -> int:
        """Make the result that is the new value of a mutated storage."""
        tensor = self._new_tensor(call, self._new_storage(self.storage_bytes[storage]), name)
        if self.in_place and not self.storage_is_constant[storage]:
            self.tensor_takes_over[tensor] = storage
        return tensor

    def _rebind_listed(
        self, call: int, args: list[int], parents: list[int], positions: list[int]
    ) -> None:
        """MUTATE of a DTR log: each listed name means a new tensor, its old one loses a holder."""
        old = []
        for position in positions:
            name = args[position]
            old.append(self.meaning[name])
            self._new_value(call, self.tensor_storage[parents[position]], name)
        for tensor in old:
            self._drop(tensor)

    def _rebind_storages(
        self, call: int, parents: list[int], positions: list[int], first: int
    ) -> None:
        """Other sources: every live name of a mutated storage means its new value."""
        storages = dict.fromkeys(self.tensor_storage[parents[position]] for position in positions)
        mutable = [s for s in storages if not self.storage_is_constant[s]]
        values = {storage: self._new_value(call, storage, -1) for storage in mutable}
        if len(self.tensor_call) == first:  # constants only: written in place, nothing new
            marker = self._new_tensor(call, self._new_storage(0), -1)
            self._drop(marker)
        for storage, value in values.items():
            self._derive_views(storage, value)
            self._drop(value)  # its names hold it now

    def _derive_views(self, storage: int, value: int) -> None:
        derived: dict[int, int] = {}
        for name in list(self.live):
            old = self.meaning[name]
            if self.tensor_storage[old] != storage:
                continue
            if old == self.storage_root[storage]:
                new = value
                self.first_name[new] = name if self.first_name[new] < 0 else self.first_name[new]
            elif old in derived:
                new = derived[old]
            else:
                call = self._new_call(self.call_origin[-1], [value], is_view=True)
                new = self._new_tensor(call, self.tensor_storage[value], name)
                self.references[new] = 0
                derived[old] = new
                self.instructions.append((RUN_CALL, call))
                self.instructions.append((RELEASE_STORAGE, self.tensor_storage[new]))
            self.meaning[name] = new
            self._hold(new)
            self._drop(old)

    def _hold(self, tensor: int) -> None:
        self.references[tensor] += 1
        self.instructions.append((RETAIN, self.tensor_storage[tensor]))

    def _drop(self, tensor: int) -> None:
        self.references[tensor] -= 1
        self.instructions.append((RELEASE_STORAGE, self.tensor_storage[tensor]))

    def _copy(self, name: int, source: int) -> None:
        self.meaning[name] = self.meaning[source]
        self.live[name] = None
        self._hold(self.meaning[name])

    def _copy_from(self, name: int, source: int) -> None:
        old, new = self.meaning[name], self.meaning[source]
        if old == new:
            return
        self.meaning[name] = new
        self._drop(old)
        self._hold(new)

    def _release(self, name: int, _: int) -> None:
        del self.live[name]
        self._drop(self.meaning[name])

    def _backward(self, _a: int, _b: int) -> None:
        self.instructions.append((BEGIN_BACKWARD, 0))

    def outputs(self) -> list[int]:
        """Tensors that are still held, in the order of the first name that ever meant them."""
        held = [t for t, count in enumerate(self.references) if count > 0]
        return sorted(held, key=lambda t: (self.first_name[t], t))


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


class _Layout:
    """Turns the lists of a lowering into a Program's arrays, without loops over calls."""

    def __init__(self, lowering: _Lowering) -> None:
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
        sources, (parent, child) = self._sources(calls), self._edges(calls)
        tensors["first_wait"] = self._first_waits(calls)
        start_ns = _offsets(calls["cost_ns"])
        return Program(
            instructions=freeze(np.array(self.lowering.instructions, INSTRUCTION_FIELDS)),
            parent_edges=self._adjacency(storages, "first_parent_edge", child, parent),
            child_edges=self._adjacency(storages, "first_child_edge", parent, child),
            views=self._adjacency(
                storages, "first_tensor", self.tensor_storage, np.arange(len(self.tensor_storage))
            ),
            uses=self._uses(calls, storages, sources),
            counterparts=self._counterparts(calls, storages),
            calls=freeze(calls),
            tensors=freeze(tensors),
            storages=freeze(storages),
            parents=freeze(self.parents),
            sources=freeze(sources),
            edges=freeze(_pairs(parent, child)),
            call_start_ns=freeze(start_ns),
            outputs=freeze(np.array(self.lowering.outputs(), dtype=np.int64)),
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

    def _edges(self, calls: Any) -> Any:
        """Edges between distinct storages, each with the call from which on it exists."""
        sources = self._sources(calls)
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

    def _first_waits(self, calls: Any) -> Any:
        return _offsets(self.source_counts[self.tensor_call])[:-1]

    def _adjacency(self, storages: Any, field: str, keys: Any, values: Any) -> Any:
        """Group values by storage, keeping their order, and note where each group begins."""
        storages[field] = _offsets(np.bincount(keys, minlength=self.n_storages))
        return freeze(values[np.argsort(keys, kind="stable")])

    def _uses(self, calls: Any, storages: Any, sources: Any) -> Any:
        """Calls that read each storage; an output is read at the very end."""
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
        return freeze(counterparts)
