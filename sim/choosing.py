"""Kernels: how a victim is chosen. Factories of `choose`, which the engine calls by pointer.

``choose(program, state, call)`` writes victims into ``State.victims`` and returns how many. The
fast scan and the plain one pick the same storage: lowest score, ties to the one that entered the
pool last, a score of exactly 0 ends the search (docs/semantics.md, 4).
"""

from __future__ import annotations

from collections.abc import Callable

from . import classes, neighborhood
from .engine import ASK_PYTHON, NAN_SCORE
from .jit import call_at, kernel, shared_kernel
from .nextuse import look_ahead, look_back
from .pool import HOLE, tidy
from .program import Program
from .randomness import draw_below
from .state import (
    NEEDS_ANCESTORS,
    NEEDS_CALL,
    NEEDS_CLASSES,
    NEEDS_DESCENDANTS,
    NEEDS_LAST_STEP,
    NEEDS_NEXT_USE,
    NEEDS_SET,
    REVIVED,
    State,
)

Score = Callable[[State, int], float]
Choose = Callable[[Program, State, int], int]
INFINITY = float("inf")
MANY_MISSES = 4  # bounds that were not exact, till a heap of what may yet win pays
BOUNDED = NEEDS_ANCESTORS | NEEDS_DESCENDANTS | NEEDS_CLASSES  # kept as lower bounds


def refresh(program: Program, state: State, s: int) -> int:
    """Bring up to date, and make exact, what the score of one storage reads.

    An entry point of its own, called by its address: walks are most of what there is to compile,
    and are the same for all heuristics.
    """
    needs = state.run[0].needs
    if needs & (NEEDS_ANCESTORS | NEEDS_DESCENDANTS):
        neighborhood.make_exact(program, state, s, needs)
    if needs & NEEDS_CLASSES:
        classes.look_up(program, state, s)
    if needs & NEEDS_CALL:
        classes.look_up_call(program, state, s)
    if needs & NEEDS_SET:
        neighborhood.reach_set(program, state, s)
    if needs & NEEDS_NEXT_USE:
        look_ahead(program, state, s)
    if needs & NEEDS_LAST_STEP:
        look_back(program, state, s)
    return s


@kernel
def bring_up_to_date(program: Program, state: State, s: int) -> None:
    """Call `refresh`."""
    call_at(state.run[0].refresh, program, state, s)


@kernel
def walk_afresh(program: Program, state: State, s: int) -> None:
    """Do the same as the plain algorithm does it: nothing is taken from a cache."""
    state.storages[s].ancestors_at = -1
    state.storages[s].descendants_at = -1
    bring_up_to_date(program, state, s)


@kernel
def take(state: State, s: int, score: float) -> int:
    """Answer with one victim, after a look at the whole pool."""
    run = state.run[0]
    run.search_steps += run.pool_count
    state.victims[0] = s
    run.score = score
    return 1


def make_fast_choose(
    score: Score, needs: int, is_monotone: bool, misses_often: bool = False
) -> Choose:
    """Scan the pool; where the score grows with the neighborhood, look closely only at winners.

    Parameters
    ----------
    score : callable
        ``(state, s) -> float``, inlined.
    needs : int
        What it reads (``state.NEEDS``).
    is_monotone : bool
        Whether a lower bound of a neighborhood's cost gives a lower bound of the score.
    misses_often : bool
        Whether many bounds are not exact: then a heap of what may yet win pays.
    """
    if is_monotone and needs & BOUNDED and not needs & NEEDS_SET:
        return _make_bounding_choose(score, needs, misses_often)

    def choose(program: Program, state: State, call: int) -> int:
        tidy(state)
        run, pool = state.run[0], state.pool
        lowest, victim = INFINITY, -1
        for i in range(run.pool_end):
            s = pool[i]
            if s == HOLE:
                continue
            if needs:
                bring_up_to_date(program, state, s)
            value = score(state, s)
            if value == 0.0:
                return take(state, s, 0.0)
            if value <= lowest:
                lowest, victim = value, s
            elif value != value:
                return NAN_SCORE
        return take(state, victim, lowest)

    return choose


@kernel
def lowest_of(state: State, end: int) -> int:
    """Find the last of the lowest values of a scan; -1 if there is none."""
    pool, scores = state.pool, state.scores
    lowest, place = INFINITY, -1
    for i in range(end):
        if scores[i] <= lowest and pool[i] != HOLE:
            lowest, place = scores[i], i
    return place


@kernel
def goes_before(state: State, one: int, other: int) -> bool:
    """Say whether a place of a scan has the lower value; of equals, the later one."""
    scores = state.scores
    return bool(scores[one] < scores[other] or (scores[one] == scores[other] and one > other))


@shared_kernel
def sink(state: State, k: int, count: int) -> None:
    """Let an entry of the heap of places in ``victims`` sink to where it belongs."""
    heap = state.victims
    while 2 * k + 1 < count:
        child = 2 * k + 1
        if child + 1 < count and goes_before(state, heap[child + 1], heap[child]):
            child += 1
        if not goes_before(state, heap[child], heap[k]):
            return
        heap[k], heap[child] = heap[child], heap[k]
        k = child


@shared_kernel
def heap_up_to(state: State, end: int, most: float) -> None:
    """Make a heap of the places of a scan's values of at most so much; its length stands last."""
    pool, scores, heap, count = state.pool, state.scores, state.victims, 0
    for i in range(end):
        if scores[i] <= most and pool[i] != HOLE:
            heap[count] = i
            count += 1
    for k in range(count // 2 - 1, -1, -1):
        sink(state, k, count)
    heap[len(heap) - 1] = count


@kernel
def forget_heap(state: State) -> None:
    """Begin to count misses: where the heap's length stands later, from below zero."""
    state.victims[len(state.victims) - 1] = -MANY_MISSES


@kernel
def begin_scan(state: State) -> int:
    """Make pool and heap ready for a scan; give the pool's end."""
    tidy(state)
    forget_heap(state)
    return state.run[0].pool_end  # type: ignore[no-any-return]


@kernel
def lowest_afresh(state: State, end: int) -> int:
    """Find what `lowest_of` does, after many values have changed."""
    forget_heap(state)
    return lowest_of(state, end)


@kernel
def lowest_left(state: State, end: int, risen: float) -> int:
    """Find what `lowest_of` does, after the value of the lowest has risen to so much."""
    heap = state.victims
    last = len(heap) - 1
    if heap[last] > 0:
        sink(state, 0, heap[last])
        return heap[0]  # type: ignore[no-any-return]
    heap[last] += 1
    if heap[last] < 0:
        return lowest_of(state, end)
    heap_up_to(state, end, risen)
    return heap[0]  # type: ignore[no-any-return]


def _make_bounding_choose(score: Score, needs: int, misses_often: bool) -> Choose:
    """Score by lower bounds, then make exact the lowest, until the lowest is exact.

    What scores more by its bound than another does exactly is out of it: after some misses, where
    there are often many, a heap is made of the rest.
    """
    has_classes = needs & NEEDS_CLASSES
    looks_ahead, looks_back = needs & NEEDS_NEXT_USE, needs & NEEDS_LAST_STEP  # not bounded

    def choose(program: Program, state: State, call: int) -> int:
        end = begin_scan(state)
        run, pool, scores = state.run[0], state.pool, state.scores
        must_be_exact = has_classes and run.class_floor_ns < 0
        lowest, place = INFINITY, -1
        for i in range(end):
            s = pool[i]
            if s == HOLE:
                continue
            if must_be_exact or state.storages[s].residence == REVIVED:  # its sums are no bounds
                bring_up_to_date(program, state, s)
            if looks_ahead:
                look_ahead(program, state, s)
            if looks_back:
                look_back(program, state, s)
            value = score(state, s)
            scores[i] = value
            if value <= lowest:
                lowest, place = value, i
            elif value != value:
                return NAN_SCORE
        while True:
            if scores[place] <= 0.0:
                for i in range(end):  # the first that is exactly 0 ends the search
                    if scores[i] > 0.0 or pool[i] == HOLE:
                        continue
                    bring_up_to_date(program, state, pool[i])
                    scores[i] = score(state, pool[i])
                    if scores[i] == 0.0:
                        return take(state, pool[i], 0.0)
                    if scores[i] != scores[i]:
                        return NAN_SCORE
                place = lowest_afresh(state, end)
            bring_up_to_date(program, state, pool[place])
            value = score(state, pool[place])
            if value == scores[place]:
                return take(state, pool[place], value)
            if value != value:
                return NAN_SCORE
            scores[place] = value
            place = lowest_left(state, end, value) if misses_often else lowest_of(state, end)

    return choose


def make_plain_choose(score: Score, needs: int) -> Choose:
    """Scan as the plain algorithm does, walking afresh for each score, and count the work."""

    def choose(program: Program, state: State, call: int) -> int:
        run = state.run[0]
        lowest, victim = INFINITY, -1
        for i in range(run.pool_end):
            s = state.pool[i]
            if s == HOLE:
                continue
            if needs:
                walk_afresh(program, state, s)
            run.evaluations += 1
            run.metadata_accesses += 1
            value = score(state, s)
            if value == 0.0:
                return take(state, s, 0.0)
            if value <= lowest:
                lowest, victim = value, s
            elif value != value:
                return NAN_SCORE
        return take(state, victim, lowest)

    return choose


def make_sampling_choose(score: Score, needs: int, samples: bool, least: float) -> Choose:
    """Scan a part of the pool: the two shortcuts of the DTR prototype.

    Parameters
    ----------
    score, needs
        As for `make_fast_choose`.
    samples : bool
        Walk the pool with random strides of 1 to floor(sqrt(n)).
    least : float
        Pass over storages without bytes or below this part of the mean size of all seen so far,
        while there are others; 0 passes over none.
    """

    def choose(program: Program, state: State, call: int) -> int:
        run = state.run[0]
        floor = least * run.created_bytes / max(run.created_storages, 1)
        for is_second in range(2):
            lowest, victim = INFINITY, -1
            stride = int(float(run.pool_count) ** 0.5)
            skip = draw_below(state, stride) if samples else 0
            for i in range(run.pool_end):
                s = state.pool[i]
                if s == HOLE:
                    continue
                size = state.storages[s].size_bytes
                if least > 0 and not is_second and (size < floor or size == 0):
                    continue
                if skip > 0:
                    skip -= 1
                    continue
                skip = draw_below(state, stride) if samples else 0
                if needs:
                    walk_afresh(program, state, s)
                run.evaluations += 1
                run.metadata_accesses += 1
                value = score(state, s)
                if value == 0.0:
                    return take(state, s, 0.0)
                if value <= lowest:
                    lowest, victim = value, s
                elif value != value:
                    return NAN_SCORE
            if victim >= 0:
                break
        return take(state, victim, lowest)

    return choose


def make_random_choose() -> Choose:
    """Take any storage of the pool, each with the same chance."""

    def choose(program: Program, state: State, call: int) -> int:
        run = state.run[0]
        run.evaluations += run.pool_count
        run.metadata_accesses += run.pool_count
        left = draw_below(state, run.pool_count)
        for i in range(run.pool_end):
            if state.pool[i] != HOLE:
                if left == 0:
                    return take(state, state.pool[i], 0.0)
                left -= 1
        return ASK_PYTHON  # not reached: the pool is not empty

    return choose


def make_asking_choose() -> Choose:
    """Leave the choice to Python: for heuristics that cannot be compiled."""

    def choose(program: Program, state: State, call: int) -> int:
        return ASK_PYTHON

    return choose
