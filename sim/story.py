"""A run read back from its event log: which calls ran, and what was in memory after each row.

The trace is optional: with it calls have their own names and operands, without it those of what
they made. Nothing is simulated here; what the story is told for is in `explaining.py` and
`side_by_side.py`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .errors import InputError
from .opcodes import COMPUTE, DROP_DUPLICATE, OFFLOAD, PHASES, RECOMPUTE, STALL
from .workload import workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .program import Program
    from .result import RunResult
    from .traces.trace import Trace

NONE = -1
VIEW = "(view)"  # operator of a call that makes views only, where the trace is not at hand


class Step(NamedTuple):
    """One run of a call: rows of the event log, what ran, when, whether again."""

    first_row: int
    last_row: int
    call: int
    is_again: bool
    start_ns: int
    end_ns: int

    @property
    def cost_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


class Story:
    """A run, and where in its event log things stand.

    Attributes
    ----------
    result : RunResult
    trace : Trace or None
    events, storages : dict of arrays
        Of the result.

    Raises
    ------
    InputError
        If the run kept no event log, or is of another trace.
    """

    def __init__(self, result: RunResult, trace: Trace | None = None) -> None:
        self.events, self.storages = result.logged()
        if trace is not None:
            result.check_trace(trace)
        self.result, self.trace = result, trace

    @cached_property
    def program(self) -> Program | None:
        """The trace as it was run, if it is at hand."""
        if self.trace is None:
            return None
        program = workload(self.trace, self.result.mutation).program
        most = int(self.events["tensor"].max(initial=NONE))
        if len(self.storages["name"]) != program.n_storages or most >= len(program.tensors):
            raise InputError(
                f"{self.result.file or 'run'}: storages and tensors of its log are not those of "
                f"{self.trace.name!r}"
            )
        return program

    @cached_property
    def memory(self) -> NDArray[np.int64]:
        """Bytes in memory after each row."""
        return np.asarray(self.events["memory_after_bytes"], np.int64)

    @cached_property
    def moments(self) -> NDArray[np.int64]:
        """When each row changes memory, ascending: an offload or a stall when it ends."""
        is_late = np.isin(self.events["action"], (OFFLOAD, STALL))
        when = np.where(is_late, self.events["end_ns"], self.events["start_ns"])
        return np.asarray(when, np.int64)

    @cached_property
    def changes(self) -> NDArray[np.int64]:
        """Bytes by which each row changed memory: those of its storage, whatever the action."""
        return np.diff(self.memory, prepend=0)

    @cached_property
    def steps(self) -> list[Step]:
        """Runs of calls in order, those of constants aside.

        Notes
        -----
        A call has a row for each result, with consecutive tensors; an update in place has rows of
        what it takes over between them.
        """
        is_run = np.isin(self.events["action"], (COMPUTE, RECOMPUTE))
        rows = np.flatnonzero(is_run & (self.events["call"] >= 0))
        parts = {name: self.events[name][rows] for name in ("call", "tensor", "start_ns", "end_ns")}
        begins = np.ones(len(rows), bool)
        begins[1:] = (
            (np.diff(parts["call"]) != 0)
            | (np.diff(parts["tensor"]) != 1)
            | (np.diff(parts["start_ns"]) != 0)
        )
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(rows)) - 1 if len(rows) else first
        again = self.events["action"][rows[first]] == RECOMPUTE
        columns = (rows[first], rows[last], parts["call"][first], again)
        times = (parts["start_ns"][first], parts["end_ns"][first])
        return [Step(*row) for row in zip(*(c.tolist() for c in (*columns, *times)), strict=True)]

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """First row of each step."""
        return np.array([step.first_row for step in self.steps], np.int64)

    def step_at(self, row: int) -> Step | None:
        """Give the step that began last, up to a row of the log."""
        place = int(np.searchsorted(self.first_rows, row, "right")) - 1
        return self.steps[place] if place >= 0 else None

    @cached_property
    def placements(self) -> NDArray[np.int64]:
        """Rows in which a storage came into memory, second copies aside."""
        tensors = self.events["tensor"]
        has_tensor = np.flatnonzero(tensors >= 0)
        order = has_tensor[np.argsort(tensors[has_tensor], kind="stable")]
        is_copy = np.zeros(len(tensors), bool)
        dropped = np.flatnonzero(self.events["action"][order] == DROP_DUPLICATE)
        is_copy[order[dropped - 1]] = True  # the row before of the same tensor placed it
        is_placed = np.isin(self.events["action"], (COMPUTE, RECOMPUTE)) & (self.changes > 0)
        return np.flatnonzero(is_placed & ~is_copy)

    def workspace_of(self, step: Step) -> int:
        """Bytes that a call needed only while it ran; 0 where the trace is not at hand."""
        if self.program is None:
            return 0
        return int(self.program.calls["workspace_bytes"][self.program_call(step)])

    def program_call(self, step: Step) -> int:
        """Give the call of the Program that a step is a run of."""
        assert self.program is not None
        return int(self.program.tensors["call"][self.events["tensor"][step.first_row]])

    @cached_property
    def _own_storage(self) -> dict[int, int]:
        """Call to a storage that it made, where it made one."""
        _, first = np.unique(self.events["storage"], return_index=True)
        calls, storages = self.events["call"][first], self.events["storage"][first]
        return dict(zip(calls[::-1].tolist(), storages[::-1].tolist(), strict=True))

    def place_of(self, step: Step) -> tuple[str, str]:
        """Give module and operator of a step."""
        if self.trace is not None:
            return self.trace.place_of(step.call)
        storage = self._own_storage.get(step.call, NONE)
        if storage >= 0:
            return self._place_of_storage(storage)
        shown = self._place_of_storage(int(self.events["storage"][step.first_row]))
        return shown[0], VIEW

    def _place_of_storage(self, storage: int) -> tuple[str, str]:
        if storage < 0:
            return "", ""
        return str(self.storages["module"][storage]), str(self.storages["operator"][storage])

    def name_of(self, call: int) -> str:
        """Name a call of the trace for a reader: number, operator, and what else is known."""
        details: list[str] = []
        if self.trace is not None:
            module, operator = self.trace.place_of(call)
            line, phase = int(self.trace.call_line[call]), int(self.trace.call_phase[call])
            details = [f"line {line}"] * bool(line) + [PHASES[phase]] * bool(phase)
        else:
            module, operator = self._place_of_storage(self._own_storage.get(call, NONE))
        details += [module] * bool(module)
        return f"call {call} {operator}".rstrip() + f" ({', '.join(details)})" * bool(details)

    @cached_property
    def peak_row(self) -> int:
        """The row after which memory, workspace of the call included, is at its peak.

        Where it cannot be told, as the trace is not at hand, the row with most in memory.
        """
        for step in self.steps:
            there = int(self.memory[step.last_row]) + self.workspace_of(step)
            if there == self.result.peak_bytes:
                return step.last_row
        return int(np.argmax(self.memory)) if len(self.memory) else NONE
