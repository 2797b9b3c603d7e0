"""The program that an audit follows: names, references to tensors, and the calls that make these.

What a call does to memory when it runs, and what the policy does with what nobody refers to any
more, is for ``audit.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from .audit_facts import Call, Storage, Tensor
from .audit_ledger import Ledger
from .opcodes import INSTRUCTIONS, TAG_COLLECTIVE, TAG_DATA_DEPENDENT

if TYPE_CHECKING:
    from .traces.trace import Trace


class ProgramAudit:
    """The trace's instructions, one by one, counted as the lowered program counts them."""

    trace: Trace
    ledger: Ledger
    names: dict[int, Tensor]

    def step(self, op: int, a: int, b: int) -> None:
        """Follow one instruction."""
        getattr(self, "_" + INSTRUCTIONS[op].lower())(a, b)

    def outputs(self) -> list[Tensor]:
        """Give what the program still holds, in the order of the names that meant it first."""
        held = [t for t in self.ledger.tensors if t.references > 0]
        return sorted(held, key=lambda t: (t.first_name, t.number))

    def _run_model(self, call: Call) -> None:
        """Follow a call as the model's own work."""
        raise NotImplementedError

    def _let_go(self, storage: Storage) -> None:
        """Let a storage go whose last reference went, as the policy has it."""
        raise NotImplementedError

    # Instructions.

    def _constant(self, name: int, ordinal: int) -> None:
        call = Call(-1, is_constant=True)
        self.ledger.create(call, [(int(self.trace.constant_bytes[ordinal]), -1)])
        self._run_model(call)
        self._bind(name, call.results[0])
        self.ledger.pin(call.results[0].storage, logged=False)

    def _call(self, number: int, _: int) -> None:
        t = self.trace
        operands = _part(t.arg_names, t.arg_offsets, number)
        names = _part(t.result_names, t.result_offsets, number)
        mutated = [operands[m] for m in _part(t.mutate_args, t.mutate_offsets, number)]
        call = self._issue(number, operands, mutated)
        for name, tensor in zip(names, call.results, strict=False):
            self._bind(name, tensor)
        if t.rebinding == "storage":
            self._rebind_storages(call)
            if not (names or call.replaces):
                self._drop(call.results[0])  # it writes constants, and makes nothing
        else:
            for name, tensor in zip(mutated, call.replaces, strict=True):
                before = self.names[name]
                self._bind(name, tensor)
                self._drop(before)

    def _copy(self, target: int, source: int) -> None:
        self._hold(self.names[source])
        self._bind(target, self.names[source])

    def _copy_from(self, target: int, source: int) -> None:
        before, after = self.names[target], self.names[source]
        if before is not after:
            self._drop(before)
            self._hold(after)
            self._bind(target, after)

    def _release(self, name: int, _: int) -> None:
        self._drop(self.names.pop(name))

    def _backward(self, _a: int, _b: int) -> None:
        self.ledger.instruction += 1

    # Names.

    def _bind(self, name: int, tensor: Tensor) -> None:
        """Let a name mean a tensor."""
        self.names[name] = tensor
        if tensor.first_name < 0:
            tensor.first_name = name

    def _hold(self, tensor: Tensor) -> None:
        """Add a reference."""
        tensor.references += 1
        self.ledger.instruction += 1

    def _drop(self, tensor: Tensor) -> None:
        """Drop a reference; what the policy does with the last must be in the log."""
        tensor.references -= 1
        if not tensor.storage.referenced:
            self._let_go(tensor.storage)
        self.ledger.instruction += 1

    def _rebind_storages(self, call: Call) -> None:
        """Let the live names of mutated storages mean the new ones, views derived again."""
        for root, old in call.replaces.items():
            renewed = {old.tensors[0]: root}
            for name in sorted(n for n, t in self.names.items() if t.storage is old):
                before = self.names[name]
                if before not in renewed:
                    view = Call(call.number, parents=[root])
                    self.ledger.create(view, [(0, 0)])
                    self._run_model(view)
                    renewed[before] = view.results[0]
                    self._drop(renewed[before])
                self._hold(renewed[before])
                self._bind(name, renewed[before])
                self._drop(before)
            self._drop(root)

    def _issue(self, number: int, operands: list[int], mutated: list[int]) -> Call:
        """Create a call's tensors, those that replace mutated ones last, and run it."""
        t = self.trace
        call = Call(number, int(t.call_time_ns[number]), int(t.call_workspace_bytes[number]))
        call.parents = [self.names[name] for name in operands]
        sizes = _part(t.result_bytes, t.result_offsets, number)
        aliases = _part(t.result_alias, t.result_offsets, number)
        old = [self.names[name].storage for name in mutated]
        if t.rebinding == "storage":
            old = [s for s in dict.fromkeys(old) if not s.tensors[0].call.is_constant]
        results = [*zip(sizes, aliases, strict=True), *((s.size, -1) for s in old)]
        self.ledger.create(call, results or [(0, -1)])
        call.replaces = dict(zip(call.results[len(sizes) :], old, strict=False))
        dropped = Counter(self.names[name].storage for name in set(mutated))  # each name once
        held = {s: sum(t.references for t in s.tensors) - dropped[s] for s in old}
        by_storage = self.trace.rebinding == "storage"
        call.last = {t for t, s in call.replaces.items() if by_storage or held[s] == 0}
        if int(t.call_tags[number]) & (TAG_COLLECTIVE | TAG_DATA_DEPENDENT):
            for tensor in call.results:
                tensor.storage.irreplaceable = True
                self.ledger.pin(tensor.storage, logged=False)
        self._run_model(call)
        return call


def _part(values: Any, offsets: Any, index: int) -> list[int]:
    """Give one row of a ragged table."""
    part: list[int] = values[offsets[index] : offsets[index + 1]].tolist()
    return part
