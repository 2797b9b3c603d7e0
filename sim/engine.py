"""Kernels: the engine runs a Program's instructions, materializing what is not there.

`run` is the only loop over a program. It never recurses: calls under way are frames on a stack in
State, so it can also stop anywhere, let Python look or choose, and go on.
"""

from __future__ import annotations

from . import memory, neighborhood
from .classes import join
from .events import NOTHING, log
from .jit import call_at, kernel, shared_kernel
from .moving import (
    begin_return,
    bring_ahead,
    is_away,
    is_made_sooner,
    note_queue,
    save_ahead,
    wait_to_read,
)
from .opcodes import BANISH, DEALLOCATE, EVICT, OK, OOM, PIN, THRASHED
from .placed_results import bytes_taken_over, list_taken_over, log_call, own_bytes
from .program import KEEP_OUTPUT, RELEASE_STORAGE, RETAIN, RUN_CALL, Program
from .residence import (
    drop_intermediate,
    evict,
    hand_over,
    lock,
    obeys_banish,
    occupy,
    pin,
    release,
    stop_waiting,
    try_banish,
    unlock,
    wait,
)
from .state import BANISHED, EVENT_CAPACITY, EVICTED, NEEDS_CLASSES, RECORD_CAPACITY, State

# What `run` answers besides OK, OOM and THRASHED. After CHOOSE and EMPTY_BUFFERS Python acts and
# calls it again; REACHED_BYTES is for looking only.
NOT_A_NUMBER = 3  # the heuristic's score
GO_ON = 4
CHOOSE, EMPTY_BUFFERS, REACHED_BYTES = 5, 6, 7

# What `choose` answers instead of a number of victims.
ASK_PYTHON, NAN_SCORE, NO_WINDOW = -1, -2, -3

ONLY_RETURN = 2  # of a frame, in place of whether it computes again: it brings back from the host


def run(program: Program, state: State, choose: int) -> int:
    """Run from where the State is to the end of the program, or to a reason to stop."""
    here = state.run[0]
    while here.instruction < len(program.instructions):
        if here.depth == 0:
            begin(program, state)
        code = materialize(program, state, choose)
        if code != GO_ON:
            return code
        finish(program, state)
        here.instruction += 1
    return OK


@kernel
def instruction_at(program: Program, state: State) -> tuple[int, int]:
    """Give code and operand of the instruction under way."""
    row = program.instructions[state.run[0].instruction]
    return row.code, row.operand


@kernel
def begin(program: Program, state: State) -> None:
    """Start an instruction: what has to be computed becomes a frame, the rest happens at once."""
    code, operand = instruction_at(program, state)
    if code == RUN_CALL:
        issue(program, state, operand)
        if state.link[0].prefetches:
            save_ahead(program, state, operand)
            bring_ahead(program, state, operand)
        push(program, state, program.calls[operand].first_result, 0)
    elif code == RETAIN:
        state.holds[operand].references += 1
    elif code == RELEASE_STORAGE:
        release(program, state, operand)
    elif code == KEEP_OUTPUT:
        state.run[0].current_call = len(program.calls)
        if not state.defined[operand]:
            push(program, state, operand, 1)
        elif state.link[0].is_online:
            push_return(state, operand)


@kernel
def finish(program: Program, state: State) -> None:
    """End an instruction: results have been accessed now; constants and outputs stay for good."""
    code, operand = instruction_at(program, state)
    if code == RUN_CALL:
        call = program.calls[operand]
        for t in range(call.first_result, call.end_result):
            s = program.tensors[t].storage
            state.storages[s].last_access = state.next_free[0]
            if program.storages[s].is_constant and program.storages[s].root == t:
                pin(state, s)
    elif code == KEEP_OUTPUT:
        s = program.tensors[operand].storage
        if pin(state, s):
            log(state, PIN, s, state.storages[s].size_bytes, -1)


@kernel
def issue(program: Program, state: State, c: int) -> None:
    """Create a call's tensors: references, costs, edges. Nothing is computed yet."""
    here = state.run[0]
    call = program.calls[c]
    here.created_tensors = call.end_result
    here.current_call = c
    for t in range(call.first_result, call.end_result):
        create(program, state, t)
    for i in range(call.first_edge, call.end_edge):
        connect(program, state, c, program.edges[i].parent, program.edges[i].child)
    if here.tracks_waiting:
        for t in range(call.first_result, call.end_result):
            wait(program, state, t)
            if not call.is_recomputable:
                pin(state, program.tensors[t].storage)
                state.holds[program.tensors[t].storage].is_irreplaceable = 1


@kernel
def create(program: Program, state: State, t: int) -> None:
    """Create one tensor: the program holds it, its call's cost counts to its storage."""
    here = state.run[0]
    tensor = program.tensors[t]
    s = tensor.storage
    state.holds[s].references += 1
    if tensor.adds_cost:
        state.storages[s].cost_ns += program.calls[tensor.call].cost_ns
        if program.storages[s].root != t and state.storages[s].residence == EVICTED:
            here.growth += 1
    if program.storages[s].root == t:
        neighborhood.note_creation(state, s)
        here.created_storages += 1
        here.created_bytes += state.storages[s].size_bytes
        if here.needs & NEEDS_CLASSES:
            join(state, s, 0)
        call = program.calls[tensor.call]
        state.holds[s].has_siblings = call.end_result - call.first_result > 1


@kernel
def connect(program: Program, state: State, c: int, parent: int, child: int) -> None:
    """Create an edge between two storages."""
    here = state.run[0]
    state.holds[parent].child_edges += 1
    state.holds[child].parent_edges += 1
    if here.needs & NEEDS_CLASSES:
        state.holds[parent].evicted_neighbors += state.storages[child].residence == EVICTED
        state.holds[child].evicted_neighbors += state.storages[parent].residence == EVICTED
    if program.storages[child].root < program.calls[c].first_result:  # between two old storages
        here.growth += 1


@kernel
def push(program: Program, state: State, t: int, is_remat: int) -> None:
    """Begin to materialize a tensor: its defined operands are locked, the others are noted."""
    here = state.run[0]
    frame = state.frames[here.depth]
    end = 0 if here.depth == 0 else state.frames[here.depth - 1].end
    frame.tensor, frame.is_remat, frame.next = t, is_remat, end
    call = program.calls[program.tensors[t].call]
    for i in range(call.first_parent, call.end_parent):
        parent = program.parents[i]
        s = program.tensors[parent].storage
        if state.storages[s].residence >= BANISHED:
            continue
        if here.policy != BANISH or state.holds[s].references > 0:
            state.storages[s].last_access = state.next_free[0]
        if state.defined[parent] and not is_away(state, s):
            lock(state, s)
        else:
            state.pending[end] = parent
            end += 1
    frame.end = end
    here.depth += 1


@kernel
def push_return(state: State, t: int) -> None:
    """Begin to bring a tensor back from the host, or to wait for it, for its own sake."""
    here = state.run[0]
    frame = state.frames[here.depth]
    frame.tensor, frame.is_remat, frame.next, frame.end = t, ONLY_RETURN, 0, 0
    here.depth += 1


@kernel
def materialize(program: Program, state: State, choose: int) -> int:
    """Work off the stack of frames."""
    here = state.run[0]
    while here.depth > 0:
        if here.recorded >= RECORD_CAPACITY or here.events >= EVENT_CAPACITY:
            return EMPTY_BUFFERS
        frame = state.frames[here.depth - 1]
        if frame.next < frame.end:
            parent = state.pending[frame.next]
            if not state.defined[parent]:
                push(program, state, parent, 1)
                continue
            code = bring_back(program, state, parent, choose)
            if code != GO_ON:
                return code
            if is_there(program, state, parent):
                lock(state, program.tensors[parent].storage)
                frame.next += 1
            continue
        if frame.is_remat == ONLY_RETURN:
            code = return_only(program, state, choose)
            if code != GO_ON:
                return code
            continue
        code = make_room(program, state, program.tensors[frame.tensor].call, choose)
        if code != GO_ON:
            return code
        if state.link[0].is_online:
            wait_for_operands(program, state, program.tensors[frame.tensor].call)
        execute(program, state, frame.tensor, frame.is_remat)
        if state.memory[0].peak_bytes >= here.pause_at_bytes:
            return REACHED_BYTES
        here.depth -= 1
        let_go(program, state, program.tensors[frame.tensor].call)
        if has_thrashed(state):
            return THRASHED
    return GO_ON


@kernel
def has_thrashed(state: State) -> bool:
    """Say whether rematerialization, and waiting for transfers, has gone over its limit."""
    here = state.run[0]
    lost_ns = here.remat_ns + state.link[0].stall_ns
    return bool(lost_ns > here.remat_limit_ns or here.idle_remats > here.idle_limit)


@kernel
def make_room(program: Program, state: State, c: int, choose: int) -> int:
    """Evict what the heuristic picks until a call's results and workspace fit."""
    call = program.calls[c]
    while not memory.fits(
        program, state, c, call.result_bytes - bytes_taken_over(program, state, c)
    ):  # an eviction may change what can be taken over
        code = evict_what_is_chosen(program, state, c, choose)
        if code != GO_ON:
            return code
    return GO_ON


@kernel
def evict_what_is_chosen(program: Program, state: State, c: int, choose: int) -> int:
    """Evict once what the heuristic picks, for a call that wants room."""
    here = state.run[0]
    if here.pool_count == 0:
        return OOM
    if here.recorded >= RECORD_CAPACITY or here.events >= EVENT_CAPACITY:
        return EMPTY_BUFFERS
    count = here.victims
    if count == 0:
        neighborhood.note_choice(state)
        if state.link[0].is_online:
            note_queue(state)
        count = call_at(choose, program, state, c)
    if count == NAN_SCORE:
        return NOT_A_NUMBER
    if count == ASK_PYTHON:
        return CHOOSE
    if count == NO_WINDOW:
        return OOM
    for i in range(count):
        evict(program, state, state.victims[i], EVICT, program.calls[c].origin)
    here.victims = 0
    return GO_ON


@kernel
def is_there(program: Program, state: State, t: int) -> bool:
    """Say whether a tensor is in memory, or on its way there."""
    return bool(state.defined[t]) and not is_away(state, program.tensors[t].storage)


@shared_kernel
def bring_back(program: Program, state: State, t: int, choose: int) -> int:
    """Do one thing for a tensor that is on the host alone: drop it, make room, or begin a copy.

    It is dropped, and has to be computed, where that takes less time than until it is back.
    """
    memory, s = state.memory[0], program.tensors[t].storage
    if not is_away(state, s):
        return GO_ON
    if is_made_sooner(program, state, s):
        evict(program, state, s, DEALLOCATE, NOTHING)
        return GO_ON
    c = program.tensors[state.frames[state.run[0].depth - 1].tensor].call
    if memory.used_bytes + state.storages[s].size_bytes > memory.budget_bytes:
        return evict_what_is_chosen(program, state, c, choose)
    begin_return(state, s, program.calls[c].origin)
    return GO_ON


@shared_kernel
def return_only(program: Program, state: State, choose: int) -> int:
    """Bring an output back; if it is dropped, it is computed."""
    here = state.run[0]
    wanted = state.frames[here.depth - 1].tensor
    code = bring_back(program, state, wanted, choose)
    if code != GO_ON:
        return code
    if is_there(program, state, wanted):
        wait_to_read(state, program.tensors[wanted].storage, NOTHING)
        here.depth -= 1
    elif not state.defined[wanted]:
        here.depth -= 1
        push(program, state, wanted, 1)
    return GO_ON


@shared_kernel
def wait_for_operands(program: Program, state: State, c: int) -> None:
    """Let a call wait until all that it reads has come."""
    call = program.calls[c]
    for i in range(call.first_parent, call.end_parent):
        s = program.tensors[program.parents[i]].storage
        wait_to_read(state, s, call.origin)


@kernel
def execute(program: Program, state: State, wanted: int, is_remat: int) -> None:
    """Compute a call: time passes, results are placed, second copies dropped."""
    here = state.run[0]
    c = program.tensors[wanted].call
    call = program.calls[c]
    before = state.memory[0].used_bytes
    state.next_free[0] += call.cost_ns
    if is_remat:
        here.remat_ns += call.cost_ns
        here.rematerializations += 1
        here.idle_remats = here.idle_remats + 1 if call.cost_ns == 0 else 0
    else:
        here.model_ns += call.cost_ns
        here.idle_remats = 0
    duplicates = 0
    for t in range(call.first_result, call.end_result):
        if state.defined[t]:
            duplicates += own_bytes(program, state, t)
    placed = call.result_bytes - bytes_taken_over(program, state, c)
    memory.place(program, state, c, placed, duplicates)
    if here.logs_events:
        log_call(program, state, c, is_remat, before)
    emptied = list_taken_over(program, state, c) if here.in_place else 0
    for t in range(call.first_result, call.end_result):
        if t != wanted:
            define(program, state, t, is_remat)
    define(program, state, wanted, is_remat)
    hand_over(program, state, emptied)


@kernel
def define(program: Program, state: State, t: int, is_remat: int) -> None:
    """Let a tensor be computed, and its storage be resident."""
    if state.defined[t]:
        return
    state.defined[t] = 1
    s = program.tensors[t].storage
    if state.storages[s].residence in (EVICTED, BANISHED):
        state.holds[s].remat_count += is_remat
        occupy(program, state, s)


@kernel
def let_go(program: Program, state: State, c: int) -> None:
    """Unlock a call's operands, in order; what nothing needs any more is banished."""
    call = program.calls[c]
    for i in range(call.first_parent, call.end_parent):
        s = program.tensors[program.parents[i]].storage
        if state.storages[s].residence >= BANISHED:
            continue
        unlock(state, s)
        if state.run[0].drops_intermediates:
            drop_intermediate(program, state, s)
        if state.run[0].tracks_waiting:
            for t in range(call.first_result, call.end_result):
                if state.defined[t]:  # not if it lay in what has just been taken over
                    stop_waiting(program, state, t, s)
            if obeys_banish(state, s):
                try_banish(program, state, s)
