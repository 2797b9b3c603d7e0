"""Kernels: storages come into memory, are held, and go; State stays consistent.

docs/semantics.md, 2, 4 and 5. Whoever changes where a storage is, calls these and nothing else.
"""

from __future__ import annotations

from . import classes, memory, neighborhood, pool
from .events import NOTHING, count_eviction, log
from .jit import kernel, shared_kernel
from .moving import go_away, is_away, leave_for_host, lose_host_copy, stays_on_host
from .opcodes import BANISH, BANISH_STORAGE, DEALLOCATE, EAGER, EVICT, PIN
from .program import Program
from .state import (
    BANISHED,
    EVICTED,
    NEEDS_ANCESTORS,
    NEEDS_CLASSES,
    NEEDS_DESCENDANTS,
    PINNED,
    RESIDENT,
    REVIVED,
    State,
)

NEEDS_SUMS = NEEDS_ANCESTORS | NEEDS_DESCENDANTS


@kernel
def lock(state: State, s: int) -> None:
    """Hold a storage for a running call."""
    state.holds[s].locks += 1
    pool.leave(state, s)


@kernel
def unlock(state: State, s: int) -> None:
    """Let go of a storage; with its last lock it enters the pool again, at the end."""
    state.holds[s].locks -= 1
    if not is_away(state, s):  # an operand whose bytes an update in place has taken over
        pool.enter(state, s)


@kernel
def pin(state: State, s: int) -> bool:
    """Lock a storage for good; say whether that is new."""
    if state.holds[s].is_pinned:
        return False
    state.holds[s].is_pinned = 1
    lock(state, s)
    if state.storages[s].residence == RESIDENT:
        state.storages[s].residence = PINNED
    return True


@shared_kernel
def occupy(program: Program, state: State, s: int) -> None:
    """Let a storage become resident and enter the pool."""
    run = state.run[0]
    accesses = run.metadata_accesses  # upkeep is not the plain algorithm's work
    was_banished = state.storages[s].residence == BANISHED
    if was_banished:
        state.storages[s].residence = REVIVED
    else:
        state.storages[s].residence = PINNED if state.holds[s].is_pinned else RESIDENT
    if run.needs & NEEDS_CLASSES:
        is_shared = classes.part(state, s)
        if not was_banished:
            _count_neighbor(program, state, s, -1, is_shared)
    if run.upkeep & NEEDS_SUMS:
        neighborhood.note_return(program, state, s, was_banished)
    run.metadata_accesses = accesses
    pool.enter(state, s)


@shared_kernel
def vacate(program: Program, state: State, s: int) -> None:
    """Let a storage be evicted: out of the pool, its tensors undefined, waiting anew."""
    run = state.run[0]
    accesses = run.metadata_accesses
    pool.leave(state, s)
    was_revived = state.storages[s].residence == REVIVED
    state.storages[s].residence = BANISHED if was_revived else EVICTED
    for i in range(program.storages[s].first_tensor, program.storages[s + 1].first_tensor):
        state.defined[program.views[i]] = 0
    if run.tracks_waiting:
        for i in range(program.storages[s].first_tensor, program.storages[s + 1].first_tensor):
            if program.views[i] < run.created_tensors:
                wait(program, state, program.views[i])
    if run.needs & NEEDS_CLASSES:
        classes.join(state, s, state.storages[s].cost_ns)
        classes.merge_neighbors(program, state, s)
        if not was_revived:
            _count_neighbor(program, state, s, 1, False)
    if run.upkeep & NEEDS_SUMS:
        neighborhood.note_eviction(state, s)
    run.metadata_accesses = accesses


@shared_kernel
def _count_neighbor(program: Program, state: State, s: int, change: int, forgets: bool) -> None:
    """Count an evicted neighbor more or less; forget class costs that may have gone with it."""
    hold = state.holds[s]
    first = program.storages[s].first_parent_edge
    for i in range(first, first + hold.parent_edges):
        _count_at(state, program.parent_edges[i], change, forgets)
    first = program.storages[s].first_child_edge
    for i in range(first, first + hold.child_edges):
        _count_at(state, program.child_edges[i], change, forgets)


@kernel
def _count_at(state: State, neighbor: int, change: int, forgets: bool) -> None:
    state.holds[neighbor].evicted_neighbors += change
    if forgets:
        state.storages[neighbor].class_ns = state.run[0].lost_ns


@shared_kernel
def evict(program: Program, state: State, s: int, action: int, cause_call: int) -> None:
    """Drop a storage and count it: for want of memory, or as the deallocation policy says.

    For want of memory it may go to the host instead; what the policy drops is nowhere any more.
    """
    if state.link[0].is_online:
        if action == EVICT and stays_on_host(program, state, s):
            leave_for_host(program, state, s, cause_call)
            return
        if lose_host_copy(state, s):
            vacate(program, state, s)
            if action == BANISH_STORAGE:
                log(state, BANISH_STORAGE, s, 0, NOTHING)
            return
    vacate(program, state, s)
    memory.free(program, state, s)
    count_eviction(program, state, s, action)
    log(state, action, s, state.storages[s].size_bytes, cause_call)


@kernel
def release(program: Program, state: State, s: int) -> None:
    """Drop one of the program's references; with the last one the policy decides."""
    state.holds[s].references -= 1
    if state.holds[s].references > 0:
        return
    if obeys_banish(state, s):
        try_banish(program, state, s)
    elif state.run[0].policy == EAGER and state.storages[s].residence == RESIDENT:
        evict(program, state, s, DEALLOCATE, NOTHING)


@kernel
def obeys_banish(state: State, s: int) -> bool:
    """Say whether banish's rule holds for a storage: by policy, or as it is irreplaceable."""
    return state.run[0].policy == BANISH or state.holds[s].is_irreplaceable != 0


@shared_kernel
def wait(program: Program, state: State, t: int) -> None:
    """Put a tensor that is not computed into the waiting sets of its parents' storages."""
    call = program.calls[program.tensors[t].call]
    flag = program.tensors[t].first_wait
    for i in range(call.first_source, call.end_source):
        source = program.sources[i]
        is_counted = source != program.tensors[t].storage and not state.waiting[flag]
        if is_counted and state.storages[source].residence < BANISHED:
            state.waiting[flag] = 1
            state.holds[source].waiting += 1
        flag += 1


@shared_kernel
def stop_waiting(program: Program, state: State, t: int, source: int) -> None:
    """Take a tensor out of the waiting set of one of its parents' storages."""
    call = program.calls[program.tensors[t].call]
    flag = program.tensors[t].first_wait
    for i in range(call.first_source, call.end_source):
        if program.sources[i] == source and state.waiting[flag]:
            state.waiting[flag] = 0
            state.holds[source].waiting -= 1
        flag += 1


@shared_kernel
def try_banish(program: Program, state: State, s: int) -> None:
    """Banish a storage that the program does not hold and nothing waits for."""
    hold = state.holds[s]
    if state.storages[s].residence >= BANISHED or hold.references > 0 or hold.waiting > 0:
        return
    _banish(program, state, s)


@shared_kernel
def _banish(program: Program, state: State, s: int) -> None:
    """Let a storage go for good, and pin what was computed from it."""
    hold = state.holds[s]
    hold.locks = hold.is_pinned = 0
    if state.storages[s].residence != EVICTED:
        evict(program, state, s, BANISH_STORAGE, NOTHING)
    else:
        log(state, BANISH_STORAGE, s, 0, NOTHING)
    _cut_off(program, state, s)
    first = program.storages[s].first_child_edge
    for i in range(first, first + hold.child_edges):
        child = program.child_edges[i]
        if state.storages[child].residence < BANISHED:
            state.holds[child].is_irreplaceable = 1
            if pin(state, child):
                log(state, PIN, child, state.storages[child].size_bytes, NOTHING)


@kernel
def hand_over(program: Program, state: State, count: int) -> None:
    """Let the bytes of the first ``victims`` go to what replaces them; no eviction is counted.

    One that was pinned cannot be computed again: it is banished at once, so that what could yet
    want it is not dropped.
    """
    given_up = 0
    for i in range(count):
        s = state.victims[i]
        if state.link[0].is_online and state.moves[s].is_on_host:
            go_away(program, state, s)
        else:
            vacate(program, state, s)
        if state.holds[s].is_pinned:
            state.victims[given_up] = s
            given_up += 1
    for i in range(given_up):
        _banish(program, state, state.victims[i])


@shared_kernel
def is_awaited_elsewhere(program: Program, state: State, s: int, c: int) -> bool:
    """Say whether tensors that are not computed wait for a storage, a call's results aside."""
    call = program.calls[c]
    waiting = state.holds[s].waiting
    for t in range(call.first_result, call.end_result):
        flag = program.tensors[t].first_wait
        for i in range(call.first_source, call.end_source):
            waiting -= program.sources[i] == s and state.waiting[flag] != 0
            flag += 1
    return waiting > 0


@shared_kernel
def _cut_off(program: Program, state: State, s: int) -> None:
    """Ignore a storage's edges from now on; its class keeps its cost."""
    state.storages[s].residence = BANISHED
    if state.run[0].needs & NEEDS_CLASSES:
        _count_neighbor(program, state, s, -1, True)
    if state.run[0].upkeep & NEEDS_SUMS:
        neighborhood.note_return(program, state, s, False)
    for i in range(program.storages[s].first_tensor, program.storages[s + 1].first_tensor):
        t = program.views[i]
        if t < state.run[0].created_tensors:
            call = program.calls[program.tensors[t].call]
            for j in range(call.first_source, call.end_source):
                stop_waiting(program, state, t, program.sources[j])


@shared_kernel
def drop_intermediate(program: Program, state: State, s: int) -> None:
    """Drop what was recomputed though the program does not hold it, if no call waits to read it.

    The calls that wait are those whose results are wanted, not those that these will need.
    """
    is_held = state.holds[s].references > 0 or state.holds[s].remat_count == 0
    if is_held or state.storages[s].pool_slot < 0 or obeys_banish(state, s):
        return
    here = state.run[0]
    if here.depth > 0:
        if is_read_for(program, state, s, state.frames[0].tensor):
            return
        for i in range(state.frames[here.depth - 1].end):
            if is_read_for(program, state, s, state.pending[i]):
                return
    evict(program, state, s, DEALLOCATE, NOTHING)


@kernel
def is_read_for(program: Program, state: State, s: int, t: int) -> bool:
    """Say whether a tensor is not computed, and its call reads a storage."""
    call = program.calls[program.tensors[t].call]
    reads = 0
    for i in range(call.first_source, call.end_source):
        reads += program.sources[i] == s
    return reads > 0 and not state.defined[t]
