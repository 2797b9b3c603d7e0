"""Runs in the memory of PyTorch's caching allocator, and its pieces on their own."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from random_traces import random_trace
from rematsim import execute, simulate
from rematsim.allocation import Allocator
from rematsim.audit import audit
from rematsim.errors import InputError, UnknownNameError
from rematsim.memory_models import find_memory, parse_memory
from rematsim.opcodes import DEALLOCATIONS
from rematsim.plan import plan_of_run
from rematsim.segments import CHAIN, LARGE, SMALL, UNMAPPED
from rematsim.space import FREE, NONE
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

MIB = 1 << 20
MODELS = (
    "caching",
    "caching(max_split_size_mb:20)",
    "caching(garbage_collection_threshold:0.6)",
    "caching(roundup_power2_divisions:4)",
    "caching(expandable_segments:True)",
)
NEW = {"memory", "reserved_peak_bytes", "retries"}


def scaled(trace: Trace, factor: int) -> Trace:
    """The same trace with all sizes multiplied."""
    names = ("result_bytes", "constant_bytes", "call_workspace_bytes")
    return dataclasses.replace(trace, **{name: getattr(trace, name) * factor for name in names})


@pytest.mark.parametrize("memory", MODELS)
@pytest.mark.parametrize("deallocation", DEALLOCATIONS)
def test_runs_in_its_memory_are_good(memory: str, deallocation: str) -> None:
    """Addresses and what is reserved are those of the slow model, after every action."""
    evicted = 0
    for seed in (6, 7):
        trace = scaled(random_trace(seed, mutations=seed % 2 == 1), 300_000)
        mutation = ("copy", "inplace")[seed % 2]
        run = simulate(
            trace, "h_DTR_eq", "1.0x", memory=memory, deallocation=deallocation,
            mutation=mutation, slowdown_limit=3.0, event_log=True,
        )  # fmt: skip
        verdict = audit(trace, run)
        assert verdict, f"seed {seed}: {verdict.message}"
        evicted += run.pressure_evictions
        if run.status == "ok":
            check_plan(trace, run)
    assert evicted


def check_plan(trace: Trace, run: Any) -> None:
    """What a run did, done again as a plan, is good whether or not it fits."""
    plan = plan_of_run(workload(trace, run.mutation).program, run)
    for budget in (run.budget_bytes, run.budget_bytes * 3 // 4):
        verdict = audit(trace, execute(trace, plan, budget, memory=run.memory, event_log=True))
        assert verdict, verdict.message


@pytest.mark.parametrize("memory", MODELS)
def test_a_run_of_a_real_trace_is_good(memory: str) -> None:
    trace = load_trace("bundled:resnet32")
    run = simulate(trace, "h_DTR_eq", "0.6x", memory=memory, slowdown_limit=4.0, event_log=True)
    assert run.status == "ok" and run.retries and run.fragmentation
    assert run.reserved_peak_bytes is not None and run.budget_bytes is not None
    assert run.peak_bytes < run.reserved_peak_bytes <= run.budget_bytes
    verdict = audit(trace, run)
    assert verdict, verdict.message


def test_with_memory_enough_everything_is_as_with_the_counter() -> None:
    trace = load_trace("bundled:unet")
    for memory in MODELS:
        for budget in ("unlimited", 2**50):
            counted = simulate(trace, "h_LRU", budget)
            placed = simulate(trace, "h_LRU", budget, memory=memory)
            rows = (counted.row, placed.row)
            assert {n for n in rows[0] if rows[0][n] != rows[1][n]} - {"run_seconds"} == NEW


def test_a_schedule_fits_and_the_allocator_runs_out() -> None:
    """12 MiB and 23, of 40: x and y of 6 share a segment of 20, z of 21 needs one of its own."""
    builder = TraceBuilder("tight", rebinding="storage")
    builder.call("f", [], [("x", 6 * MIB, -1)], 1)
    builder.call("g", ["x"], [("y", 6 * MIB, -1)], 1)
    builder.call("h", ["y"], [("z", 21 * MIB, -1)], 1)
    builder.call("k", ["x", "y", "z"], [("o", 2 * MIB, -1)], 1)
    trace = builder.build()
    counted = simulate(trace, "h_LRU", 40 * MIB, event_log=True)
    plan = plan_of_run(workload(trace, "copy").program, counted)
    assert (execute(trace, plan, 40 * MIB).status, counted.evictions) == ("ok", 0)
    placed = execute(trace, plan, 40 * MIB, memory="caching")
    assert (placed.status, placed.largest_hole_bytes) == ("oom", 20 * MIB)
    expandable = execute(trace, plan, 40 * MIB, memory="caching(expandable_segments:True)")
    assert (expandable.status, expandable.reserved_peak_bytes) == ("ok", 40 * MIB)


def test_the_name_has_what_is_not_the_default_in_one_order() -> None:
    asked = "caching(expandable_segments:True, max_split_size_mb:64,backend:native)"
    assert parse_memory(asked) == "caching(max_split_size_mb:64,expandable_segments:True)"
    assert parse_memory("caching(max_non_split_rounding_mb:20)") == "caching"
    listed = "caching(roundup_power2_divisions:[64:2,>:4])"
    assert parse_memory(parse_memory(listed)) == parse_memory(listed)
    assert find_memory(listed).settings[4:] == (2,) * 7 + (4,) * 9
    with pytest.raises(UnknownNameError, match="unknown allocator setting 'small_area=1'"):
        parse_memory("caching(small_area=1:2)")
    with pytest.raises(InputError, match="expected True or False"):
        parse_memory("caching(expandable_segments:1)")


def check(allocator: Allocator) -> None:
    """No byte is lost or had twice, free neighbors are one, and each tree has what is free."""
    pieces, free = allocator.state.pieces, {SMALL: set(), LARGE: set()}
    head, end, reserved = int(pieces[CHAIN].right), 0, 0
    while head != CHAIN:
        segment = pieces[head]
        assert segment.address >= end
        end = segment.address
        p, last = int(segment.after), 0
        while p != head:
            piece = pieces[p]
            assert (piece.address, piece.mark, piece.area) == (end, head, segment.area)
            assert piece.size_bytes > 0
            assert piece.storage != last or last not in (FREE, UNMAPPED)
            end, last = end + piece.size_bytes, piece.storage
            if piece.storage == FREE:
                free[int(piece.area)].add(p)
            reserved += piece.size_bytes if piece.storage != UNMAPPED else 0
            p = int(piece.after)
        assert end == segment.address + segment.size_bytes
        head = int(segment.right)
    assert reserved == allocator.space.reserved_bytes
    for pool, there in free.items():
        found, stack = set(), [int(pieces[pool].left)]
        while stack:
            if (p := stack.pop()) != NONE:
                found.add(p)
                stack += [int(pieces[p].left), int(pieces[p].right)]
        assert found == there


@pytest.mark.parametrize("memory", MODELS)
@pytest.mark.parametrize("budget", [None, 200 * MIB])
def test_pieces_are_whole_after_every_request(memory: str, budget: int | None) -> None:
    draw = random.Random(5)
    allocator = Allocator(memory, budget, 4000)
    held: list[int] = []
    for _ in range(300):
        if held and draw.random() < 0.45:
            allocator.free(held.pop(draw.randrange(len(held))))
        else:
            size = draw.choice((draw.randrange(1, 4096), draw.randrange(1, 30 * MIB)))
            piece = allocator.allocate(size)
            if piece is not None:
                held.append(piece)
            elif held:
                allocator.free(held.pop(draw.randrange(len(held))))
        check(allocator)


@pytest.mark.parametrize("memory", MODELS)
def test_no_request_is_served_without_records_for_it(memory: str) -> None:
    """Then memory has run out, and nothing is written beyond the records."""
    allocator = Allocator(memory, None, 60)
    held = [piece for _ in range(100) if (piece := allocator.allocate(2 * MIB)) is not None]
    assert 10 < len(held) < 60
    check(allocator)
    for piece in held:
        allocator.free(piece)
    check(allocator)
    assert allocator.allocate(5 * MIB) is not None
