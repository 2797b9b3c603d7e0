"""A run's story by pencil, what is refused, and what is told without the trace."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from rematsim.errors import HeuristicError, InputError, UnknownNameError
from rematsim.execution import execute
from rematsim.explaining import Eviction, Return, explain
from rematsim.heuristics.terms import own_cost, size
from rematsim.plan import COMPUTE, FREE, OFFLOAD, PREFETCH, made_plan
from rematsim.result import RunResult, load_run
from rematsim.side_by_side import compare
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.synthetic import chain
from rematsim.traces.trace import Trace


@pytest.fixture
def trace() -> Trace:
    """The chain of docs/semantics.md: t0 is the input, t1 to t4 forward, g4 to g1 backward."""
    return chain(4)


@pytest.fixture
def run(trace: Trace) -> RunResult:
    """It in 4 bytes: at 3 ns t1 goes for t4, at 6 ns it is computed again for g2."""
    return simulate(trace, "h_DTR", budget=4, event_log=True)


def test_a_storage_is_made_goes_and_comes_back(trace: Trace, run: RunResult) -> None:
    told = explain(run, trace)
    life = told.life(*told.storages_named("t1"))
    assert (life.name, life.made_ns, life.bytes, life.category) == ("t1", 0, 1, "forward")
    gone, back, dropped = life.happenings
    assert isinstance(gone, Eviction)
    assert (gone.time_ns, gone.action, gone.for_call) == (3, "evict", "call 3 f (fwd)")
    assert isinstance(back, Return)
    assert (back.time_ns, back.cost_ns, back.in_all_ns) == (6, 1, 1)
    assert back.chain == ["call 6 b (bwd)"]
    assert isinstance(dropped, Eviction)
    assert (dropped.time_ns, dropped.action, dropped.decision) == (8, "deallocate", None)


def test_a_call_tells_what_went_for_it(trace: Trace, run: RunResult) -> None:
    story = explain(run, trace).call(3)
    assert (story.call, story.started_ns, story.cost_ns) == ("call 3 f (fwd)", 3, 1)
    assert [(e.name, e.score) for e in story.evictions] == [("t1", 0.5)]
    assert story.returns == []
    assert [r.time_ns for r in explain(run, trace).call(0).returns] == [6]


def test_a_stall_is_told_of_the_call_that_waited(trace: Trace) -> None:
    """t1 (storage 1) is brought back when g2 is about to be made of it: that waits 1 ns."""
    actions = [(COMPUTE, call) for call in range(9)]
    actions[7:7] = [(PREFETCH, 1)]
    actions[4:4] = [(OFFLOAD, 1)]
    plan = made_plan(actions, trace.digest)
    run = execute(trace, plan, link="link(d2h=1GB/s,h2d=1GB/s,latency=0)", event_log=True)
    for told in (explain(run, trace), explain(run)):
        assert [(part.operator, part.stall_ns) for part in told.overhead] == [("b", 1)]


def test_an_instant_is_a_call_a_time_the_peak_or_the_end(trace: Trace, run: RunResult) -> None:
    """At 6.5 ns t1 is there again, original are t0 and g3."""
    told = explain(run, trace)
    then = {s.name: s.is_recomputed for s in told.live("6.5ns").storages}
    assert then == {"t0": False, "t1": True, "g3": False}
    assert (told.live("6.5ns").running, told.live(6).running) == (
        "call 0 f (fwd)",
        "call 6 b (bwd)",
    )
    assert {s.name for s in told.live(3).storages} == {"t0", "t2", "t3", "t4"}
    assert told.live("peak").total_bytes == 4
    assert {s.name for s in told.live("end").storages} == {"t0", "g1"}


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("soon", r"instant \('soon'\): it is a call's number"),
        ("1e3ns", "it is a call's number"),
        ("-1", "it is a call's number"),
        ("1h", "it is a call's number"),
        ("99s", r"instant \(99s\): the run ends at 9 ns"),
        ("99", "call 99: the run has none of that number; its calls go from 0 to 7"),
        ("9" * 400, "the run has none of that number"),
        ("9" * 400 + "s", "it is a call's number"),
    ],
)
def test_other_instants_are_refused(trace: Trace, run: RunResult, at: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(run, trace).live(at)


def test_a_storage_has_a_name_or_a_number(trace: Trace, run: RunResult) -> None:
    told = explain(run, trace)
    assert told.storages_named("t1") == told.storages_named("1") == [1]
    for name in ("t99", "99", "9" * 99, ""):
        with pytest.raises(UnknownNameError, match="by number they go from 0 to 8"):
            told.storages_named(name)


def test_without_the_trace_all_but_scores_and_chains_is_told(
    trace: Trace, run: RunResult, tmp_path: Path
) -> None:
    """From the file alone: names of calls are those of what they made."""
    run.save(tmp_path / "x.run")
    alone, told = explain(load_run(tmp_path / "x.run")), explain(run, trace)
    assert alone.overhead == told.overhead
    assert alone.live("peak").parts == told.live("peak").parts
    life = alone.life(1)
    assert [h.time_ns for h in life.happenings] == [3, 6, 8]
    gone, back, _ = life.happenings
    assert isinstance(gone, Eviction)
    assert (gone.score, gone.decision) == (0.5, None)
    assert isinstance(back, Return)
    assert back.chain == ["call 6 b"]
    assert alone.with_more() == []


def test_the_peak_with_a_workspace_needs_the_trace() -> None:
    """The first call has 5 bytes of workspace beside 2 of result; without it the log says 3."""
    builder = TraceBuilder("workspace")
    builder.call("f", [], [("a", 2, -1)], 1, workspace_bytes=5)
    builder.call("g", ["a"], [("b", 1, -1)], 1)
    trace = builder.build()
    run = simulate(trace, "h_LRU", event_log=True)
    live = explain(run, trace).live()
    assert (live.total_bytes, live.workspace_bytes, live.is_exact) == (7, 5, True)
    assert live.running == "call 0 f"
    alone = explain(run).live()
    assert (alone.total_bytes, alone.workspace_bytes, alone.is_exact) == (3, 0, False)


def test_a_run_in_which_nothing_happened_is_told(trace: Trace) -> None:
    """Not even the constant fits in no byte at all, rounded up."""
    run = simulate(trace, "h_LRU", 1, memory="arena", event_log=True)
    told = explain(run, trace)
    assert run.status == "oom"
    assert (told.overhead, told.worths, told.live().parts) == ([], [], [])
    assert told.live("end").total_bytes == 0
    assert told.life(0).made_ns is None
    for at in ("0ns", 0):
        with pytest.raises(InputError):
            told.live(at)
    assert compare([run, run]).parting() is None


def test_a_plan_has_no_scores_and_the_rest() -> None:
    """a is dropped for now and made again for c; the plan's own time is 2 ns more than 3."""
    builder = TraceBuilder("three")
    builder.call("f", [], [("a", 8, -1)], 2, module="m.1")
    builder.call("f", [], [("b", 4, -1)], 1, module="m.2")
    builder.call("g", ["a", "b"], [("c", 1, -1)], 1)
    builder.release("a")
    builder.release("b")
    trace = builder.build()
    actions = [(COMPUTE, 0), (FREE, 0), (COMPUTE, 1), (COMPUTE, 0), (COMPUTE, 2), (FREE, 0)]
    run = execute(trace, made_plan(actions, trace.digest, method="by hand"), event_log=True)
    told = explain(run, trace)
    assert [(p.module, p.operator, p.remat_ns) for p in told.overhead] == [("m.1", "f", 2)]
    gone, back, freed = told.life(0).happenings
    assert isinstance(gone, Eviction)
    assert isinstance(back, Return)
    assert (gone.action, gone.score, gone.decision, back.chain) == (
        "evict",
        None,
        None,
        ["call 2 g"],
    )
    assert [(w.names, w.cost_ns, w.ns_per_byte) for w in told.worths] == [(("a",), 2, 0.25)]
    assert told.with_more() == []
    with pytest.raises(InputError, match="a plan"):
        explain(run, trace, "h_LRU")


def test_the_terms_of_a_users_own_function_are_told(trace: Trace) -> None:
    """Those that it calls, compiled or not."""

    def compiles(state, s):
        return own_cost(state, s) + 2.0 * size(state, s)

    def in_python(state, s):
        return own_cost(state, s) + float(len(str(s)))

    for function, terms in (
        (compiles, {"own_cost": 1.0, "size": 1.0}),
        (in_python, {"own_cost": 1.0}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            run = simulate(trace, function, budget=4, event_log=True)
            told = explain(run, trace, function)
            decision = told.call(3).evictions[0].decision
        assert decision is not None
        assert decision.candidates[0].terms == terms


def test_another_heuristic_than_that_of_the_run_is_refused(trace: Trace, run: RunResult) -> None:
    told = explain(run, trace, "h_size")
    with pytest.raises(InputError, match="'h_size' does not choose as that run did"):
        told.life(1)


def test_a_function_that_is_gone_has_to_be_handed_over(trace: Trace) -> None:
    run = simulate(trace, "h_LRU", budget=4, event_log=True)
    run = RunResult(**{**vars(run), "method": "gone.py:mine"})
    with pytest.raises(InputError, match=r"run of 'gone.py:mine': .* hand its heuristic over"):
        explain(run, trace)
    with pytest.raises(HeuristicError, match="gone.py"):
        explain(run, trace, "gone.py:mine")


def test_what_is_no_run_of_the_trace_is_refused(trace: Trace, run: RunResult) -> None:
    with pytest.raises(InputError, match="no event log"):
        explain(simulate(trace, "h_LRU"))
    with pytest.raises(InputError, match="it is of the trace"):
        explain(run, chain(5))
    with pytest.raises(InputError, match="no event log"):
        compare([simulate(trace, "h_LRU"), run])


def test_runs_of_different_traces_are_not_compared(trace: Trace, run: RunResult) -> None:
    other = simulate(chain(5), "h_LRU", event_log=True)
    with pytest.raises(InputError, match="runs of different traces: A is of"):
        compare([run, other])
    inplace = simulate(trace, "h_LRU", event_log=True, mutation="inplace")
    with pytest.raises(InputError, match="runs under different lowerings: A has mutation 'copy'"):
        compare([run, inplace])
    with pytest.raises(InputError, match=r"runs \(1\): from 2 to 26 are compared"):
        compare([run])


def test_runs_that_part_by_pencil(trace: Trace) -> None:
    """h_size takes the last to enter the pool, t2, where h_DTR takes t1."""
    runs = [simulate(trace, name, budget=4, event_log=True) for name in ("h_DTR", "h_size")]
    parting = compare(runs, trace).parting()
    assert parting is not None
    assert (parting.actions, parting.first.name, parting.second.name) == (3, "t1", "t2")
    assert (parting.first.time_ns, parting.first.memory_bytes) == (3, 4)
    assert parting.first.call == parting.second.call == "call 3 f (fwd)"
