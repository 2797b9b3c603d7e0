"""Plans: made from schedules and from runs, and kept in files."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_schedules import random_schedule
from random_traces import random_trace
from rematsim.errors import InputError, PlanError
from rematsim.plan import (
    COMPUTE,
    FREE,
    OFFLOAD,
    Plan,
    made_plan,
    plan_of_run,
    plan_of_schedule,
    schedule_of_plan,
)
from rematsim.plan_files import load_plan, save_plan
from rematsim.program import Program
from rematsim.simulation import simulate
from rematsim.static_graph import StaticGraph, evaluate, naive_schedule, static_graph
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace
from rematsim.workload import workload

DIGEST = "0123456789abcdef" * 4


def parts(trace: Trace) -> tuple[Program, StaticGraph]:
    program = workload(trace, cached=False).program
    return program, static_graph(program, trace)


def viewed() -> Trace:
    """a = f(w), v a view of a, read by b = g(v) and by c = h(v, b); then c is the output."""
    builder = TraceBuilder("viewed")
    builder.constant("w", 4)
    builder.call("f", ["w"], [("a", 8, -1)], 5)
    builder.call("view", ["a"], [("v", 0, 0)], 2)
    builder.call("g", ["v"], [("b", 1, -1)], 3)
    builder.call("h", ["v", "b"], [("c", 1, -1)], 3)
    for name in "wavb":
        builder.release(name)
    return builder.build()


def schedule_of(*actions: tuple[int, int]) -> Any:
    from rematsim.static_graph import Schedule

    return Schedule.of(actions)


def test_a_view_is_made_again_with_its_storage_where_it_is_read() -> None:
    """Calls are w 0, f 1, view 2, g 3, h 4; f runs again before h, which reads v."""
    program, graph = parts(viewed())
    again = schedule_of((0, 0), (0, 1), (1, 0), (0, 0), (0, 2), (1, 0), (1, 1), (0, 3))
    plan = plan_of_schedule(graph, program, again, DIGEST)
    assert list(plan) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (0, 1), (0, 2), (0, 4), (1, 1),
                          (1, 2)]  # fmt: skip


def test_a_view_that_nothing_reads_any_more_is_not_made_again() -> None:
    program, graph = parts(viewed())
    useless = schedule_of((0, 0), (0, 1), (0, 2), (1, 0), (0, 0), (1, 0), (1, 1), (0, 3))
    assert list(plan_of_schedule(graph, program, useless, DIGEST))[5:] == [
        (FREE, 1), (COMPUTE, 1), (FREE, 1), (FREE, 2)
    ]  # fmt: skip


def test_a_view_that_has_not_been_made_is_not_made_again() -> None:
    """a goes right after f and comes back for the view, which then is made for the first time."""
    program, graph = parts(viewed())
    early = schedule_of((0, 0), (1, 0), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (0, 3))
    assert list(plan_of_schedule(graph, program, early, DIGEST))[:5] == [
        (COMPUTE, 0), (COMPUTE, 1), (FREE, 1), (COMPUTE, 1), (COMPUTE, 2)
    ]  # fmt: skip
    assert evaluate(graph, early).cost == 7 + 7 + 3 + 3


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_seen_as_a_schedule_costs_the_same(seed: int) -> None:
    trace = random_trace(seed, rebinding=("listed", "storage")[seed % 2])
    program, graph = parts(trace)
    for drops in (0.0, 0.2, 0.5):
        schedule = random_schedule(graph, seed, drops)
        plan = plan_of_schedule(graph, program, schedule, trace.digest)
        again = schedule_of_plan(graph, program, plan)
        assert evaluate(graph, again) == evaluate(graph, schedule)


def test_plans_with_transfers_or_in_place_are_no_schedules() -> None:
    program, graph = parts(viewed())
    for plan in (made_plan([(OFFLOAD, 1)], DIGEST), made_plan([], DIGEST, mutation="inplace")):
        with pytest.raises(PlanError, match="neither updates in place nor transfers"):
            schedule_of_plan(graph, program, plan)


def test_only_a_whole_run_with_its_log_is_a_plan() -> None:
    trace = viewed()
    program, _ = parts(trace)
    with pytest.raises(InputError, match="no event log"):
        plan_of_run(program, simulate(trace, "h_LRU"))
    with pytest.raises(InputError, match="ended oom"):
        plan_of_run(program, simulate(trace, "h_LRU", 5, event_log=True))


def test_plans_are_equal_if_they_do_the_same() -> None:
    plan = made_plan([(COMPUTE, 0)], DIGEST, method="a")
    assert plan == made_plan([(COMPUTE, 0)], DIGEST, method="b")
    assert plan != made_plan([(COMPUTE, 1)], DIGEST)
    assert plan != made_plan([(COMPUTE, 0)], DIGEST, mutation="inplace")
    assert plan != 3
    with pytest.raises(ValueError, match="read-only"):
        plan.target[0] = 1


@pytest.mark.parametrize(
    ("action", "target", "message"),
    [([0], [1, 2], "1 actions, 2 targets"), ([5], [0], "an action is one of 0")],
)
def test_a_plan_has_a_target_for_each_action(
    action: list[int], target: list[int], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        Plan(np.array(action, np.int8), np.array(target, np.int32), DIGEST)


# Files.


@pytest.mark.parametrize("name", ["x.plan", "x.plan.gz"])
def test_a_plan_comes_back_from_a_file(tmp_path: Path, name: str) -> None:
    trace = random_trace(3)
    program, graph = parts(trace)
    plan = plan_of_schedule(graph, program, naive_schedule(graph), trace.digest, "keep-all")
    save_plan(plan, tmp_path / name)
    again = load_plan(tmp_path / name)
    assert again == plan
    assert (again.trace, again.method) == (trace.name, "keep-all")
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith("gz")


def test_the_example_of_the_format_can_be_read(tmp_path: Path) -> None:
    """docs/plan-format.md shows a plan with its digest cut."""
    page = (Path(__file__).parents[2] / "docs" / "plan-format.md").read_text(encoding="utf-8")
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example is not None
    file = tmp_path / "x.plan"
    file.write_text(example[1].replace("9f0c...", DIGEST))
    assert list(load_plan(file)) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)]


def head(**changes: Any) -> str:
    fields = {"format": "rematsim plan 1", "trace_digest": DIGEST, "mutation": "copy", "actions": 1}
    return json.dumps({k: v for k, v in {**fields, **changes}.items() if v is not None})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no plan: its first line is not the head of one"),
        ("[1]\n", "no plan: its first line is not the head of one"),
        ("\xff\xfe", "no plan: its first line is not the head of one"),
        (head(format="rematsim plan 2"), "format 'rematsim plan 2': expected 'rematsim plan 1'"),
        (head(trace_digest="abc"), "head: trace_digest: 64 hexadecimal digits"),
        (head(trace_digest=None), "head: Object missing required field `trace_digest`"),
        (head(mutation="move"), "head: mutation 'move': it is one of copy, inplace"),
        (head(actions=-1), r"head: actions \(-1\): a number from 0 to"),
        (head(actions="1"), "head: Expected `int`, got `str`"),
        (head(), "ends after 0 of its 1 actions"),
        (head(actions=0) + '\n["FREE",1]', "line 2: more than the 0 actions of its head"),
        (head() + '\n["DROP",1]', "line 2: action 'DROP': it is one of COMPUTE, FREE, OFFLOAD"),
        (head() + '\n["FREE",-1]', "line 2: FREE -1: a number from 0 to"),
        (head() + '\n["FREE",3000000000]', "line 2: FREE 3000000000: a number from 0 to"),
        (head() + '\n["FREE",1.5]', r"line 2 \(.*\): an action is as \[\"FREE\", 12\]"),
        (head() + '\n["FREE"]', r"line 2 \(.*\): an action is as"),
        (head() + "\nFREE 1", r"line 2 \('FREE 1'\): an action is as"),
        (head() + "\n" + " " * 100, "line 2: longer than 64 bytes"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.plan"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(PlanError, match=f"x.plan: {message}") as found:
        load_plan(file)
    assert "\n" not in str(found.value)


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    packed = gzip.compress((head() + '\n["FREE",1]\n').encode())
    (tmp_path / "cut.plan").write_bytes(packed[:-9])
    (tmp_path / "bad.plan").write_bytes(packed[:20] + b"\0\0\0" + packed[23:])
    for name, message in (
        ("cut.plan", "damaged"),
        ("bad.plan", "damaged"),
        ("none.plan", "No such file"),
        ("", "Is a directory"),
    ):
        with pytest.raises(PlanError, match=message):
            load_plan(tmp_path / name)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("filling", "message"),
    [
        (b"\n" * 10**8, "line 1003: more than 1,001 empty lines"),
        (b" " * 60 + b"\n" * 10**8, "line 1003: more than 1,001 empty lines"),
        (b" " * 10**8, "line 2: longer than 64 bytes"),
        (b'["FREE",1]\n' * 10**7, "line 3: more than the 1 actions of its head"),
    ],
)
def test_a_file_of_next_to_nothing_is_left_early(
    tmp_path: Path, is_packed: bool, filling: bytes, message: str
) -> None:
    """However large it is, or unpacks to."""
    content = head().encode() + b"\n" + filling
    (tmp_path / "x.plan").write_bytes(gzip.compress(content, 1) if is_packed else content)
    started = time.process_time()
    with pytest.raises(PlanError, match=message):
        load_plan(tmp_path / "x.plan")
    assert time.process_time() - started < 1


@pytest.mark.parametrize("rest", [b"\0" * 10**8, gzip.compress(b"") * 10**6, b"x"])
def test_a_packed_plan_is_one_part_with_nothing_behind_it(tmp_path: Path, rest: bytes) -> None:
    packed = gzip.compress((head() + '\n["FREE",1]\n').encode())
    (tmp_path / "x.plan").write_bytes(packed + rest)
    started = time.process_time()
    with pytest.raises(PlanError, match="damaged, .*something stands behind its end"):
        load_plan(tmp_path / "x.plan")
    assert time.process_time() - started < 1
