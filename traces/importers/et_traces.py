"""From operators on storages, with their times, to a Trace: the last step of reading a profile.

It gives names and makes the calls of a TraceBuilder; every decision has been taken before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ...errors import InputError
from ...opcodes import PHASE_BACKWARD
from ..builder import TraceBuilder
from ..trace import MAX_VALUE, Trace
from .et_storages import BEFORE, END, Lives, Step, Value

# What a summary calls them.
WITHOUT_TIME = "calls of 0 ns (views, and what launched no kernel)"


def to_trace(
    lives: Lives, builder: TraceBuilder, times_ns: Sequence[int], workspaces: Sequence[int]
) -> Trace:
    """Make the trace.

    Parameters
    ----------
    lives : Lives
        All of whose storages are dated.
    builder : TraceBuilder
        With ``rebinding="storage"``.
    times_ns, workspaces : sequence of int
        Nanoseconds, and bytes needed while it runs, of each step.

    Returns
    -------
    Trace

    Raises
    ------
    TraceError
        A size or a time is larger than a trace may hold.
    """
    writer = _Writer(lives, builder)
    for place, step in enumerate(lives.steps):
        writer.write(place, step, times_ns[place], workspaces[place])
    return builder.build()


class _Writer:
    """Writes steps in order."""

    def __init__(self, lives: Lives, builder: TraceBuilder) -> None:
        self._builder = builder
        self._device = lives.device
        self._names = 0
        self._ends: dict[int, list[Value]] = defaultdict(list)
        self._forward: dict[tuple[int, int], int] = {}
        self._forward_any: dict[int, int] = {}
        self._in_backward = False
        for storage in lives.storages:
            if storage.freed != END:
                self._ends[max(storage.freed, storage.born)].append(storage.root)
            if storage.born == BEFORE:
                storage.root.name = f"c{storage.number}"
                size = self._bytes(storage.root)
                builder.constant(storage.root.name, size, kind=storage.root.kind)

    def write(self, place: int, step: Step, time_ns: int, workspace: int) -> None:
        """Write one call, and the releases after it."""
        operator = step.operator
        is_backward = operator.phase == PHASE_BACKWARD
        if is_backward and not self._in_backward:
            self._builder.backward()
        self._in_backward = is_backward
        results = []
        for value, alias in step.results:
            self._names += 1
            value.name = f"x{self._names}"
            results.append((value.name, self._bytes(value) if alias == -1 else 0, alias))
        call = self._builder.call(
            operator.operator,
            [self._name(value) for value in step.args],
            results,
            min(time_ns, MAX_VALUE),
            mutates=step.written,
            workspace_bytes=workspace,
            phase=operator.phase,
            forward=self._pair(step, is_backward),
            tags=operator.tags,
            kinds=[value.kind for value, _ in step.results],
        )
        if operator.sequence is not None and not is_backward:
            self._forward[operator.sequence] = self._forward_any[operator.sequence[1]] = call
        self._release(place, step)

    def _name(self, value: Value) -> str:
        """Name a value: one whose name is gone is meant by the name of its storage."""
        return value.name or value.storage.root.name

    def _pair(self, step: Step, is_backward: bool) -> int:
        """Find the forward call of a backward one."""
        sequence = step.operator.sequence
        if not is_backward or sequence is None:
            return -1
        found = self._forward.get(sequence)
        return self._forward_any.get(sequence[1], -1) if found is None else found

    def _bytes(self, value: Value) -> int:
        """Give the bytes of a storage on the device that is meant."""
        return value.storage.size_bytes if value.storage.device == self._device else 0

    def _release(self, place: int, step: Step) -> None:
        """Release the names of views that are used no more, and of storages that are freed."""
        for value in (*step.args, *(value for value, _ in step.results)):
            if value.last_use == place and value is not value.storage.root and value.name:
                self._builder.release(value.name)
                value.name = ""
        for value in self._ends.pop(place, ()):
            self._builder.release(value.name)


def estimate_ns(steps: Iterable[Step], device: str) -> list[int]:
    """Estimate times with the cost model.

    Parameters
    ----------
    steps : iterable of Step
    device : str
        As ``devices.device`` knows it.

    Returns
    -------
    list of int
        Nanoseconds.

    Raises
    ------
    UnknownNameError
        There is no such device.
    """
    from ..costs import TensorKind, operator_ns
    from ..devices import device as named

    machine = named(device)
    kinds: dict[str, TensorKind | None] = {}
    known: dict[tuple[str, ...], int] = {}

    def kind_of(text: str) -> TensorKind | None:
        if text not in kinds:
            try:
                kind = TensorKind.parse(text)
                kinds[text] = kind if kind.nbytes() <= MAX_VALUE else None
            except InputError:
                kinds[text] = None
        return kinds[text]

    times = []
    for step in steps:
        operator = step.operator
        texts = (
            operator.operator,
            *(tensor.kind for tensor in operator.inputs),
            "",
            *(tensor.kind for tensor in operator.outputs),
        )
        if texts not in known:
            inputs = [kind for t in operator.inputs if (kind := kind_of(t.kind)) is not None]
            outputs = [kind for t in operator.outputs if (kind := kind_of(t.kind)) is not None]
            known[texts] = operator_ns(operator.operator, inputs, outputs, machine)
        times.append(known[texts])
    return times
