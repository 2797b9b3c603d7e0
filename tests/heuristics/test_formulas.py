"""Every formula by pencil, on one state that is small enough to draw.

The trace: x is a constant of 1 byte, the rest is ``name = f(operand)``::

    a = f(x)   3 ns  4 bytes    clock  4 after it     (the clock starts at 1)
    c = f(a)   5 ns  6 bytes           9
    d = f(c)   7 ns  8 bytes          16
    g = f(c)  11 ns  2 bytes          27
    h = f(d)  13 ns  5 bytes          40              x a c d g h: 26 bytes, the budget
    z = f(x)  17 ns 16 bytes          57              d, c, g are evicted for it; z is released
    k = f(c)  19 ns  0 bytes          81              c is computed again (5 ns), from a
    y = f(x)  23 ns 11 bytes                          one of the pool must go: the state below
    v = f(a)  29 ns  0 bytes                          then a, c, d, g, k, y, v are released

When y asks for room, h, a, k and c are in the pool, in this order; d and g are evicted::

    storage  cost  bytes  last access  staleness  evicted ancestors  evicted descendants
    h          13      5           40         41  d: 7               none
    a           3      4           57         24  none               none (c is back)
    k          19      0           81          0  none (c is back)   none
    c           5      6           57         24  none               d, g: 18

d, c and g went into one class when they were evicted; it has lost c's cost, but was not split:
it is worth 7 + 11 = 18, for each of its neighbors h and c.

The next use of a is v, 23 ns of the model's own compute from y on; h is an output, used at the
end, 52 ns from y on; k and c are not used again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

import pytest
from rematsim import choosing, compiled, heuristics
from rematsim.heuristics.registry import Heuristic
from rematsim.opcodes import DEALLOCATIONS, PHASE_BACKWARD, PHASE_FORWARD
from rematsim.report import storage_names
from rematsim.runner import Chooser, Run, Settings
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace
from rematsim.workload import workload

Scores = dict[str, float]

CALLS = (
    *(("a", "x", 3, 4), ("c", "a", 5, 6), ("d", "c", 7, 8), ("g", "c", 11, 2)),
    *(("h", "d", 13, 5), ("z", "x", 17, 16), ("k", "c", 19, 0), ("y", "x", 23, 11)),
    ("v", "a", 29, 0),
)

COST = {"h": 13, "a": 3, "k": 19, "c": 5}
SIZE = {"h": 5, "a": 4, "k": 0, "c": 6}
STALENESS = {"h": 41, "a": 24, "k": 0, "c": 24}
NEIGHBORHOOD = {"h": 7, "a": 0, "k": 0, "c": 18}
CLASSES = {"h": 18, "a": 0, "k": 0, "c": 18}

EXPECTED: dict[str, Scores] = {
    "h_DTR": {"h": 20 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
    "h_DTR_eq": {"h": 31 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
    "h_DTE": {"h": 31 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
    # Of what h and c are made from, only d is evicted; what is made from c does not count.
    "Coop": {"h": 31 / 41, "a": 3 / 24, "k": inf, "c": 5 / 24},
    "Coop(window=false)": {"h": 31 / 41 / 5, "a": 3 / 24 / 4, "k": inf, "c": 5 / 24 / 6},
    "h_DTR_local": {"h": 13 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 5 / (6 * 24)},
    "h_DTR_neighborhood": {"h": 20 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
    "h_MSPS": {"h": 20 / 5, "a": 3 / 4, "k": inf, "c": 5 / 6},
    "h_LRU": {"h": 40, "a": 57, "k": 81, "c": 57},
    "h_size": {"h": 1 / 5, "a": 1 / 4, "k": inf, "c": 1 / 6},
    "h_next_use": {"h": 31 / (5 * 52), "a": 3 / (4 * 23), "k": inf, "c": 0},
    # Without a link there is but one way.
    "h_DTR_offload": {"h": 31 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
    "h_next_use_offload": {"h": 31 / (5 * 52), "a": 3 / (4 * 23), "k": inf, "c": 0},
    "h_next_use(exponent=2)": {
        "h": 31 / (5 * 52 * 52),
        "a": 3 / (4 * 23 * 23),
        "k": inf,
        "c": 0,
    },
    "h_next_use_hybrid": {
        "h": 31 / (5 * sqrt(41 * 52)),
        "a": 3 / (4 * sqrt(24 * 23)),
        "k": inf,
        "c": 0,
    },
    # There is no step before, so nothing is known, and staleness takes its place.
    "h_last_step": {"h": 31 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
    "h_last_step(exponent=2)": {
        "h": 31 / (5 * 41 * 41),
        "a": 3 / (4 * 24 * 24),
        "k": inf,
        "c": 23 / (6 * 24 * 24),
    },
    "h_last_step_hybrid": {"h": 31 / (5 * 41), "a": 3 / (4 * 24), "k": inf, "c": 23 / (6 * 24)},
}


def grid() -> dict[str, Scores]:
    """The ablations: one of four costs, over the bytes or not, over the staleness or not."""
    costs: dict[str, Callable[[str], float]] = {
        "estar": lambda s: COST[s] + NEIGHBORHOOD[s],
        "eq": lambda s: COST[s] + CLASSES[s],
        "local": lambda s: COST[s],
        "one": lambda s: 1,
    }

    def over(cost: float, denominator: float) -> float:
        return inf if denominator == 0 else cost / denominator

    return {
        f"h_abl_{name}{'_size' * by_size}{'_stale' * by_staleness}": {
            s: over(cost(s), (SIZE[s] if by_size else 1) * (STALENESS[s] if by_staleness else 1))
            for s in COST
        }
        for name, cost in costs.items()
        for by_size in (True, False)
        for by_staleness in (True, False)
        if name != "one" or by_size or by_staleness
    }


def drawn_trace() -> Trace:
    builder = TraceBuilder("drawn")
    builder.constant("x", 1)
    for name, operand, time, size in CALLS:
        builder.call("f", [operand], [(name, size, -1)], time)
        if name == "z":
            builder.release("z")
    for name in "acdgkyv":
        builder.release(name)
    return builder.build()


class Script:
    """Evicts by a list; then notes what a heuristic says of each storage of the pool."""

    def __init__(self, trace: Trace, heuristic: Heuristic, victims: str) -> None:
        self.names = storage_names(trace, workload(trace).program)
        self.heuristic = heuristic
        self.victims = list(victims)
        self.scores: Scores = {}

    def __call__(self, program: Any, state: Any) -> tuple[int, float]:
        pool = [s for s in state.pool[: int(state.run["pool_end"][0])].tolist() if s >= 0]
        if self.victims:
            return self.names.index(self.victims.pop(0)), 0.0
        if not self.scores:
            for s in pool:
                compiled.refresh().function(program, state, s)
                self.scores[self.names[s]] = float(self.heuristic.function(state, s))
        return pool[-1], 0.0


def scores_of(trace: Trace, name: str, budget: int, victims: str) -> Scores:
    """What a heuristic says of the pool once the scripted victims are gone, in pool order."""
    heuristic = heuristics.get(name)
    script = Script(trace, heuristic, victims)
    needs = heuristic.needs_bits
    settings = Settings(budget, DEALLOCATIONS.index("eager"), needs=needs, upkeep=needs & 7)
    asking = compiled.choose(choosing.make_asking_choose(), "in_python", cached=True)
    Run(workload(trace).program, settings).finish(Chooser(asking, script))
    return script.scores


def test_every_heuristic_has_its_formula_here() -> None:
    """A new one needs a row; h_rand has no score, and the MegEngine formula its own test."""
    tested = {name.partition("(")[0] for name in EXPECTED} | set(grid())
    assert tested | {"h_rand", "h_MegEngine"} == set(heuristics.names())


@pytest.mark.parametrize("name", [*EXPECTED, *grid()])
def test_formula_gives_what_the_pencil_gives(name: str) -> None:
    """To the last bit, where there is no power in it; in the order of the pool."""
    expected = {**EXPECTED, **grid()}[name]
    found = scores_of(drawn_trace(), name, 26, "dcg")
    assert list(found) == ["h", "a", "k", "c"]
    assert found == pytest.approx(expected, rel=1e-14, abs=0)


def test_formula_of_megengine() -> None:
    """(cost + 1 us) 1.5^(rematerializations) over MiB and (staleness + 1 us), in ms."""
    mebibyte = 1 << 20
    expected = {
        "h": (31e-6 + 1e-3) / (5 / mebibyte * (41e-6 + 1e-3)),
        "a": (3e-6 + 1e-3) / (4 / mebibyte * (24e-6 + 1e-3)),
        "k": inf,
        "c": (23e-6 + 1e-3) * 1.5 / (6 / mebibyte * (24e-6 + 1e-3)),
    }
    assert scores_of(drawn_trace(), "h_MegEngine", 26, "dcg") == pytest.approx(expected, rel=1e-12)
    powers = "h_MegEngine(cost_power=2,size_power=0,time_power=0.5,remat_penalty=3)"
    expected = {
        "h": (31e-6 + 1e-3) ** 2 / sqrt(41e-6 + 1e-3),
        "a": (3e-6 + 1e-3) ** 2 / sqrt(24e-6 + 1e-3),
        "k": (19e-6 + 1e-3) ** 2 / sqrt(1e-3),
        "c": (23e-6 + 1e-3) ** 2 * 3 / sqrt(24e-6 + 1e-3),
    }
    assert scores_of(drawn_trace(), powers, 26, "dcg") == pytest.approx(expected, rel=1e-12)


def two_steps() -> Trace:
    """Two steps of a = f(x), b = f(x), p = g(b), q = g(a); p takes longer in the second, and room.

    a 10, b 20, p 30 (then 60), q 40 ns; everything is one byte, the second p two.
    """
    builder = TraceBuilder("two steps")
    builder.constant("x", 1)
    for step, p_ns, p_bytes in (("1", 30, 1), ("2", 60, 2)):
        for name, time in (("a", 10), ("b", 20)):
            builder.call("f", ["x"], [(name + step, 1, -1)], time, phase=PHASE_FORWARD)
        for name, operand, time, size in (("p", "b", p_ns, p_bytes), ("q", "a", 40, 1)):
            phase = PHASE_BACKWARD
            builder.call("g", [operand + step], [(name + step, size, -1)], time, phase=phase)
            builder.release(operand + step)
            builder.release(name + step)
    return builder.build()


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("h_last_step", 10 / 30),
        ("h_last_step(exponent=2)", 10 / 30**2),
        ("h_last_step_hybrid", 10 / sqrt(20 * 30)),
        ("h_last_step_hybrid(weight=1)", 10 / 30),
        ("h_next_use_hybrid(weight=0)", 10 / 20),
        ("h_next_use", 10 / 60),
        ("h_next_use_hybrid", 10 / sqrt(20 * 60)),
        ("h_DTR_eq", 10 / 20),
    ],
)
def test_last_step_knows_what_the_step_before_did(name: str, score: float) -> None:
    """When p2 asks for room within 4 bytes, only a2 can go; it was accessed 20 ns before.

    From p1 on, a1 was used after 30 ns, by q1; a2 will be after 60, which is not known yet.
    """
    assert scores_of(two_steps(), name, 4, "") == {"a2": score}
