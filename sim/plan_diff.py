"""What two plans for one trace do differently: what one keeps or recomputes and the other does not.

Plans are read, not run: a plan that its execution would refuse can be compared as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .errors import PlanError
from .plan import Plan
from .program import Program
from .report import UNKNOWN
from .schedules import COMPUTE, FREE
from .traces.trace import Trace
from .workload import Workload, workload

OUTSIDE = ("", "")  # module and operator of what no call makes


@dataclass
class Difference:
    """What two plans do differently in the calls of one operator in one module.

    Attributes
    ----------
    module, operator : str
    kept_bytes : tuple of two int
        Storages that the first plan keeps and the second drops, although it reads them later; and
        the other way around.
    remat_ns : tuple of two int
        What each plan computes again beyond the other: call by call, what both do is left out.
    remats : tuple of two int
        How often.
    """

    module: str
    operator: str
    kept_bytes: tuple[int, int] = (0, 0)
    remat_ns: tuple[int, int] = (0, 0)
    remats: tuple[int, int] = (0, 0)

    @property
    def weight(self) -> int:
        """What the rows are sorted by, before bytes: all time that is not the same."""
        return sum(self.remat_ns)


def compare_plans(trace: Trace, first: Plan, second: Plan) -> list[Difference]:
    """Say what two plans for one trace do differently, by module and operator.

    Parameters
    ----------
    trace : Trace
    first, second : Plan
        Both for this trace, and under one lowering.

    Returns
    -------
    list of Difference
        Only where there is a difference; the one with the most time first, then bytes.

    Raises
    ------
    PlanError
        If a plan is for another trace, the two are for different lowerings, or a number in them
        does not exist.
    """
    for plan in (first, second):
        plan.check_trace(trace)
    if first.mutation != second.mutation:
        raise PlanError(
            f"plans: one is for mutation {first.mutation!r}, the other for {second.mutation!r}"
        )
    return _Comparison(workload(trace, first.mutation)).differences(first, second)


class _Comparison:
    """Groups what differs by where it is in the model."""

    def __init__(self, work: Workload) -> None:
        self.trace, self.program = work.trace, work.program
        self.found: dict[tuple[str, str], Difference] = {}

    def differences(self, first: Plan, second: Plan) -> list[Difference]:
        """Compare call by call, and storage by storage."""
        calls, program = self.program.calls, self.program
        uses = [PlanUse(program, plan) for plan in (first, second)]
        for call in range(len(calls)):
            times = [use.remats[call] for use in uses]
            more = times[0] - times[1]
            if more:
                row, side = self._at(call), int(more < 0)
                cost = abs(more) * int(calls["cost_ns"][call])
                row.remat_ns = _added(row.remat_ns, side, cost)
                row.remats = _added(row.remats, side, abs(more))
        makers = program.tensors["call"][program.storages["root"][:-1]].tolist()
        for storage, call in enumerate(makers):
            drops = [storage in use.dropped for use in uses]
            if drops[0] != drops[1]:
                row, size = self._at(call), int(program.storages["size_bytes"][storage])
                row.kept_bytes = _added(row.kept_bytes, int(drops[0]), size)
        rows = [row for row in self.found.values() if row.weight or any(row.kept_bytes)]
        return sorted(rows, key=lambda row: (-row.weight, -sum(row.kept_bytes), row.module))

    def _at(self, call: int) -> Difference:
        """Get the row of a call's module and operator."""
        origin = int(self.program.calls["origin"][call])
        place = OUTSIDE if origin == UNKNOWN else self.trace.place_of(origin)
        return self.found.setdefault(place, Difference(*place))


def _added(sides: tuple[int, int], side: int, amount: int) -> tuple[int, int]:
    first, second = sides
    return (first, second + amount) if side else (first + amount, second)


class PlanUse:
    """How a plan uses calls and storages.

    Attributes
    ----------
    remats : Counter
        How often each call is computed again.
    dropped : set of int
        Storages that are dropped and read afterwards.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        n_calls, n_storages = len(program.calls), program.n_storages
        self.dropped: set[int] = set()
        runs: Counter[int] = Counter()
        gone: set[int] = set()
        rows = zip(program.calls["first_source"], program.calls["end_source"], strict=True)
        sources = [program.sources[first:end].tolist() for first, end in rows]
        for number, (action, target) in enumerate(plan):
            if target >= (n_calls if action == COMPUTE else n_storages) or target < 0:
                what = "call" if action == COMPUTE else "storage"
                raise PlanError(
                    f"plan of {plan.method!r}, action {number}: there is no {what} {target}"
                )
            if action == COMPUTE:
                runs[target] += 1
                self._read(gone, sources[target])
            elif action == FREE:
                gone.add(target)
        self._read(gone, program.tensors["storage"][program.outputs].tolist())
        self.remats = Counter({call: count - 1 for call, count in runs.items()})

    def _read(self, gone: set[int], storages: list[int]) -> None:
        back = gone.intersection(storages)
        self.dropped |= back
        gone -= back
