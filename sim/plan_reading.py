"""From a Plan to instructions that kernels follow, and what is wrong with it whatever memory does.

Order, repetitions, numbers that do not exist: all that needs no run. The rest is found by the
kernels of ``following.py``, and either is told by ``execution.py``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np

from .following import (
    BE_GONE,
    DROP,
    DROP_FOR_NOW,
    END_WITH,
    FORGET,
    KEEP,
    KEEP_NO_LONGER,
    MOVE_IN,
    MOVE_OUT,
    RUN_AGAIN,
    RUN_FIRST,
)
from .links import Link
from .plan import DISCARD, OFFLOAD, PREFETCH, Plan
from .program import INSTRUCTION_FIELDS, Program, freeze
from .schedules import COMPUTE, FREE
from .state import MAX_CLOCK
from .texts import format_ns

MOVES = {OFFLOAD: MOVE_OUT, PREFETCH: MOVE_IN, DISCARD: FORGET}


@dataclass(frozen=True)
class Fault:
    """The first action of a plan that can be seen to be impossible, and why."""

    action: int
    rule: str


class PlanReading:
    """Reads a plan once.

    Attributes
    ----------
    program : Program
        The one that the plan is for, with the plan's instructions up to its fault.
    action_of : array of int
        The plan's action that each instruction belongs to; the number of actions at the end.
    fault : Fault or None
    transfers : int
        How many actions there are that move data, or drop a copy on the host.
    """

    def __init__(self, program: Program, plan: Plan, link: Link | None = None) -> None:
        self._source = program
        self._link = link
        self._is_in_place = plan.mutation == "inplace"
        self._most_ns = program.base_compute_ns  # what the run takes if nothing overlaps
        self._on_host: set[int] = set()
        self.transfers = 0
        roots = program.storages["root"][:-1]
        self._maker = program.tensors["call"][roots].tolist()
        self._is_constant_storage = (program.storages["is_constant"][:-1] == 1).tolist()
        self._is_constant = [False] * len(program.calls)
        for storage, call in enumerate(self._maker):
            self._is_constant[call] |= self._is_constant_storage[storage]
        self._can_repeat = (program.calls["is_recomputable"] == 1).tolist()
        self._is_computed = [False] * len(program.calls)
        self._place = 0  # the first call that has not been computed
        self._actions = plan
        self._last = {t: i for i, (a, t) in enumerate(plan) if a == COMPUTE}
        self._given: set[int] = set()  # actions that hand a storage over to the next call
        self._taken: dict[int, list[int]] = {}
        self._kept: dict[int, list[int]] = {}
        if plan.mutation == "inplace":
            self._find_handovers()
        self._last_read: dict[int, int] | None = None
        self.action_of = array("q")
        self.fault: Fault | None = None
        instructions = np.frombuffer(self._read(), np.int32).reshape(-1, 2)
        table = freeze(np.ascontiguousarray(instructions).view(INSTRUCTION_FIELDS)[:, 0])
        self.program = Program(**{**program.arrays(), "instructions": table})

    def numbered(self, events: dict[str, Any]) -> dict[str, Any]:
        """Give an event log with the plan's actions in place of instructions."""
        return {**events, "instruction": np.array(self.action_of, np.int64)[events["instruction"]]}

    def _read(self) -> array[int]:
        """Turn actions into instructions, until one is impossible: codes and operands in turn."""
        instructions = array("i")
        for i, (action, target) in enumerate(self._actions):
            rule = self._rule(i, action, target)
            if rule:
                self.fault = Fault(i, rule)
                return instructions
            if i in self._given:
                continue
            kept = self._kept.get(i, ())
            row = [(KEEP, s) for s in kept]
            row.append((self._code(i, action, target), target))
            row += [(KEEP_NO_LONGER, s) for s in kept]
            row += [(BE_GONE, s) for s in self._taken.get(i, ())]
            for instruction in row:
                instructions.extend(instruction)
                self.action_of.append(i)
        end = len(self._actions)
        self._advance()
        if self._place < len(self._is_computed):
            self.fault = Fault(end, f"it ends before call {self._place} has been computed")
            return instructions
        for tensor in self._source.outputs.tolist():
            instructions.extend((END_WITH, tensor))
            self.action_of.append(end)
        return instructions

    def _code(self, i: int, action: int, target: int) -> int:
        """Give the code of a legal action, and note what it computes."""
        if action > FREE:
            self.transfers += 1
            (self._on_host.discard if action == DISCARD else self._on_host.add)(target)
            return MOVES[action]
        if action == FREE:
            return DROP_FOR_NOW if self._last.get(self._maker[target], -1) > i else DROP
        is_first = not self._is_computed[target]
        self._is_computed[target] = True
        return RUN_FIRST if is_first else RUN_AGAIN

    def _rule(self, i: int, action: int, target: int) -> str:
        """Give the rule that an action breaks, or nothing."""
        if action == COMPUTE:
            return self._compute_rule(target)
        if action == FREE:
            return self._free_rule(i, target)
        return self._move_rule(action, target)

    def _move_rule(self, action: int, storage: int) -> str:
        """Give the rule that a transfer breaks whatever else is going on."""
        if not 0 <= storage < len(self._maker):
            return self._no_storage()
        if self._is_in_place:
            return "data moves with mutation 'copy' only"
        if self._link is None:
            return "no link to the host is given: --device h100-pcie5, or --d2h and --h2d"
        if action == DISCARD:
            return ""
        size = int(self._source.storages["size_bytes"][storage])
        is_out = action == OFFLOAD
        took = self._link.to_host_ns(size) if is_out else self._link.from_host_ns(size)
        if took is None:
            return f"the rate {'to' if is_out else 'from'} the host is 0, so it would never end"
        self._most_ns += took
        if self._most_ns > MAX_CLOCK:
            return f"it takes {format_ns(took)}, and all until then more than the clock counts"
        if is_out and self._link.host_bytes is not None and size > self._link.host_bytes:
            return f"it has {size:,} bytes, the host only {self._link.host_bytes:,}"
        return ""

    def _no_storage(self) -> str:
        return f"there is no such storage; the trace has {len(self._maker):,}"

    def _compute_rule(self, call: int) -> str:
        if call >= len(self._is_computed) or call < 0:
            return f"there is no such call; the trace has {len(self._is_computed):,}"
        if not self._is_computed[call]:
            self._advance()
            is_early = self._place < call and not self._is_constant[call]
            return f"call {self._place} comes before it and has not been computed" * is_early
        if self._is_constant[call]:
            return "a constant is there once, nothing makes it again"
        if not self._can_repeat[call]:
            return "it is collective or depends on data, and cannot be repeated"
        return ""

    def _advance(self) -> None:
        while self._place < len(self._is_computed) and self._is_computed[self._place]:
            self._place += 1

    def _free_rule(self, i: int, storage: int) -> str:
        if storage >= len(self._maker) or storage < 0:
            return self._no_storage()
        if self._is_constant_storage[storage] and storage not in self._on_host:
            if self._last_read is None:
                self._last_read = self._last_reads()
            later = self._last_read.get(storage, -1)
            if later > i:
                return (
                    f"it is a constant, and action {later} reads it"
                    if later < len(self._actions)
                    else "it is a constant, and an output"
                )
        return ""

    def _sources(self, call: int) -> list[int]:
        """Give the storages that a call reads; none if there is no such call."""
        if not 0 <= call < len(self._is_computed):
            return []
        row = self._source.calls[call]
        found: list[int] = self._source.sources[row["first_source"] : row["end_source"]].tolist()
        return found

    def _output_storages(self) -> list[int]:
        found: list[int] = self._source.tensors["storage"][self._source.outputs].tolist()
        return found

    def _last_reads(self) -> dict[int, int]:
        """Find the last action that reads each storage; outputs are read at the end."""
        last: dict[int, int] = {}
        for i, (action, target) in enumerate(self._actions):
            if action == COMPUTE:
                last.update(dict.fromkeys(self._sources(target), i))
        return last | dict.fromkeys(self._output_storages(), len(self._actions))

    def _find_handovers(self) -> None:
        """Find the storages whose bytes calls take over: freed just before, and read by the call.

        A call that could take over more than it is given must leave that where it is.
        """
        replaced: dict[int, list[int]] = {}
        tensors = self._source.tensors
        for t in np.flatnonzero(tensors["takes_over"] >= 0).tolist():
            call = int(tensors["call"][t])
            replaced.setdefault(call, []).append(int(tensors["takes_over"][t]))
        freed: dict[int, int] = {}  # storage -> action, of those since the last that is no FREE
        for i, (action, target) in enumerate(self._actions):
            if action == FREE:
                freed[target] = i
                continue
            for storage in dict.fromkeys(replaced.get(target, ()) if action == COMPUTE else ()):
                if storage in freed:
                    self._given.add(freed[storage])
                    self._taken.setdefault(i, []).append(storage)
                else:
                    self._kept.setdefault(i, []).append(storage)
            freed = {}
