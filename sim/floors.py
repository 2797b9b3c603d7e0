"""What the lowest budget of a trace is made of: constants, outputs, and the calls that need most.

Words and names for what `requirements` works out; it holds while constants stay in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .report import call_name, storage_names
from .requirements import call_needs, requirements
from .workload import Workload

SHOWN = 3  # calls


@dataclass(frozen=True)
class CallNeed:
    """What one call has to have in memory at once.

    Attributes
    ----------
    name : str
        The call, for a reader.
    constant_bytes, result_bytes, workspace_bytes : int
        All constants made before it; what it makes; what it takes while it runs.
    operands : list of (str, int)
        The storages that it reads, constants aside, with their bytes, the largest first.
    """

    name: str
    constant_bytes: int
    result_bytes: int
    workspace_bytes: int
    operands: list[tuple[str, int]]

    @property
    def operand_bytes(self) -> int:
        """All of its operands."""
        return sum(count for _, count in self.operands)

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.constant_bytes + self.operand_bytes + self.result_bytes + self.workspace_bytes


@dataclass(frozen=True)
class Floor:
    """The lowest budget worth trying: what every method needs that keeps constants.

    Attributes
    ----------
    total_bytes : int
        Below it no run can end ok, and no planner has a plan.
    constant_bytes, output_bytes : int
        What is in memory at the end in any case.
    is_of_a_call : bool
        Whether a call asks for it, the first of ``calls``; else what is there at the end does.
    calls : list of CallNeed
        The calls that need most, the neediest first.
    """

    total_bytes: int
    constant_bytes: int
    output_bytes: int
    is_of_a_call: bool
    calls: list[CallNeed]


def floor_of(work: Workload) -> Floor:
    """Say what the lowest budget of a trace is made of.

    Parameters
    ----------
    work : Workload
        Lowered with ``mutation="copy"``.
    """
    needs = requirements(work.program)
    origins, constants, held = call_needs(work.program)
    neediest = np.argsort(-(constants + held), kind="stable")[:SHOWN]
    names = storage_names(work.trace, work.program)
    return Floor(
        needs.lowest_budget_bytes,
        needs.constant_bytes,
        needs.output_bytes,
        needs.lowest_budget_call >= 0,
        [_need(work, names, int(origins[k]), int(constants[k])) for k in neediest],
    )


def _need(work: Workload, names: list[str], origin: int, constant_bytes: int) -> CallNeed:
    """Take apart what a call of the trace needs."""
    program = work.program
    call = program.calls[int(np.flatnonzero(program.calls["origin"] == origin)[0])]
    read = program.sources[int(call["first_source"]) : int(call["end_source"])].tolist()
    storages = program.storages
    operands = [
        (names[s], int(storages["size_bytes"][s])) for s in read if not storages["is_constant"][s]
    ]
    return CallNeed(
        call_name(work.trace, origin),
        constant_bytes,
        int(call["result_bytes"]),
        int(call["workspace_bytes"]),
        sorted(operands, key=lambda operand: -operand[1]),
    )
