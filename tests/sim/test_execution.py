"""Executing plans: the same numbers as what they come from, and every impossible action named."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_schedules import random_schedule
from random_traces import random_trace
from rematsim import heuristics
from rematsim.audit import audit
from rematsim.errors import PlanError
from rematsim.execution import execute
from rematsim.opcodes import ACTIONS, DEALLOCATIONS, TAG_COLLECTIVE
from rematsim.plan import COMPUTE, FREE, OFFLOAD, Plan, made_plan, plan_of_run, plan_of_schedule
from rematsim.result import RunResult
from rematsim.simulation import simulate
from rematsim.static_graph import evaluate, static_graph
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

C, F = COMPUTE, FREE
SAME = ("status", "model_ns", "remat_ns", "clock", "peak_bytes", "evictions", "evict_sha",
        "rematerializations", "unlimited_peak_bytes", "base_compute_ns")  # fmt: skip


def memory_curve(result: RunResult) -> list[tuple[int, int, int]]:
    """Times and memory at each change; a replay also logs pins, and what it drops without bytes."""
    events: Any = result.events
    names = ("action", "bytes", "start_ns", "end_ns", "memory_after_bytes")
    rows = zip(*(events[name].tolist() for name in names), strict=True)
    dropped = {ACTIONS.index(name) for name in ("evict", "deallocate", "banish")}
    pin = ACTIONS.index("pin")
    return [row[2:] for row in rows if row[0] != pin and (row[0] not in dropped or row[1])]


def check_same(trace: Trace, online: RunResult) -> None:
    """Execute the plan of an online run and compare."""
    program = workload(trace, online.mutation, cached=False).program
    plan = plan_of_run(program, online)
    static = execute(trace, plan, online.budget_bytes or "unlimited", event_log=True)
    assert static.message == ""
    assert {c: getattr(static, c) for c in SAME} == {c: getattr(online, c) for c in SAME}
    assert memory_curve(static) == memory_curve(online)
    pin = ACTIONS.index("pin")
    if online.deallocation != "banish":
        pinned = [e["storage"][e["action"] == pin].tolist() for e in (static.events, online.events)]
        assert pinned[0] == pinned[1] or workload(trace).program.has_irreplaceable
    assert (static.kind, static.deallocation) == ("static", "plan")


@pytest.mark.parametrize("heuristic", heuristics.names())
def test_a_run_and_its_plan_are_the_same_under_every_heuristic(heuristic: str) -> None:
    trace = load_trace("synthetic:transformer:1,steps=2")
    memory = "arena" if heuristics.get(heuristic).needs_addresses else "counter"
    for seed, deallocation in enumerate(DEALLOCATIONS):
        online = simulate(
            trace, heuristic, 0.9, deallocation=deallocation, seed=seed, slowdown_limit=None,
            event_log=True, cached=False, memory=memory,
        )  # fmt: skip
        if online.status == "ok":
            check_same(trace, online)


@pytest.mark.parametrize("seed", range(20))
def test_a_run_and_its_plan_are_the_same_on_random_traces(seed: int) -> None:
    """Views of views, mutations, collective calls, in place or not, under every policy."""
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2], tags=seed % 3 == 0)
    heuristic = ("h_DTR", "h_DTR_eq", "h_LRU", "h_rand")[seed % 4]
    ended = 0
    for deallocation in DEALLOCATIONS:
        for mutation in ("copy", "inplace"):
            online = simulate(
                trace, heuristic, (0.7, 0.9, 1.0)[seed % 3], deallocation=deallocation,
                mutation=mutation, slowdown_limit=None, event_log=True, cached=False,
            )  # fmt: skip
            if online.status == "ok":
                check_same(trace, online)
                ended += 1
    assert ended or seed % 3 == 0


@pytest.mark.parametrize("name", ["densenet", "unet", "resnet32", "treelstm", "gpt", "vit_2steps"])
@pytest.mark.parametrize("mutation", ["copy", "inplace"])
def test_a_run_and_its_plan_are_the_same_on_bundled_traces(name: str, mutation: str) -> None:
    trace = load_trace(f"bundled:{name}")
    online = simulate(trace, "h_DTR_eq", 0.6, mutation=mutation, event_log=True)
    assert online.status == "ok"
    check_same(trace, online)


@pytest.mark.parametrize("seed", range(20))
def test_what_evaluation_predicts_execution_gives(seed: int) -> None:
    """The peak to the byte; the cost too, where there are no views, else at most that."""
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2], tags=seed % 3 == 0)
    program = workload(trace, cached=False).program
    graph = static_graph(program, trace)
    for drops in (0.0, 0.2, 0.4):
        schedule = random_schedule(graph, seed, drops)
        predicted = evaluate(graph, schedule)
        plan = plan_of_schedule(graph, program, schedule, trace.digest)
        result = execute(trace, plan, predicted.peak_bytes)
        assert (result.status, result.message) == ("ok", "")
        assert result.peak_bytes == predicted.peak_bytes
        took = result.model_ns + result.remat_ns
        assert took <= predicted.cost
        assert len(graph.view_call) or took == predicted.cost
        if predicted.peak_bytes > 1:
            assert execute(trace, plan, predicted.peak_bytes - 1).status == "oom"


def two_results() -> Trace:
    """w is a constant; a = f(w); (b, c) = g(a); d = h(b). Only c and d are outputs.

    Sizes: w 100, a 10, b 20, c 7, d 4 bytes; f takes 5 ns, g 3, h 2. Calls are w 0, f 1, g 2, h 3,
    and storages w 0, a 1, b 2, c 3, d 4.
    """
    builder = TraceBuilder("two results")
    builder.constant("w", 100)
    builder.call("f", ["w"], [("a", 10, -1)], 5)
    builder.call("g", ["a"], [("b", 20, -1), ("c", 7, -1)], 3)
    builder.call("h", ["b"], [("d", 4, -1)], 2)
    for name in "wab":
        builder.release(name)
    return builder.build()


def run(*actions: tuple[int, int], budget: Any = "unlimited", trace: Any = None) -> RunResult:
    trace = trace or two_results()
    plan = made_plan(actions, trace.digest, method="by hand")
    result = execute(trace, plan, budget, event_log=True)
    assert audit(trace, result), audit(trace, result).message
    return result


def test_what_lives_at_the_peak_is_the_same_as_in_the_run() -> None:
    trace = load_trace("bundled:unet")
    online = simulate(trace, "h_DTR_eq", 0.5, event_log=True, live_sets=True)
    plan = plan_of_run(workload(trace).program, online)
    static = execute(trace, plan, 0.5, event_log=True, live_sets=True)
    assert online.live_at_peak is not None and static.live_at_peak is not None
    assert static.live_at_peak.categories == online.live_at_peak.categories
    assert online.storages is not None and static.storages is not None
    for name, column in online.storages.items():
        assert np.array_equal(static.storages[name], column)


def story(result: RunResult) -> list[tuple[str, int, int]]:
    events: Any = result.events
    columns = (events[name].tolist() for name in ("action", "storage", "memory_after_bytes"))
    return [(ACTIONS[a], s, m) for a, s, m in zip(*columns, strict=True)]


ALL = ((C, 0), (C, 1), (C, 2), (C, 3))


def test_a_plan_by_hand() -> None:
    """g runs again for b, while c, the output, is there: c is there twice for a moment.

    ============  =====================================  ======
    action        in memory                              bytes
    ============  =====================================  ======
    w f g         w a b c                                137
    FREE b, a     w c                                    107
    f             w a c                                  117
    g             w a b c, and c a second time           144
    .             one c is dropped                       137
    FREE a, h     w b c d                                131
    FREE b, w     c d                                    11
    ============  =====================================  ======
    """
    result = run(*ALL[:3], (F, 2), (F, 1), (C, 1), (C, 2), (F, 1), (C, 3), (F, 2), (F, 0))
    assert story(result) == [
        ("compute", 0, 100), ("compute", 1, 110), ("compute", 2, 130), ("compute", 3, 137),
        ("evict", 2, 117), ("evict", 1, 107), ("recompute", 1, 117), ("recompute", 2, 137),
        ("recompute", 3, 144), ("drop_duplicate", 3, 137), ("deallocate", 1, 127),
        ("compute", 4, 131), ("deallocate", 2, 111), ("deallocate", 0, 11), ("pin", 3, 11),
        ("pin", 4, 11),
    ]  # fmt: skip
    assert (result.status, result.peak_bytes) == ("ok", 144)
    assert (result.model_ns, result.remat_ns, result.slowdown) == (10, 8, 1.8)
    assert (result.evictions, result.pressure_evictions, result.rematerializations) == (5, 2, 2)
    assert (result.clock, result.method, result.seed) == (19, "by hand", None)


def test_over_the_budget_is_out_of_memory() -> None:
    result = run(*ALL, budget=136)
    assert (result.status, result.failed_at, result.slowdown) == ("oom", 2, None)
    assert result.message == (
        "action 2, COMPUTE 2 (g (call 1)): out of memory: it needs 27 bytes, 110 of 136 are taken"
    )


@pytest.mark.parametrize(
    ("actions", "at", "message"),
    [
        (((C, 0), (C, 2)), 1, r"COMPUTE 2 \(g .*\): call 1 comes before it and has not been"),
        (((C, 1),), 0, r"COMPUTE 1 \(f .*\): call 0 comes before it"),
        ((*ALL[:2], (F, 1), (C, 2)), 3, r"COMPUTE 2 \(g .*\): it reads storage 1 \(a\), which is"),
        ((*ALL, (C, 9)), 4, "COMPUTE 9: there is no such call; the trace has 4"),
        ((*ALL, (F, 9)), 4, "FREE 9: there is no such storage; the trace has 5"),
        ((*ALL, (F, 1), (F, 1)), 5, r"FREE 1 \(a\): it is not in memory"),
        (((F, 1), *ALL), 0, r"FREE 1 \(a\): it is not in memory"),
        ((*ALL, (C, 0)), 4, r"COMPUTE 0 \(a constant\): a constant is there once"),
        (((C, 0), (F, 0), *ALL[1:]), 1, r"FREE 0 \(w\): it is a constant, and action 2 reads it"),
        (ALL[:3], 3, "the end of the plan: it ends before call 3 has been computed"),
        ((), 0, "the end of the plan: it ends before call 0 has been computed"),
        ((*ALL, (F, 3)), 5, r"the end of the plan: storage 3 \(c\) is an output, and not in mem"),
        ((*ALL, (OFFLOAD, 1)), 4, r"OFFLOAD 1 \(a\): no link to the host is given"),
    ],
)
def test_the_first_impossible_action_is_named(
    actions: tuple[tuple[int, int], ...], at: int, message: str
) -> None:
    result = run(*actions)
    assert (result.status, result.failed_at, result.slowdown) == ("refused", at, None)
    pattern = message if message.startswith("the end") else f"action {at}, {message}"
    assert re.match(pattern, result.message), result.message


def test_what_happens_before_the_impossible_decides() -> None:
    """Out of memory at action 2 comes before a call that does not exist at action 4."""
    assert run(*ALL, (C, 9), budget=120).status == "oom"


def test_a_constant_may_come_early_and_an_output_may_not_go() -> None:
    builder = TraceBuilder("late constant")
    builder.constant("w", 5)
    builder.call("f", ["w"], [("a", 10, -1)], 5)
    builder.constant("u", 3)
    builder.release("w")
    trace = builder.build()
    early = run((C, 0), (C, 2), (C, 1), (F, 0), trace=trace)
    assert early.peak_bytes == 18
    assert [row for row in story(early) if row[0] == "pin"] == [("pin", 1, 13)]
    refused = run((C, 0), (C, 1), (C, 2), (F, 2), trace=trace)
    assert refused.message == "action 3, FREE 2 (u): it is a constant, and an output"


def test_collective_calls_are_not_repeated() -> None:
    builder = TraceBuilder("collective")
    builder.call("f", [], [("a", 10, -1)], 5, tags=TAG_COLLECTIVE)
    result = run((C, 0), (C, 0), trace=builder.build())
    assert (result.status, result.failed_at) == ("refused", 1)
    assert "it is collective or depends on data" in result.message


def test_views_go_with_their_storage() -> None:
    """f makes a, a view shows it, g reads the view: after f has run again, the view has to too."""
    builder = TraceBuilder("viewed")
    builder.call("f", [], [("a", 8, -1)], 5)
    builder.call("view", ["a"], [("v", 0, 0)], 2)
    builder.call("g", ["v"], [("b", 1, -1)], 3)
    for name in "av":
        builder.release(name)
    trace = builder.build()
    refused = run((C, 0), (C, 1), (F, 0), (C, 0), (C, 2), trace=trace)
    assert refused.message == (
        "action 4, COMPUTE 2 (g (call 2)): it reads a view of storage 0 (a), which is not computed"
    )
    assert run((C, 0), (C, 1), (F, 0), (C, 0), (C, 1), (C, 2), trace=trace).remat_ns == 7


def in_place() -> Trace:
    """a = f(), 8 bytes; a is updated in place, which makes storage 1; b = g(a)."""
    builder = TraceBuilder("in place")
    builder.call("f", [], [("a", 8, -1)], 5)
    builder.call("add_", ["a"], [], 2, mutates=[0])
    builder.call("g", ["a"], [("b", 1, -1)], 3)
    builder.release("a")
    return builder.build()


def test_in_place_an_operand_is_handed_over_or_copied() -> None:
    trace = in_place()

    def peak(*actions: tuple[int, int]) -> tuple[str, int, int]:
        result = execute(trace, made_plan(actions, trace.digest, mutation="inplace"))
        return result.status, result.peak_bytes, result.evictions

    assert peak((C, 0), (F, 0), (C, 1), (C, 2), (F, 1)) == ("ok", 9, 1)
    assert peak((C, 0), (C, 1), (F, 0), (C, 2), (F, 1)) == ("ok", 16, 2)
    copied = execute(trace, made_plan([(C, 0), (F, 0), (C, 1)], trace.digest))
    assert copied.status == "refused"


def test_what_cannot_be_handed_over_is_refused() -> None:
    """The updated value is there already when the update runs again, so nothing is replaced."""
    trace = in_place()
    actions = [(C, 0), (C, 1), (F, 0), (C, 0), (F, 0), (C, 1), (C, 2)]
    result = execute(trace, made_plan(actions, trace.digest, mutation="inplace"))
    assert (result.status, result.failed_at) == ("refused", 5)
    assert "it does not take over storage 0 (a)" in result.message


def test_a_plan_is_for_one_trace() -> None:
    with pytest.raises(PlanError, match="it is for the trace 'x' .*, not for 'two results'"):
        execute(two_results(), Plan(np.zeros(0), np.zeros(0), "0" * 64, trace="x"))  # type: ignore[arg-type]


def test_a_run_can_be_saved_and_what_lives_at_the_peak_is_told(tmp_path: Any) -> None:
    from rematsim.result import load_run

    trace = two_results()
    plan = made_plan(ALL, trace.digest)
    result = execute(trace, plan, event_log=True, live_sets=True)
    assert result.live_at_peak is not None
    assert result.live_at_peak.total_bytes == result.peak_bytes == 141
    result.save(tmp_path / "x.run")
    assert load_run(tmp_path / "x.run").row == result.row
    failed = execute(trace, plan, 120, live_sets=True)
    assert failed.live_at_oom is not None and failed.live_at_oom.total_bytes == 110


# The auditor.


def tampered(result: RunResult, **changes: Any) -> Any:
    """Change cells of the event log: column=(row, value)."""
    events = {name: np.array(column) for name, column in (result.events or {}).items()}
    for column, (row, value) in changes.items():
        events[column][row] = value
    return SimpleNamespace(row=result.row, events=events)


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"memory_after_bytes": (3, 1)}, "BYTES_MISMATCH"),
        ({"bytes": (2, 1)}, "BYTES_MISMATCH"),
        ({"end_ns": (2, 1)}, "CLOCK_MISMATCH"),
        ({"action": (4, ACTIONS.index("deallocate"))}, "UNEXPECTED_ACTION"),
        ({"action": (4, ACTIONS.index("offload"))}, "UNEXPECTED_ACTION"),
        ({"action": (6, ACTIONS.index("compute"))}, "UNEXPECTED_ACTION"),
        ({"storage": (4, 4)}, "NOT_MATERIAL"),
        ({"storage": (2, 4)}, "WRONG_STORAGE"),
        ({"tensor": (2, 4)}, "WRONG_CALL"),
        ({"tensor": (2, 99)}, "WRONG_CALL"),
    ],
)
def test_the_auditor_names_what_was_tampered_with(changes: dict[str, Any], finding: str) -> None:
    result = run(*ALL[:3], (F, 2), (F, 1), (C, 1), (C, 2), (F, 1), (C, 3), (F, 2), (F, 0))
    verdict = audit(two_results(), tampered(result, **changes))
    assert (verdict.finding, bool(verdict.message)) == (finding, True), verdict.message


def test_the_auditor_sees_what_a_call_reads() -> None:
    result = run(*ALL[:3], (F, 2), (F, 1), (C, 1), (C, 2), (C, 9))
    verdict = audit(two_results(), tampered(result, tensor=(6, 2)))
    assert verdict.finding == "PARENT_NOT_DEFINED"


def test_the_auditor_compares_the_row() -> None:
    result = run(*ALL)
    for column in ("peak_bytes", "remat_ns", "evict_sha", "evictions", "clock"):
        found: Any = SimpleNamespace(row={**result.row, column: 12345}, events=result.events)
        assert audit(two_results(), found).finding == "COUNT_MISMATCH"
    budget: Any = SimpleNamespace(row={**result.row, "budget_bytes": 130}, events=result.events)
    assert audit(two_results(), budget).finding == "OVER_BUDGET"
    short: Any = {name: column[:2] for name, column in (result.events or {}).items()}
    ends: Any = SimpleNamespace(row=result.row, events=short)
    assert audit(two_results(), ends).finding == "LOG_ENDS_EARLY"


@pytest.mark.parametrize("seed", range(6))
def test_the_auditor_accepts_executions(seed: int) -> None:
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2], tags=seed % 3 == 0)
    program = workload(trace, cached=False).program
    schedule = random_schedule(static_graph(program), seed, 0.1)
    plan = plan_of_schedule(static_graph(program), program, schedule, trace.digest)
    for budget in ("unlimited", 0.9, 0.5):
        result = execute(trace, plan, budget, event_log=True)
        verdict = audit(trace, result)
        assert verdict, verdict.message
