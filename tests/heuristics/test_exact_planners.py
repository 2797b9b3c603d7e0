"""Exact planners against an exhaustive search, known optima and one another; how solvers end."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from brute_force import cheapest
from planner_graphs import linear, linear_trace
from random_traces import random_trace
from rematsim.errors import InputError
from rematsim.heuristics.static import get, solving
from rematsim.heuristics.static.growing import Growing, grow
from rematsim.heuristics.static.registry import (
    FEASIBLE,
    INFEASIBLE,
    MEMORY_LIMIT,
    NO_PLAN,
    NOT_INSTALLED,
    OPTIMAL,
    SOLVER_FAILED,
    TIME_LIMIT,
)
from rematsim.planning import plan_trace
from rematsim.static_graph import StaticGraph, evaluate, least_budget, naive_peak_bytes
from rematsim.traces.builder import TraceBuilder
from rematsim.workload import workload

EXACT = ("checkmate", "checkmate(form=tight)", "checkmate(form=paper)", "moccasin", "optimal")
SECONDS = 60.0
VECTORS = Path(
    os.environ.get("REMATSIM_PLANNER_VECTORS", "../shared/reference/planner-vectors.json")
)


def small_graphs() -> list[StaticGraph]:
    """Random graphs small enough for an exhaustive search, several results a call among them."""
    graphs = []
    for seed in range(60):
        graph = workload(random_trace(seed, events=14), cached=False).graph
        if graph.n_nodes > 2 and graph.n_values <= 9 and naive_peak_bytes(graph) > 0:
            graphs.append(graph)
    return graphs[:10]


def budgets(graph: StaticGraph) -> list[int]:
    least, most = least_budget(graph)[0], naive_peak_bytes(graph)
    return sorted({least, (3 * least + most) // 4, (least + most) // 2, most})


@pytest.mark.parametrize("method", EXACT)
def test_no_exact_planner_misses_what_an_exhaustive_search_finds(method: str) -> None:
    for graph in small_graphs():
        costs = []
        for budget in budgets(graph):
            found = get(method).plan(graph, budget, time_limit=SECONDS)
            best = cheapest(graph, budget)
            if found.predicted is None:  # by stages there may be none where there is one
                assert found.status == NO_PLAN
                continue
            assert found.status == OPTIMAL
            assert best is not None and found.predicted.cost >= best
            costs.append(found.predicted.cost)
        assert costs == sorted(costs, reverse=True), "with more memory it never costs more"


@pytest.mark.parametrize(
    ("n", "budget", "cost"),
    [(2, 3, 6), (3, 3, 10), (3, 4, 8), (4, 3, 15), (4, 4, 11), (5, 4, 14), (6, 4, 18), (8, 5, 22)],
)
def test_linear_graphs_have_the_known_optima_by_all(n: int, budget: int, cost: int) -> None:
    for method in EXACT:
        found = get(method).plan(linear(n), budget, time_limit=SECONDS)
        assert found.predicted is not None
        assert (found.status, found.predicted.cost) == (OPTIMAL, cost), method


@pytest.mark.parametrize(
    ("form", "budget", "bound"),
    [("paper", 3, 23), ("paper", 4, 22), ("paper", 5, 21), ("paper", 6, 20), ("paper", 10, 17),
     ("tight", 3, 24), ("tight", 4, 23), ("tight", 5, 22), ("tight", 6, 21), ("tight", 10, 17)],
)  # fmt: skip
def test_relaxations_have_the_known_bounds(form: str, budget: int, bound: int) -> None:
    """Rounded up: costs are whole numbers."""
    found = get(f"checkmate-lp-rounding(form={form})").plan(linear(8), budget)
    assert found.bound == bound
    assert found.predicted is not None and found.predicted.cost >= bound


@pytest.mark.parametrize(
    ("n", "budget", "cv", "cost"),
    [(8, 4, 2, None), (8, 4, 3, 26), (8, 5, 2, 22), (6, 4, 2, None), (6, 4, 3, 18), (6, 5, 2, 16),
     (4, 3, 3, None), (4, 3, 4, 15), (4, 4, 2, 11)],
)  # fmt: skip
def test_moccasin_with_few_computations_of_a_node(
    n: int, budget: int, cv: int, cost: int | None
) -> None:
    found = get(f"moccasin(cv={cv})").plan(linear(n), budget)
    assert (None if found.predicted is None else found.predicted.cost) == cost
    assert found.status in (NO_PLAN if cost is None else f"optimal_for_cv={cv}", OPTIMAL)


@pytest.mark.parametrize("cv", [1, 2])
def test_a_start_that_computes_a_node_too_often_is_no_answer(cv: int) -> None:
    """``cv`` limits the plan, wherever it is from; so there is none where none so small fits."""
    graph = linear(8)
    best = get("optimal").plan(graph, 4).schedule
    assert best is not None and np.bincount(best.order).max() == 3
    found = get(f"moccasin(cv={cv})").plan(graph, 4, starts=[best])
    assert (found.status, found.schedule) == (NO_PLAN, None)
    assert f"at most {'once' if cv == 1 else '2 times'} fits" in found.message


def test_a_limit_on_computations_is_claimed_only_of_a_plan_that_keeps_it() -> None:
    """A start beyond the limit is better than all under it; whether others are, no proof says."""
    graph = linear(8)
    best = get("optimal").plan(graph, 4).schedule
    assert best is not None
    search = Growing(graph, 4, [best], SECONDS)
    grow(search, 2, 2)
    found = search.answer()
    assert (search.solved_runs, found.status) == (2, FEASIBLE)
    assert found.schedule is not None and evaluate(graph, found.schedule).cost == 26
    assert "at most 2 times is cheaper" in found.message
    grow(search, 3, 3)
    assert search.answer().status in ("optimal_for_cv=3", OPTIMAL)


def test_what_is_proven_under_a_limit_stays_when_less_is_proven_later() -> None:
    graph = linear(8)
    best = get("optimal").plan(graph, 4).schedule
    assert best is not None
    search = Growing(graph, 4, [best], SECONDS)
    grow(search, 3, 3)
    search.is_proven = False
    search.solve(2)
    assert search.solved_runs == 3


@pytest.mark.parametrize("method", [*EXACT, "moccasin(cv=2)"])
def test_a_plan_that_is_not_by_stages_is_never_called_the_optimum_of_those_that_are(
    method: str,
) -> None:
    graph = workload(random_trace(71, events=16), cached=False).graph
    start = get("annealing").plan(graph, 76).schedule
    assert start is not None and get("optimal").plan(graph, 76).status == NO_PLAN
    found = get(method).plan(graph, 76, starts=[start], time_limit=SECONDS)
    assert found.status == FEASIBLE and found.predicted == evaluate(graph, start)
    assert "no plan by stages" in found.message
    assert found.predicted is not None and found.bound is not None
    assert found.bound < found.predicted.cost


def test_costs_and_sizes_in_other_units_change_nothing() -> None:
    def costs(unit: int, size: int) -> list[float]:
        chance = random.Random(3)
        builder = TraceBuilder("units")
        for node in range(9):
            reads = sorted({f"x{chance.randrange(node)}" for _ in range(2)}) if node else []
            cost = chance.randrange(1, 9)
            builder.call("f", reads, [(f"x{node}", size * (1 + node % 3), -1)], unit * cost)
        graph = workload(builder.build(), cached=False).graph
        budget = (least_budget(graph)[0] + naive_peak_bytes(graph)) // (2 * size) * size
        found = [get(method).plan(graph, budget).predicted for method in ("moccasin", "checkmate")]
        return [plan.cost / unit for plan in found if plan is not None]

    assert costs(1, 1) == costs(1000, 1) == costs(1, 1 << 30)


def test_a_budget_below_the_largest_call_names_it() -> None:
    for method in EXACT:
        found = get(method).plan(linear(3), 2)
        assert (
            found.status == INFEASIBLE and "3, what the largest single call needs" in found.message
        )


def test_a_form_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match=r"form \(loose\): it is tight, paper or held"):
        get("checkmate(form=loose)").plan(linear(3), 4)


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that the solvers' process can import: its task runs a text."""
    source = "def run(text, tell, seconds):\n    exec(text, {'tell': tell})\n"
    (tmp_path / "stub_solver.py").write_text(source, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    solving.end_worker()
    yield "stub_solver"
    solving.end_worker()


STATES = {
    "import time\ntime.sleep(60)": TIME_LIMIT,
    "import no_such_solver": NOT_INSTALLED,
    "1 / 0": SOLVER_FAILED,
    "x = bytearray(3 << 30)": MEMORY_LIMIT,
    "raise SystemError": SOLVER_FAILED,
    "import sys\nsys.exit(7)": SOLVER_FAILED,
    "raise KeyboardInterrupt": SOLVER_FAILED,
    "import os\nos._exit(7)": SOLVER_FAILED,
    "import os\nos.abort()": MEMORY_LIMIT,
}


@pytest.mark.parametrize(("code", "status"), STATES.items())
def test_however_a_solver_ends_there_is_a_status(stub: str, code: str, status: str) -> None:
    assert solving.solve(stub, "run", "1", seconds=None, memory_gb=1.0).status == solving.DONE
    started = time.monotonic()
    ended = solving.solve(stub, "run", f"tell(7)\n{code}", seconds=1.0, memory_gb=1.0)
    assert (ended.status, ended.told) == (status, [7])
    assert ended.message and "\n" not in ended.message
    assert time.monotonic() - started < 1.0 + 2.0
    again = solving.solve(stub, "run", "tell(8)", seconds=None, memory_gb=1.0)
    assert (again.status, again.told) == (solving.DONE, [8])


def test_a_solver_that_is_killed_is_told_with_the_signal(stub: str) -> None:
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    ended = solving.solve(stub, "run", code, seconds=30.0, memory_gb=1.0)
    assert ended.message == "the solver was ended by SIGKILL, with 1 GB allowed"


def test_a_solver_that_says_anything_once_its_memory_is_full_reached_the_limit(stub: str) -> None:
    """A library that is refused memory may fail without a word: a SystemError, to Python."""
    code = "x = bytearray(600 << 20)\nraise SystemError('error return without exception set')"
    ended = solving.solve(stub, "run", code, seconds=30.0, memory_gb=1.0)
    assert (ended.status, ended.message) == (MEMORY_LIMIT, "the solver ran out of memory")


def test_nobody_reads_what_a_solver_prints(stub: str, capfd: pytest.CaptureFixture[str]) -> None:
    """HiGHS prints now and then, whatever it is told, amid progress lines or JSON."""
    code = "import os\nos.write(1, b'tmpSolver.run();')\ntell(1)"
    assert solving.solve(stub, "run", code, seconds=None, memory_gb=1.0).told == [1]
    solving.end_worker()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("cut", [0, 5])
def test_solvers_whose_parent_has_ended_end_without_a_word(cut: int) -> None:
    """As where a sweep is interrupted while they load: nobody reads, or a task is cut off."""
    task = pickle.dumps((solving.__name__, "load", (), None))
    process = subprocess.Popen(
        [sys.executable, "-m", solving.__name__, "1.0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    errors = process.communicate(task[: len(task) - cut], timeout=100)[1]
    assert (process.returncode, errors) == (0, b"")


def test_an_interrupt_gives_the_best_so_far() -> None:
    trace = linear_trace(40)
    plan_trace(trace, "moccasin", 8, time_limit=0.1)  # all is loaded
    threading.Timer(1.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    started = time.monotonic()
    found = plan_trace(trace, "moccasin", 8).found
    assert time.monotonic() - started < 30
    assert "interrupted" in found.message
    assert found.predicted is None or found.predicted.peak_bytes <= 8


@pytest.mark.skipif(not VECTORS.exists(), reason="the reference vectors are not here")
def test_reference_vectors_by_two_methods() -> None:
    known = json.loads(VECTORS.read_text(encoding="utf-8"))["linear_unit_optimal_cost"]
    for n, costs in known.items():
        for budget, cost in costs.items():
            for method in ("checkmate", "moccasin"):
                asked = (linear_trace(int(n)), method, int(budget))
                found = plan_trace(*asked, time_limit=SECONDS).found
                assert found.predicted is not None
                assert (found.status, found.predicted.cost) == (OPTIMAL, cost), (n, budget)
