"""Lowering: `compile_trace` turns a Trace (names) into a Program (integers).

What happens to mutated operands is decided here: copied (``mutation="copy"``, the DTR log's way)
or taken over in place. The rules are those of docs/semantics.md, 1 and 2; nothing is simulated.
"""

from __future__ import annotations

from itertools import count

from .errors import UnknownNameError
from .layout import Layout
from .opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, RELEASE
from .program import BEGIN_BACKWARD, KEEP_OUTPUT, RELEASE_STORAGE, RETAIN, RUN_CALL, Program
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
    return Lowering(trace, mutation == "inplace").program()


class Lowering:
    """Walks the instructions once, keeping which tensor each name means."""

    def __init__(self, trace: Trace, in_place: bool) -> None:
        self.trace = trace
        self.in_place = in_place
        self.instructions: list[tuple[int, int]] = []
        self.meaning: list[int] = [-1] * trace.n_names  # name -> tensor
        self.live: dict[int, int] = {}  # names that hold a reference, in the order of these numbers
        self.names_of: dict[int, set[int]] = {}  # storage -> its live names
        self.places = count()
        self.tensor_call: list[int] = []
        self.tensor_storage: list[int] = []
        self.tensor_takes_over: list[int] = []
        self.tensor_ends_old: list[bool] = []
        self.first_name: list[int] = []  # tensor -> the name that first meant it
        self.references: list[int] = []  # by tensor
        self.storage_references: list[int] = []
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
        self.instructions.extend((KEEP_OUTPUT, tensor) for tensor in self.outputs())
        return Layout(self).program()

    def _new_tensor(self, call: int, storage: int, name: int) -> int:
        tensor = len(self.tensor_call)
        self.tensor_call.append(call)
        self.tensor_storage.append(storage)
        self.tensor_takes_over.append(-1)
        self.tensor_ends_old.append(False)
        self.first_name.append(name)
        self.references.append(1)
        self.storage_references[storage] += 1
        if name >= 0:
            self._mean(name, tensor)
        return tensor

    def _mean(self, name: int, tensor: int) -> None:
        """Let a name, live or not, mean a tensor from here on."""
        if name in self.live:
            self.names_of[self.tensor_storage[self.meaning[name]]].discard(name)
        self.meaning[name] = tensor
        self.live.setdefault(name, next(self.places))
        self.names_of.setdefault(self.tensor_storage[tensor], set()).add(name)

    def _new_storage(self, size: int, is_constant: bool = False) -> int:
        self.storage_bytes.append(size)
        self.storage_references.append(0)
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
        """Make the result that is the new value of a mutated storage.

        A view that the same call returns keeps the old value, where its name goes on meaning it:
        then nothing is taken over. Were it, each computation of the call would undo the view.
        """
        results = self.tensor_storage[self.call_first_result[call] :]
        keeps_view = self.trace.rebinding == "listed" and storage in results
        tensor = self._new_tensor(call, self._new_storage(self.storage_bytes[storage]), name)
        if self.in_place and not self.storage_is_constant[storage] and not keeps_view:
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
        self._note_ends(call)

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
        self._note_ends(call)

    def _note_ends(self, call: int) -> None:
        """Note which results of a call in place replace a storage that nobody holds any more."""
        first = self.call_first_result[call]
        for tensor in range(first, len(self.tensor_call)):
            old = self.tensor_takes_over[tensor]
            self.tensor_ends_old[tensor] = old >= 0 and self.storage_references[old] == 0

    def _derive_views(self, storage: int, value: int) -> None:
        derived: dict[int, int] = {}
        for name in sorted(self.names_of.get(storage, ()), key=self.live.__getitem__):
            old = self.meaning[name]
            if old == self.storage_root[storage]:
                new = value
                self.first_name[new] = name if self.first_name[new] < 0 else self.first_name[new]
            elif old in derived:
                new = derived[old]
            else:
                call = self._new_call(self.call_origin[-1], [value], is_view=True)
                new = self._new_tensor(call, self.tensor_storage[value], name)
                self.instructions.append((RUN_CALL, call))
                self._drop(new)  # its names hold it below
                derived[old] = new
            self._mean(name, new)
            self._hold(new)
            self._drop(old)

    def _hold(self, tensor: int) -> None:
        self.references[tensor] += 1
        self.storage_references[self.tensor_storage[tensor]] += 1
        self.instructions.append((RETAIN, self.tensor_storage[tensor]))

    def _drop(self, tensor: int) -> None:
        self.references[tensor] -= 1
        self.storage_references[self.tensor_storage[tensor]] -= 1
        self.instructions.append((RELEASE_STORAGE, self.tensor_storage[tensor]))

    def _copy(self, name: int, source: int) -> None:
        self._mean(name, self.meaning[source])
        self._hold(self.meaning[name])

    def _copy_from(self, name: int, source: int) -> None:
        old, new = self.meaning[name], self.meaning[source]
        if old == new:
            return
        self._mean(name, new)
        self._drop(old)
        self._hold(new)

    def _release(self, name: int, _: int) -> None:
        del self.live[name]
        self.names_of[self.tensor_storage[self.meaning[name]]].discard(name)
        self._drop(self.meaning[name])

    def _backward(self, _a: int, _b: int) -> None:
        self.instructions.append((BEGIN_BACKWARD, 0))

    def outputs(self) -> list[int]:
        """Tensors that are still held, in the order of the first name that ever meant them."""
        held = [t for t, count in enumerate(self.references) if count > 0]
        return sorted(held, key=lambda t: (self.first_name[t], t))
