"""Differences of plans: what one keeps or computes again and the other does not."""

from __future__ import annotations

import pytest
from rematsim.errors import PlanError
from rematsim.plan import COMPUTE, FREE, Plan, made_plan
from rematsim.plan_diff import compare_plans
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace

C, F = COMPUTE, FREE


@pytest.fixture
def trace() -> Trace:
    """a = f() 8 bytes 5 ns in m.1; b = f() 4 bytes 3 ns in m.2; c = g(a, b) 1 byte 2 ns in m.

    Calls and storages have one numbering: a 0, b 1, c 2.
    """
    builder = TraceBuilder("three")
    builder.call("f", [], [("a", 8, -1)], 5, module="m.1")
    builder.call("f", [], [("b", 4, -1)], 3, module="m.2")
    builder.call("g", ["a", "b"], [("c", 1, -1)], 2, module="m")
    builder.release("a")
    builder.release("b")
    return builder.build()


def plan(trace: Trace, *actions: tuple[int, int]) -> Plan:
    return made_plan(actions, trace.digest, method="by hand")


def test_kept_bytes_and_times_are_summed_by_module_and_operator(trace: Trace) -> None:
    """The first drops a and makes it again, the second b, twice; both make c twice."""
    first = plan(trace, (C, 0), (F, 0), (C, 1), (C, 0), (C, 2), (F, 2), (C, 2), (F, 0), (F, 1))
    second = plan(trace, (C, 0), (C, 1), (F, 1), (C, 1), (C, 2), (F, 1), (C, 1), (C, 2))
    found = {(d.module, d.operator): d for d in compare_plans(trace, first, second)}
    assert list(found) == [("m.2", "f"), ("m.1", "f"), ("m", "g")]
    assert found["m.2", "f"].kept_bytes == (4, 0)
    assert (found["m.2", "f"].remat_ns, found["m.2", "f"].remats) == ((0, 6), (0, 2))
    assert found["m.1", "f"].kept_bytes == (0, 8)
    assert (found["m.1", "f"].remat_ns, found["m.1", "f"].remats) == ((5, 0), (1, 0))
    assert found["m", "g"].kept_bytes == (0, 1)
    assert found["m", "g"].remat_ns == (0, 0)


def test_what_is_freed_and_not_read_again_is_no_difference(trace: Trace) -> None:
    tidy = plan(trace, (C, 0), (C, 1), (C, 2), (F, 0), (F, 1))
    untidy = plan(trace, (C, 0), (C, 1), (C, 2))
    assert compare_plans(trace, tidy, untidy) == compare_plans(trace, tidy, tidy) == []


def test_plans_of_other_traces_lowerings_and_numbers_are_refused(trace: Trace) -> None:
    good = plan(trace)
    with pytest.raises(PlanError, match="it is for the trace"):
        compare_plans(trace, good, made_plan([], "0" * 64))
    with pytest.raises(PlanError, match="one is for mutation 'copy', the other for 'inplace'"):
        compare_plans(trace, good, made_plan([], trace.digest, mutation="inplace"))
    with pytest.raises(PlanError, match="action 0: there is no call 7"):
        compare_plans(trace, good, plan(trace, (C, 7)))
    with pytest.raises(PlanError, match="action 1: there is no storage 7"):
        compare_plans(trace, good, plan(trace, (C, 0), (F, 7)))
