"""Coop: which window of addresses goes, where results are placed, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pytest
from random_traces import random_trace
from rematsim import compiled, heuristics
from rematsim.conformance import check_heuristic
from rematsim.errors import HeuristicError, InputError
from rematsim.inspection import enlarged
from rematsim.jit import inlineable
from rematsim.lowering import compile_trace
from rematsim.memory import ASK, GIVE_BACK, LARGEST_HOLE
from rematsim.opcodes import ACTIONS
from rematsim.partition import sides
from rematsim.result import RunResult
from rematsim.runner import Run, Settings
from rematsim.simulation import simulate
from rematsim.space import FREE, HEAD, HIGH, LOW
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace
from rematsim.windows import make_window_choose

UNIT = 512  # bytes: what an arena rounds to
LAYOUT = {"A": 5, "B": 3, "free": 2, "C": 4, "D": 6}  # units, by address
EVICT = ACTIONS.index("evict")


def laid_out(costs: dict[str, int], request: int) -> Trace:
    """A, B, a hole, C and D lie side by side and fill 20 units; then f(C) asks for some.

    Time passes before that, so that all are stale, and the costs of C and of the hole are 1::

        A             staleness  costs of B, the hole, C, D and 10
        B                        costs of the hole, C, D and 10
        D                        10
    """
    builder = TraceBuilder("layout")
    builder.constant("x", 0)
    for name, units in LAYOUT.items():
        builder.call("f", ["x"], [(name, units * UNIT, -1)], costs.get(name, 1))
    builder.release("free")
    builder.call("f", ["x"], [("later", 0, -1)], 10)
    builder.call("f", ["C"], [("E", request * UNIT, -1)], 1)
    for name in (*(n for n in LAYOUT if n != "free"), "later"):
        builder.release(name)
    return builder.build()


def victims(run: RunResult) -> list[str]:
    """Names of the evicted, in order."""
    assert run.events is not None and run.storages is not None
    chosen = run.events["storage"][run.events["action"] == EVICT]
    return [str(name) for name in run.storages["name"][chosen]]


def evicted_for(costs: dict[str, int], request: int, heuristic: str) -> list[str]:
    """What goes for E under a heuristic, in an arena of the 20 units."""
    run = simulate(laid_out(costs, request), heuristic, 20 * UNIT, memory="arena", event_log=True)
    assert run.status == "ok"
    return victims(run)


WINDOW_ONLY = "Coop(partition=none)"


def test_a_locked_piece_ends_every_window() -> None:
    """For 7 units: B with the hole has 5, and C beyond it is an operand; A with B has 8."""
    assert evicted_for({"A": 100, "B": 100, "D": 1}, 7, WINDOW_ONLY) == ["A", "B"]


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        # Scores over staleness: A 2 / 22, B 6 / 16, D 4 / 10.
        ({"A": 2, "B": 6, "D": 4}, ["A"]),
        # A 30 / 18, B 2 / 16, D 4 / 10: B with the hole has the 5 units.
        ({"A": 30, "B": 2, "D": 4}, ["B"]),
        # A 30 / 43, B 30 / 13, D 1 / 10.
        ({"A": 30, "B": 30, "D": 1}, ["D"]),
    ],
)
def test_the_cheapest_window_goes(costs: dict[str, int], expected: list[str]) -> None:
    """For 5 units A, B with the hole, and D are windows; which has the least h, goes."""
    assert evicted_for(costs, 5, WINDOW_ONLY) == expected


def test_one_at_a_time_evicts_what_leaves_no_hole() -> None:
    """D, then B score lowest: holes of 6 and 5 with C between; A has to go as well for 7."""
    costs = {"A": 500, "B": 60, "D": 6}  # over m s: A 500 / (5 78), B 60 / (3 18), D 6 / (6 10)
    assert evicted_for(costs, 7, "h_DTR_eq") == ["D", "B", "A"]
    assert evicted_for(costs, 7, WINDOW_ONLY) == ["A", "B"]


def test_free_neighbors_count_for_dte() -> None:
    """B has 3 units, and 5 with the hole beside it: without that, A would go first."""
    ms = 1_000_000  # h_MegEngine counts in these
    # s: A 426 and B 412 ms and a little; c over m: A 4, B 4.67, with the hole 2.8.
    costs = {"A": 20 * ms, "B": 14 * ms, "D": 412 * ms}
    assert evicted_for(costs, 5, "h_DTR_eq")[0] == "A"
    assert evicted_for(costs, 5, "h_DTE") == ["B"]
    assert evicted_for(costs, 5, "h_MegEngine") == ["B"]


def test_a_call_s_other_results_are_not_in_the_way_of_its_window() -> None:
    """Two results of 6 units and a hole of 6: one lies there, so one window is made, not none."""
    builder = TraceBuilder("two results")
    builder.constant("x", 0)
    for name, units in (("hole", 6), ("A", 6), ("B", 2)):
        builder.call("f", ["x"], [(name, units * UNIT, -1)], 1)
    builder.release("hole")
    builder.call("f", ["x"], [("later", 0, -1)], 10)
    builder.call("f", ["x"], [("y", 6 * UNIT, -1), ("z", 6 * UNIT, -1)], 1)
    for name in ("A", "B", "later"):
        builder.release(name)
    run = simulate(builder.build(), WINDOW_ONLY, 14 * UNIT, memory="arena", event_log=True)
    assert (run.status, victims(run)) == ("ok", ["A"])


# The search.


STAYS = -1.0  # in place of a score


@dataclass
class Pieces:
    """A random arena that is full, and a request that has no place."""

    run: Run
    wanted: int
    call: int

    def by_address(self) -> list[tuple[int, int, float]]:
        """Storage, bytes and score of each piece; the score is STAYS where it may not go."""
        state = self.run.state
        found = []
        p = int(state.pieces[0].after)
        while state.pieces[p].storage != HEAD:
            s, size = int(state.pieces[p].storage), int(state.pieces[p].size_bytes)
            row = state.storages[s]
            score = 0.0
            if s != FREE:
                stale = int(state.next_free[0] - row.last_access)
                score = float(row.cost_ns) / stale if stale else inf
                score = score if row.pool_slot >= 0 else STAYS
            found.append((s, size, score))
            p = int(state.pieces[p].after)
        return found


def random_pieces(seed: int) -> Pieces | None:
    """Fill an arena, let some go, and ask for more than the largest hole has; None: it has all."""
    draw = random.Random(seed)
    sizes = [draw.choice((1, 1, 2, 3, 5, 8)) for _ in range(draw.randrange(1, 30))]
    builder = TraceBuilder("pieces")
    for k, size in enumerate(sizes):
        builder.call("f", [], [(f"a{k}", size * UNIT, -1)], 1)
    wanted = draw.randrange(1, max(2, sum(sizes) // 2)) * UNIT - draw.choice((0, 0, 1, 300))
    builder.call("f", [], [("wanted", wanted, -1)], 1)
    program = compile_trace(builder.build())
    run = Run(program, Settings(sum(sizes) * UNIT, memory="arena"))
    state = run.state
    given = [run.ask_memory(ASK, size * UNIT) for size in sizes]
    state.next_free[0] = 10
    for s, p in enumerate(given):
        state.pieces[p].storage = s
        state.storages[s].cost_ns = draw.choice((0, 1, 2, 3, 10, 1000))
        state.storages[s].last_access = draw.choice((10, 9, 8, 4, 1))
        state.storages[s].pool_slot = 0 if draw.random() < 0.8 else -1
    for p in given:
        if draw.random() < 0.25:
            run.ask_memory(GIVE_BACK, p)
    state.space[0].wanted_bytes = wanted
    if run.ask_memory(LARGEST_HOLE) >= wanted:
        return None
    return Pieces(run, wanted, len(program.calls) - 1)


def windows(pieces: Pieces) -> Iterator[tuple[float, list[tuple[int, int, float]]]]:
    """All windows with the bytes that are asked for, with their costs."""
    row = pieces.by_address()
    for first in range(len(row)):
        for end in range(first + 1, len(row) + 1):
            window = row[first:end]
            is_whole = all(score != STAYS for _, _, score in window)
            if is_whole and sum(size for _, size, _ in window) >= pieces.wanted:
                yield sum(score for _, _, score in window), window


@inlineable
def score_of_cost(state: Any, s: int) -> float:
    """Own cost over staleness."""
    stale = state.next_free[0] - state.storages[s].last_access
    return float(state.storages[s].cost_ns) / float(stale) if stale != 0 else inf


def test_two_pointers_find_what_all_pairs_find() -> None:
    """The least cost of all windows; and neither end can stay, unless it costs nothing."""
    choose, choose_counting = (
        compiled.choose(make_window_choose(score_of_cost, 0, counts), "by cost alone", cached=False)
        for counts in (False, True)
    )
    count = found = 0
    for seed in range(500):
        pieces = random_pieces(seed)
        if pieces is None:
            continue
        count += 1
        state = pieces.run.state
        before = pieces.by_address()
        counted = choose_counting.function(pieces.run.program, state, pieces.call)
        looked_at = state.victims[: max(counted, 0)].tolist()
        answer = choose.function(pieces.run.program, state, pieces.call)
        assert state.victims[: max(answer, 0)].tolist() == looked_at, "whatever it passes over"
        assert pieces.by_address() == before, "the search moves nothing"
        best = min((cost for cost, _ in windows(pieces)), default=None)
        if best is None:
            assert answer < 0
            continue
        found += 1
        chosen = set(state.victims[:answer].tolist())
        assert len(chosen) == answer > 0
        assert state.run[0].score == pytest.approx(best, rel=1e-12)
        places = [i for i, (s, _, _) in enumerate(before) if s in chosen]
        between = before[places[0] : places[-1] + 1]
        assert {s for s, _, _ in between if s != FREE} == chosen
        costs = sum(score for _, _, score in between)
        assert costs == pytest.approx(best, rel=1e-12)
        for end in (between[1:], between[:-1]):
            cut = [s for s, _, _ in end if s != FREE]
            around = sum(size for _, size, _ in grown(before, cut)) if cut else 0
            assert around < pieces.wanted or costs in (0.0, inf) or sum_of(end) == costs
    assert found > 200 and count - found > 20


def sum_of(window: list[tuple[int, int, float]]) -> float:
    """The cost of a window."""
    return sum(score for _, _, score in window)


def grown(row: list[tuple[int, int, float]], chosen: list[int]) -> list[tuple[int, int, float]]:
    """The pieces from the first chosen storage to the last, and the holes beside them."""
    places = [i for i, (s, _, _) in enumerate(row) if s in chosen]
    first, last = places[0], places[-1]
    first -= first > 0 and row[first - 1][0] == FREE
    last += last + 1 < len(row) and row[last + 1][0] == FREE
    return row[first : last + 1]


@pytest.mark.parametrize("heuristic", ["Coop", WINDOW_ONLY, "Coop(partition=density)"])
def test_what_goes_at_once_is_one_hole(heuristic: str) -> None:
    """Between the victims of one search lie no others; and each search's are used at once."""
    run = simulate("bundled:unet", heuristic, 0.6, memory="arena", event_log=True)
    assert run.status == "ok" and run.events is not None and run.storages is not None
    log, sizes = run.events, run.storages["bytes"]
    held: dict[int, tuple[int, int]] = {}
    searches = 0
    i = 0
    while i < len(log["action"]):
        if log["action"][i] == EVICT:
            end = i
            while log["action"][end] == EVICT and log["score"][end] == log["score"][i]:
                end += 1
            going = log["storage"][i:end].tolist()
            spans = [held.pop(s) for s in going]
            low, high = min(a for a, _ in spans), max(a + n for a, n in spans)
            assert not [s for s, (a, n) in held.items() if a < high and a + n > low]
            searches += 1
            i = end
            continue
        s = int(log["storage"][i])
        if ACTIONS[log["action"][i]] in ("compute", "recompute") and log["address"][i] >= 0:
            held[s] = (int(log["address"][i]), int(sizes[s]))
        elif ACTIONS[log["action"][i]] == "deallocate":
            held.pop(s, None)
        i += 1
    assert searches > 10


# Where results are placed.


def two_kinds() -> Trace:
    """Matrix products take long and others do not, apart from one."""
    builder = TraceBuilder("kinds")
    builder.constant("x", UNIT)
    for name, operator, cost in (
        ("a", "aten::mm", 90), ("b", "aten::relu", 1), ("c", "aten::convolution_backward", 90),
        ("d", "aten::exp", 90), ("e", "aten::mm", 1), ("f", "add_", 90), ("g", "mul", 1),
    ):  # fmt: skip
        builder.call(operator, ["x"], [(name, UNIT, -1)], cost)
    return builder.build()


@pytest.mark.parametrize(
    ("partition", "high"), [("class", "bdg"), ("density", "beg"), ("none", "")]
)
def test_cheap_results_are_placed_at_the_high_end(partition: str, high: str) -> None:
    """By operator, or by time for a byte against the mean so far; constants are at the low end."""
    run = simulate(
        two_kinds(), f"Coop(partition={partition})", 12 * UNIT, memory="arena", event_log=True
    )
    assert run.events is not None and run.storages is not None
    placed = run.events["action"] == ACTIONS.index("compute")
    address = dict(zip(run.events["storage"][placed], run.events["address"][placed], strict=True))
    names = [str(n) for n in run.storages["name"]]
    assert address[names.index("x")] == 0
    assert "".join(n for i, n in enumerate(names) if address[i] >= 8 * UNIT) == high


def test_sides_depend_on_what_has_come_before_alone() -> None:
    """A longer trace does not move what is placed early."""
    short = random_trace(3, events=40, cut=20)
    whole = random_trace(3, events=40)
    for partition in ("class", "density"):
        few = sides(short, compile_trace(short), partition)
        all_of_them = sides(whole, compile_trace(whole), partition)
        assert few is not None and all_of_them is not None
        assert few.tolist() == all_of_them[: len(few)].tolist()
        assert set(few.tolist()) <= {LOW, HIGH}


# What is recomputed on the way.


def ladder() -> Trace:
    """a, b, c, d in a row, released as they are used; d is dropped for a large one, then read."""
    builder = TraceBuilder("ladder")
    builder.constant("x", 0)
    before = "x"
    for name in "abcd":
        builder.call("f", [before], [(name, UNIT, -1)], 1)
        if before != "x":
            builder.release(before)
        before = name
    builder.call("f", ["x"], [("large", 4 * UNIT, -1)], 1)
    builder.release("large")
    builder.call("f", ["d"], [("e", UNIT, -1)], 1)
    builder.release("d")
    return builder.build()


@pytest.mark.parametrize(("drop", "gone"), [("false", "d"), ("true", "abcd")])
def test_what_was_recomputed_on_the_way_goes_at_once(drop: str, gone: str) -> None:
    """To have d again, a, b and c are computed, which the program has given up before."""
    run = simulate(
        ladder(), f"Coop(partition=none,drop={drop})", 4 * UNIT, memory="arena", event_log=True,
        slowdown_limit=None,
    )  # fmt: skip
    assert run.status == "ok" and run.events is not None and run.storages is not None
    action, names = run.events["action"], run.storages["name"][run.events["storage"]]
    recomputed = np.flatnonzero(action == ACTIONS.index("recompute"))
    assert "".join(names[recomputed]) == "abcd"
    dropped = np.flatnonzero(action == ACTIONS.index("deallocate"))
    assert "".join(names[dropped[dropped > recomputed[0]]]) == gone
    assert victims(run) == (["d", "a"] if drop == "false" else ["d"])


def test_what_two_calls_wait_for_is_kept_for_the_second() -> None:
    """p and q are both made from a, and both have to be computed again: a is, once."""
    builder = TraceBuilder("two readers")
    builder.constant("x", 0)
    builder.call("f", ["x"], [("a", UNIT, -1)], 1)
    builder.call("f", ["a"], [("p", UNIT, -1)], 1)
    builder.call("f", ["a"], [("q", UNIT, -1)], 1)
    builder.release("a")
    builder.call("f", ["x"], [("large", 4 * UNIT, -1)], 1)
    builder.release("large")
    builder.call("f", ["p", "q"], [("y", UNIT, -1)], 1)
    for name in "pq":
        builder.release(name)
    run = simulate(
        builder.build(), "Coop(drop=true)", 4 * UNIT, memory="arena", slowdown_limit=None
    )
    assert (run.status, run.rematerializations) == ("ok", 3)


# Its face.


@pytest.mark.parametrize("mutation", ["copy", "inplace"])
@pytest.mark.parametrize("deallocation", ["eager", "banish", "ignore"])
@pytest.mark.parametrize("heuristic", ["Coop", "Coop(drop=true)", "h_DTE"])
def test_a_run_can_be_repeated(heuristic: str, deallocation: str, mutation: str) -> None:
    """The same inputs give the same run, whatever ran before."""
    asked: dict[str, Any] = {"memory": "arena", "mutation": mutation, "deallocation": deallocation}
    for seed in range(4):
        trace = enlarged(random_trace(700 + seed, tags=True))
        first = simulate(trace, heuristic, 0.8, **asked).row
        simulate(trace, "h_LRU", 0.6, **asked)
        again = simulate(trace, heuristic, 0.8, **asked).row
        assert {**first, "run_seconds": 0} == {**again, "run_seconds": 0}


SEGMENT = 20 << 20


def in_two_segments(wanted: int) -> Trace:
    """Four results of 8 MiB, two in each of two segments of 20 MiB; then one of ``wanted``.

    The costs are 9, 1, 1 and 9: the cheapest neighbors are the ends of two segments.
    """
    builder = TraceBuilder("two segments")
    for name, cost in (("A", 900), ("B", 100), ("C", 101), ("D", 900)):
        builder.call("f", [], [(name, 8 << 20, -1)], cost)
    builder.call("f", [], [("later", 0, -1)], 100_000)
    builder.call("f", [], [("E", wanted, -1)], 1)
    for name in "ABCD":
        builder.release(name)
    return builder.build()


@pytest.mark.parametrize(
    ("megabytes", "gone"),
    [
        (8, ["B"]),
        # B and C are the cheapest neighbors, but in two segments; C and D have 20 MiB with the
        # hole behind them, and so have A and B.
        (15, ["A", "B"]),
        # No segment has so much: one at a time, until a segment is empty and goes back.
        (25, ["B", "C", "A", "D"]),
    ],
)
def test_with_segments_a_window_lies_in_one_of_them(megabytes: int, gone: list[str]) -> None:
    run = simulate(
        in_two_segments(megabytes << 20), "Coop", 2 * SEGMENT, memory="caching", event_log=True,
        slowdown_limit=None,
    )  # fmt: skip
    assert run.status == "ok"
    assert victims(run) == gone


def test_counting_what_is_looked_at_changes_nothing_else() -> None:
    trace = enlarged(random_trace(5))
    for memory in ("arena", "caching"):
        row, counted = (
            simulate(trace, "Coop", 0.8, memory=memory, count_accesses=counts).row
            for counts in (False, True)
        )
        only_counted = {"evaluations", "metadata_accesses", "run_seconds"}
        assert {k for k in row if row[k] != counted[k]} <= only_counted
        assert counted["evaluations"] is not None


def test_what_an_output_reads_is_kept_until_it_is_there() -> None:
    """At the end y is computed again from q and p, and q from p: p is made once."""
    builder = TraceBuilder("output")
    builder.constant("x", 0)
    builder.call("f", ["x"], [("p", UNIT, -1)], 1)
    builder.call("f", ["p"], [("q", UNIT, -1)], 1)
    builder.call("f", ["q", "p"], [("y", UNIT, -1)], 1)
    builder.release("p")
    builder.release("q")
    builder.call("f", ["x"], [("large", 4 * UNIT, -1)], 1)
    builder.release("large")
    run = simulate(
        builder.build(), "Coop(drop=true)", 4 * UNIT, memory="arena", slowdown_limit=None
    )
    assert (run.status, run.rematerializations) == ("ok", 3)


def test_without_addresses_it_says_what_to_give() -> None:
    """A window is a stretch of addresses: where there are none, the remedy is named."""
    for asked in ("Coop", "Coop(window=false)"):
        with pytest.raises(HeuristicError, match=r"Coop.*memory counter.*--memory arena"):
            simulate("synthetic:chain:4", asked)
    run = simulate("synthetic:chain:4", "Coop(window=false,partition=none)", 5)
    assert run.status == "ok"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Coop(partition=both)", "Coop: partition (both): it is class, density or none"),
        ("Coop(windows=no)", "Coop: parameter 'windows': it has window, partition, drop"),
        ("sample(Coop)", "sample(Coop): a window leaves no storage"),
    ],
)
def test_what_is_wrong_with_its_parameters_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        heuristics.get(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["Coop", "Coop(window=false,drop=true)", "h_DTE"])
def test_it_keeps_the_contract(name: str) -> None:
    report = check_heuristic(name)
    assert report.is_ok, str(report)
