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

    def restart(self, root: str, geometry: Hashable) -> list[str]:
        """Keep one name alone, which means the new version; return the others."""
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
        """Choose the instruction: in-place with nothing else to show, or a call with results."""
        sizes = dict(call.bytes_after)
        updated = self._updated(call)
        is_resized = any(call.arguments[position].storage in sizes for position in updated)
        if updated and not call.results and not is_resized:
            self._mutate(call, updated)
        else:
            self._compute(call, updated, sizes)

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

    def _mutate(self, call: RecordedCall, updated: Sequence[int]) -> None:
        arguments = [self._name_of(view, call.phase) for view in call.arguments]
        self._emit(call, arguments, (), mutates=updated)
        for position in updated:
            view = call.arguments[position]
            self._release(self._buffers[view.storage].restart(arguments[position], view.geometry))

    def _compute(self, call: RecordedCall, updated: Sequence[int], sizes: dict[int, int]) -> None:
        """Emit a call with its results, and one more for each argument that it updates."""
        arguments, operands = self._operands(call)
        results: list[_Result] = []
        for view in call.results:
            self._add_result(view, operands, sizes, results)
        renewed = []
        for position in updated:
            view = call.arguments[position]
            buffer = self._buffers[view.storage]
            buffer.bytes = sizes.get(view.storage, buffer.bytes)
            renewed.append((self._new_name(), arguments[position], view))
            results.append(_Result(renewed[-1][0], buffer.bytes, _OWN_STORAGE, self._kind(view)))
        if not results:
            results.append(_Result(self._new_name(), 0, _OWN_STORAGE, ""))
            self._emit(call, arguments, results)
            self._builder.release(results[0].name)
            return
        self._emit(call, arguments, results)
        for new, old, view in renewed:
            self._builder.copy_from(old, new)
            self._builder.release(new)
            self._release(self._buffers[view.storage].restart(old, view.geometry))

    def _operands(self, call: RecordedCall) -> tuple[list[str], list[int]]:
        """Return the operands' names and storages; add those that only a result tells of."""
        storages = [view.storage for view in call.arguments]
        names = [self._name_of(view, call.phase) for view in call.arguments]
        for view in call.results:
            if view.storage in self._buffers and view.storage not in storages:
                storages.append(view.storage)
                names.append(self._buffers[view.storage].root)
        return names, storages

    def _add_result(
        self,
        view: View,
        operands: Sequence[int],
        sizes: dict[int, int],
        results: list[_Result],
    ) -> None:
        """Name a result: a view of an operand, or the first of a new storage.

        A second tensor of a new storage cannot be said in the log's format: it is derived when
        it is used.
        """
        buffer = self._buffers.get(view.storage)
        if buffer is None:
            name = self._new_name()
            buffer = _Buffer(name, sizes[view.storage], is_constant=False)
            buffer.by_geometry[view.geometry] = name
            self._buffers[view.storage] = buffer
            results.append(_Result(name, buffer.bytes, _OWN_STORAGE, self._kind(view)))
        elif view.storage in operands:
            name = self._new_name()
            alias = operands.index(view.storage)
            results.append(_Result(name, buffer.bytes, alias, self._kind(view)))
            buffer.bind(name, view.geometry)

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
