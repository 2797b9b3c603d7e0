"""Runs in a memory with addresses: what is as with the counter, what is not, and what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from random_traces import random_trace, scaled
from rematsim import execute, simulate, sweep
from rematsim.audit import audit
from rematsim.cli.main import main
from rematsim.errors import InputError, UnknownNameError
from rematsim.opcodes import ACTIONS, DEALLOCATIONS
from rematsim.plan import plan_of_run
from rematsim.planning import plan_trace
from rematsim.state import State
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

UNIT = 512
NEW = {"memory", "reserved_peak_bytes", "retries"}
TIMES = {"run_seconds"}


def differing(one: Any, other: Any) -> set[str]:
    """The columns in which two rows differ."""
    return {name for name in one.row if one.row[name] != other.row[name]} - TIMES


def rows_of(run: Any, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of an event log, actions by name."""
    columns = [run.events[name].tolist() for name in names]
    rows = list(zip(*columns, strict=True))
    return [(ACTIONS[row[0]], *row[1:]) for row in rows] if names[0] == "action" else rows


@pytest.mark.parametrize("memory", ["arena", "arena(small_area=10MiB)"])
@pytest.mark.parametrize("mutation", ["copy", "inplace"])
def test_in_a_huge_arena_everything_is_as_with_the_counter(memory: str, mutation: str) -> None:
    traces = [load_trace("bundled:unet"), load_trace("synthetic:transformer:2")]
    for trace in [*traces, *(random_trace(seed) for seed in range(4))]:
        for deallocation in DEALLOCATIONS:
            options: dict[str, Any] = {"deallocation": deallocation, "mutation": mutation}
            for budget in ("unlimited", 2**50):
                counted = simulate(trace, "h_DTR_eq", budget, **options)
                placed = simulate(trace, "h_DTR_eq", budget, memory=memory, **options)
                assert differing(counted, placed) == NEW


def test_the_reserved_peak_is_the_arena_that_a_run_without_a_budget_needs() -> None:
    trace = load_trace("bundled:resnet32")
    free = simulate(trace, "h_LRU", memory="arena")
    assert free.reserved_peak_bytes is not None and free.reserved_peak_bytes >= free.peak_bytes
    held = simulate(trace, "h_LRU", free.reserved_peak_bytes, memory="arena")
    assert (held.status, held.pressure_evictions) == ("ok", 0)
    assert held.reserved_peak_bytes == free.reserved_peak_bytes


@pytest.mark.parametrize("heuristic", ["h_DTR_eq", "h_LRU"])
@pytest.mark.parametrize("deallocation", DEALLOCATIONS)
def test_runs_in_an_arena_are_good(heuristic: str, deallocation: str) -> None:
    """Every address is the one that a slow obvious arena gives, after every action."""
    fragmented = 0
    for seed in range(6):
        trace = scaled(random_trace(seed, mutations=seed % 2 == 1), 400)
        for memory, budget in (("arena", "1.1x"), ("arena(small_area=6000)", "0.8x")):
            mutation = ("copy", "inplace")[seed % 2]
            run = simulate(
                trace, heuristic, budget, memory=memory, deallocation=deallocation,
                mutation=mutation, slowdown_limit=3.0, event_log=True,
            )  # fmt: skip
            verdict = audit(trace, run)
            assert verdict, f"seed {seed}, {memory}: {verdict.message}"
            fragmented += bool(run.fragmentation)
            if run.status == "ok":
                check_plan(trace, run)
    assert fragmented


def check_plan(trace: Trace, run: Any) -> None:
    """What a run did in an arena, done again as a plan, is good whether or not it fits."""
    plan = plan_of_run(workload(trace, run.mutation).program, run)
    for budget in (run.budget_bytes, run.budget_bytes * 3 // 4):
        again = execute(trace, plan, budget, memory=run.memory, event_log=True)
        verdict = audit(trace, again)
        assert verdict, verdict.message


@pytest.mark.parametrize("name", ["unet", "resnet32", "gpt"])
@pytest.mark.parametrize("mutation", ["copy", "inplace"])
def test_runs_of_real_traces_in_an_arena_are_good(name: str, mutation: str) -> None:
    trace = load_trace(f"bundled:{name}")
    run = simulate(
        trace, "h_DTR_eq", "0.6x", memory="arena", mutation=mutation, slowdown_limit=4.0,
        event_log=True,
    )  # fmt: skip
    assert run.retries and run.fragmentation
    verdict = audit(trace, run)
    assert verdict, verdict.message


@pytest.mark.parametrize(
    ("column", "change", "finding"),
    [
        ("address", UNIT, "WRONG_ADDRESS"),
        ("reserved_after_bytes", UNIT, "BYTES_MISMATCH"),
    ],
)
def test_an_address_that_is_changed_is_found(column: str, change: int, finding: str) -> None:
    trace = load_trace("bundled:unet")
    run = simulate(trace, "h_LRU", "0.8x", memory="arena", event_log=True)
    events: Any = run.events
    place = next(i for i, address in enumerate(events["address"]) if address > UNIT)
    events[column][place] += change
    verdict = audit(trace, run)
    assert (verdict.finding, verdict.row) == (finding, place)


# [A5][B3][free 2][C4 pinned][D6], in units: 7 units are wanted.


def side_by_side() -> Trace:
    """A5, B3, X2, the constant C4 and D6 are made, X is dropped, then 7 units are asked for."""
    builder = TraceBuilder("side by side")
    for name, units in (("A", 5), ("B", 3), ("X", 2)):
        builder.call("op", [], [(name, units * UNIT, -1)], 10)
    builder.constant("C", 4 * UNIT)
    builder.call("op", [], [("D", 6 * UNIT, -1)], 10)
    builder.release("X")
    builder.call("op", ["C"], [("S", 7 * UNIT, -1)], 10)
    for name in "ABDS":
        builder.release(name)
    return builder.build()


def d_then_b_then_a(state: State, s: int) -> float:
    """Score D lowest, then B, then A."""
    units = state.storages[s].size_bytes // 512
    return 1.0 if units == 6 else 2.0 if units == 3 else 3.0


def test_scores_that_know_no_addresses_evict_what_does_not_help() -> None:
    """D leaves 6 units, B with X 5: neither has 7, though 11 are free. Only A with B and X does.

    With the counter D alone is enough: 20 units, 18 in use without X.
    """
    trace = side_by_side()
    run = simulate(trace, d_then_b_then_a, 20 * UNIT, memory="arena", event_log=True)
    story = rows_of(run, "action", "storage", "address")
    assert [row for row in story if row[0] == "evict"] == [
        ("evict", 4, 14 * UNIT), ("evict", 1, 5 * UNIT), ("evict", 0, 0),
    ]  # fmt: skip
    assert ("compute", 5, 0) in story
    assert (run.status, run.pressure_evictions, run.retries) == ("ok", 3, 3)
    assert run.fragmentation == 16 / 20
    counted = simulate(trace, d_then_b_then_a, 20 * UNIT)
    assert counted.pressure_evictions == 1


def in_python(state: State, s: int) -> float:
    """Score likewise, in a way that is not compiled."""
    return {6: 1.0, 3: 2.0}.get(int(state.storages[s].size_bytes) // 512, 3.0 + len(str(s)) * 0)


def test_choices_made_in_python_give_the_same_row() -> None:
    """That the engine stops to ask counts neither as a retry nor as a step."""
    compiled = simulate(side_by_side(), d_then_b_then_a, 20 * UNIT, memory="arena")
    with pytest.warns(UserWarning, match="cannot be compiled"):
        asked = simulate(side_by_side(), in_python, 20 * UNIT, memory="arena")
    assert differing(compiled, asked) == {"method"}


def test_out_of_memory_says_what_was_wanted_and_what_was_free() -> None:
    """C is pinned in the middle: 9 units find no place, although 16 are free in the end."""
    builder = TraceBuilder("split")
    builder.call("op", [], [("A", 8 * UNIT, -1)], 10)
    builder.constant("C", 4 * UNIT)
    builder.release("A")
    builder.call("big", ["C"], [("S", 9 * UNIT, -1)], 10)
    run = simulate(builder.build(), "h_LRU", 20 * UNIT, memory="arena")
    assert (run.status, run.largest_hole_bytes) == ("oom", 8 * UNIT)
    assert (
        "4,608 of it in one piece; 8,192 bytes are free, the largest hole has 4,096," in run.message
    )


def test_a_workspace_and_second_copies_need_places_while_the_call_runs() -> None:
    """t and u are made by one call; u is evicted, and making it again makes t a second time."""
    builder = TraceBuilder("workspace")
    builder.call("op", [], [("t", UNIT, -1), ("u", 2 * UNIT, -1)], 5, workspace_bytes=3 * UNIT)
    builder.call("op", ["t"], [("v", 3 * UNIT, -1)], 1)
    builder.release("v")
    builder.call("op", ["u", "t"], [("w", UNIT, -1)], 1)
    trace = builder.build()
    run = simulate(trace, "h_size", 6 * UNIT, memory="arena", event_log=True)
    assert run.status == "ok"
    assert audit(trace, run)
    assert run.reserved_peak_bytes == 6 * UNIT


def test_an_update_in_place_keeps_the_address() -> None:
    trace = load_trace("bundled:unet")
    run = simulate(trace, "h_LRU", memory="arena", mutation="inplace", event_log=True)
    rows = rows_of(run, "action", "bytes", "address")
    taken = [i for i, row in enumerate(rows) if row[0] == "take_over"]
    assert taken
    assert all(rows[i][1:] == rows[i + 1][1:] for i in taken)


def test_a_plan_that_fits_the_counter_may_find_no_place() -> None:
    """The action is named, what it wanted, and what there was."""
    trace = side_by_side()
    program = workload(trace).program
    run = simulate(trace, d_then_b_then_a, 20 * UNIT, event_log=True)
    plan = plan_of_run(program, run)
    assert execute(trace, plan, 20 * UNIT).status == "ok"
    placed = execute(trace, plan, 20 * UNIT, memory="arena")
    assert (placed.status, placed.memory, placed.largest_hole_bytes) == ("oom", "arena", 6 * UNIT)
    assert placed.message == (
        "action 7, COMPUTE 5 (op (call 4)): out of memory: it needs 3,584 bytes, 6,144 of 10,240 "
        "are taken, 3,584 of it in one piece; 4,096 bytes are free, the largest hole has 3,072"
    )


def test_planners_count_bytes_and_their_plans_are_executed_in_the_memory_asked_for() -> None:
    planned = plan_trace("synthetic:transformer:2", "keep-all", memory="arena")
    assert (planned.row.status, planned.row.memory) == ("ok", "arena")
    assert planned.row.reserved_peak_bytes is not None
    none = plan_trace("synthetic:chain:9", "keep-all", 1, memory="arena(small_area=0)")
    assert (none.row.memory, none.row.reserved_peak_bytes) == ("arena", None)


def test_a_sweep_has_rows_for_each_memory() -> None:
    """For planners too, of which a memory changes what comes of their plans."""
    table = sweep(
        "synthetic:transformer:1", ["h_LRU"], "1.0x", memory=["counter", "arena"],
        methods="keep-all",
    )  # fmt: skip
    assert sorted(zip(table["method"], table["memory"], strict=True)) == [
        ("h_LRU", "arena"), ("h_LRU", "counter"), ("keep-all", "arena"), ("keep-all", "counter"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("memory", "error", "message"),
    [
        ("heap", UnknownNameError, "memory 'heap': it is one of counter, arena"),
        (None, UnknownNameError, "memory 'None': it is one of"),
        ("arena(512)", InputError, r"memory arena\(512\): its setting is small_area=BYTES"),
        ("arena(small_area=0.5x)", InputError, "a number of bytes is needed, as 6GiB"),
        ("arena(small_area=-1)", InputError, "small_area"),
        ("counter(x)", InputError, "it has no settings"),
    ],
)
def test_a_memory_that_is_none_is_named(memory: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        simulate("synthetic:chain:4", memory=memory)


def test_the_command_line_takes_and_tells_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["synthetic:chain:4", "--memory", "arena(small_area=1KiB)", "--budget", "8KiB"]
    assert main(["replay", *asked, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["memory"], row["status"]) == ("arena(small_area=1024)", "ok")
    assert row["reserved_peak_bytes"] > row["peak_bytes"]
    assert main(["replay", *asked]) == 0
    assert "arena(small_area=1024)" in capsys.readouterr().out
    assert main(["replay", "synthetic:chain:4", "--memory", "heap"]) == 2
    assert "memory 'heap': it is one of counter, arena" in capsys.readouterr().err
