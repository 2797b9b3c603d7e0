"""Moccasin's constraint program: when each node runs, and how long each value stays after that.

Runs in the solvers' process (``solving.py``). Time is a row of slots, one for each stage and node
that may run in it. A node has up to ``most_runs`` runs; the first is at its own place, later ones
in the slots of later stages. Every value that a run makes has an interval, from the run to where
it is dropped; all intervals together fit the memory, and what a run reads lies in one of them.

References
----------
Bartan et al., ICML 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .cp_sat import solve_model
from .stage_problem import StageProblem

Run = tuple[int, int]  # node, and how many runs of it came before


def retention(
    problem: StageProblem,
    most_runs: int,
    hint: list[tuple[int, int]],
    is_peak: bool,
    tell: Callable[[Any], None],
    seconds: float | None,
) -> dict[str, Any]:
    """Solve the program; tell every better solution as stages and nodes in order.

    Parameters
    ----------
    problem : StageProblem
    most_runs : int
        How often a node may run.
    hint : list of (int, int)
        Stage and node of each run of a solution to start from, or nothing.
    is_peak : bool
        Whether to look for the least peak above the budget, not for the least cost.
    tell : callable
        Is given each better solution.
    seconds : float or None
        What the solver may take.

    Returns
    -------
    dict
        ``status``, ``bound`` (units of cost above the first computations, or of memory if
        ``is_peak``) and ``runs``.
    """
    from ortools.sat.python import cp_model

    program = _Program(cp_model, problem, most_runs, is_peak)
    if hint:
        program.suggest(hint)
    # Measured on the reference graphs: without these, proofs take a third of the time. Where no
    # cost is known yet, the linear relaxation finds good solutions sooner.
    answer = solve_model(
        program.model,
        program.runs,
        seconds=seconds,
        tell=tell,
        linearization_level=int(problem.most_extra is None),
        symmetry_level=0,
        cp_model_probing_level=0,
    )
    return {"status": answer.status, "bound": answer.bound, "runs": answer.found}


class _Program:
    """The model, and what its variables mean."""

    def __init__(self, cp: Any, problem: StageProblem, most_runs: int, is_peak: bool) -> None:
        self.cp, self.problem = cp, problem
        self.model = cp.CpModel()
        self.count = [min(most_runs, problem.most_runs(v)) for v in range(problem.n_nodes)]
        self.slots = [
            (stage, node)
            for node, stages in enumerate(problem.stages)
            for stage in (stages if self.count[node] > 1 else stages[:1])
        ]
        self.slots.sort()
        self.place = {slot: at for at, slot in enumerate(self.slots)}
        self.start: dict[Run, Any] = {}
        self.is_there: dict[Run, Any] = {}
        self.end: dict[tuple[int, int], Any] = {}  # value and run
        self.intervals: list[Any] = []
        self.demands: list[int] = []
        for node in range(problem.n_nodes):
            for run in range(self.count[node]):
                self._add_run(node, run)
        for node, run in self.start:
            for value in problem.reads[node]:
                self._add_read(node, run, value)
        self._add_objective(is_peak)

    def _places(self, node: int, run: int) -> list[int]:
        """Slots that a run of a node may have."""
        if run == 0:
            return [self.place[node, node]]
        return [self.place[stage, node] for stage in self.problem.stages[node][run:]]

    def _add_run(self, node: int, run: int) -> None:
        """Add a run, and the intervals of what it makes."""
        model, places = self.model, self._places(node, run)
        if run == 0:
            start, is_there = places[0], model.new_constant(1)
        else:
            domain = self.cp.Domain.from_values(places)
            start, is_there = model.new_int_var_from_domain(domain, ""), model.new_bool_var("")
            if run > 1:
                model.add_implication(is_there, self.is_there[node, run - 1])
        self.start[node, run], self.is_there[node, run] = start, is_there
        for value in self.problem.makes[node]:
            end = model.new_int_var(places[0] + 1, len(self.slots), "")
            length = model.new_int_var(1, len(self.slots), "")
            self.end[value, run] = end
            self._add_interval(start, length, end, is_there, self.problem.size[value])
            if run > 0:  # what is made anew need not be kept until then
                model.add(self.end[value, run - 1] <= start).only_enforce_if(is_there)
        if self.problem.workspace[node]:
            self._add_interval(start, 1, start + 1, is_there, self.problem.workspace[node])

    def _add_interval(self, start: Any, length: Any, end: Any, is_there: Any, demand: int) -> None:
        interval = self.model.new_optional_interval_var(start, length, end, is_there, "")
        self.intervals.append(interval)
        self.demands.append(demand)

    def _add_read(self, node: int, run: int, value: int) -> None:
        """Let a run read a value: it lies in the interval of some earlier run of its producer."""
        model, producer = self.model, self.problem.producer[value]
        start, latest = self.start[node, run], self._places(node, run)[-1]
        if run == 0 and self.count[producer] == 1:
            model.add(self.end[value, 0] > start)
            return
        sources = []
        for earlier in range(self.count[producer]):
            if self._places(producer, earlier)[0] >= latest:
                break
            is_source = model.new_bool_var("")
            if earlier > 0:
                model.add_implication(is_source, self.is_there[producer, earlier])
                model.add(self.start[producer, earlier] < start).only_enforce_if(is_source)
            model.add(self.end[value, earlier] > start).only_enforce_if(is_source)
            sources.append(is_source)
        model.add_bool_or([*sources, self.is_there[node, run].negated()])

    def _add_objective(self, is_peak: bool) -> None:
        model, problem = self.model, self.problem
        again = [(node, run) for node, run in self.start if run > 0]
        extra = self.cp.LinearExpr.weighted_sum(
            [self.is_there[key] for key in again], [problem.cost[node] for node, _ in again]
        )
        if not is_peak:
            model.add_cumulative(self.intervals, self.demands, problem.capacity)
            if problem.most_extra is not None:
                model.add(extra <= problem.most_extra)
            model.minimize(extra)
            return
        peak = model.new_int_var(problem.capacity, sum(self.demands), "")
        model.add_cumulative(self.intervals, self.demands, peak)
        model.minimize(peak)

    def runs(self, value_of: Callable[[Any], int]) -> list[tuple[int, int]]:
        """Read a solution: stage and node of every run, in order."""
        there = (k for k, is_there in self.is_there.items() if value_of(is_there))
        return [self.slots[at] for at in sorted(value_of(self.start[key]) for key in there)]

    def suggest(self, runs: list[tuple[int, int]]) -> None:
        """Hint a solution: when each node runs, and until when what it makes is read."""
        order = [slot for slot in runs if slot in self.place]
        run_of: dict[int, int] = {}
        until: dict[tuple[int, int], int] = {}
        for slot in order:
            node = slot[1]
            for value in self.problem.reads[node]:
                run = run_of.get(self.problem.producer[value], 0)
                until[value, run] = self.place[slot] + 1
            run_of[node] = run_of.get(node, -1) + 1
            if 0 < run_of[node] < self.count[node]:
                self.model.add_hint(self.start[node, run_of[node]], self.place[slot])
            for value in self.problem.makes[node]:
                until[value, run_of[node]] = self.place[slot] + 1
        for (node, run), is_there in self._again():
            self.model.add_hint(is_there, run <= run_of.get(node, 0))
        for key, end in self.end.items():
            if key in until:
                self.model.add_hint(end, until[key])

    def _again(self) -> Iterator[tuple[Run, Any]]:
        return ((key, is_there) for key, is_there in self.is_there.items() if key[1] > 0)
