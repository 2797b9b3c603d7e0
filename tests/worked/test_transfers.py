"""Transfers worked out by hand: what overlaps, what waits, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from rematsim.audit import audit
from rematsim.execution import execute
from rematsim.opcodes import ACTIONS
from rematsim.plan import COMPUTE, DISCARD, FREE, OFFLOAD, PREFETCH, made_plan
from rematsim.result import RunResult
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace

C, F, O, P, D = COMPUTE, FREE, OFFLOAD, PREFETCH, DISCARD  # noqa: E741
BYTE_A_NS = "link(d2h=1GB/s,h2d=1GB/s,latency=0"


def line() -> Trace:
    """x is a constant of 1 byte; a = f(x), b = g(a), c = h(b), d = k(a, c), the output.

    Sizes: a 10, b 20, c 5, d 2. Times: f 4, g 6, h 8, k 3 ns. Calls and storages x 0, a 1, ... d 4.
    """
    builder = TraceBuilder("line")
    builder.constant("x", 1)
    builder.call("f", ["x"], [("a", 10, -1)], 4)
    builder.call("g", ["a"], [("b", 20, -1)], 6)
    builder.call("h", ["b"], [("c", 5, -1)], 8)
    builder.call("k", ["a", "c"], [("d", 2, -1)], 3)
    for name in "xabc":
        builder.release(name)
    return builder.build()


def run(*actions: tuple[int, int], budget: Any = "unlimited", link: str = "") -> RunResult:
    """Execute a plan by hand; at 1 byte a nanosecond each way if not told otherwise."""
    plan = made_plan(actions, line().digest, method="by hand")
    link = link if "(" in link else f"{BYTE_A_NS}{link})"
    result = execute(line(), plan, budget, link=link, event_log=True)
    assert audit(line(), result), audit(line(), result).message
    return result


def story(result: RunResult) -> list[tuple[str, int, int, int, int]]:
    """Tell the transfers, stalls and first rows of calls: action, storage, start, end, memory."""
    events: Any = result.events
    names = ("action", "storage", "start_ns", "end_ns", "memory_after_bytes")
    rows = zip(*(events[name].tolist() for name in names), strict=True)
    told = ("compute", "recompute", "offload", "prefetch", "discard", "stall")
    return [(ACTIONS[row[0]], *row[1:]) for row in rows if ACTIONS[row[0]] in told]


START = ((C, 0), (C, 1), (C, 2))
AWAY = (*START, (O, 1))  # at 10 ns
WHOLE = (*AWAY, (C, 3), (P, 1), (F, 2), (C, 4))


def test_an_offload_overlaps_with_compute() -> None:
    """a leaves from 10 to 20 ns, while h runs to 18; it is back at 30, which k waits for.

    ==== ======================================= =====================
    ns   begins                                  memory after it
    ==== ======================================= =====================
    0    x, f                                    x a: 11
    4    g                                       x a b: 31
    10   a to the host; h                        x a b c: 36
    18   a from the host is issued; b goes       x a c: 16
    20   a has left, and comes back at once      x c: 6, x a c: 16
    30   k, which has waited 12 ns               x a c d: 18
    33   the end; all compute is 21 ns
    ==== ======================================= =====================
    """
    result = run(*WHOLE)
    assert story(result) == [
        ("compute", 0, 0, 0, 1), ("compute", 1, 0, 4, 11), ("compute", 2, 4, 10, 31),
        ("compute", 3, 10, 18, 36), ("offload", 1, 10, 20, 6), ("prefetch", 1, 20, 30, 16),
        ("stall", 1, 18, 30, 16), ("compute", 4, 30, 33, 18),
    ]  # fmt: skip
    assert (result.status, result.stall_ns, result.clock) == ("ok", 12, 34)
    assert result.slowdown == pytest.approx(33 / 21)
    assert (result.offloaded_bytes, result.prefetched_bytes) == (10, 10)
    assert (result.host_peak_bytes, result.peak_bytes, result.evictions) == (10, 36, 1)


def test_a_prefetch_in_time_costs_nothing() -> None:
    """At 5 bytes a nanosecond a leaves from 10 to 12 and is back at 14, before h ends."""
    result = run(*AWAY, (P, 1), (C, 3), (C, 4), link="link(d2h=5GB/s,h2d=5GB/s,latency=0)")
    assert ("prefetch", 1, 12, 14, 36) in story(result)
    assert (result.stall_ns, result.slowdown) == (0, 1.0)


def test_each_transfer_takes_the_latency_too() -> None:
    """3 ns more each way: a leaves from 10 to 23, is back at 36, and k waits 18 ns."""
    assert run(*WHOLE, link="link(d2h=1GB/s,h2d=1GB/s,latency=3ns)").stall_ns == 18


def test_rates_differ_and_are_rounded_up() -> None:
    """10 bytes at 3 bytes a nanosecond are 4 ns: a leaves until 14; back from 18 to 28."""
    result = run(*WHOLE, link="link(d2h=3GB/s,h2d=1GB/s,latency=0)")
    assert ("offload", 1, 10, 14, 26) in story(result)
    assert ("prefetch", 1, 18, 28, 36) in story(result)
    assert result.stall_ns == 10


def test_a_call_waits_for_room() -> None:
    """In 31 bytes, c's 5 have no room beside x, a and b until a has left, at 20 ns."""
    result = run(*AWAY, (C, 3), (F, 2), (P, 1), (C, 4), budget=31)
    assert story(result)[3:] == [
        ("offload", 1, 10, 20, 21), ("stall", -1, 10, 20, 21), ("compute", 3, 20, 28, 26),
        ("prefetch", 1, 28, 38, 16), ("stall", 1, 28, 38, 16), ("compute", 4, 38, 41, 18),
    ]  # fmt: skip
    assert (result.status, result.stall_ns, result.peak_bytes) == ("ok", 20, 31)


def test_a_prefetch_waits_for_room_until_an_offload_ends() -> None:
    """h runs from 20 to 28; b leaves until 48, and only then a has room to come back."""
    result = run(*AWAY, (C, 3), (O, 2), (P, 1), (C, 4), budget=31)
    assert story(result)[6:] == [
        ("offload", 2, 28, 48, 6), ("prefetch", 1, 48, 58, 16), ("stall", 1, 28, 58, 16),
        ("compute", 4, 58, 61, 18),
    ]  # fmt: skip


def test_with_half_duplex_one_copy_at_a_time_is_under_way() -> None:
    """Until 20 a is on its way out; then b's copy, issued first, until 40, and a comes at 50."""
    there = (*AWAY, (C, 3), (O, 2), (P, 1), (C, 4))
    assert ("prefetch", 1, 20, 30, 36) not in story(run(*there, link=",duplex=half"))
    both, one = run(*there), run(*there, link=",duplex=half")
    assert (both.stall_ns, one.stall_ns) == (12, 32)
    assert ("prefetch", 1, 20, 30, 36) in story(both)
    assert ("prefetch", 1, 40, 50, 16) in story(one)


def test_the_workspace_of_a_call_takes_room_while_it_runs() -> None:
    """A prefetch that would fit beside the results alone waits until the call has ended."""
    builder = TraceBuilder("workspace")
    builder.constant("x", 4)
    builder.call("f", ["x"], [("a", 10, -1)], 4)
    builder.call("g", ["x"], [("b", 1, -1)], 50, workspace_bytes=9)
    builder.call("h", ["a", "b"], [("c", 1, -1)], 1)
    trace = builder.build()
    plan = made_plan([(C, 0), (C, 1), (O, 1), (P, 1), (C, 2), (C, 3)], trace.digest)
    for budget, start in ((24, 14), (23, 64)):
        result = execute(trace, plan, budget, link=f"{BYTE_A_NS})", event_log=True)
        assert ("prefetch", 1, start, start + 10, 15) in story(result)
        assert result.peak_bytes == (24 if budget == 24 else 16)


def test_host_memory_is_waited_for_and_may_be_missing_for_ever() -> None:
    """b, 20 bytes, finds no room beside a's 10 in 25 bytes of host memory, until a is dropped."""
    host = ",host=25"
    there = (*AWAY, (O, 2), (P, 2), (C, 3), (F, 2), (P, 1))
    result = run(*there, (C, 4), link=host)
    assert (result.status, result.failed_at) == ("oom", 6)
    assert result.message == (
        "action 6, COMPUTE 3 (h (call 2)): it waits for ever: for action 5, PREFETCH 2 (b) to end, "
        "which waits for what it copies, brought by action 4, OFFLOAD 2 (b), which waits for host "
        "memory: it needs 20 bytes, 10 of 25 are taken, and only a later DISCARD frees some"
    )
    there = (*AWAY, (P, 1), (D, 1), (O, 2), (P, 2), (C, 3), (C, 4))
    result = run(*there, link=host)
    assert ("discard", 1, 30, 30, 31) in story(result)
    assert ("offload", 2, 30, 50, 11) in story(result)
    assert (result.status, result.host_peak_bytes) == ("ok", 20)


def test_a_plan_that_waits_for_ever_is_refused_with_its_cycle() -> None:
    """x, b and c are 26 bytes of 31: a has no room, and what would free some comes later."""
    there = (*AWAY, (C, 3), (P, 1))
    why = (
        "action 5, PREFETCH 1 (a){}, which waits for room: it needs 10 bytes, 26 of 31 are taken, "
        "and only later actions free some"
    )
    result = run(*there, (C, 4), (F, 2), budget=31)
    assert (result.status, result.failed_at) == ("refused", 6)
    assert result.message == (
        "action 6, COMPUTE 4 (k (call 3)): it waits for ever: for " + why.format(" to end")
    )
    result = run(*there, (C, 3), (F, 2), (C, 4), budget=31)  # its second copy alone would fit
    assert (result.status, result.failed_at) == ("refused", 6)
    assert result.message == (
        "action 6, COMPUTE 3 (h (call 2)): it waits for ever: for room, behind " + why.format("")
    )
    result = run((C, 0), (C, 1), (O, 1), (P, 1), (C, 2), budget=12)
    assert (result.status, result.failed_at) == ("oom", 4)


def test_what_is_left_when_the_plan_ends_must_end_too() -> None:
    """The last copy out costs nothing; one that never ends is refused."""
    result = run(*START, (C, 3), (C, 4), (O, 2))
    assert (result.status, result.slowdown, result.offloaded_bytes) == ("ok", 1.0, 20)
    result = run(*AWAY, (O, 2), (P, 2), (C, 3), (P, 1), (C, 4), (O, 3), link=",host=32")
    assert (result.status, result.message[:48]) == (
        "oom",
        "the end of the plan: it waits for ever: action 9",
    )
