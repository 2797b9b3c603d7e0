"""An execution trace with the Kineto trace of its run: times and frees as they were."""

from __future__ import annotations

import copy
from typing import Any

import profile_files as files
import pytest
from profile_files import EVENTS, by_order, execution_trace, kineto, op_event
from rematsim.errors import TraceError
from rematsim.opcodes import CALL, RELEASE
from rematsim.traces.contents import Content
from rematsim.traces.importers import execution_trace as reader
from rematsim.traces.importers import kineto as kineto_reader
from rematsim.traces.importers.kineto_join import FOUND, FREED
from rematsim.traces.importers.reader import Imported, Request


def read(events: list[Any] | None = None, nodes: Any = None) -> Imported:
    companion = Content.of_bytes(kineto(events), "kineto")
    content = Content.of_bytes(execution_trace(nodes), "et")
    return reader.read(Request(content, "name", "et", (companion,)))


def releases(imported: Imported) -> dict[str, int]:
    """Each released name, with the number of calls before its release."""
    done, found = 0, {}
    for code, a, _ in imported.trace.instructions.tolist():
        done += code == CALL
        if code == RELEASE:
            found[imported.trace.names[a]] = done
    return found


def test_times_are_those_of_the_operators_and_count_as_measured() -> None:
    """t 5, addmm 30, clamp_min_ 6, mm 40, add_ 20 microseconds."""
    trace = read().trace
    assert trace.call_time_ns.tolist() == [5_000, 30_000, 6_000, 40_000, 20_000]
    assert not trace.times_estimated


def test_without_record_function_ids_the_order_decides() -> None:
    assert read(by_order(EVENTS)).trace == read().trace


def test_operators_that_one_side_lacks_are_passed_over() -> None:
    events = by_order(EVENTS)
    stray = [op_event(k, "aten::mm", 151 + k, 1) for k in range(3)]
    for event in events[5:]:
        if "Ev Idx" in event["args"]:
            event["args"]["Ev Idx"] += 10
    for k, event in enumerate(stray):
        event["args"]["Ev Idx"] = 7 + k
    assert read([*events[:8], *stray, *events[8:]]).trace == read().trace


def test_storages_are_freed_when_the_allocator_freed_them() -> None:
    """y is freed at 250, after mm and before add_: 4 calls; the gradient at 290, after the last."""
    assert releases(read()) == {"x1": 2, "x2": 4, "x3": 5}


def test_what_is_freed_after_something_else_ran_is_held_at_the_end() -> None:
    """Another operator at 285, which the execution trace does not have: so the run was over."""
    events = [*EVENTS, op_event(99, "aten::mm", 285, 2)]
    assert "x3" not in releases(read(events))
    assert releases(read([e for e in EVENTS if e["ts"] != 290])) == {"x1": 2, "x2": 4}


def test_a_free_that_comes_late_is_kept_late() -> None:
    """y is freed only after add_ has begun."""
    events = copy.deepcopy(EVENTS)
    next(e for e in events if e["ts"] == 250)["ts"] = 270
    assert releases(read(events))["x2"] == 5


def test_workspace_is_the_most_that_a_call_held_beyond_its_results() -> None:
    """addmm: 40 bytes of scratch beside 40 of y."""
    imported = read()
    assert imported.trace.call_workspace_bytes.tolist() == [0, 40, 0, 0, 0]
    assert "workspaces from operators inside" not in imported.summary.inferred


def test_of_allocations_of_one_size_the_one_that_lives_on_is_the_result() -> None:
    """The scratch is as large as y, and allocated before it."""
    summary = read().summary
    assert (summary.taken[FOUND], summary.taken[FREED]) == (2, 2)


def test_a_run_that_occurs_often_gives_the_median_of_its_times() -> None:
    """Three steps: mm takes 40, 100 and 70 microseconds."""
    steps = []
    for k, mm_us in enumerate((40, 100, 70)):
        for event in by_order(EVENTS):
            if event["name"] == "[memory]":
                continue
            moved = event | {"ts": event["ts"] + 1000 * k, "args": dict(event["args"])}
            moved["args"]["Ev Idx"] += 100 * k
            if event["name"] == "aten::mm":
                moved["dur"] = mm_us
            steps.append(moved)
    imported = read(steps)
    assert imported.trace.call_time_ns[3] == 70_000
    assert imported.summary.taken["occurrences of the run in the profile"] == 3


def gpu_step() -> tuple[list[Any], list[Any]]:
    """The step on a GPU: addmm launches kernels of 11 and 7 us, mm one of 50 us."""
    nodes = copy.deepcopy(files.STEP)
    for node in nodes:
        for values, _ in (*node["inputs"], *node["outputs"]):
            values[5] = "cuda:0"
    launches = [(116, 1, 11), (125, 2, 7), (220, 3, 50), (300, 4, 999)]
    events = [e for e in EVENTS if e["name"] != "[memory]"]
    for ts, number, duration in launches:
        args = {"correlation": number}
        events.append({"cat": "cuda_runtime", "name": "l", "tid": 9, "ts": ts, "args": args})
        events.append({"cat": "kernel", "name": "k", "ts": ts + 500, "dur": duration, "args": args})
    return nodes, events


def test_on_a_gpu_the_time_is_that_of_the_kernels() -> None:
    nodes, events = gpu_step()
    imported = read(events, nodes)
    assert imported.trace.call_time_ns.tolist() == [0, 18_000, 0, 50_000, 0]
    assert imported.summary.dropped["kernels outside of all calls"] == 1


def test_frees_are_of_the_device_that_is_meant() -> None:
    """Memory events of the CPU say nothing of a GPU's storages."""
    nodes, events = gpu_step()
    cpu = [e for e in EVENTS if e["name"] == "[memory]"]
    assert FOUND not in read([*events, *cpu], nodes).summary.taken


def test_the_kineto_trace_of_another_run_is_refused() -> None:
    with pytest.raises(TraceError, match="not the Kineto trace of the same run: 1 of 10 operators"):
        read([op_event(0, "aten::mm", 1, 1)])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (kineto()[:-30], "kineto: JSON that ends in the middle: the file is cut off"),
        (kineto([1]), "kineto: one of the events after the first 0 is none of the profiler's"),
        (kineto([{"ts": 1e300, "name": "[memory]", "args": {"Bytes": 1}}]), "a time of 1e"),
        (b"[1, 2]", "kineto: no Kineto trace: beside an execution trace goes the Kineto trace"),
    ],
)
def test_a_broken_kineto_trace_is_refused_with_its_name(data: bytes, message: str) -> None:
    content = Content.of_bytes(execution_trace(), "et")
    with pytest.raises(TraceError) as caught:
        reader.read(Request(content, "name", "et", (Content.of_bytes(data, "kineto"),)))
    assert message in str(caught.value)


def test_alone_a_kineto_trace_makes_no_trace() -> None:
    content = Content.of_bytes(kineto(), "kineto")
    with pytest.raises(TraceError, match="kineto: a Kineto trace: it names no tensors"):
        kineto_reader.read(Request(content, "name", "kineto"))
    assert kineto_reader.recognizes(kineto())
    assert not kineto_reader.recognizes(execution_trace())
