"""Planners by name: parameters, starts, what is added to their answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rematsim.budgets import parse_budget
from rematsim.errors import InputError, UnknownNameError
from rematsim.heuristics.parameters import OneOf, Whole
from rematsim.heuristics.static import Planner, PlannerResult, get, names, planner, registry
from rematsim.heuristics.static.registry import (
    ANY_SCHEDULE,
    FEASIBLE,
    IN_ORDER,
    NO_PLAN,
    OPTIMAL,
    TIME_LIMIT,
)
from rematsim.planning import STARTS, online_starts, plan_trace
from rematsim.simulation import simulate
from rematsim.static_graph import Schedule, evaluate, naive_schedule
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.synthetic import chain
from rematsim.workload import workload


@pytest.fixture
def declared() -> Iterator[list[dict[str, Any]]]:
    """A planner with parameters of each kind, and what it was called with."""
    calls: list[dict[str, Any]] = []

    @planner(
        "test-planner",
        reference="here",
        allowed={"cv": Whole(1, 9), "form": OneOf(("tight", "paper"))},
        uses_starts=True,
        is_random=True,
    )
    def test_planner(
        graph: Any, budget: Any, *, starts: Any, time_limit: Any, seed: Any, cv: int = 2,
        form: str = "tight",
    ) -> PlannerResult:  # fmt: skip
        """Give the best start."""
        calls.append({"starts": starts, "seed": seed, "cv": cv, "form": form, "limit": time_limit})
        if not starts:
            return PlannerResult(TIME_LIMIT, message="no start")
        return PlannerResult(FEASIBLE, starts[0])

    yield calls
    del registry._planners["test-planner"]


def test_parameters_are_read_by_their_defaults(declared: list[dict[str, Any]]) -> None:
    found = get("test-planner( cv = 3 , form=paper)")
    assert found.name == "test-planner(cv=3,form=paper)"
    assert found.parameters == {"cv": 3, "form": "paper"}
    assert get("test-planner(cv=2)").name == "test-planner"
    assert get(found) is found
    assert get(found.name) == found


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("keep-al", UnknownNameError, r"unknown planner 'keep-al' \(did you mean keep-all\?\)"),
        ("keep-all(x=1)", UnknownNameError, "keep-all: parameter 'x': it has none"),
        ("test-planner(cv)", InputError, r"test-planner\(cv\): write each parameter once"),
        ("test-planner(cv=1,cv=2)", InputError, "write each parameter once"),
        ("test-planner(cv=x)", InputError, r"test-planner: cv \(x\): it is a whole number"),
    ],
)
def test_what_cannot_be_read_is_named(
    declared: Any, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        get(text)


def test_a_name_is_declared_once(declared: Any) -> None:
    with pytest.raises(InputError, match="declared twice"):
        planner("test-planner")
    assert "test-planner" in names()


def test_a_schedule_is_no_result(declared: Any) -> None:
    """What somebody who writes a planner forgets first."""
    bare = replace(get("test-planner"), function=lambda graph, *_, **__: naive_schedule(graph))
    with pytest.raises(InputError, match="'test-planner': it returns a Schedule, not a PlannerRes"):
        bare.plan(workload(chain(3)).graph)


def test_starts_are_schedules_within_the_budget_the_best_first(declared: Any) -> None:
    trace = load_trace("bundled:unet")
    work = workload(trace)
    starts = online_starts(work, parse_budget("0.6x"))
    costs = [evaluate(work.graph, start) for start in starts]
    assert costs == sorted(costs, key=lambda found: found.cost) and len(costs) > 1
    budget = parse_budget("0.6x").resolve(work.unlimited_peak_bytes)
    assert budget is not None and all(found.peak_bytes <= budget for found in costs)
    online = simulate(trace, "h_DTR_eq", 0.6)
    planned = plan_trace(trace, "test-planner", "0.6x", seed=5, time_limit=9.0)
    assert planned.row.slowdown is not None and online.slowdown is not None
    assert planned.row.slowdown <= online.slowdown
    assert declared[-1]["seed"] == 5
    assert 4.5 <= declared[-1]["limit"] < 9.0  # less what the starts took
    assert planned.row.seed == 5


def test_a_start_fits_where_constants_come_late() -> None:
    """A constant of 2 bytes comes last: the graph has it from the start, the replay at the end.

    The replay takes all of its 13 before the constant comes, which are 15 with it. So it is done
    again with 11.
    """
    builder = TraceBuilder("late constant")
    builder.call("f", [], [("a", 4, -1)], 1)
    builder.call("f", ["a"], [("b", 4, -1)], 1)
    builder.call("f", ["b"], [("c", 4, -1)], 1)
    builder.call("f", ["c"], [("d", 4, -1)], 1)
    builder.call("f", ["d", "a"], [("e", 1, -1)], 1)
    builder.constant("w", 2)
    for name in "abcd":
        builder.release(name)
    work = workload(builder.build(), cached=False)
    assert [simulate(builder.build(), "h_DTR", b, cached=False).peak_bytes for b in (11, 13)] == [
        11, 13
    ]  # fmt: skip
    starts = [evaluate(work.graph, start) for start in online_starts(work, parse_budget(13))]
    assert starts == [(6, 11)] * (1 + len(STARTS))  # and on-demand
    assert online_starts(work, parse_budget("unlimited"))


def test_a_bound_is_at_least_the_cost_of_running_everything_once(declared: Any) -> None:
    graph = workload(chain(6)).graph
    found = get("test-planner").plan(graph, None, starts=[naive_schedule(graph)])
    assert (found.status, found.bound) == (OPTIMAL, graph.base_cost)
    assert get("test-planner").plan(graph, None).bound == graph.base_cost


@pytest.mark.parametrize(
    ("factor", "scope", "status", "bound"),
    [(1.0, IN_ORDER, OPTIMAL, 1.25), (0.9, IN_ORDER, OPTIMAL, 1.125), (1.1, IN_ORDER, FEASIBLE, 1),
     (1 + 1e-9, ANY_SCHEDULE, OPTIMAL, 1.25)],
)  # fmt: skip
def test_a_bound_that_its_own_schedule_beats_says_nothing(
    factor: float, scope: str, status: str, bound: float
) -> None:
    """Four calls of 1 ns, one of them twice: 1.25. Rounding aside, more is of a narrower space."""
    builder = TraceBuilder("four")
    builder.call("f", [], [("x0", 1, -1)], 1)
    for i in range(3):
        builder.call("f", [f"x{i}"], [(f"x{i + 1}", 1, -1)], 1)
    graph = workload(builder.build(), cached=False).graph
    base = graph.base_cost
    twice = Schedule.of([(0, 0), (0, 0), (0, 1), (0, 2), (0, 3), (0, 4)])
    found = Planner(
        "p", lambda *_, **__: PlannerResult(OPTIMAL, twice, 1.25 * base * factor, scope)
    ).plan(graph)
    assert (found.status, found.bound) == (status, pytest.approx(bound * base))


def test_a_planner_without_a_schedule_gives_a_row_without_a_plan(declared: Any) -> None:
    row = plan_trace(chain(6), "test-planner", 5).row
    assert row.status in ("ok", "no_plan")
    graph = workload(chain(6)).graph
    found = get("test-planner").plan(graph, graph.fixed_bytes + 5)
    assert (found.status, found.message, found.schedule) == (TIME_LIMIT, "no start", None)


def test_a_schedule_over_the_budget_is_no_plan(declared: Any) -> None:
    graph = workload(chain(6)).graph
    peak = evaluate(graph, naive_schedule(graph)).peak_bytes
    found = get("test-planner").plan(graph, peak - 1, starts=[naive_schedule(graph)])
    assert (found.status, found.schedule, found.predicted) == (NO_PLAN, None, None)


def test_a_time_limit_is_a_time() -> None:
    with pytest.raises(InputError, match=r"time limit \(0\): a number of seconds above 0"):
        plan_trace(chain(6), "keep-all", time_limit=0)


def test_schedules_can_be_made_of_nothing() -> None:
    assert len(Schedule.of([]).action) == 0
