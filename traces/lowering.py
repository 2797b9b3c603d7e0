"""Put a Recording into the words of the DTR log: names, aliases, copy-on-write updates.

Needs no torch. The rules are those of the DTR log format, so that what is saved and read again
means the same; ``docs/capture.md`` lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from ..opcodes import PHASE_BACKWARD, PHASE_FORWARD
from .builder import TraceBuilder
from .recording import BackwardEntered, Death, RecordedCall, Recording, View
from .trace import Trace

RECOMPUTED = " (recomputed)"  # added to the module of what activation checkpointing runs again

_OWN_STORAGE = -1


class _Buffer:
    """The names that mean tensors of one storage, in its present version."""

    def __init__(self, root: str, size: int, is_constant: bool) -> None:
        self.root = root
        self.bytes = size
        self.is_constant = is_constant
        self.names = [root]
        self.by_geometry: dict[Hashable, str] = {}

    def bind(self, name: str, geometry: Hashable) -> None:
        """Let a name mean a view; the first name of a geometry is the one that is used."""
        self.names.append(name)
        self.by_geometry.setdefault(geometry, name)

    def keep_only(self, root: str, geometry: Hashable) -> list[str]:
        """Let one name alone mean the storage; return the others."""
        others = [name for name in self.names if name != root]
        self.root, self.names, self.by_geometry = root, [root], {geometry: root}
        return others


def to_trace(recording: Recording, name: str, source: str = "") -> Trace:
    """Return the Trace of a recording.

    Parameters
    ----------
    recording : Recording
        What was captured.
    name : str
        Name of the trace.
    source : str
        Where it comes from.
    """
    builder = TraceBuilder(
        name, source, rebinding="listed", times_estimated=recording.times_estimated
    )
    return _Lowering(recording, builder).run()


class _Result(NamedTuple):
    """A result as the builder takes it, and what it is made of."""

    name: str
    bytes: int
    alias: int
    kind: str


class _Lowering:
    """One pass over a recording's events."""

    def __init__(self, recording: Recording, builder: TraceBuilder) -> None:
        self._recording = recording
        self._builder = builder
        self._buffers: dict[int, _Buffer] = {}
        self._forward_calls: dict[int, int] = {}
        self._kinds: dict[Hashable, str] = {}
        self._names = 0

    def run(self) -> Trace:
        """Constants first, wherever they were met: they were in memory all the time."""
        times_used = Counter[str]()
        for storage, constant in self._recording.constants.items():
            times_used[constant.label] += 1
            again = times_used[constant.label]
            name = f"{constant.label}#{again}" if again > 1 else constant.label
            self._builder.constant(name, constant.bytes, kind=constant.kind)
            self._buffers[storage] = _Buffer(name, constant.bytes, is_constant=True)
        for event in self._recording.events:
            if isinstance(event, Death):
                self._release(self._buffers.pop(event.storage).names)
            elif isinstance(event, BackwardEntered):
                self._builder.backward()
            elif isinstance(event, RecordedCall):
                self._call(event)
        for buffer in self._buffers.values():  # outputs: one name each is enough
            self._release(name for name in buffer.names if name != buffer.root)
        return self._builder.build()

    def _new_name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _kind(self, view: View) -> str:
        """Return dtype and shape as text."""
        made_of = view.geometry[1], view.geometry[3]
        text = self._kinds.get(made_of)
        if text is None:
            text = self._kinds[made_of] = view.geometry.kind.text()
        return text

    def _release(self, names: Iterable[str]) -> None:
        for name in names:
            self._builder.release(name)

    def _name_of(self, view: View, phase: int) -> str:
        """Return the name that means a view now; derive the view if no name does."""
        buffer = self._buffers[view.storage]
        if not buffer.by_geometry:  # a constant's first use tells the geometry of its name
            buffer.by_geometry[view.geometry] = buffer.root
        name = buffer.by_geometry.get(view.geometry)
        if name is None:
            name = self._new_name()
            self._builder.call(
                "view",
                (buffer.root,),
                ((name, buffer.bytes, 0),),
                0,
                phase=phase,
                kinds=(self._kind(view),),
            )
            buffer.bind(name, view.geometry)
        return name

    def _call(self, call: RecordedCall) -> None:
        """Choose the instruction: an update in place, or a call with results alone."""
        sizes = dict(call.bytes_after)
        updated = self._updated(call)
        if any(call.arguments[position].storage in sizes for position in updated):
            self._resize(call, updated, sizes)
            return
        for position in updated:
            self._leave_one_name(call.arguments[position], call.phase)
        arguments, operands = self._operands(call, updated)
        results = self._results(call, operands, sizes)
        if results or updated:
            self._emit(call, arguments, results, mutates=updated)
        else:
            self._emit_without_tensor(call, arguments)

    def _updated(self, call: RecordedCall) -> list[int]:
        """Return the positions of written arguments, one a storage, constants left out.

        A constant is written in place: as a copy-on-write update, an optimizer step would hold
        every parameter twice. One that is resized ends there; what follows is made by the call.
        """
        for storage, _ in call.bytes_after:
            if storage in self._buffers:
                self._buffers[storage].is_constant = False
        first = {call.arguments[position].storage: position for position in reversed(call.written)}
        return sorted(p for storage, p in first.items() if not self._buffers[storage].is_constant)

    def _leave_one_name(self, view: View, phase: int) -> None:
        """Drop every name of a storage but the one that an update goes by.

        Before the update, as they mean what is overwritten: a replay in place lets the new value
        have the old one's bytes only where nobody holds that any more.
        """
        name, buffer = self._name_of(view, phase), self._buffers[view.storage]
        self._release(buffer.keep_only(name, view.geometry))

    def _resize(self, call: RecordedCall, updated: Sequence[int], sizes: dict[int, int]) -> None:
        """Emit a call that resizes: what it updates is one more result, old and new beside."""
        arguments, operands = self._operands(call)
        results = self._results(call, operands, sizes)
        renewed = []
        for position in updated:
            view = call.arguments[position]
            buffer = self._buffers[view.storage]
            buffer.bytes = sizes.get(view.storage, buffer.bytes)
            renewed.append((self._new_name(), arguments[position], view))
            results.append(_Result(renewed[-1][0], buffer.bytes, _OWN_STORAGE, self._kind(view)))
        self._emit(call, arguments, results)
        for new, old, view in renewed:
            self._builder.copy_from(old, new)
            self._builder.release(new)
            self._release(self._buffers[view.storage].keep_only(old, view.geometry))

    def _operands(
        self, call: RecordedCall, updated: Sequence[int] = ()
    ) -> tuple[list[str], list[int]]:
        """Return the operands' names and storages; add those that only a result tells of.

        Of an updated storage only one name is left, which all its operands go by.
        """
        storages = [view.storage for view in call.arguments]
        renewed = {storages[position] for position in updated}
        names = [
            self._buffers[view.storage].root
            if view.storage in renewed
            else self._name_of(view, call.phase)
            for view in call.arguments
        ]
        for view in call.results:
            if view.storage in self._buffers and view.storage not in storages:
                storages.append(view.storage)
                names.append(self._buffers[view.storage].root)
        return names, storages

    def _results(
        self, call: RecordedCall, operands: Sequence[int], sizes: dict[int, int]
    ) -> list[_Result]:
        """Name the results: views of operands, and the first of each new storage.

        Others cannot be said in the log's format, and are derived when they are used: a second
        tensor of a new storage, a view of what the call updates.
        """
        renewed = {operands[position] for position in call.written}
        results = []
        for view in call.results:
            buffer = self._buffers.get(view.storage)
            if buffer is None:
                name = self._new_name()
                buffer = _Buffer(name, sizes[view.storage], is_constant=False)
                buffer.by_geometry[view.geometry] = name
                self._buffers[view.storage] = buffer
                results.append(_Result(name, buffer.bytes, _OWN_STORAGE, self._kind(view)))
            elif view.storage in operands and (buffer.is_constant or view.storage not in renewed):
                name = self._new_name()
                alias = operands.index(view.storage)
                results.append(_Result(name, buffer.bytes, alias, self._kind(view)))
                buffer.bind(name, view.geometry)
        return results

    def _emit_without_tensor(self, call: RecordedCall, arguments: Sequence[str]) -> None:
        """Emit a call that no tensor comes out of: a log's calls have results."""
        result = _Result(self._new_name(), 0, _OWN_STORAGE, "")
        self._emit(call, arguments, (result,))
        self._builder.release(result.name)

    def _emit(
        self,
        call: RecordedCall,
        arguments: Sequence[str],
        results: Sequence[_Result],
        mutates: Sequence[int] = (),
    ) -> None:
        forward = -1
        computes_forward = call.phase == PHASE_FORWARD or call.is_recomputed
        if call.phase == PHASE_BACKWARD and not call.is_recomputed:
            forward = self._forward_calls.get(call.autograd_node, -1)
        index = self._builder.call(
            call.operator,
            arguments,
            [result[:3] for result in results],
            call.time_ns,
            workspace_bytes=call.workspace_bytes,
            mutates=mutates,
            phase=call.phase,
            module=call.module + RECOMPUTED if call.is_recomputed else call.module,
            forward=forward,
            tags=call.tags,
            kinds=[result.kind for result in results],
        )
        if computes_forward:
            self._forward_calls.setdefault(call.autograd_node, index)
