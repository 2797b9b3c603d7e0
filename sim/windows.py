"""Kernels: Coop's choice of victims: the window of addresses that is cheapest to evict.

When no hole is large enough, two pointers move over the pieces of the arena by address: every
window of neighbors that has the bytes asked for, and holds nothing that is locked or pinned, is
looked at; all that lies in the cheapest one is evicted, and merges into one hole (Zhang et al.,
NeurIPS 2023). The cost of a window is the sum of its storages' scores; free pieces cost nothing.

The caching allocator's memory is many stretches, its segments: there a window lies in one segment
of the pool that serves the request. Where none has such a window, room may still be made, as
segments that are empty go back to the device; so one storage goes, by score over size.
"""

from __future__ import annotations

from collections.abc import Callable

from . import caching, segments
from .arena import MAIN, SMALL, SMALL_OBJECT, allocate, free
from .choosing import INFINITY, Choose, Score, bring_up_to_date
from .classes import look_up_call
from .engine import NAN_SCORE, NO_WINDOW
from .jit import kernel, shared_kernel
from .pool import HOLE
from .program import Program
from .serving import asked_bytes
from .space import FREE, HEAD, NONE, SCRATCH
from .state import NEEDS_CALL, NEEDS_CLASSES, State

Value = Callable[[Program, State, int, float], float]
Search = Callable[[Program, State, int, int, float], tuple[int, int, float]]


@shared_kernel
def place_again(program: Program, state: State, c: int) -> int:
    """Place what of a call found a place before one thing did not; give the place of that one."""
    i = 0
    while True:
        size = asked_bytes(program, state, c, i)
        p = allocate(state, size, state.sides[c]) if size > 0 else NONE
        state.placed[i].piece = p
        if p != NONE:
            state.pieces[p].storage = SCRATCH
        elif size > 0:
            return i
        i += 1


@shared_kernel
def take_back(state: State, count: int) -> None:
    """Free those places."""
    for i in range(count):
        if state.placed[i].piece != NONE:
            free(state, state.placed[i].piece)


@kernel
def sum_backward(state: State, begin: int, end: int) -> None:
    """Let the scores of a stretch be the sums from each to its end."""
    total = 0.0
    for i in range(end - 1, begin - 1, -1):
        total += state.scores[i]
        state.scores[i] = total


@kernel
def count_search(state: State, steps: int, scored: int) -> None:
    """Count the pieces that a search looked at, and the scores that it asked for."""
    run = state.run[0]
    run.search_steps += steps
    run.evaluations += scored
    run.metadata_accesses += scored


@kernel
def name_victims(state: State, first: int, end: int) -> int:
    """Write down what lies in the pieces from one to before another; count it."""
    count, p = 0, first
    while p != end:
        if state.pieces[p].storage != FREE:
            state.victims[count] = state.pieces[p].storage
            count += 1
        p = state.pieces[p].after
    return count


def _make_search(score: Score, needs: int, counts: bool) -> tuple[Value, Search]:
    """Make the kernels that score a storage, and that find the cheapest window of an area.

    Notes
    -----
    For each last piece the window is the shortest that has the bytes; of equally cheap ones the
    lowest by address is taken. So neither end can be left out, unless it costs nothing. A sum is
    only ever added to: of the stretch of ``State.scores`` that is the window, the part up to
    ``middle`` holds sums to that place, and what lies behind is in ``rest``; so infinite scores do
    no harm, and rounding is that of the window's own scores. Each piece is summed up twice at most.

    A storage that alone scores more than the cheapest window so far is in none that is cheaper: it
    ends all windows as a locked one does. Most are such, and seen to be by their own cost.
    """

    @kernel
    def value_of(program: Program, state: State, s: int, lowest: float) -> float:
        """Score a storage, or bound its score from below if that is enough to be above another."""
        if needs & ~(NEEDS_CALL | NEEDS_CLASSES):
            bring_up_to_date(program, state, s)
        if not needs & NEEDS_CALL:
            return score(state, s)
        state.run[0].call_ns = 0
        value = score(state, s)
        if value > lowest and not counts:
            return value
        hold = state.holds[s]
        if hold.evicted_neighbors == 0 and not hold.has_siblings:
            return value  # nothing around it is evicted
        look_up_call(program, state, s)
        return score(state, s)

    @kernel
    def search(
        program: Program, state: State, area: int, wanted: int, lowest: float
    ) -> tuple[int, int, float]:
        """Find the cheapest window of an area: first piece, the one after the last, and cost."""
        found, found_end = NONE, NONE
        first = p = state.pieces[area].after
        begin = middle = end = size = steps = scored = 0
        rest = 0.0
        while True:
            s, after = state.pieces[p].storage, state.pieces[p].after
            if s == HEAD:
                break
            steps += 1
            # A free piece that has the bytes, and yet did not serve, makes no window either.
            value, is_barred = 0.0, s != FREE or state.pieces[p].size_bytes >= wanted
            if s >= 0:
                is_barred = state.storages[s].pool_slot < 0
                if not is_barred:
                    scored += 1
                    value = value_of(program, state, s, lowest)
                    if value != value:
                        return NONE, NONE, value
                    is_barred = value > lowest
            if is_barred:
                p = first = after
                begin, middle, end, size, rest = 0, 0, 0, 0, 0.0
                continue
            state.scores[end] = value
            end, rest = end + 1, rest + value
            size += state.pieces[p].size_bytes
            while size - state.pieces[first].size_bytes >= wanted:
                size -= state.pieces[first].size_bytes
                first = state.pieces[first].after
                if begin == middle:
                    sum_backward(state, begin, end)
                    middle, rest = end, 0.0
                begin += 1
            if size >= wanted:
                cost = rest + (state.scores[begin] if begin < middle else 0.0)
                if cost < lowest or (found == NONE and cost == lowest):
                    found, found_end, lowest = first, after, cost
            p = after
        count_search(state, steps, scored)
        return found, found_end, lowest

    return value_of, search


def make_window_choose(score: Score, needs: int, counts: bool) -> Choose:
    """Make the `choose` that evicts the cheapest window of an arena.

    Parameters
    ----------
    score : callable
        ``(state, s) -> float``, inlined: never negative, may be infinite, and no less for more
        that is evicted.
    needs : int
        What it reads (``state.NEEDS``): with ``classes`` also ``call``, or none of both.
    counts : bool
        Whether all that a plain search looks at is to be looked at, and counted.
    """
    _, search = _make_search(score, needs, counts)

    def choose(program: Program, state: State, call: int) -> int:
        placed = place_again(program, state, call)  # no window may be made of their places
        wanted = state.space[0].wanted_bytes
        first, end, cost = search(program, state, MAIN, wanted, INFINITY)
        if wanted <= SMALL_OBJECT and cost == cost:
            small, small_end, small_cost = search(program, state, SMALL, wanted, cost)
            if small != NONE and (first == NONE or small_cost < cost):
                first, end = small, small_end
            cost = small_cost
        count = name_victims(state, first, end) if first != NONE else NO_WINDOW
        take_back(state, placed)
        if cost != cost:
            return NAN_SCORE
        state.run[0].score = cost
        return count

    return choose


def make_segment_choose(score: Score, needs: int, counts: bool) -> Choose:
    """Make the `choose` that evicts the cheapest window of a segment; else the cheapest storage.

    Parameters
    ----------
    score, needs, counts
        As for `make_window_choose`.
    """
    value_of, search = _make_search(score, needs, counts)

    @kernel
    def cheapest_alone(program: Program, state: State) -> int:
        """Name the storage that scores least for its bytes: 1, or that a score is no number."""
        run, lowest, victim = state.run[0], INFINITY, NONE
        for i in range(run.pool_end):
            s = state.pool[i]
            if s == HOLE:
                continue
            value = value_of(program, state, s, INFINITY)
            if value != value:
                return NAN_SCORE
            size = state.storages[s].size_bytes
            value = value / size if size > 0 else INFINITY
            if value <= lowest:
                lowest, victim = value, s
        run.search_steps += run.pool_count
        run.evaluations += run.pool_count
        run.metadata_accesses += run.pool_count
        state.victims[0], run.score = victim, lowest
        return 1

    def choose(program: Program, state: State, call: int) -> int:
        wanted = caching.rounded(state, state.space[0].wanted_bytes)
        pool = segments.SMALL if wanted <= caching.SMALL_REQUEST else segments.LARGE
        first, end, cost = NONE, NONE, INFINITY
        head = state.pieces[segments.CHAIN].right
        while head != segments.CHAIN:
            if state.pieces[head].area == pool:
                found, found_end, found_cost = search(program, state, head, wanted, cost)
                if found_cost != found_cost:
                    return NAN_SCORE
                if found != NONE and (first == NONE or found_cost < cost):
                    first, end, cost = found, found_end, found_cost
            head = state.pieces[head].right
        if first == NONE:
            return cheapest_alone(program, state)
        state.run[0].score = cost
        return name_victims(state, first, end)

    return choose
