"""Keep, recompute and offload as one constraint program in time, with copy engines as resources.

Runs of nodes are intervals on the compute stream, first ones in the order of the graph; copies are
intervals on a stream each way, or on one for both. A value is in memory in *stays*: from the start
of a run that makes it, or of the copy that brings it back, to the end of the last run that reads it
from there; or to the end of the copy that takes it to the host, which begins after that. All stays
together fit the memory at any time.

Copies may begin at any time. The engine begins them as soon as it can once a plan has issued them,
between two calls; so what is proven here bounds every plan, and the plan that is read off a
solution may take longer. Runs that take no time take one tick, of which `JointProblem.ticks` are a
nanosecond, so that they have a place. Runs in the solvers' process (``solving.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .clock import Clock
from .cp_sat import solve_model
from .registry import ROUNDING

Run = tuple[int, int]  # node, and how many runs of it come before


@dataclass(frozen=True)
class JointProblem:
    """The graph as lists, and what may be done.

    Attributes
    ----------
    duration : list of int
        Ticks of each node, at least 1.
    out, back : list of int
        Ticks of the copies of each value.
    size, workspace : list of int
        In a unit of bytes; ``capacity``: what is left for them.
    on_host : list of int
        Bytes of each value on the host; ``host``: what it has, or None.
    makes, reads : list of list of int
        Values of a node; values that a node reads.
    producer : list of int
    runs : list of int
        How often each node may run.
    trips : list of int
        How often each value may come back from the host.
    is_half : bool
        Whether only one copy is under way at a time.
    least, most : int
        Ticks that any schedule takes at least, and a wanted one at most.
    rest : int
        Ticks of computing beside the nodes, whenever it is.
    ticks : int
        For a nanosecond.
    """

    duration: list[int]
    out: list[int]
    back: list[int]
    size: list[int]
    workspace: list[int]
    capacity: int
    on_host: list[int]
    host: int | None
    makes: list[list[int]]
    reads: list[list[int]]
    producer: list[int]
    runs: list[int]
    trips: list[int]
    is_half: bool
    least: int
    most: int
    rest: int
    ticks: int

    def nanoseconds(self, bound: float) -> int:
        """Give what a bound in ticks says of schedules in nanoseconds."""
        return math.ceil((bound - (self.ticks - 1)) / self.ticks - ROUNDING)


class Timed(NamedTuple):
    """What happens when, in ticks.

    Attributes
    ----------
    runs : list of (int, int)
        Start and node.
    leaves, comes : list of (int, int)
        Start and value of the copies each way.
    """

    runs: list[tuple[int, int]]
    leaves: list[tuple[int, int]]
    comes: list[tuple[int, int]]


class _Stay(NamedTuple):
    """Variables of a stay of a value in memory; ``is_read``: whether a run reads from there."""

    is_there: Any
    is_read: Any
    begin: Any
    ready: Any
    until: Any
    end: Any


def joint_plan(
    problem: JointProblem, hint: Timed, tell: Callable[[Any], None], seconds: float | None
) -> dict[str, Any]:
    """Solve the program; tell every better solution as `Timed`.

    Returns
    -------
    dict
        ``status``, ``bound`` in ticks, and ``found``.
    """
    from ortools.sat.python import cp_model

    clock = Clock(seconds)
    program = _Program(cp_model, problem)
    program.suggest(hint)
    answer = solve_model(program.model, program.timed, seconds=clock.limit, tell=tell)
    return {"status": answer.status, "bound": answer.bound, "found": answer.found}


class _Program:
    """The model, and what its variables mean."""

    def __init__(self, cp: Any, problem: JointProblem) -> None:
        self.cp, self.problem = cp, problem
        self.model = cp.CpModel()
        self.start: dict[Run, Any] = {}
        self.end: dict[Run, Any] = {}
        self.is_there: dict[Run, Any] = {}
        self.computing: list[Any] = []
        self.held: list[tuple[Any, int]] = []  # intervals, and bytes that they need
        self.stays: list[list[_Stay]] = [[] for _ in problem.size]
        self.leave: dict[int, tuple[Any, Any]] = {}  # by value: whether, and when
        self.come: dict[int, list[tuple[Any, Any]]] = {}
        self.moving: dict[bool, list[Any]] = {True: [], False: []}
        self.at_host: list[tuple[Any, int]] = []
        self.wanted: dict[Run, list[Any]] = {}  # by further run: whether what it makes is of use
        self._add_runs()
        for value in range(len(problem.size)):
            if problem.size[value]:
                self._add_stays(value)
        for node, run in self.start:
            for value in problem.reads[node]:
                if problem.size[value]:
                    self._add_read(node, run, value)
        for key in self.start:
            if key[1]:  # a run in vain could be left out
                self.model.add_bool_or(self.is_there[key].negated(), *self.wanted.get(key, ()))
        self._add_resources()
        self._add_objective()

    def _time(self, low: int = 0, high: int | None = None) -> Any:
        return self.model.new_int_var(low, self.problem.most if high is None else high, "")

    def _add_runs(self) -> None:
        problem, model = self.problem, self.model
        early, total = 0, sum(problem.duration)
        for node, took in enumerate(problem.duration):
            latest = problem.most - (total - early)
            self._add_run(node, 0, early, latest)
            if node:
                model.add(self.start[node, 0] >= self.end[node - 1, 0])
            early += took
            for run in range(1, problem.runs[node]):
                self._add_run(node, run, early, problem.most - took)
                after = model.add(self.start[node, run] >= self.end[node, run - 1])
                after.only_enforce_if(self.is_there[node, run])
                if run > 1:
                    model.add_implication(self.is_there[node, run], self.is_there[node, run - 1])

    def _add_run(self, node: int, run: int, early: int, latest: int) -> None:
        model, took = self.model, self.problem.duration[node]
        start = self._time(early, latest)
        is_there = model.new_bool_var("") if run else model.new_constant(1)
        interval = model.new_optional_fixed_size_interval_var(start, took, is_there, "")
        self.start[node, run], self.end[node, run] = start, start + took
        self.is_there[node, run] = is_there
        self.computing.append(interval)
        if self.problem.workspace[node]:
            self.held.append((interval, self.problem.workspace[node]))

    def _add_stays(self, value: int) -> None:
        """Add what runs make of a value, and what comes back; and the copy to the host."""
        model, problem = self.model, self.problem
        producer = problem.producer[value]
        for run in range(problem.runs[producer]):
            key = (producer, run)
            stay = self._add_stay(value, self.is_there[key], self.start[key], self.end[key])
            if run:  # what is made anew for somebody need not be kept until then
                before = self.stays[value][run - 1]
                model.add(before.end <= stay.begin).only_enforce_if(stay.is_read)
                self.wanted.setdefault(key, []).append(stay.is_read)
        if not problem.trips[value]:
            return
        goes, out = model.new_bool_var(""), self._time()
        took = problem.out[value]
        self.leave[value] = (goes, out)
        self._add_copy(out, took, goes, is_out=True)
        sources = []
        for run, stay in enumerate(self.stays[value]):
            from_here = model.new_bool_var("")
            self.wanted.setdefault((producer, run), []).append(from_here)
            model.add_implication(from_here, stay.is_there)
            model.add(stay.until <= out).only_enforce_if(from_here)
            model.add(stay.end == out + took).only_enforce_if(from_here)
            model.add(stay.end == stay.until).only_enforce_if(from_here.negated())
            sources.append(from_here)
        model.add(sum(sources) == goes)
        self._add_returns(value, goes, out + took)

    def _add_stay(self, value: int, is_there: Any, begin: Any, ready: Any) -> _Stay:
        model = self.model
        until, length = self._time(), self._time()
        end = self._time() if self.problem.trips[value] else until
        model.add(until >= ready).only_enforce_if(is_there)
        interval = model.new_optional_interval_var(begin, length, end, is_there, "")
        self.held.append((interval, self.problem.size[value]))
        stay = _Stay(is_there, model.new_bool_var(""), begin, ready, until, end)
        if self.stays[value]:  # not the first, which is there: times of no stay have one value
            model.add_implication(stay.is_read, is_there)
            for time in (until, end):
                model.add(time == 0).only_enforce_if(is_there.negated())
        self.stays[value].append(stay)
        return stay

    def _add_copy(self, start: Any, took: int, is_there: Any, *, is_out: bool) -> None:
        interval = self.model.new_optional_fixed_size_interval_var(start, took, is_there, "")
        self.moving[is_out].append(interval)

    def _add_returns(self, value: int, goes: Any, left: Any) -> None:
        model, problem = self.model, self.problem
        took, before = problem.back[value], goes
        made = self.stays[value][1:]
        self.come[value] = []
        since = left
        for trip in range(problem.trips[value]):
            comes, begin = (goes if not trip else model.new_bool_var("")), self._time()
            model.add_implication(comes, before)
            model.add(begin >= since).only_enforce_if(comes)
            self._add_copy(begin, took, comes, is_out=False)
            stay = self._add_stay(value, comes, begin, begin + took)
            model.add(stay.end == stay.until)
            model.add_implication(comes, stay.is_read)  # else it could be left out
            self.come[value].append((comes, begin))
            for again in made:  # a run makes no more than a second copy while one is on the host
                is_after = model.new_bool_var("")
                both = [comes, again.is_read]
                model.add(again.begin >= begin + took).only_enforce_if([*both, is_after])
                model.add(again.until <= left).only_enforce_if([*both, is_after.negated()])
            before, since = comes, begin + took
        if problem.host is not None:
            length, end = self._time(), self._time()
            for comes, begin in self.come[value]:
                model.add(end >= begin + took).only_enforce_if(comes)
            begin = left - problem.out[value]
            interval = model.new_optional_interval_var(begin, length, end, goes, "")
            self.at_host.append((interval, problem.on_host[value]))

    def _add_read(self, node: int, run: int, value: int) -> None:
        """Let a run read a value from one of its stays."""
        model, is_there = self.model, self.is_there[node, run]
        start, end = self.start[node, run], self.end[node, run]
        stays = self.stays[value]
        if len(stays) == 1:
            model.add(stays[0].until >= end).only_enforce_if(is_there)
            return
        chosen = []
        for stay in stays:
            is_from = model.new_bool_var("")
            model.add_implication(is_from, stay.is_there)
            model.add_implication(is_from, stay.is_read)
            model.add(stay.ready <= start).only_enforce_if(is_from)
            model.add(stay.until >= end).only_enforce_if(is_from)
            chosen.append(is_from)
        model.add(sum(chosen) == is_there)

    def _add_resources(self) -> None:
        model, problem = self.model, self.problem
        model.add_no_overlap(self.computing)
        if problem.is_half:
            model.add_no_overlap(self.moving[True] + self.moving[False])
        else:
            model.add_no_overlap(self.moving[True])
            model.add_no_overlap(self.moving[False])
        intervals, demands = zip(*self.held, strict=True) if self.held else ((), ())
        model.add_cumulative(intervals, demands, problem.capacity)
        if self.at_host:
            intervals, demands = zip(*self.at_host, strict=True)
            model.add_cumulative(intervals, demands, problem.host)

    def _add_objective(self) -> None:
        """Let the last node end early; and what of it is known, for the linear relaxation."""
        model, problem = self.model, self.problem
        end = self.end[len(problem.duration) - 1, 0]
        runs = [(self.is_there[key], problem.duration[key[0]]) for key in self.start]
        out = [(goes, problem.out[value]) for value, (goes, _) in self.leave.items()]
        back = [(comes, problem.back[v]) for v, trips in self.come.items() for comes, _ in trips]
        for terms, rest in ((runs, problem.rest), (out, 0), (back, 0)):
            model.add(end >= sum(literal * took for literal, took in terms) + rest)
        model.add(end >= problem.least)
        self._add_lack()
        model.minimize(end)

    def _add_lack(self) -> None:
        """Let enough of what is alive at a node be gone, by coming back or being made again."""
        problem, model = self.problem, self.model
        last = list(problem.producer)
        for node, reads in enumerate(problem.reads):
            for value in reads:
                last[value] = max(last[value], node)
        gone: dict[int, Any] = {}
        for value, size in enumerate(problem.size):
            producer = problem.producer[value]
            ways = [self.is_there[producer, run] for run in range(1, problem.runs[producer])]
            ways += [comes for comes, _ in self.come.get(value, ())]
            if size and ways:
                gone[value] = model.new_bool_var("")
                model.add(gone[value] <= sum(ways))
        for node, reads in enumerate(problem.reads):
            alive = [value for value, size in enumerate(problem.size)
                     if size and problem.producer[value] < node < last[value]
                     and value not in reads]  # fmt: skip
            own = sum(problem.size[v] for v in (*reads, *problem.makes[node]))
            lack = own + problem.workspace[node] - problem.capacity
            lack += sum(problem.size[value] for value in alive)
            if lack > 0:
                ways = [gone[value] * problem.size[value] for value in alive if value in gone]
                model.add(sum(ways) >= lack)

    def timed(self, value_of: Callable[[Any], int]) -> Timed:
        """Read a solution; what runs after the last node is of no use, and left out."""
        last = value_of(self.start[len(self.problem.duration) - 1, 0])
        runs = [(value_of(start), key[0]) for key, start in self.start.items()
                if value_of(self.is_there[key]) and value_of(start) <= last]  # fmt: skip
        leaves = [(value_of(at), v) for v, (goes, at) in self.leave.items() if value_of(goes)]
        comes = [(value_of(at), v) for v, trips in self.come.items()
                 for is_there, at in trips if value_of(is_there)]  # fmt: skip
        return Timed(sorted(runs), sorted(leaves), sorted(comes))

    def suggest(self, hint: Timed) -> None:
        """Hint what happens when."""
        count: dict[int, int] = {}
        for start, node in hint.runs:
            key = (node, count.get(node, 0))
            count[node] = key[1] + 1
            if key in self.start:
                self.model.add_hint(self.start[key], start)
        for node, run in self.start:
            if run:
                self.model.add_hint(self.is_there[node, run], run < count.get(node, 0))
        leaves = {value: start for start, value in hint.leaves}
        for value, (goes, at) in self.leave.items():
            self.model.add_hint(goes, value in leaves)
            if value in leaves:
                self.model.add_hint(at, leaves[value])
        begins: dict[int, list[int]] = {}
        for start, value in hint.comes:
            begins.setdefault(value, []).append(start)
        for value, trips in self.come.items():
            for (_, at), begin in zip(trips, begins.get(value, ()), strict=False):
                self.model.add_hint(at, begin)
