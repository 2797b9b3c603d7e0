"""What frameworks save for the backward pass: knapsacks, cuts, blocks, lower sets."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from planner_graphs import linear, reference_graph
from rematsim.errors import HeuristicError, InputError
from rematsim.heuristics.static import get
from rematsim.heuristics.static.blocks import Blocks
from rematsim.heuristics.static.knapsack import SOLVERS, Items, ilp
from rematsim.heuristics.static.kusumoto import (
    Forward,
    LowerSets,
    cheapest_chain,
    cut_at,
    lower_sets,
)
from rematsim.heuristics.static.min_cut import saved_values
from rematsim.heuristics.static.registry import (
    NO_PLAN,
    NOT_APPLICABLE,
    OPTIMAL,
    SOLVER_FAILED,
    TIME_LIMIT,
)
from rematsim.heuristics.static.saving import kept_of_saved
from rematsim.heuristics.static.stages import minimal_computations
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD
from rematsim.static_graph import StaticGraph, naive_peak_bytes
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

METHODS = ["knapsack", "min-cut", "every-kth", "m-of-n", "kusumoto"]


def three_layers() -> StaticGraph:
    """Make a = mm(), 4 bytes, 9 ns; b = relu(a), 4 bytes, 1 ns; c = mm(b), 1 byte, 9 ns; a loss.

    The first gradient reads b, the second that and a, the last nothing of the forward pass.
    """
    builder = TraceBuilder("three layers")
    calls: list[Any] = [
        ("mm", [], "a", 4, 9), ("relu", ["a"], "b", 4, 1), ("mm", ["b"], "c", 1, 9),
        ("loss", ["c"], "l", 1, 1), ("mm", ["b"], "dc", 1, 9),
        ("relu_backward", ["dc", "a"], "db", 4, 1), ("mm", ["db"], "da", 4, 9),
    ]  # fmt: skip
    for operator, read, name, size, time in calls:
        phase = PHASE_FORWARD if name in "abcl" else PHASE_BACKWARD
        builder.call(operator, read, [(name, size, -1)], time, phase=phase)
    for _, _, name, _, _ in calls:
        builder.release(name)
    return workload(builder.build(), cached=False).graph


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_solvers_save_what_fits_and_is_worth_most(solver: str) -> None:
    """dp and ilp find the best there is, greedy nearly: held against all subsets."""
    for seed in range(20):
        draw = random.Random(seed)
        memory = [draw.randint(1, 50) for _ in range(8)]
        parts = [size / sum(memory) for size in memory]
        runtimes, room = [draw.random() for _ in range(8)], draw.random()
        sets = itertools.chain.from_iterable(itertools.combinations(range(8), k) for k in range(9))
        fitting = [s for s in sets if sum(parts[i] for i in s) <= room]
        best = max(sum(runtimes[i] for i in s) for s in fitting)
        gain, saved, again = SOLVERS[solver](parts, runtimes, room)
        assert tuple(saved) in fitting and sorted(saved + again) == list(range(8))
        assert gain == pytest.approx(sum(runtimes[i] for i in saved))
        assert gain >= best * (0.5 if solver == "greedy" else 0.99)


def test_the_knapsack_ignores_chains() -> None:
    """a and b are needed again: 4 bytes each, 9 and 1 ns; half of the memory saves a."""
    graph = three_layers()
    items = Items(graph)
    assert (items.nodes, items.memory, items.runtimes) == ([0, 1], [0.5, 0.5], [0.9, 0.1])
    assert minimal_computations(graph, items.kept(ilp, 0.5))[:2] == [1, 1 << 1 | 1 << 4]
    half, none = (get(f"knapsack(part={part})").plan(graph).predicted for part in (0.5, 0))
    assert half is not None and none is not None
    assert (half.cost, none.cost) == (graph.base_cost + 1, graph.base_cost + 10)


def test_a_user_s_own_solver_decides(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "def last(memory, runtimes, max_memory):\n    return 0.0, [len(memory) - 1], []\n"
        "def wrong(memory, runtimes, max_memory):\n    return 0.0, [99], []\n"
    )
    graph = three_layers()
    found = get(f"knapsack(solver={path}:last,part=0.5)").plan(graph)
    assert found.predicted is not None and found.predicted.cost == graph.base_cost + 9
    told = r"solver, with max_memory 0.5: it gave \(0.0, \[99\], \[\]\): it gives"
    with pytest.raises(InputError, match=told):
        get(f"knapsack(solver={path}:wrong,part=0.5)").plan(graph)
    with pytest.raises(HeuristicError, match="no function 'none'; it has last, wrong"):
        get(f"knapsack(solver={path}:none)").plan(graph)
    with pytest.raises(InputError, match=r"solver \(cp\): it is dp, greedy, ilp or file"):
        get("knapsack(solver=cp)").plan(graph)


LEAVING = {
    "import sys; sys.exit(7)": "line 2: SystemExit: 7",
    "raise KeyboardInterrupt": "line 2: KeyboardInterrupt",
    "raise GeneratorExit('x')": "line 2: GeneratorExit: x",
    "1 / 0": "line 2: ZeroDivisionError: division by zero",
    "return None": "it gave None: it gives",
}


@pytest.mark.parametrize(("body", "told"), LEAVING.items())
def test_however_a_user_s_own_solver_fails_the_command_goes_on_and_says_so(
    tmp_path: Path, body: str, told: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"def mine(memory, runtimes, max_memory):\n    {body}\n")
    with pytest.raises(InputError, match=f"knapsack: solver, with max_memory 0.5: {told}"):
        get(f"knapsack(solver={path}:mine,part=0.5)").plan(three_layers())


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("import os; os._exit(7)", SOLVER_FAILED, "the solver's process ended with code 7"),
        ("import time; time.sleep(60)", TIME_LIMIT, "no answer within"),
    ],
)
def test_a_user_s_own_solver_that_never_answers_is_a_status(
    tmp_path: Path, body: str, status: str, told: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"def mine(memory, runtimes, max_memory):\n    {body}\n")
    own = get(f"knapsack(solver={path}:mine,part=0.5)").plan(three_layers(), time_limit=2.0)
    assert (own.status, own.schedule) == (status, None) and told in own.message


def test_a_user_s_own_solver_may_use_up_its_lists(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "def mine(memory, runtimes, max_memory):\n"
        "    memory.clear(), runtimes.clear()\n"
        "    return 0.0, [0], []\n"
    )
    assert get(f"knapsack(solver={path}:mine,part=0.5)").plan(three_layers()).schedule is not None


def test_what_a_user_s_own_solver_answered_in_time_counts(tmp_path: Path) -> None:
    """The more memory it may use the sooner it is asked; here the first answer that fits."""
    path = tmp_path / "mine.py"
    path.write_text(
        "import time\n"
        "def mine(memory, runtimes, max_memory):\n"
        "    time.sleep(60 * (max_memory < 0.9))\n"
        "    return 0.0, [], []\n"
    )
    found = get(f"knapsack(solver={path}:mine)").plan(three_layers(), 10_000, time_limit=6.0)
    assert found.status == OPTIMAL and found.solve_seconds < 8


def test_the_cut_saves_what_is_heavy_and_computes_the_rest_again() -> None:
    """relu is cheap, so b is made again from a; the products are not made again."""
    graph = three_layers()
    assert saved_values(graph) == {0}
    found = get("min-cut").plan(graph).predicted
    assert found is not None and found.cost == graph.base_cost + 1


@pytest.mark.parametrize("every", [0, 2, 3, 7])
@pytest.mark.parametrize("trace", ["unet", "gpt", "treelstm"])
def test_what_is_not_saved_is_computed_once_more_at_most(trace: str, every: int) -> None:
    """Whichever values are saved: none, every second one, and so on."""
    graph = workload(load_trace(f"bundled:{trace}")).graph
    saved = range(0, graph.n_values, every) if every else ()
    computed = minimal_computations(graph, kept_of_saved(graph, saved))
    assert max(stages.bit_count() for stages in computed) == 2
    made_again = {node for node, stages in enumerate(computed) if stages.bit_count() > 1}
    values = [[*graph.values(node)] for node in made_again]
    assert not any(set(made) <= set(saved) for made in values if made)


def test_blocks_are_known_by_their_modules() -> None:
    graph = workload(load_trace("bundled:gpt")).graph
    assert Blocks(graph).paths == [f"GPT.blocks.{i}" for i in range(6)]
    assert Blocks(graph, "GPT.blocks").paths == Blocks(graph).paths
    assert Blocks(graph, "GPT.blocks.0").paths[0] == "GPT.blocks.0.norm1"
    peaks = []
    for m in range(7):
        found = get(f"m-of-n(m={m})").plan(graph).predicted
        assert found is not None
        peaks.append(found.peak_bytes)
    assert peaks[0] == naive_peak_bytes(graph) and peaks[6] < 0.4 * peaks[0]
    assert get("every-kth(k=1)").plan(graph).predicted == get("m-of-n(m=6)").plan(graph).predicted


def test_without_modules_there_are_no_blocks() -> None:
    for method in ("every-kth", "m-of-n"):
        assert get(method).plan(linear(4)).status == NOT_APPLICABLE


def chain(n: int) -> Forward:
    links = [1 << i for i in range(n)]
    return Forward([0, *links[:-1]], [*links[1:], 0], [1] * n, [1] * n)


@pytest.mark.parametrize("family", ["approximate", "exact"])
@pytest.mark.parametrize(("budget", "again"), [(6, None), (7, 4), (8, 3), (9, 2), (10, 1), (99, 1)])
def test_a_chain_of_nine_has_the_known_strategies(
    family: str, budget: int, again: int | None
) -> None:
    """The canonical strategy counts the last block as computed again."""
    forward = chain(9)
    sets = lower_sets(forward, family)
    assert sets is not None and len(sets) == 10
    found = cheapest_chain(forward, [cut_at(forward, nodes) for nodes in sets], budget)
    assert (None if found is None else found[0]) == again


def test_too_many_lower_sets_are_no_plan() -> None:
    """Twelve nodes beside each other have 2^12."""
    builder = TraceBuilder("wide")
    for i in range(12):
        builder.call("f", [], [(f"x{i}", 1, -1)], 1, phase=PHASE_FORWARD)
    builder.call("g", [f"x{i}" for i in range(12)], [("y", 1, -1)], 1, phase=PHASE_BACKWARD)
    graph = workload(builder.build(), cached=False).graph
    assert len(LowerSets(graph).nodes) == 12
    found = get("kusumoto(family=exact)").plan(graph)
    assert (found.status, found.message) == (NO_PLAN, "the graph has over 2,000 lower sets")


@pytest.mark.parametrize("name", ["vgg16_b256", "unet_b32"])
def test_lower_sets_save_memory_on_graphs_of_the_literature(name: str) -> None:
    graph = reference_graph(name)
    budget = int(0.95 * naive_peak_bytes(graph))
    found = get("kusumoto").plan(graph, budget)
    assert found.predicted is not None and found.predicted.cost < 1.3 * graph.base_cost


@pytest.mark.parametrize("method", ["knapsack", "every-kth", "m-of-n"])
def test_with_enough_memory_all_is_saved(method: str) -> None:
    graph = workload(load_trace("bundled:gpt")).graph
    assert get(method).plan(graph, naive_peak_bytes(graph)).status == OPTIMAL


@pytest.mark.parametrize("method", METHODS)
def test_without_a_backward_pass_they_do_not_apply(method: str) -> None:
    builder = TraceBuilder("forward only")
    builder.call("f", [], [("a", 1, -1)], 1)
    graph = workload(builder.build(), cached=False).graph
    assert get(method).plan(graph).status == NOT_APPLICABLE
