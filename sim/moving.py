"""Kernels: data that a heuristic moves between device and host (docs/semantics.md, 8).

A copy begins when its stream is free, has its bytes where it goes from then on, and takes a time
known then: nothing stands in a queue, and nobody waits for what never comes. A storage that is on
the host alone stays resident to all that looks for what has to be computed again.

What is copied ahead is decided at every call, so that little may be looked at: what is used first
of what is away is known until that changes, and what was not worth saving is not looked at again.
"""

from __future__ import annotations

from .events import NOTHING, count_eviction, log
from .jit import inlineable, kernel, shared_kernel
from .neighborhood import UP, reach
from .nextuse import next_use_from, ns_between
from .opcodes import DISCARD, EVICT, OFFLOAD, PREFETCH, SAVE, STALL
from .pool import HOLE, enter, leave
from .program import Program
from .state import MAX_CLOCK, REVIVED, State

HURRY = 2  # a copy back begins when its use is no farther than so many times all copies back
DEAREST = 32  # what comes back in more times its own compute than that is not saved ahead
TO_HOST, FROM_HOST = 1, 2  # of State.next_free


@kernel
def is_away(state: State, s: int) -> bool:
    """Say whether a storage is on the host alone."""
    return bool(state.link[0].is_online != 0 and state.moves[s].is_away != 0)


@kernel
def is_being_copied(state: State, s: int) -> bool:
    """Say whether a copy of a storage is under way, in either direction."""
    return bool(state.link[0].is_online != 0 and state.moves[s].busy_until_ns > state.next_free[0])


@shared_kernel
def wait_until(state: State, time_ns: int, s: int, cause_call: int) -> None:
    """Let the compute stream wait until the clock reads a time, if it does not yet: a stall."""
    waited = time_ns - state.next_free[0]
    if waited <= 0:
        return
    state.next_free[0] += waited
    state.link[0].stall_ns += waited
    if state.run[0].logs_events:
        log(state, STALL, s, 0, cause_call)
        state.events[state.run[0].events - 1].start_ns -= waited


@kernel
def wait_for_copy(state: State, s: int, cause_call: int) -> None:
    """Let the compute stream wait until no copy of a storage is under way."""
    if is_being_copied(state, s):
        wait_until(state, state.moves[s].busy_until_ns, s, cause_call)


@kernel
def wait_to_read(state: State, s: int, cause_call: int) -> None:
    """Let the compute stream wait until a storage has come back."""
    wait_until(state, state.moves[s].readable_at_ns, s, cause_call)


@inlineable
def free_at_ns(state: State, stream: int) -> int:
    """Give when a copy one way can begin, as the clock reads; with half duplex both ways count."""
    free = max(state.next_free[0], state.next_free[stream])
    if state.link[0].is_half_duplex:
        free = max(free, state.next_free[TO_HOST + FROM_HOST - stream])
    return free  # type: ignore[no-any-return]


@kernel
def note_queue(state: State) -> None:
    """Note how long a copy to the host would wait to begin, once for all scores of a choice."""
    state.link[0].queue_ns = free_at_ns(state, TO_HOST) - state.next_free[0]


@inlineable
def can_be_moved(state: State, s: int) -> bool:
    """Say whether a storage can be brought to the host; with no way back there is none there."""
    if state.moves[s].to_host_ns > MAX_CLOCK:
        return False
    host_bytes = state.link[0].host_bytes + state.storages[s].size_bytes
    return bool(host_bytes <= state.link[0].host_limit_bytes)


@shared_kernel
def stays_on_host(program: Program, state: State, s: int) -> bool:
    """Say whether a storage that is evicted for want of memory will be on the host.

    So it will where it can, if out and back take no longer than computing it again: its own cost,
    and half of that of what is evicted above it, which is computed again for others, too. Where
    copies begin ahead, its own cost alone: what is worth more of the link mostly has a copy.
    """
    move = state.moves[s]
    if state.storages[s].residence == REVIVED:  # nothing will ever read it
        return False
    if move.is_on_host:
        return True
    if not can_be_moved(state, s):
        return False
    move_ns = state.link[0].queue_ns + move.to_host_ns + move.from_host_ns
    own_ns = state.storages[s].cost_ns
    if move_ns <= own_ns or state.link[0].prefetches:
        return bool(move_ns <= own_ns)
    return bool(move_ns <= own_ns + reach(program, state, s, UP)[2] // 2)


@shared_kernel
def recompute_ns(program: Program, state: State, s: int) -> int:
    """Give what computing a storage again, that is on the host alone, takes now.

    Its own cost, that of what is evicted above it, and the copies back of what all these read.
    """
    _, edge, total_ns = reach(program, state, s, UP)
    last = len(state.up) - 1
    for i in range(edge):
        read = state.moves[state.up[last - i]]
        total_ns += read.from_host_ns if read.is_away else 0
    return state.storages[s].cost_ns + total_ns  # type: ignore[no-any-return]


@shared_kernel
def is_made_sooner(program: Program, state: State, s: int) -> bool:
    """Say whether a storage on the host alone is computed again sooner than it can be back.

    That is asked only where copies begin ahead, and have delayed nothing. Elsewhere the call that
    evicted it has waited for its copy to the host, which would have been for nothing.
    """
    hold = state.holds[s]
    if state.link[0].prefetches == 0 or hold.is_pinned or hold.is_irreplaceable:
        return False
    back_ns = free_at_ns(state, FROM_HOST) - state.next_free[0] + state.moves[s].from_host_ns
    if back_ns <= state.storages[s].cost_ns:
        return False
    return bool(recompute_ns(program, state, s) < back_ns)


@shared_kernel
def go_away(program: Program, state: State, s: int) -> None:
    """Let a storage be on the host alone."""
    link, move = state.link[0], state.moves[s]
    leave(state, s)
    if link.prefetches:
        note_next_use(program, state, s, state.run[0].current_call)
        if link.away == 0 or (link.first_back != NOTHING and comes_before(state, s)):
            link.first_back = s
    move.is_away = 1
    move.away_slot = link.away
    state.away[link.away] = s
    link.away += 1
    link.away_ns += move.from_host_ns


@kernel
def come_back(state: State, s: int) -> None:
    """Let a storage be on the host alone no more."""
    link, slot = state.link[0], state.moves[s].away_slot
    link.away -= 1
    link.away_ns -= state.moves[s].from_host_ns
    last = state.away[link.away]
    state.away[slot] = last
    state.moves[last].away_slot = slot
    state.moves[s].is_away = 0
    if link.first_back == s:
        link.first_back = NOTHING


@shared_kernel
def leave_for_host(program: Program, state: State, s: int, cause_call: int) -> None:
    """Evict a storage to the host; where it is there already, or on its way, it only goes here."""
    move, size = state.moves[s], state.storages[s].size_bytes
    count_eviction(program, state, s, EVICT)
    if move.is_on_host:
        wait_for_copy(state, s, cause_call)
        state.memory[0].used_bytes -= size
        log(state, EVICT, s, size, cause_call)
    else:
        start = free_at_ns(state, TO_HOST)
        end = start + move.to_host_ns
        note_host_copy(state, s, end)
        state.memory[0].used_bytes -= size
        log_copy(state, OFFLOAD, s, start, cause_call)
        wait_until(state, end, s, cause_call)
    go_away(program, state, s)


@kernel
def note_host_copy(state: State, s: int, end_ns: int) -> None:
    """Let the host have a copy of a storage; the stream there is taken until it has come."""
    link, move, size = state.link[0], state.moves[s], state.storages[s].size_bytes
    state.next_free[TO_HOST] = move.busy_until_ns = end_ns
    move.is_on_host = 1
    link.host_bytes += size
    link.host_peak_bytes = max(link.host_peak_bytes, link.host_bytes)
    link.offloaded_bytes += size


@shared_kernel
def log_copy(state: State, action: int, s: int, start_ns: int, cause_call: int) -> None:
    """Write the row of a copy that ends when no other of that storage is under way."""
    if not state.run[0].logs_events:
        return
    log(state, action, s, state.storages[s].size_bytes, cause_call)
    row = state.events[state.run[0].events - 1]
    row.start_ns, row.end_ns = start_ns - 1, state.moves[s].busy_until_ns - 1
    if action == OFFLOAD:
        row.score = state.run[0].score


@shared_kernel
def begin_return(state: State, s: int, cause_call: int) -> None:
    """Begin to copy a storage back, for which there is room, once the stream is free."""
    link, memory, move = state.link[0], state.memory[0], state.moves[s]
    wait_until(state, free_at_ns(state, FROM_HOST), s, cause_call)
    size = state.storages[s].size_bytes
    start = state.next_free[0]
    move.readable_at_ns = move.busy_until_ns = start + move.from_host_ns
    state.next_free[FROM_HOST] = move.readable_at_ns
    memory.used_bytes += size
    memory.peak_bytes = max(memory.peak_bytes, memory.used_bytes)
    link.prefetched_bytes += size
    come_back(state, s)
    enter(state, s)
    log_copy(state, PREFETCH, s, start, cause_call)


@shared_kernel
def lose_host_copy(state: State, s: int) -> bool:
    """Drop the host copy of a storage, if there is one; say whether that was all there was."""
    move = state.moves[s]
    wait_for_copy(state, s, NOTHING)
    if not move.is_on_host:
        return False
    size = state.storages[s].size_bytes
    move.is_on_host = 0
    state.link[0].host_bytes -= size
    log(state, DISCARD, s, size, NOTHING)
    if not move.is_away:
        return False
    come_back(state, s)
    return True


@shared_kernel
def bring_ahead(program: Program, state: State, c: int) -> None:
    """Begin to bring back what the trace uses next, while there is room beside a call.

    There is no hurry while all that is on the host alone could be brought back several times until
    that use.
    """
    link, memory, call = state.link[0], state.memory[0], program.calls[c]
    while link.away > 0 and free_at_ns(state, FROM_HOST) == state.next_free[0]:
        s = next_used(program, state, c)
        use = state.moves[s].next_use
        if use == len(program.calls) or ns_between(program, c, use) > HURRY * link.away_ns:
            return
        wanted = state.storages[s].size_bytes + call.result_bytes + call.workspace_bytes
        if memory.used_bytes + wanted > memory.budget_bytes:
            return
        begin_return(state, s, NOTHING)


@shared_kernel
def save_ahead(program: Program, state: State, c: int) -> None:
    """Begin to copy to the host what is used late: it can go at once when room is wanted."""
    memory = state.memory[0]
    if 2 * memory.used_bytes < memory.budget_bytes:
        return  # room is not wanted yet
    while free_at_ns(state, TO_HOST) == state.next_free[0]:
        s = worth_saving(program, state, c)
        if s == NOTHING:
            return
        note_host_copy(state, s, state.next_free[0] + state.moves[s].to_host_ns)
        log_copy(state, SAVE, s, state.next_free[0], NOTHING)


@shared_kernel
def worth_saving(program: Program, state: State, c: int) -> int:
    """Find what of the pool the trace uses last, can be back by then, and is worth the link.

    If there is nothing, nothing of the pool is looked at again until it comes in anew.
    """
    found, latest = NOTHING, 0
    back_ns = state.link[0].away_ns  # the copies back that come before
    for i in range(state.link[0].passed_over, state.run[0].pool_end):
        s = state.pool[i]
        if s == HOLE or state.moves[s].is_on_host or state.storages[s].size_bytes == 0:
            continue
        use = next_use_from(program, s, c)
        if use < 0 or use <= latest or not can_be_moved(state, s):
            continue
        if state.moves[s].from_host_ns > DEAREST * state.storages[s].cost_ns:
            continue
        until_use = ns_between(program, c, use)
        if until_use >= state.moves[s].to_host_ns + back_ns + state.moves[s].from_host_ns:
            found, latest = s, use
    if found == NOTHING:
        state.link[0].passed_over = state.run[0].pool_end
    return found


@kernel
def note_next_use(program: Program, state: State, s: int, c: int) -> None:
    """Note which call from a given one on uses a storage next; the number of calls if none does."""
    use = next_use_from(program, s, c)
    state.moves[s].next_use = use if use >= 0 else len(program.calls)


@kernel
def comes_before(state: State, s: int) -> bool:
    """Say whether a storage is used before what was first so far; of equals, the older one is."""
    first = state.link[0].first_back
    use, other = state.moves[s].next_use, state.moves[first].next_use
    return bool(use < other or (use == other and s < first))


@shared_kernel
def next_used(program: Program, state: State, c: int) -> int:
    """Find the storage, of those on the host alone, that the trace uses first from a call on.

    A storage that is used comes back, so that what is noted changes no more while it is away; but
    where an update in place took its bytes, by the call that used it.
    """
    link = state.link[0]
    if link.first_back != NOTHING and state.moves[link.first_back].next_use >= c:
        return link.first_back  # type: ignore[no-any-return]
    link.first_back = NOTHING
    for i in range(link.away):
        s = state.away[i]
        if state.moves[s].next_use < c:
            note_next_use(program, state, s, c)
        if link.first_back == NOTHING or comes_before(state, s):
            link.first_back = s
    return link.first_back  # type: ignore[no-any-return]
