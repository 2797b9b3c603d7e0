"""What is told of a run is what happened in it: on random traces, under every heuristic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from random_traces import random_trace
from rematsim import heuristics
from rematsim.causes import Causes
from rematsim.execution import execute
from rematsim.explaining import explain
from rematsim.opcodes import (
    ACTIONS,
    COMPUTE,
    DEALLOCATIONS,
    DROP_DUPLICATE,
    EVICT,
    PIN,
    RECOMPUTE,
)
from rematsim.plan import plan_of_run
from rematsim.simulation import simulate
from rematsim.story import Story
from rematsim.traces.synthetic import chain
from rematsim.traces.trace import Trace
from rematsim.workload import workload

WRAPPED = ["sample(h_DTR_eq)", "ignore_small(h_DTR,0.5)", "Coop(window=false)"]
NAMES = [*heuristics.names(), *WRAPPED]
LESS = [ACTIONS.index(name) for name in ("evict", "deallocate", "banish", "take_over")]


def runs(heuristic: str, seeds: int = 3) -> Iterator[tuple[Trace, Any]]:
    """Runs of a heuristic: all policies, lowerings and memories; budgets that do and do not fit."""
    for seed in range(seeds):
        trace = random_trace(700 + seed, rebinding=("listed", "storage")[seed % 2], tags=seed == 2)
        reserved = simulate(trace, "h_LRU", memory="arena").reserved_peak_bytes
        for number, fraction in enumerate((0.55, 0.7, 0.85)):
            memory = ("counter", "arena", "counter")[(seed + number) % 3]
            memory = "arena" if heuristic.startswith("Coop") else memory
            yield (
                trace,
                simulate(
                    trace,
                    heuristic,
                    fraction if memory == "counter" else int(fraction * reserved),
                    deallocation=DEALLOCATIONS[(seed + number) % 3],
                    mutation=("copy", "inplace")[number % 2],
                    memory=memory,
                    slowdown_limit=(None, 2.0, 5.0)[number],
                    seed=seed,
                    event_log=True,
                ),
            )


@pytest.mark.parametrize("heuristic", NAMES)
def test_the_split_of_the_overhead_sums_to_the_overhead(heuristic: str) -> None:
    """In whole nanoseconds, whether or not the trace is at hand."""
    for trace, run in runs(heuristic):
        for told in (explain(run, trace), explain(run)):
            parts = told.overhead
            assert sum(part.remat_ns for part in parts) == run.remat_ns
            assert sum(part.remats for part in parts) == run.rematerializations
            total = sum(part.total_ns for part in parts)
            assert total == run.remat_ns + run.stall_ns + run.search_ns
            if run.status == "ok":
                assert run.slowdown == (run.model_ns + total) / run.model_ns


def test_the_split_of_a_plan_sums_to_its_overhead() -> None:
    for trace, run in runs("h_DTR_eq"):
        if run.status != "ok":
            continue
        plan = plan_of_run(workload(trace, run.mutation).program, run)
        executed = execute(trace, plan, event_log=True)
        parts = explain(executed, trace).overhead
        assert sum(part.total_ns for part in parts) == executed.remat_ns == run.remat_ns


def memory_by_hand(run: Any, row: int) -> dict[int, list[bool]]:
    """Copies of each storage with bytes after a row: whether each is recomputed, oldest first."""
    there: dict[int, list[bool]] = {}
    log = run.events
    columns = (log[name][: row + 1].tolist() for name in ("action", "storage", "bytes"))
    for action, storage, size in zip(*columns, strict=True):
        if not size or action == PIN:
            continue
        if action in (COMPUTE, RECOMPUTE):
            there.setdefault(storage, []).append(action == RECOMPUTE)
        elif action == DROP_DUPLICATE:
            there[storage].pop()
        else:
            assert action in LESS
            del there[storage]
    return there


@pytest.mark.parametrize("heuristic", ["h_DTR", "h_DTR_eq", "h_LRU", "h_rand"])
def test_the_live_set_at_an_instant_is_the_memory_at_it(heuristic: str) -> None:
    """At calls, and just after each row of the log: every byte once, original or recomputed."""
    for trace, run in runs(heuristic):
        told = explain(run, trace)
        story, sizes = told.story, run.storages["bytes"]
        instants = [(told.live(step.call), None) for step in story.steps if not step.is_again]
        for row in range(0, len(story.memory), 7):
            start = int(run.events["start_ns"][row])
            last = int(np.flatnonzero(run.events["start_ns"] == start)[-1])
            instants.append((told.live(f"{start}ns"), last))
        instants.append((told.live("end"), len(story.memory) - 1))
        for live, row in instants:
            held = sum(part.bytes for part in live.parts)
            assert held + live.second_copy_bytes + live.workspace_bytes == live.total_bytes
            assert held == sum(one.bytes for one in live.storages)
            if row is None:
                continue
            assert live.total_bytes - live.workspace_bytes == story.memory[row]
            there = memory_by_hand(run, row)
            assert {s.storage: s.is_recomputed for s in live.storages} == {
                storage: copies[0] for storage, copies in there.items()
            }
            again = sum(int(sizes[s]) for s, copies in there.items() if copies[0])
            assert sum(part.recomputed_bytes for part in live.parts) == again


@pytest.mark.parametrize("heuristic", NAMES)
def test_the_live_set_at_the_peak_is_the_peak(heuristic: str) -> None:
    """To the byte, and by category as the run itself counts it."""
    for trace, run in runs(heuristic, seeds=2):
        live = explain(run, trace).live("peak")
        assert live.total_bytes == run.peak_bytes
        assert live.is_exact
        assert sum(part.bytes for part in live.by("category")) == sum(
            part.bytes for part in live.by("module", "operator")
        )


def test_the_live_set_at_the_peak_is_what_a_run_says_of_it() -> None:
    for seed in range(6):
        trace = random_trace(720 + seed)
        run = simulate(trace, "h_DTR", 0.8, event_log=True, live_sets=True, slowdown_limit=None)
        live = explain(run, trace).live("peak")
        told = {part.category: part.bytes for part in live.by("category")}
        told["workspace and second copies"] = live.workspace_bytes + live.second_copy_bytes
        said = run.live_at_peak.categories
        assert {k: v for k, v in told.items() if v} == {k: v for k, v in said.items() if v}


Terms = dict[str, float]


def over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.inf


def ablation(cost: str, by_size: bool, by_staleness: bool) -> Callable[[Terms], float]:
    costs: dict[str, Callable[[Terms], float]] = {
        "estar": lambda t: t["own_cost"] + t["neighborhood_cost"],
        "eq": lambda t: t["own_cost"] + t["class_cost"],
        "local": lambda t: t["own_cost"],
        "one": lambda t: 1.0,
    }
    return lambda t: over(
        costs[cost](t), (t["size"] if by_size else 1.0) * (t["staleness"] if by_staleness else 1.0)
    )


def megengine(t: Terms) -> float:
    cost = (t["own_cost"] + t["class_cost"]) / 1e6 + 0.001
    space = (t["size"] + t["free_neighbor_bytes"]) / 2**20
    return over(cost * 1.5 ** t["remat_count"], space * (t["staleness"] / 1e6 + 0.001))


def by_use(t: Terms) -> float:
    return over(over(t["own_cost"] + t["class_cost"], t["next_use"]), t["size"])


def by_both(t: Terms) -> float:
    cost = over(t["own_cost"] + t["class_cost"], t["next_use"] ** 0.5)
    return over(over(cost, t["staleness"] ** 0.5), t["size"])


# docs/heuristics.md, in the terms of its table.
FORMULAS: dict[str, Callable[[Terms], float]] = {
    "h_DTR": ablation("estar", True, True),
    "h_DTR_eq": ablation("eq", True, True),
    "h_DTR_local": ablation("local", True, True),
    "h_DTR_neighborhood": lambda t: over(
        t["own_cost"] + t["set_cost"], t["size"] * t["set_staleness"]
    ),
    "h_LRU": lambda t: t["last_access"],
    "h_size": lambda t: over(1.0, t["size"]),
    "h_MSPS": lambda t: over(t["own_cost"] + t["ancestor_cost"], t["size"]),
    "h_MegEngine": megengine,
    "h_DTR_offload": ablation("eq", True, True),  # the runs here have no link
    "h_next_use": by_use,
    "h_next_use_offload": by_use,
    "h_last_step": by_use,
    "h_next_use_hybrid": by_both,
    "h_last_step_hybrid": by_both,
    "h_DTE": lambda t: over(
        t["own_cost"] + t["class_cost"], (t["size"] + t["free_neighbor_bytes"]) * t["staleness"]
    ),
    "Coop": lambda t: over(t["own_cost"] + t["call_cost"], t["staleness"]),
    "Coop(window=false)": lambda t: over(
        over(t["own_cost"] + t["call_cost"], t["staleness"]), t["size"]
    ),
    "sample(h_DTR_eq)": ablation("eq", True, True),
    "ignore_small(h_DTR,0.5)": ablation("estar", True, True),
    **{
        f"h_abl_{cost}{'_size' * size}{'_stale' * stale}": ablation(cost, size, stale)
        for cost in ("estar", "eq", "local", "one")
        for size in (False, True)
        for stale in (False, True)
        if cost != "one" or size or stale
    },
}


def test_every_heuristic_with_scores_has_a_formula_here() -> None:
    assert set(FORMULAS) == set(NAMES) - {"h_rand"}


@pytest.mark.parametrize("heuristic", FORMULAS)
def test_the_terms_of_a_score_give_the_score(heuristic: str) -> None:
    """Of every candidate of every eviction, to the last bit; the lowest of them is the victim.

    Coop evicts a window, the score of which is the sum of its storages'.
    """
    count = 0
    for trace, run in runs(heuristic):
        rows = np.flatnonzero(run.events["action"] == EVICT).tolist()
        told = explain(run, trace)
        for row, decision in told.decisions(rows).items():
            first = decision.candidates[0]
            assert decision.storage == run.events["storage"][row]
            together = decision.candidates[: len(decision.together)]
            assert tuple(c.storage for c in together) == decision.together
            assert decision.storage in decision.together
            assert sum(c.score for c in together) == pytest.approx(run.events["score"][row])
            assert len(together) == 1 or heuristic == "Coop"
            assert all(c.was_considered for c in together)
            for candidate in decision.candidates:
                assert FORMULAS[heuristic](candidate.terms) == candidate.score
                assert candidate.bytes == run.storages["bytes"][candidate.storage]
            looked_at = [c.score for c in decision.candidates if c.was_considered]
            if heuristic != "Coop":
                assert first.score in (0.0, min(looked_at))
                assert first.score == run.events["score"][row]
            count += 1
        assert len(rows) == run.pressure_evictions
    assert count > 30


def test_candidates_are_all_that_could_go() -> None:
    """What is in memory, less what the call that needs room holds, constants and outputs."""
    for trace, run in runs("h_LRU"):
        told = explain(run, trace)
        rows = np.flatnonzero(run.events["action"] == EVICT).tolist()
        for row, decision in told.decisions(rows).items():
            there = set(memory_by_hand(run, row - 1))
            candidates = {c.storage for c in decision.candidates if c.bytes}
            assert candidates <= there
            names = run.storages["category"]
            assert all(names[c.storage] != "constant" for c in decision.candidates)


def test_a_random_choice_has_candidates_and_no_scores() -> None:
    for trace, run in runs("h_rand"):
        rows = np.flatnonzero(run.events["action"] == EVICT).tolist()
        for row, decision in explain(run, trace).decisions(rows).items():
            assert decision.storage == run.events["storage"][row]
            assert decision.storage in {c.storage for c in decision.candidates}
            assert {c.score for c in decision.candidates} == {None}


@pytest.mark.parametrize("heuristic", ["h_DTR_eq", "h_LRU", "h_rand"])
def test_a_recomputation_is_for_the_first_call_that_reads_it(heuristic: str) -> None:
    """Found by looking forward, call by call; a chain ends with the model's own next call."""
    for trace, run in runs(heuristic):
        told = explain(run, trace)
        story = told.story
        program = workload(trace, run.mutation).program
        for number, step in enumerate(story.steps):
            if not step.is_again:
                continue
            assert told.causes.first_reader(number) == first_reader(story, program, number)
            chain = told.causes.chain(number)
            following = next((s for s in story.steps[number:] if not s.is_again), None)
            if chain and not chain[-1].is_again:
                assert chain[-1] == following


def first_reader(story: Story, program: Any, number: int) -> int:
    """The first later step with an operand that this one made, and nobody made since."""
    made = made_by(story, program, number)
    for later in range(number + 1, len(story.steps)):
        call = program.calls[story.program_call(story.steps[later])]
        if made & set(program.parents[call["first_parent"] : call["end_parent"]].tolist()):
            return later
        made -= made_by(story, program, later)
    return -1


def made_by(story: Story, program: Any, number: int) -> set[int]:
    """Tensors that a step made, those aside that were there already."""
    log, steps = story.events, story.steps
    end = steps[number + 1].first_row if number + 1 < len(steps) else len(log["call"])
    rows = range(steps[number].first_row, end)
    copies = {int(log["tensor"][row]) for row in rows if log["action"][row] == DROP_DUPLICATE}
    call = program.calls[story.program_call(steps[number])]
    return set(range(int(call["first_result"]), int(call["end_result"]))) - copies


def gone_without(causes: Causes, taken: set[int]) -> set[int]:
    """Take recomputations away: what only they needed is needed by nothing, and so on."""
    gone = set(taken)
    for number in range(max(taken), -1, -1):
        readers = causes.readers[number]
        if causes.story.steps[number].is_again and readers and gone.issuperset(readers):
            gone.add(number)
    return gone


@pytest.mark.parametrize("heuristic", ["h_DTR", "h_rand"])
def test_what_a_recomputation_cost_in_all_is_what_would_go_with_it(heuristic: str) -> None:
    for trace, run in runs(heuristic):
        causes = explain(run, trace).causes
        steps = causes.story.steps
        again = [number for number, step in enumerate(steps) if step.is_again]
        for number in again:
            gone = gone_without(causes, {number})
            assert causes.in_all_ns[number] == sum(steps[other].cost_ns for other in gone)
        roots = [number for number in again if causes.needed_for[number] < 0]
        assert sum(causes.in_all_ns[number] for number in roots) == run.remat_ns


@pytest.mark.parametrize("heuristic", ["h_DTR", "h_LRU"])
def test_the_worth_of_storages_is_what_would_go_had_they_stayed(heuristic: str) -> None:
    """Exactly where they came back once; else each return counts for itself."""
    count = 0
    for trace, run in runs(heuristic):
        told = explain(run, trace)
        causes, steps = told.causes, told.story.steps
        assert [w.ns_per_byte for w in told.worths] == sorted(
            (w.ns_per_byte for w in told.worths), reverse=True
        )
        for worth in told.worths:
            back = {n for n, own in causes.forced.items() if own <= set(worth.storages)}
            gone = sum(steps[n].cost_ns for n in gone_without(causes, back))
            assert worth.cost_ns <= gone
            assert worth.cost_ns == gone or worth.returns > 1
            assert worth.bytes == sum(run.storages["bytes"][s] for s in worth.storages)
            count += 1
    assert count > 30


def test_a_larger_budget_is_told_as_a_run_with_it_goes() -> None:
    for trace, run in runs("h_DTR_eq", seeds=2):
        told = explain(run, trace)
        for larger in told.with_more(3):
            again = simulate(
                trace,
                "h_DTR_eq",
                larger.budget_bytes,
                deallocation=run.deallocation,
                mutation=run.mutation,
                memory=run.memory,
                slowdown_limit=run.slowdown_limit,
            )
            assert (larger.status, larger.slowdown) == (again.status, again.slowdown)
            assert larger.rematerializations == again.rematerializations


def test_a_larger_budget_is_told_with_its_stalls_where_data_moves() -> None:
    stalled = 0
    for seed in range(8):
        trace, link = random_trace(760 + seed), "link(d2h=3GB/s,h2d=3GB/s,latency=0)"
        given: dict[str, Any] = {"link": link, "slowdown_limit": None}
        run = simulate(trace, "h_DTR_offload", 0.7, event_log=True, **given)
        for larger in explain(run, trace, "h_DTR_offload").with_more(3):
            again = simulate(trace, "h_DTR_offload", larger.budget_bytes, **given)
            assert (larger.status, larger.slowdown) == (again.status, again.slowdown)
            stalled += again.stall_ns
    assert stalled


def test_a_storage_that_must_stay_is_not_evicted() -> None:
    """Where it alone stays and nothing else changes, a run has no more of its recomputations."""
    trace = chain(4)
    run = simulate(trace, "h_DTR", 4, event_log=True)
    told = explain(run, trace)
    assert [(w.names, w.bytes, w.returns, w.cost_ns) for w in told.worths] == [(("t1",), 1, 1, 1)]
    [larger] = told.with_more()
    assert (larger.budget_bytes, larger.slowdown, larger.slowdown_keeping) == (5, 1.0, 1.0)
