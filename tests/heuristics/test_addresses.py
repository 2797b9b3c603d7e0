"""Methods of addresses: valid, never below the maximum load, and the lowest on small sets."""

from __future__ import annotations

import time

import numpy as np
import pytest
from random_buffers import least_height, random_buffers, reference_buffers
from rematsim.addressing import Addressed, plan_addresses
from rematsim.buffers import Buffers, check_plan, max_load
from rematsim.errors import UnknownNameError
from rematsim.heuristics.addresses import METHODS, Search, fits
from rematsim.heuristics.static.clock import Clock
from rematsim.placing import FIRST_FIT

SEARCHES = ("auto", "first-fit", "best-fit", "reordering", "stacking")
SECONDS = 2.0


def plan(
    buffers: Buffers, method: str = "auto", seconds: float = SECONDS, **given: int
) -> Addressed:
    """Plan, and hold what is told against the plan."""
    found = plan_addresses(buffers, method, time_limit=seconds, **given)
    check_plan(found.plan)
    assert found.max_load == max_load(buffers) <= found.bound <= found.height
    return found


@pytest.mark.parametrize("method", SEARCHES)
def test_plans_of_random_sets_are_valid_and_not_below_the_load(method: str) -> None:
    for seed in range(12):
        plan(random_buffers(seed, 1 + 3 * seed, time=20, aligns=seed % 2 == 1), method)


@pytest.mark.parametrize("method", ["auto", "stacking"])
def test_small_sets_have_the_lowest_plan_and_the_proof(method: str) -> None:
    """Against every order."""
    above_load = 0
    for seed in range(60):
        buffers = random_buffers(seed, 6, time=5, aligns=seed % 3 == 0)
        found = plan(buffers, method, 60.0)
        assert found.height == least_height(buffers), seed
        assert found.status == "optimal"
        above_load += found.height > found.max_load
    assert above_load > 5


def test_the_constraint_program_has_the_lowest_plan_too() -> None:
    pytest.importorskip("ortools")
    for seed in range(12):
        buffers = random_buffers(seed, 6, time=5, aligns=seed % 3 == 0)
        found = plan(buffers, "cp-sat", 60.0)
        assert (found.height, found.status) == (least_height(buffers), "optimal"), seed


def test_a_hole_that_only_a_later_one_fits() -> None:
    """Worked by hand: a long thin buffer has to be at an edge, or what follows is split.

    Two of 4 bytes live one after the other, of 2 bytes one lives all the time: in the order of
    time, it comes on top of the first and stands in the middle of the 8 bytes that come last.
    """
    buffers = Buffers.of([0, 1, 3], [2, 4, 4], [4, 2, 4])
    found = plan(buffers, "first-fit")
    assert (found.max_load, found.height) == (6, 6)
    assert sorted(found.plan.address.tolist()) in ([0, 0, 4], [0, 2, 2])


def test_where_the_load_cannot_be_reached_that_is_proven() -> None:
    """Alignment 4 for sizes of 3 that live together: 0-3, 4-7; the load is 6."""
    buffers = Buffers.of([0, 0], [1, 1], [3, 3], alignment=[4, 4])
    found = plan(buffers)
    assert (found.max_load, found.height, found.status, found.bound) == (6, 7, "optimal", 7)


def test_the_same_request_has_the_same_answer() -> None:
    buffers = random_buffers(3, 60, time=40)
    for method in ("first-fit", "best-fit", "stacking"):
        first, second = (plan(buffers, method, 60.0, seed=7) for _ in range(2))
        assert first.plan.address.tolist() == second.plan.address.tolist()


def test_a_capacity_is_enough_and_stops_the_search() -> None:
    buffers = random_buffers(5, 50, time=30)
    found = plan(buffers, capacity=10 * max_load(buffers))
    assert found.fits and found.status in ("feasible", "optimal")
    small = plan(buffers, capacity=max_load(buffers) - 1)
    assert (small.fits, small.status) == (False, "infeasible")
    assert "do not fit in" in small.message


def test_nothing_and_empty_buffers_have_plans() -> None:
    for method in SEARCHES:
        assert plan(Buffers.of([], [], []), method).height == 0
        found = plan(Buffers.of([0, 0], [2, 2], [0, 0]), method)
        assert (found.height, found.ratio, found.gap, found.status) == (0, 1.0, 0.0, "optimal")


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean first-fit\?"):
        plan_addresses(Buffers.of([0], [1], [1]), "first_fit")
    assert set(SEARCHES) | {"cp-sat"} == set(METHODS)


@pytest.mark.parametrize("method", SEARCHES)
def test_without_time_the_plan_is_that_in_the_order_of_time(method: str) -> None:
    """Worked by hand: a and b live together, c with b: it takes a's place.

    By size, c and a would be at 0 likewise; in time, the thin b is below the large d.
    """
    buffers = Buffers.of([0, 1, 2, 3], [2, 4, 4, 5], [4, 2, 4, 9])
    assert plan(buffers, method, 1e-9).plan.address.tolist() == [0, 4, 0, 6]
    assert len(plan(random_buffers(1, 300, time=60, aligns=True), method, 1e-9).plan.address) == 300


def test_a_fit_looks_at_the_clock_while_it_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of ten, and then of one, as each looks at all before: 10 and 1 at the third look."""
    buffers = random_buffers(0, 30, time=20)
    monkeypatch.setattr(fits, "FIRST_TURN", 10)
    monkeypatch.setattr(fits, "TURN", 10)
    monkeypatch.setattr(Clock, "is_over", property(lambda clock: next(looks)))
    here, looks = fits.placing(buffers), iter([False, False, True])
    here.trial[:] = range(30)
    search = Search(buffers, clock=Clock())
    assert not fits.place_all(search, fits.arrays(buffers), here, FIRST_FIT)
    assert here.run[0].placed == 11


def test_the_plan_of_last_resort_takes_no_longer_where_much_lives_together() -> None:
    """All of 100,000 live at once; by pairs, that takes a minute. Empty ones are among them."""
    lower = np.arange(100_000)
    size = np.random.default_rng(0).integers(0, 1000, 100_000)
    buffers = Buffers.of(lower, lower + 100_000, size, alignment=1 + lower % 2)
    plan_addresses(buffers.part(lower[:2]))  # compiles
    before = time.process_time()
    found = plan_addresses(buffers, time_limit=1e-9)
    assert time.process_time() - before < 5
    assert found.ratio < 1.01


def test_many_buffers_have_a_plan() -> None:
    """More than the tree search takes."""
    draw = np.random.default_rng(0)
    lower = draw.integers(0, 5000, 4000)
    buffers = Buffers.of(lower, lower + draw.integers(1, 300, 4000), draw.integers(1, 1000, 4000))
    found = plan_addresses(buffers, time_limit=1)
    assert found.ratio < 1.1


@pytest.mark.parametrize("name", ["B", "C", "F", "G", "K"])
def test_sets_of_the_literature_fit_in_their_capacity(name: str) -> None:
    buffers = reference_buffers(f"minimalloc_{name}")
    found = plan_addresses(buffers, capacity=1_048_576, time_limit=60)
    assert found.fits


def test_a_training_graph_is_near_its_load() -> None:
    assert plan_addresses(reference_buffers("somas_resnet50"), "first-fit").ratio < 1.02
