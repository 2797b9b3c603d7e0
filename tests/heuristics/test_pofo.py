"""POFO: rotor where nothing can go to the host, the model's own time where going costs nothing."""

from __future__ import annotations

import math
import random
from dataclasses import fields
from itertools import product
from typing import Any

import pytest
from rematsim.heuristics.static.pofo_chain import PofoTable, Rates
from rematsim.heuristics.static.rotor_chain import BACKWARD, FORWARD, FORWARD_ALL, Chain, RotorTable
from rematsim.offloaded_chains import choose_entry
from rematsim.planning import plan_trace
from rematsim.traces.loading import load_trace

NO_WAY, AT_ONCE = Rates(math.inf, math.inf), Rates(0.0, 0.0)
MEMORY = 40


def random_chain(seed: int) -> Chain:
    """Stages of random times and sizes, with something there only while a step runs."""
    draw = random.Random(seed)
    n = draw.randint(1, 9)
    sizes = [draw.randint(1, 4) for _ in range(n + 1)]
    times = [[draw.randint(1, 9) for _ in range(n)] for _ in range(2)]
    extra = [[draw.randint(0, 3) for _ in range(n)] for _ in range(2)]
    record = [size + draw.randint(0, 4) for size in sizes[1:]]
    return Chain(*times, sizes, record, sizes, *extra)


def largest_step(chain: Chain) -> int:
    """What the largest step of a stage needs, its input included, if the stage keeps all."""
    n = len(chain.forward)
    return max(
        chain.output[i]
        + chain.record[i]
        + max(
            chain.gradient[n] + chain.forward_extra[i],
            chain.gradient[i] + chain.gradient[i + 1] + chain.backward_extra[i],
        )
        for i in range(n)
    )


@pytest.mark.parametrize("seed", range(25))
def test_without_a_way_to_the_host_it_is_rotor(seed: int) -> None:
    """To the last digit, at every memory; and so are the steps' times."""
    chain = random_chain(seed)
    table, rotor = PofoTable(chain, MEMORY, MEMORY, NO_WAY), RotorTable(chain, MEMORY, MEMORY)
    spent = {FORWARD: chain.forward, FORWARD_ALL: chain.forward, BACKWARD: chain.backward}
    for memory in range(MEMORY + 1):
        plan = table.plan(memory)
        assert table.time(memory) == rotor.time(memory)
        assert (plan is None) == math.isinf(rotor.time(memory))
        if plan is not None:
            assert sum(spent[what][stage] for what, stage in plan.steps) == rotor.time(memory)
            assert not plan.away


@pytest.mark.parametrize("seed", range(25))
def test_where_copies_take_no_time_nothing_is_lost(seed: int) -> None:
    """At every memory in which the largest step fits, and in which rotor has a schedule."""
    chain = random_chain(seed)
    table, rotor = PofoTable(chain, MEMORY, MEMORY, AT_ONCE), RotorTable(chain, MEMORY, MEMORY)
    own = sum(chain.forward) + sum(chain.backward)
    for memory in range(MEMORY + 1):
        if memory >= largest_step(chain):
            assert table.time(memory) == own
        assert own <= table.time(memory) <= rotor.time(memory)


@pytest.mark.parametrize("seed", range(10))
def test_more_memory_and_a_faster_link_never_cost_time(seed: int) -> None:
    chain = random_chain(seed)
    rates = [NO_WAY, Rates(4.0, 4.0), Rates(1.0, 1.0), Rates(0.5, 0.5), AT_ONCE]
    tables = [PofoTable(chain, MEMORY, MEMORY, rate) for rate in rates]
    for memory in range(MEMORY + 1):
        times = [table.time(memory) for table in tables]
        assert times[0] >= max(times[1:]) and min(times) == times[-1]
        assert all(table.time(memory) <= table.time(memory - 1) for table in tables if memory)


@pytest.mark.parametrize("seed", range(10))
def test_every_stage_is_differentiated_once_in_reverse(seed: int) -> None:
    """And what goes to the host was made before, each once."""
    chain = random_chain(seed)
    plan = PofoTable(chain, MEMORY, MEMORY, Rates(1.0, 2.0)).plan(largest_step(chain) + 2)
    assert plan is not None
    order = [stage for what, stage in plan.steps if what == BACKWARD]
    assert order == list(range(len(chain.forward)))[::-1]
    assert plan.away == sorted(set(plan.away))


@pytest.mark.parametrize("seed", range(6))
def test_a_row_has_what_looking_at_each_of_its_states_finds(seed: int) -> None:
    """Segments that are left out of a row, as they cannot be faster, are not left out there."""
    draw, slots = random.Random(seed), 12
    rates = Rates(draw.choice([0.0, 0.5, 3.0]), draw.choice([0.0, 0.4, 2.0]))
    table = PofoTable(random_chain(seed), MEMORY, slots, rates)
    here: Any = table.times.here
    first = 0
    for row, pinned in product(range(2 * table.n), range(slots + 1)):
        width = slots - pinned + 1
        for leaving, coming in product(range(width), range(width)):
            here["stage"], here["form"] = divmod(row, 2)
            here["pinned"], here["leaving"] = pinned, leaving
            choose_entry().function(table.arrays, table.times, coming)
            found = table.times.choice["time"][0]
            assert found == table.times.time[first + leaving * width + coming]
        first += width * width


def test_what_comes_back_late_is_waited_for() -> None:
    """Two equal stages, and one unit too little memory for the second's backward step.

    One unit of the first's record is awaited after that, or the first stage runs again.
    """
    chain = Chain([4, 4], [4, 4], [0, 1, 1], [3, 3], [0, 1, 1])
    assert PofoTable(chain, 7, 7, AT_ONCE).time(7) == 16
    assert PofoTable(chain, 7, 7, Rates(1.0, 1.0)).time(7) == 17
    assert PofoTable(chain, 7, 7, Rates(3.0, 3.0)).time(7) == 19
    assert PofoTable(chain, 7, 7, NO_WAY).time(7) == 20


@pytest.mark.parametrize("link", ["none", "link(d2h=0,h2d=1GB/s)", "link(d2h=inf,h2d=inf,host=0)"])
@pytest.mark.parametrize("name", ["synthetic:chain:30", "bundled:lstm"])
def test_plans_where_nothing_can_move_are_rotors(name: str, link: str) -> None:
    """And so is all that is told of them, but names and seconds; of views too."""
    trace, own = load_trace(name), {"method", "link", "plan_sha"}
    for budget in (0.25, 0.6):
        found, rotor = (plan_trace(trace, m, budget, link=link).row for m in ("pofo", "rotor"))
        differ = {
            field.name
            for field in fields(rotor)
            if field.compare and getattr(found, field.name) != getattr(rotor, field.name)
        }
        assert {name for name in differ if not name.endswith("seconds")} <= own


@pytest.mark.parametrize("rate", ["30MB/s", "300MB/s", "inf"])
@pytest.mark.parametrize("name", ["synthetic:transformer:2", "bundled:resnet32"])
def test_it_never_loses_to_what_it_combines(name: str, rate: str) -> None:
    trace, link = load_trace(name), f"link(d2h={rate},h2d={rate},latency=0)"
    rows = {
        method: plan_trace(trace, method, 0.4, link=link).row
        for method in ("rotor", "offload-all", "pofo")
    }
    found = rows.pop("pofo")
    others = [row.slowdown for row in rows.values() if row.slowdown is not None]
    assert found.slowdown is not None and found.slowdown <= min(others)
    if rate == "inf":
        assert found.slowdown == 1.0
