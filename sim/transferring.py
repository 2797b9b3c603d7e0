"""Kernels: follow a Plan that moves data between device and host.

As ``following.py``, which follows all other plans, with two streams more. The compute stream
reaches each action of the plan in order; transfers are issued then, and the rest of their lives is
in ``transfers.py``. A call waits until what it reads has come and its results have room.
"""

from __future__ import annotations

from . import memory
from .asking import finds_room
from .engine import EMPTY_BUFFERS, GO_ON, REACHED_BYTES, instruction_at
from .engine import execute as run_call
from .events import NOTHING, count_eviction, log
from .following import (
    DROP,
    DROP_FOR_NOW,
    FORGET,
    MOVE_IN,
    MOVE_OUT,
    NOT_DEFINED,
    NOT_MATERIAL,
    RUN_AGAIN,
    RUN_FIRST,
    drop,
)
from .jit import kernel, shared_kernel
from .moving import wait_until
from .opcodes import DEALLOCATE, EVICT, OK, OOM, PIN
from .pool import leave
from .program import Program
from .residence import lock, pin, unlock, vacate
from .state import EVENT_CAPACITY, EVICTED, RECORD_CAPACITY, State
from .traffic import NO_TRANSFER
from .transfers import (
    catch_up,
    drop_host_copy,
    first_from_host,
    first_to_host,
    has_come,
    is_under_way,
    issue_transfer,
    step,
)

# What `follow` answers besides the answers of `following.follow`.
NOT_ON_HOST, IS_ON_HOST, IS_HERE, WAITS_FOR_EVER = 11, 12, 13, 14


def follow(program: Program, state: State, _: int) -> int:
    """Run from where the State is to the end of the plan, or to a reason to stop."""
    here = state.run[0]
    while here.instruction < len(program.instructions):
        if here.recorded >= RECORD_CAPACITY or here.events >= EVENT_CAPACITY:
            return EMPTY_BUFFERS
        catch_up(program, state)
        if state.memory[0].peak_bytes >= here.pause_at_bytes:
            return REACHED_BYTES
        code, operand = instruction_at(program, state)
        answer = GO_ON
        if code in (RUN_FIRST, RUN_AGAIN):
            answer = compute(program, state, operand, code == RUN_AGAIN)
        elif code == DROP:
            answer = free(program, state, operand, DEALLOCATE)
        elif code == DROP_FOR_NOW:
            answer = free(program, state, operand, EVICT)
        elif code == MOVE_OUT:
            answer = offload(state, operand)
        elif code == MOVE_IN:
            answer = prefetch(state, operand)
        elif code == FORGET:
            answer = discard(program, state, operand)
        else:
            answer = end_with(program, state, operand)
        if answer != GO_ON:
            end_all(program, state)
            return answer
        here.instruction += 1
        if state.memory[0].peak_bytes >= here.pause_at_bytes:
            return REACHED_BYTES
    return come_to_rest(program, state)


@shared_kernel
def come_to_rest(program: Program, state: State) -> int:
    """Let all transfers end after the plan has; the clock stands still."""
    catch_up(program, state)
    end_all(program, state)
    link = state.link[0]
    is_left = first_to_host(state) < link.issued or first_from_host(state) < link.issued
    return WAITS_FOR_EVER if is_left else OK


@shared_kernel
def end_all(program: Program, state: State) -> None:
    """Let all transfers end that ever do; the clock stands still."""
    while step(program, state):
        pass


@kernel
def compute(program: Program, state: State, c: int, is_remat: int) -> int:
    """Run a call whose operands are there or on their way, once they are and there is room."""
    call, link = program.calls[c], state.link[0]
    state.run[0].current_call = c
    for i in range(call.first_parent, call.end_parent):
        t = program.parents[i]
        if not state.defined[t] or not state.moves[program.tensors[t].storage].is_here:
            return NOT_DEFINED
    for i in range(call.first_parent, call.end_parent):
        s = program.tensors[program.parents[i]].storage
        if not wait_for(program, state, s, call.origin):
            return WAITS_FOR_EVER
    answer = wait_for_room(program, state, c)
    if answer != GO_ON:
        return answer
    for i in range(call.first_parent, call.end_parent):
        lock(state, program.tensors[program.parents[i]].storage)
    for t in range(call.first_result, call.end_result):
        if not state.defined[t] and program.storages[program.tensors[t].storage].root == t:
            state.moves[program.tensors[t].storage].is_here = 1
    before = state.memory[0].used_bytes
    run_call(program, state, call.first_result, is_remat)
    second_bytes = before + call.result_bytes - state.memory[0].used_bytes
    link.passing_bytes = second_bytes + call.workspace_bytes
    for i in range(call.first_parent, call.end_parent):
        unlock(state, program.tensors[program.parents[i]].storage)
    return GO_ON


@shared_kernel
def wait_for(program: Program, state: State, s: int, cause_call: int) -> bool:
    """Let the compute stream wait until a storage has come; say whether it ever does."""
    number = state.moves[s].arrival
    if has_come(state, number):
        return True
    state.link[0].awaited = number
    while not has_come(state, number):
        if not step(program, state):
            return False
    stall(state, s, cause_call)
    return True


@shared_kernel
def wait_for_room(program: Program, state: State, c: int) -> int:
    """Let the compute stream wait until a call has room, behind whoever has asked before."""
    link, call = state.link[0], program.calls[c]
    wants_bytes = call.result_bytes + call.workspace_bytes > 0
    link.awaited = NO_TRANSFER
    while (wants_bytes and is_behind_prefetch(state)) or not finds_room(program, state, c):
        link.call_waits = 1
        if not step(program, state):
            return WAITS_FOR_EVER if is_behind_prefetch(state) else OOM
    link.call_waits = 0
    back = first_from_host(state)
    if back < link.issued:
        state.transfers[back].is_behind_call = 0
    stall(state, NOTHING, call.origin)
    return GO_ON


@kernel
def is_behind_prefetch(state: State) -> bool:
    """Say whether a prefetch has asked for room before the call that wants to run."""
    back = first_from_host(state)
    if back >= state.link[0].issued or is_under_way(state, back):
        return False
    transfer = state.transfers[back]
    return bool(transfer.has_asked != 0 and transfer.is_behind_call == 0)


@shared_kernel
def stall(state: State, s: int, cause_call: int) -> None:
    """Let the clock go on to where the transfers are, if it is behind: compute has waited."""
    wait_until(state, state.link[0].now_ns, s, cause_call)


@kernel
def free(program: Program, state: State, s: int, action: int) -> int:
    """Drop a storage that is in memory, or once it has come; what is on the host stays defined."""
    move = state.moves[s]
    if not move.is_here:
        return NOT_MATERIAL
    if not wait_for(program, state, s, NOTHING):
        return WAITS_FOR_EVER
    move.is_here, move.arrival = 0, NO_TRANSFER
    if state.storages[s].size_bytes > 0:
        state.link[0].is_refused = 0
    if not move.is_on_host:
        return drop(program, state, s, action)
    leave(state, s)
    state.storages[s].residence = EVICTED
    memory.free(program, state, s)
    count_eviction(program, state, s, action)
    state.run[0].score = float("nan")
    log(state, action, s, state.storages[s].size_bytes, NOTHING)
    return GO_ON


@kernel
def offload(state: State, s: int) -> int:
    """Issue the copy of a storage to the host; it leaves memory when that ends."""
    if not state.moves[s].is_here:
        return NOT_MATERIAL
    if state.moves[s].is_on_host:
        return IS_ON_HOST
    issue_transfer(state, s, 1)
    return GO_ON


@kernel
def prefetch(state: State, s: int) -> int:
    """Issue the copy of a storage from the host, which keeps its own."""
    if not state.moves[s].is_on_host:
        return NOT_ON_HOST
    if state.moves[s].is_here:
        return IS_HERE
    issue_transfer(state, s, 0)
    return GO_ON


@kernel
def discard(program: Program, state: State, s: int) -> int:
    """Drop a host copy, at once or when the transfer that needs it last has ended."""
    move = state.moves[s]
    if not move.is_on_host:
        return NOT_ON_HOST
    last = move.arrival
    if has_come(state, last):
        last = move.departure
    if not move.is_here:
        vacate(program, state, s)
        state.transfers[move.departure].is_disowned = 1
    move.is_on_host, move.departure = 0, NO_TRANSFER
    if has_come(state, last):
        drop_host_copy(state, s, state.run[0].instruction)
    else:
        state.transfers[last].discarded_by = state.run[0].instruction
    return GO_ON


@kernel
def end_with(program: Program, state: State, t: int) -> int:
    """Pin an output, which has to be there at the end; that constants are is no event."""
    s = program.tensors[t].storage
    if not state.defined[t] or not state.moves[s].is_here:
        return NOT_DEFINED
    if not wait_for(program, state, s, NOTHING):
        return WAITS_FOR_EVER
    if pin(state, s) and not program.storages[s].is_constant:
        log(state, PIN, s, state.storages[s].size_bytes, NOTHING)
    return GO_ON
