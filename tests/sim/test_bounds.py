"""The lower bound of every run: by hand, by its formula, and never above what can be done."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from brute_force import cheapest
from random_schedules import random_schedule
from random_traces import random_trace
from rematsim import bounds
from rematsim.bounds import lower_bound
from rematsim.errors import InputError
from rematsim.execution import execute
from rematsim.lowering import compile_trace
from rematsim.opcodes import TAG_COLLECTIVE
from rematsim.plan import plan_of_schedule
from rematsim.planning import plan_trace
from rematsim.program import Program
from rematsim.simulation import simulate
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.sweeps import sweep
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload


def two_results(tags: int = 0) -> Trace:
    """Make a (10 bytes, 5 ns); b and c (20, 7; 3 ns) from a; d (4; 2 ns) from b; e (1; 1 ns).

    e is made of a and d; c and e are outputs.
    """
    builder = TraceBuilder("two results")
    builder.call("f", [], [("a", 10, -1)], 5, tags=tags)
    builder.call("g", ["a"], [("b", 20, -1), ("c", 7, -1)], 3, tags=tags)
    builder.call("h", ["b"], [("d", 4, -1)], 2)
    builder.call("i", ["a", "d"], [("e", 1, -1)], 1)
    for name in "abd":
        builder.release(name)
    return builder.build()


def test_by_hand_at_the_call_that_needs_most() -> None:
    """All kept, h needs 41; it reads b, so only a (5 ns for 10) and c (3 ns for 7) can be dropped.

    c goes first: one byte too much costs 3/7 ns, four 12/7; costs are whole, so 1 and 2.
    """
    program = compile_trace(two_results())
    found = [lower_bound(program, budget) for budget in (None, 41, 40, 37, 36)]
    assert found == [11, 11, 12, 13, math.inf]


def test_what_cannot_be_made_again_is_not_dropped() -> None:
    trace = two_results(TAG_COLLECTIVE)
    program = compile_trace(trace)
    assert [lower_bound(program, budget) for budget in (41, 40)] == [11, math.inf]
    row = plan_trace(trace, "keep-all", 40).row
    assert (row.status, row.planner_status) == ("infeasible", "infeasible")
    assert row.message == "what cannot be computed again takes more than the budget"


def test_all_outputs_are_in_memory_at_the_end() -> None:
    """A chain whose every value is one: each call needs 2 bytes, the end 20."""
    builder = TraceBuilder("outputs")
    builder.call("f", [], [("x0", 1, -1)], 1)
    for i in range(1, 20):
        builder.call("f", [f"x{i - 1}"], [(f"x{i}", 1, -1)], 1)
    program = compile_trace(builder.build())
    assert [lower_bound(program, budget) for budget in (20, 19)] == [20, math.inf]


def test_a_view_counts_while_something_reads_it_later() -> None:
    """b (8 bytes, 4 ns) spans c (8 bytes); only d reads b, through its view v of 6 ns."""
    builder = TraceBuilder("view")
    builder.call("f", [], [("b", 8, -1)], 4)
    builder.call("view", ["b"], [("v", 0, 0)], 6)
    builder.call("g", [], [("c", 8, -1)], 1)
    builder.call("h", ["c"], [("c2", 1, -1)], 1)
    builder.call("h", ["v", "c2"], [("d", 1, -1)], 1)
    for name in ("b", "v", "c", "c2"):
        builder.release(name)
    program = compile_trace(builder.build())
    assert [lower_bound(program, b) - program.base_compute_ns for b in (17, 13, 10)] == [0, 5, 9]


def knapsack_bound(program: Program, budget: int) -> float:
    """Work the bound out call by call, in fractions, as its docstring says."""
    calls, tensors, n = program.calls, program.tensors, len(program.calls)
    storages = range(program.n_storages)
    maker = [int(tensors["call"][program.storages["root"][s]]) for s in storages]
    size = [int(program.storages["size_bytes"][s]) for s in storages]
    sources = [set(program.sources[c.first_source : c.end_source].tolist()) for c in calls]
    sources.append({int(tensors["storage"][t]) for t in program.outputs})
    last = [max([maker[s], *(c for c in range(n + 1) if s in sources[c])]) for s in storages]
    parents = [set(program.parents[c.first_parent : c.end_parent].tolist()) for c in calls]
    parents.append(set(program.outputs.tolist()))
    if sum(size[s] for s in sources[n]) > budget:
        return math.inf
    most = Fraction(0)
    for c in range(n):
        there = [s for s in storages if maker[s] <= c <= last[s]]
        excess = sum(size[s] for s in there) + int(calls["workspace_bytes"][c]) - budget
        items: dict[int, int] = {}
        for s in there:
            can_go = calls["is_recomputable"][maker[s]] and not program.storages["is_constant"][s]
            if maker[s] < c < last[s] and s not in sources[c] and can_go:
                items[maker[s]] = items.get(maker[s], 0) + size[s]
        costs = {p: int(calls["cost_ns"][p]) for p in items}
        for q in range(c):
            results = range(calls["first_result"][q], calls["end_result"][q])
            shown = {int(tensors["storage"][t]) for t in results}
            p = maker[min(shown)]
            is_read = any(t in parents[later] for t in results for later in range(c + 1, n + 1))
            if len(shown) == 1 and p != q and p in items and maker.count(p) == 1 and is_read:
                costs[p] += int(calls["cost_ns"][q])
        dropped = Fraction(0)
        for p in sorted((p for p in items if items[p]), key=lambda p: Fraction(costs[p], items[p])):
            part = min(max(excess, 0), items[p])
            dropped += Fraction(costs[p] * part, items[p])
            excess -= part
        if excess > 0:
            return math.inf
        most = max(most, dropped)
    return program.base_compute_ns + math.ceil(most)


@pytest.mark.parametrize("seed", range(16))
def test_it_is_at_least_the_largest_fractional_knapsack(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And just that where no moment is looked at more closely."""
    trace = random_trace(seed, events=40, tags=bool(seed % 2))
    close, plain = compile_trace(trace), compile_trace(trace)
    most = int(workload(random_trace(seed, events=40)).unlimited_peak_bytes)
    for budget in range(most // 3, most + 20, max(1, most // 12)):
        at_least = knapsack_bound(close, budget)
        assert lower_bound(close, budget) >= at_least
        with monkeypatch.context() as patch:
            patch.setattr(bounds, "MOMENTS", 0)
            assert lower_bound(plain, budget) == at_least


def test_what_is_made_again_needs_what_it_is_made_from() -> None:
    """a (4 bytes, 10 ns) makes b (8 bytes, 1 ns), which is read after c and c2 (9 bytes).

    In 13 bytes a can be held beside them, and b is made again. In 12, three quarters of a can be
    held: b is made again, and a quarter of a, for 3.5 ns.
    """
    builder = TraceBuilder("closing")
    builder.call("f", [], [("a", 4, -1)], 10)
    builder.call("f", ["a"], [("b", 8, -1)], 1)
    builder.release("a")
    builder.call("g", [], [("c", 8, -1)], 1)
    builder.call("h", ["c"], [("c2", 1, -1)], 1)
    builder.release("c")
    builder.call("h", ["b", "c2"], [("d", 1, -1)], 1)
    for name in ("b", "c2"):
        builder.release(name)
    program = compile_trace(builder.build())
    assert [lower_bound(program, b) - program.base_compute_ns for b in (17, 13, 12)] == [0, 1, 4]


def test_it_is_never_above_the_optimum_of_small_graphs() -> None:
    """Of hundreds of random graphs, against an exhaustive search; often it is that optimum."""
    tried = met = above_base = 0
    for seed in range(420):
        work = workload(random_trace(seed, events=14, tags=seed % 4 == 0), cached=False)
        graph, program = work.graph, work.program
        if graph.n_values > 8 or graph.n_nodes > 12:
            continue
        least, most = least_budget(graph)[0], naive_peak_bytes(graph)
        for budget in sorted({least, (least + most) // 2, max(least, most - 1)}):
            best, bound = cheapest(graph, budget), lower_bound(program, budget)
            assert best is None or bound <= best, (seed, budget)
            tried += best is not None
            met += bound == best
            above_base += bound > graph.base_cost
    assert tried > 200 and met > tried // 3 and above_base > 20


@pytest.mark.parametrize("seed", range(16))
def test_no_run_is_below_it(seed: int) -> None:
    """Online runs under every policy, and plans, at the memory that they take."""
    trace = random_trace(seed, events=60)
    work = workload(trace)
    program, graph = work.program, work.graph
    for deallocation in ("eager", "banish", "ignore"):
        for fraction in (0.4, 0.6, 0.8):
            row = simulate(trace, "h_LRU", fraction, deallocation=deallocation, slowdown_limit=None)
            if row.status == "ok":
                assert lower_bound(program, row.peak_bytes) <= row.model_ns + row.remat_ns
    for drops in (0.1, 0.4):
        schedule = random_schedule(graph, seed, drops)
        plan = plan_of_schedule(graph, program, schedule, trace.digest)
        row = execute(trace, plan)
        assert row.status == "ok"
        assert lower_bound(program, row.peak_bytes) <= row.model_ns + row.remat_ns


def test_rows_of_heuristics_and_planners_have_it() -> None:
    """At one budget they have the same, which is 1 or above; a run that failed has no gap."""
    table = sweep("bundled:unet", ["h_LRU", "h_DTR"], ["0.3x", "0.7x"], methods="keep-all")
    known = table.groupby("budget_fraction")["bound_slowdown"].unique()
    assert [len(found) for found in known] == [1, 1]
    assert 1 < known[0.7][0] < known[0.3][0]
    ok = table[(table["status"] == "ok") & (table["kind"] == "online")]
    assert ((ok["slowdown"] / ok["bound_slowdown"] - 1 - ok["gap"]).abs() < 1e-12).all()
    assert table.loc[table["status"] != "ok", "gap"].isna().all()


def test_bounds_are_for_copies() -> None:
    trace = load_trace("bundled:unet")
    table = sweep(trace, "h_LRU", "0.8x", mutation="inplace")
    assert table["bound_slowdown"].isna().all()
    builder = TraceBuilder("in place")
    builder.call("f", [], [("a", 8, -1)], 1)
    builder.call("f_", ["a"], [], 1, mutates=[0])
    with pytest.raises(InputError, match="mutation 'inplace'"):
        lower_bound(compile_trace(builder.build(), "inplace"), 8)


def test_what_is_proven_of_the_graph_bounds_no_run_where_views_and_constants_may_go() -> None:
    """The execution of a plan can cost less than the cheapest schedule of the graph by stages."""
    n_below_schedules = 0
    for seed in range(120, 136):
        trace = random_trace(seed, events=18)
        graph = workload(trace, cached=False).graph
        if graph.n_nodes > 12:
            continue
        budget = (least_budget(graph)[0] + naive_peak_bytes(graph)) // 2
        row = plan_trace(trace, "checkmate", budget, time_limit=10.0, cached=False).row
        if row.slowdown is None or row.bound_slowdown is None or row.predicted_slowdown is None:
            continue
        assert row.bound_slowdown <= row.slowdown * (1 + 1e-9)
        n_below_schedules += row.slowdown < row.predicted_slowdown
    assert n_below_schedules
