"""Runs side by side: where they part, on random traces under every pair of heuristics."""

from __future__ import annotations

from typing import Any

import pytest
from random_traces import random_trace
from random_transfers import random_link
from rematsim.execution import execute
from rematsim.opcodes import ACTIONS
from rematsim.plan import plan_of_run
from rematsim.plan_diff import compare_plans
from rematsim.side_by_side import compare
from rematsim.simulation import simulate
from rematsim.traces.trace import Trace
from rematsim.workload import workload

HEURISTICS = ("h_DTR", "h_LRU", "h_size", "h_rand")
IDLE = ("pin", "drop_duplicate", "stall")


def run_of(trace: Trace, heuristic: str, **options: Any) -> Any:
    given = {"budget": 0.8, "slowdown_limit": None, "event_log": True} | options
    return simulate(trace, heuristic, **given)


def doings(run: Any) -> list[tuple[str, int, int]]:
    """What a run does, as it is told: why a storage goes, and what nobody decides, aside."""
    log = run.events
    columns = (log[name].tolist() for name in ("action", "call", "storage", "tensor"))
    found = []
    for code, call, storage, tensor in zip(*columns, strict=True):
        action = ACTIONS[code]
        if action in IDLE or (action == "compute" and call < 0):
            continue
        is_drop = action in ("evict", "deallocate", "banish")
        found.append(("drop" if is_drop else action, storage, tensor))
    return found


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("deallocation", ["eager", "banish", "ignore"])
def test_a_run_and_itself_do_the_same(heuristic: str, deallocation: str) -> None:
    for seed in range(4):
        run = run_of(random_trace(740 + seed), heuristic, deallocation=deallocation)
        both = compare([run, run])
        assert both.parting() is None
        assert both.recomputation() is None
        assert all(first == second for first, second in both.curves())
        assert all(first == second for _, (first, second) in both.overhead)


@pytest.mark.parametrize("first", HEURISTICS)
@pytest.mark.parametrize("second", HEURISTICS)
def test_runs_part_at_the_first_action_that_differs(first: str, second: str) -> None:
    """Until then all is the same, in time and memory too; from there on it is not."""
    for seed in range(4):
        trace = random_trace(750 + seed)
        runs = [run_of(trace, name) for name in (first, second)]
        parting = compare(runs, trace).parting()
        lists = [doings(run) for run in runs]
        if parting is None:
            assert lists[0] == lists[1]
            continue
        at = parting.actions
        assert lists[0][:at] == lists[1][:at]
        assert lists[0][at : at + 1] != lists[1][at : at + 1]
        assert parting.first.time_ns == parting.second.time_ns
        assert parting.first.memory_bytes == parting.second.memory_bytes
        for run, doing in zip(runs, (parting.first, parting.second), strict=True):
            if doing.action != "end":
                assert ACTIONS[run.events["action"][doing.row]] == doing.action
                assert run.events["storage"][doing.row] == doing.storage


@pytest.mark.parametrize("mutation", ["copy", "inplace"])
def test_a_run_and_the_execution_of_its_plan_do_the_same(mutation: str) -> None:
    for seed in range(4):
        trace = random_trace(760 + seed)
        run = run_of(trace, "h_DTR_eq", mutation=mutation)
        if run.status != "ok":
            continue
        plan = plan_of_run(workload(trace, mutation).program, run)
        both = compare([run, execute(trace, plan, event_log=True)], trace)
        assert both.recomputation() is None
        assert both.kept() == []
        assert all(first == second for _, (first, second) in both.overhead)


def test_what_one_keeps_is_what_the_difference_of_their_plans_says() -> None:
    for seed in range(4):
        trace = random_trace(770 + seed)
        runs = [run_of(trace, name) for name in ("h_LRU", "h_size")]
        kept = compare(runs, trace).kept()
        if any(run.status != "ok" for run in runs):
            assert kept is None
            continue
        program = workload(trace).program
        assert kept == compare_plans(trace, *(plan_of_run(program, run) for run in runs))


def test_curves_keep_every_peak() -> None:
    """The highest part of a curve is the most that its log has in memory."""
    for seed in range(4):
        trace = random_trace(780 + seed)
        runs = [run_of(trace, name, slowdown_limit=1.5) for name in ("h_rand", "h_DTR")]
        rows = compare(runs).curves()
        assert len(rows) == 10
        for place, run in enumerate(runs):
            column = [row[place] for row in rows if row[place] is not None]
            assert max(column) == run.events["memory_after_bytes"].max()
        assert all(row != [None, None] for row in rows)


def test_curves_are_of_when_memory_changes_where_data_moves() -> None:
    """Bytes that leave are gone when their copy has ended, which is not when its row begins."""
    moved = 0
    for seed in range(6):
        trace, link = random_trace(785 + seed), random_link(seed)
        run = run_of(trace, "h_DTR_offload", budget=0.6, link=link)
        moved += run.offloaded_bytes
        end = int(run.events["end_ns"].max())
        highest = [0] * 10
        now, before = 0, 0
        rows = (run.events[name].tolist() for name in ("action", "start_ns", "end_ns"))
        memory = run.events["memory_after_bytes"].tolist()
        for action, start, stop, after in [*zip(*rows, memory, strict=True), (0, end, end, 0)]:
            when = stop if ACTIONS[action] in ("offload", "stall") else start
            for part in range(10):
                low, high = end * part // 10, end * (part + 1) // 10 + (part == 9)
                if before < high and when >= low:  # what was there until then
                    highest[part] = max(highest[part], now)
            now, before = after, when
        assert [row[0] for row in compare([run, run]).curves()] == highest
        assert compare([run, run], trace).kept() is None
    assert moved


def test_overheads_by_module_sum_to_each_runs_own() -> None:
    for seed in range(4):
        trace = random_trace(790 + seed)
        runs = [run_of(trace, name) for name in HEURISTICS]
        both = compare(runs, trace)
        for place, run in enumerate(runs):
            assert sum(costs[place] for _, costs in both.overhead) == run.remat_ns
