"""Which methods `fits` tries, how one is run, and the command that repeats it.

They are those that end quickly, by the size of the trace alone, so that the same question has the
same answer on every machine. What takes longer (annealing, exact solvers) is for `plan_trace`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from .budgets import Budget
from .errors import UsageError
from .heuristics.methods import get as get_heuristic
from .planning import STARTS, plan_trace
from .result import RunResult
from .runner import remat_limit_ns
from .simulation import Options, replay
from .texts import shown_number
from .workload import Workload

DEFAULT_SLOWDOWN = 2.0  # the most that is acceptable, where nothing is said
MOST_SLOWDOWN = 100.0  # that may be asked for: a heuristic may thrash for so long before it fails
PLAIN = "keep-all"  # nothing is dropped that is read again
POLICIES = ("eager", "banish")
ANY_SIZE = ("on-demand", "rotor(slots=200)", "every-kth(k=1)")
SMALL, SMALL_ONLY = 2_000, ("min-cut", "m-of-n", "knapsack")  # calls; planners that take longer
# Runs with which a planner may search for a smaller budget, of small traces and of others: what is
# not here has few plans, or takes long.
PROBES = {"on-demand": (8, 1), "rotor(slots=200)": (2, 0), "m-of-n": (2, 0)}
MOST_PROBES = 40  # of a heuristic: no limit in practice, as each halves the distance
LARGE = 30_000  # calls; beyond, a run takes seconds to minutes: the quickest methods, few runs each
LARGE_ONLY = {"h_DTR_eq": 2, "h_next_use": 2, "rotor(slots=200)": 0}


@dataclass(frozen=True)
class Method:
    """A method to try: a planner, or a heuristic under a deallocation policy.

    Attributes
    ----------
    name : str
        As the command line takes it.
    deallocation : str
        Empty for a planner, whose plan frees.
    probes : int
        Runs with which it may search for a smaller budget.
    """

    name: str
    deallocation: str = ""
    probes: int = 0

    @property
    def kind(self) -> str:
        """``plan``, ``offline`` (a heuristic that knows what comes) or ``online``."""
        if not self.deallocation:
            return "plan"
        return "offline" if get_heuristic(self.name).is_offline else "online"

    def run(self, work: Workload, budget_bytes: int, slowdown: float) -> RunResult:
        """Replay the trace, or plan it and execute the plan, within a budget."""
        if not self.deallocation:
            planned = plan_trace(work.trace, self.name, budget_bytes, interruptible=False)
            return planned.row
        options = Options(deallocation=self.deallocation, slowdown_limit=slowdown)
        return replay(work, get_heuristic(self.name), Budget("bytes", budget_bytes), options)

    def command(self, trace: str, budget_bytes: int, slowdown: float) -> str:
        """Write the command that does the same, quoted for a shell."""
        named = f"./{trace}" if trace.startswith("-") and trace != "-" else trace
        budget = ["--budget", f"{budget_bytes}B"]
        if not self.deallocation:
            words = ["plan", named, "--method", self.name, *budget, "--time-limit", "inf"]
        else:
            words = ["replay", named, "--heuristic", self.name, *budget]
            words += ["--slowdown-limit", shown_number(slowdown)]
            words += ["--deallocation", self.deallocation] if self.deallocation != "eager" else []
        return shlex.join(["rematsim", *words])


def methods(n_calls: int) -> list[Method]:
    """Give the methods to try on a trace of so many calls, the plain run first."""
    if n_calls > LARGE:
        quick = LARGE_ONLY.items()
        return [
            Method(PLAIN),
            *(Method(name, POLICIES[0] if name in STARTS else "", n) for name, n in quick),
        ]
    is_small = n_calls <= SMALL
    planners = [*ANY_SIZE, *(SMALL_ONLY if is_small else ())]
    return [
        Method(PLAIN),
        *(Method(name, policy, MOST_PROBES) for name in STARTS for policy in POLICIES),
        *(Method(name, "", PROBES.get(name, (0, 0))[not is_small]) for name in planners),
    ]


def check_slowdown(slowdown: float) -> None:
    """Refuse a slowdown that cannot be the most that is acceptable.

    Raises
    ------
    UsageError
        If it is below 1, above `MOST_SLOWDOWN`, or no number.
    """
    if not 1 <= slowdown <= MOST_SLOWDOWN:
        raise UsageError(f"slowdown ({slowdown!r}): it is a number from 1 to {MOST_SLOWDOWN:g}")


@dataclass(frozen=True)
class Trial:
    """A method that was tried within a budget.

    Attributes
    ----------
    method : Method
    row : RunResult
        How it went.
    fits : bool
        Whether it ended ok, and not slower than was asked for.
    """

    method: Method
    row: RunResult
    fits: bool


class Trials:
    """Tries methods on one trace, each budget once."""

    def __init__(self, work: Workload, slowdown: float) -> None:
        self.work, self.slowdown = work, slowdown
        self.remat_limit_ns = remat_limit_ns(work.program, slowdown)
        self._known: dict[tuple[Method, int], Trial] = {}

    def __call__(self, method: Method, budget_bytes: int) -> Trial:
        """Try a method within a budget."""
        key = method, budget_bytes
        if key not in self._known:
            row = method.run(self.work, budget_bytes, self.slowdown)
            is_quick = row.remat_ns <= self.remat_limit_ns
            self._known[key] = Trial(method, row, row.status == "ok" and is_quick)
        return self._known[key]
