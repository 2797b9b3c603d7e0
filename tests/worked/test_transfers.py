"""Transfers worked out by hand: what overlaps, what waits, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from rematsim.audit import audit
from rematsim.buffers import max_load
from rematsim.execution import execute
from rematsim.lifetimes import buffers_of_run
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


def three() -> Trace:
    """x is a constant of 1 byte; p = f(x), q = g(x), r = h(x), s = k(p, q, r), the output.

    Sizes: p and q 10, r 11, s 1. Calls and storages x 0, p 1, q 2, r 3, s 4; each takes 1 ns.
    """
    builder = TraceBuilder("three")
    builder.constant("x", 1)
    for operator, result, size in (("f", "p", 10), ("g", "q", 10), ("h", "r", 11)):
        builder.call(operator, ["x"], [(result, size, -1)], 1)
    builder.call("k", ["p", "q", "r"], [("s", 1, -1)], 1)
    for name in "xpqr":
        builder.release(name)
    return builder.build()


BEFORE = (*START, (O, 1))  # action 3
HOST_IS_FULL = "waits for host memory: it needs 10 bytes, 10 of 10 are taken"
P_HAS_NO_ROOM = (
    "it waits for ever: for action 6, PREFETCH 1 (p) to end, which waits for room: it needs 10 "
    "bytes, 22 of 22 are taken; 10 are to leave, first by action 4, OFFLOAD 2 (q), which "
    f"{HOST_IS_FULL}"
)


@pytest.mark.parametrize(
    ("actions", "budget", "status", "place", "why"),
    [
        # p has left, q has no room on the host, and r none beside it
        (
            (*BEFORE, (O, 2), (C, 3)), 21, "oom", 5,
            "out of memory: it needs 11 bytes, 11 of 21 are taken; 10 are to leave, first by "
            f"action 4, OFFLOAD 2 (q), which {HOST_IS_FULL}, and only a later DISCARD frees some",
        ),
        # r is there; p has no room to come back, as long as q does not leave
        (
            (*BEFORE, (O, 2), (C, 3), (P, 1), (F, 1)), 22, "oom", 7,
            f"{P_HAS_NO_ROOM}, and only a later DISCARD frees some",
        ),
        # the same, and that host memory goes only when p has come
        (
            (*BEFORE, (O, 2), (C, 3), (P, 1), (D, 1), (F, 1)), 22, "refused", 8,
            f"{P_HAS_NO_ROOM}; action 7, DISCARD 1 (p) waits for the end of action 6, PREFETCH 1 "
            "(p)",
        ),
        # q leaves after p, which first has to come back, behind r, for which q has to leave
        (
            (*BEFORE, (P, 1), (D, 1), (O, 1), (O, 2), (C, 3)), 21, "oom", 8,
            "out of memory: it needs 11 bytes, 11 of 21 are taken; 10 are to leave, first by "
            "action 7, OFFLOAD 2 (q), which waits for its turn behind action 6, OFFLOAD 1 (p), "
            "which waits for what it copies, brought by action 4, PREFETCH 1 (p), which waits for "
            "room behind this call",
        ),
        # were q gone, r would still have no room
        (
            (*BEFORE, (C, 1), (O, 2), (C, 3)), 11, "oom", 2,
            "out of memory: it needs 10 bytes, 11 of 11 are taken",
        ),
    ],
)  # fmt: skip
def test_who_waits_for_whom_is_told_to_its_end(
    actions: tuple[tuple[int, int], ...], budget: int, status: str, place: int, why: str
) -> None:
    """Out of memory, too: what is to leave is named, and what keeps it."""
    plan = made_plan(actions, three().digest, method="by hand")
    link = f"{BYTE_A_NS},host=10)"
    result = execute(three(), plan, budget, link=link, event_log=True)
    assert audit(three(), result), audit(three(), result).message
    assert (result.status, result.failed_at) == (status, place)
    assert result.message.partition("): ")[2] == why


UNIT = 512
FAST = "link(d2h=512GB/s,h2d=512GB/s,latency=0)"  # a unit a nanosecond


def holes() -> Trace:
    """x; a = f(x), b = g(a), c = h(b), d = i(c), e = j(c), z = k(a, e); all have a unit, a two.

    Times: f 4, g 6, h 8, i 2, j 2, k 3 ns. Calls and storages x 0, a 1, ... e 5, z 6.
    """
    builder = TraceBuilder("holes")
    builder.constant("x", UNIT)
    calls = (("f", "x", "a", 4), ("g", "a", "b", 6), ("h", "b", "c", 8), ("i", "c", "d", 2))
    for operator, operand, result, time in (*calls, ("j", "c", "e", 2)):
        builder.call(operator, [operand], [(result, (1 + (result == "a")) * UNIT, -1)], time)
    builder.call("k", ["a", "e"], [("z", UNIT, -1)], 3)
    for name in "xabcde":
        builder.release(name)
    return builder.build()


def in_units(*actions: tuple[int, int], memory: str = "arena") -> RunResult:
    """Execute a plan for it in 6 units."""
    plan = made_plan(actions, holes().digest, method="by hand")
    result = execute(holes(), plan, 6 * UNIT, link=FAST, memory=memory, event_log=True)
    assert audit(holes(), result), audit(holes(), result).message
    return result


APART = ((C, 0), (C, 1), (C, 2), (O, 1), (C, 3), (C, 4), (C, 5), (F, 4))


def test_a_prefetch_waits_for_a_hole_though_its_bytes_fit() -> None:
    """a comes back where there is one, as soon as b goes, to another place than it had.

    ==== ================================= ============
    ns   begins                            units
    ==== ================================= ============
    0    x, f; g at 4                      x a a b - -
    10   a to the host; h                  x a a b c -
    12   a has left                        x - - b c -
    18   i, into the smallest hole         x - - b c d
    20   j                                 x e - b c d
    22   d goes: two units, two holes      x e - b c -
         b goes: a comes back at once      x e a a c -
    24   k, which has waited 2 ns          x e a a c z
    ==== ================================= ============
    """
    result = in_units(*APART, (P, 1), (F, 2), (C, 6))
    assert story(result)[5:] == [
        ("compute", 4, 18, 20, 4 * UNIT), ("compute", 5, 20, 22, 5 * UNIT),
        ("prefetch", 1, 22, 24, 5 * UNIT), ("stall", 1, 22, 24, 5 * UNIT),
        ("compute", 6, 24, 27, 6 * UNIT),
    ]  # fmt: skip
    events: Any = result.events
    lies = {
        (ACTIONS[action], storage): address // UNIT
        for action, storage, address in zip(
            *(events[name].tolist() for name in ("action", "storage", "address")), strict=True
        )
        if address >= 0
    }
    assert [lies["compute", s] for s in range(7)] == [0, 1, 3, 4, 5, 1, 5]
    assert (lies["offload", 1], lies["prefetch", 1], lies["deallocate", 2]) == (1, 2, 3)
    assert (result.status, result.reserved_peak_bytes) == ("ok", 6 * UNIT)
    buffers = buffers_of_run(result)  # a is two of them
    assert (len(buffers.size), max_load(buffers)) == (8, 6 * UNIT)


def test_a_plan_may_run_out_of_holes_where_bytes_suffice() -> None:
    """A second copy of a finds none; neither does a itself, if b goes only after k."""
    again = (*APART, (C, 1), (P, 1), (F, 2), (C, 6))
    assert in_units(*again, memory="counter").status == "ok"
    result = in_units(*again)
    assert (result.status, result.failed_at, result.largest_hole_bytes) == ("oom", 8, UNIT)
    assert result.message == (
        "action 8, COMPUTE 1 (f (call 0)): out of memory: it needs 1,024 bytes, 2,048 of 3,072 are "
        "taken, 1,024 of it in one piece; 1,024 bytes are free, the largest hole has 512"
    )
    result = in_units(*APART, (P, 1), (C, 6), (F, 2))
    assert (result.status, result.failed_at, result.largest_hole_bytes) == ("refused", 9, None)
    assert result.message == (
        "action 9, COMPUTE 6 (k (call 5)): it waits for ever: for action 8, PREFETCH 1 (a) to end, "
        "which waits for room: it needs 1,024 bytes, 2,048 of 3,072 are taken, the largest hole "
        "has 512, and only later actions free some"
    )


def test_what_is_computed_again_lies_elsewhere_than_its_copy_that_leaves() -> None:
    """a leaves from 10 to 12 ns; made anew at 10, it has the last two units until k has read it."""
    there = ((C, 0), (C, 1), (C, 2), (O, 1), (D, 1), (C, 1), (C, 3), (C, 4), (F, 4))
    result = in_units(*there, (C, 5), (F, 2), (F, 3), (C, 6))
    events: Any = result.events
    lies = zip(*(events[name].tolist() for name in ("action", "storage", "address")), strict=True)
    found = [(ACTIONS[row[0]], row[2] // UNIT) for row in lies if row[1] == 1 and row[2] >= 0]
    assert found == [("compute", 1), ("recompute", 4), ("offload", 1)]
    assert result.status == "ok"
