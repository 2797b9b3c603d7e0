"""Kernels: follow a Plan, action by action, with no decisions of its own.

A Program whose instructions are a plan's, checked before as far as that needs no run
(``execution.py``); memory, clock, accounts and event log are kept by the kernels of a replay.
"""

from __future__ import annotations

from . import memory
from .engine import EMPTY_BUFFERS, GO_ON, REACHED_BYTES, instruction_at
from .engine import execute as run_call
from .events import NOTHING, log
from .jit import kernel
from .opcodes import DEALLOCATE, EVICT, OK, OOM, PIN
from .placed_results import bytes_taken_over
from .program import Program
from .residence import evict, lock, pin, unlock
from .state import EVENT_CAPACITY, EVICTED, RECORD_CAPACITY, State

# Instructions of a plan: (code, operand), a call for the first two, then a storage, last an output.
# What is dropped for now is computed again later. A storage is kept while an update in place could
# take its bytes and is not given them; one that was handed over is gone.
# The last three move a storage out of memory and in, and forget its host copy (transferring.py).
RUN_FIRST, RUN_AGAIN, DROP, DROP_FOR_NOW, KEEP, KEEP_NO_LONGER, BE_GONE, END_WITH = range(8)
MOVE_OUT, MOVE_IN, FORGET = 8, 9, 10

# What `follow` answers besides OK, OOM, EMPTY_BUFFERS and REACHED_BYTES.
NOT_DEFINED, NOT_MATERIAL, NOT_TAKEN = 8, 9, 10


def follow(program: Program, state: State, _: int) -> int:
    """Run from where the State is to the end of the plan, or to a reason to stop."""
    here = state.run[0]
    while here.instruction < len(program.instructions):
        if here.recorded >= RECORD_CAPACITY or here.events >= EVENT_CAPACITY:
            return EMPTY_BUFFERS
        code, operand = instruction_at(program, state)
        answer = GO_ON
        if code == RUN_FIRST:
            answer = compute(program, state, operand, 0)
        elif code == RUN_AGAIN:
            answer = compute(program, state, operand, 1)
        elif code == DROP:
            answer = drop(program, state, operand, DEALLOCATE)
        elif code == DROP_FOR_NOW:
            answer = drop(program, state, operand, EVICT)
        elif code == KEEP:
            state.holds[operand].locks += 1
        elif code == KEEP_NO_LONGER:
            state.holds[operand].locks -= 1
        elif code == BE_GONE:
            answer = GO_ON if state.storages[operand].residence == EVICTED else NOT_TAKEN
        else:
            answer = end_with(program, state, operand)
        if answer != GO_ON:
            return answer
        here.instruction += 1
        if state.memory[0].peak_bytes >= here.pause_at_bytes:
            return REACHED_BYTES
    return OK


@kernel
def compute(program: Program, state: State, c: int, is_remat: int) -> int:
    """Run a call whose operands are defined and whose results find room."""
    call = program.calls[c]
    state.run[0].current_call = c
    for i in range(call.first_parent, call.end_parent):
        if not state.defined[program.parents[i]]:
            return NOT_DEFINED
    for i in range(call.first_parent, call.end_parent):
        lock(state, program.tensors[program.parents[i]].storage)
    need = call.result_bytes - bytes_taken_over(program, state, c)
    if not memory.fits(program, state, c, need):
        return OOM
    run_call(program, state, call.first_result, is_remat)
    for i in range(call.first_parent, call.end_parent):
        unlock(state, program.tensors[program.parents[i]].storage)
    return GO_ON


@kernel
def drop(program: Program, state: State, s: int, action: int) -> int:
    """Drop a storage that is in memory."""
    if state.storages[s].residence == EVICTED:
        return NOT_MATERIAL
    state.run[0].score = float("nan")
    evict(program, state, s, action, NOTHING)
    return GO_ON


@kernel
def end_with(program: Program, state: State, t: int) -> int:
    """Pin an output, which has to be there at the end; that constants are is no event."""
    if not state.defined[t]:
        return NOT_DEFINED
    s = program.tensors[t].storage
    if pin(state, s) and not program.storages[s].is_constant:
        log(state, PIN, s, state.storages[s].size_bytes, NOTHING)
    return GO_ON
