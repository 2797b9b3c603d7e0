"""What a plan saves and what it computes again in the forward pass, by module and operator.

The list that people read, and what `policies.py` makes a policy of. Plans are read, not run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import PlanError
from .opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASES
from .plan import Plan
from .plan_diff import PlanUse
from .program import Program
from .schedules import COMPUTE
from .traces.trace import Trace
from .workload import workload


@dataclass
class Choice:
    """What a plan does with the calls of one operator in one module.

    Attributes
    ----------
    module, operator : str
    phase : str
        ``fwd``; or that of other calls that are computed again.
    saved, saved_bytes : int
        Calls of the forward pass that make something which is kept for the backward pass, and its
        bytes.
    recomputed, recomputed_bytes : int
        Calls that run again, and the bytes that they make each time.
    remats, remat_ns : int
        How often they do, and what that takes.
    """

    module: str
    operator: str
    phase: str
    saved: int = 0
    saved_bytes: int = 0
    recomputed: int = 0
    recomputed_bytes: int = 0
    remats: int = 0
    remat_ns: int = 0


class PlanChoices:
    """What a plan saves and computes again, by the trace's calls.

    Parameters
    ----------
    trace : Trace
    plan : Plan
        For it.

    Attributes
    ----------
    saved : dict of int to int
        Call of the forward pass -> bytes that it makes, which the backward pass or what is
        computed again reads, and which the plan keeps until then.
    remats : dict of int to int
        Call that the plan computes again -> how often.
    dropped : set of int
        Calls of the forward pass that make something which is read then, and which the plan drops
        in between.

    Raises
    ------
    PlanError
        If the plan is for another trace, or the trace does not know which calls are forward.
    """

    def __init__(self, trace: Trace, plan: Plan) -> None:
        plan.check_trace(trace)
        if not (trace.call_phase == PHASE_FORWARD).any():
            raise PlanError(f"{trace.name!r}: it does not say which calls are the forward pass")
        self.trace = trace
        program = workload(trace, plan.mutation).program
        use = PlanUse(program, plan)
        origin = program.calls["origin"].tolist()
        self.remats = {origin[c]: n for c, n in use.remats.items() if n and origin[c] >= 0}
        late = _read_late(program, plan)
        roots = program.storages["root"][:-1]
        made_by = program.tensors["call"][roots]
        self.saved: dict[int, int] = {}
        self.dropped: set[int] = set()
        for storage in sorted(late):
            call = origin[made_by[storage]]
            if call < 0 or trace.call_phase[call] != PHASE_FORWARD:
                continue
            if storage in use.dropped or call in self.remats:
                self.dropped.add(call)
            else:
                size = int(program.storages["size_bytes"][storage])
                self.saved[call] = self.saved.get(call, 0) + size
        for call in self.dropped:
            self.saved.pop(call, None)

    def rows(self) -> list[Choice]:
        """Give the list, in the order of the trace."""
        trace = self.trace
        made = np.add.reduceat(np.append(trace.result_bytes, 0), trace.result_offsets[:-1]) * (
            np.diff(trace.result_offsets) > 0
        )
        found: dict[tuple[str, str, str], Choice] = {}
        for call in sorted({*self.saved, *self.remats}):
            key = (*trace.place_of(call), PHASES[int(trace.call_phase[call])])
            row = found.setdefault(key, Choice(*key))
            if call in self.saved:
                row.saved += 1
                row.saved_bytes += self.saved[call]
            if times := self.remats.get(call):
                row.recomputed += 1
                row.recomputed_bytes += int(made[call])
                row.remats += times
                row.remat_ns += times * int(trace.call_time_ns[call])
        return list(found.values())


def _read_late(program: Program, plan: Plan) -> set[int]:
    """Give the storages that the backward pass, or what is computed again, reads."""
    calls = program.calls
    first, end = calls["first_source"].tolist(), calls["end_source"].tolist()
    is_backward = (calls["phase"] == PHASE_BACKWARD).tolist()
    seen: set[int] = set()
    late: set[int] = set()
    for action, call in plan:
        if action != COMPUTE:
            continue
        if is_backward[call] or call in seen:
            late.update(program.sources[first[call] : end[call]].tolist())
        seen.add(call)
    return late
