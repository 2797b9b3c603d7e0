"""Kernels: a call's results as memory sees them: their bytes, what they replace, their rows."""

from __future__ import annotations

from .events import log, log_result
from .jit import kernel, shared_kernel
from .moving import is_being_copied
from .opcodes import COMPUTE, DROP_DUPLICATE, RECOMPUTE, TAKE_OVER
from .program import Program
from .residence import is_awaited_elsewhere
from .state import BANISHED, EVICTED, State


@kernel
def own_bytes(program: Program, state: State, t: int) -> int:
    """Bytes that a tensor adds: those of its storage, none if it is a view."""
    s = program.tensors[t].storage
    return state.storages[s].size_bytes if program.storages[s].root == t else 0


@shared_kernel
def can_take_over(program: Program, state: State, t: int) -> bool:
    """Say whether a result may take over the bytes of the operand that it replaces."""
    tensor = program.tensors[t]
    old = tensor.takes_over
    if old < 0 or state.defined[t] or state.storages[old].residence >= BANISHED:
        return False
    if state.storages[old].residence == EVICTED or is_being_copied(state, old):
        return False
    call = program.calls[tensor.call]
    own_locks = 0
    for i in range(call.first_parent, call.end_parent):
        own_locks += program.tensors[program.parents[i]].storage == old
    for earlier in range(call.first_result, t):
        if program.tensors[earlier].takes_over == old and not state.defined[earlier]:
            return False
    hold = state.holds[old]
    is_given_up = hold.is_irreplaceable and tensor.ends_old  # it cannot be computed again
    if is_given_up and not is_awaited_elsewhere(program, state, old, tensor.call):
        own_locks += hold.is_pinned
    return bool(hold.locks == own_locks)


@shared_kernel
def bytes_taken_over(program: Program, state: State, c: int) -> int:
    """Sum the bytes that a call's results need not ask for, as they replace operands in place."""
    total = 0
    if not state.run[0].in_place:
        return total
    call = program.calls[c]
    for t in range(call.first_result, call.end_result):
        if can_take_over(program, state, t):
            total += state.storages[program.tensors[t].storage].size_bytes
    return total


@shared_kernel
def list_taken_over(program: Program, state: State, c: int) -> int:
    """Note in ``victims`` the storages whose bytes a call's results are taking; count them."""
    call = program.calls[c]
    count = 0
    for t in range(call.first_result, call.end_result):
        if can_take_over(program, state, t):
            state.victims[count] = program.tensors[t].takes_over
            count += 1
    return count


@shared_kernel
def log_call(program: Program, state: State, c: int, is_remat: int, before: int) -> None:
    """Write a call's rows: one for each result placed, one for each dropped again."""
    call = program.calls[c]
    end_ns = state.next_free[0] - 1
    action = RECOMPUTE if is_remat else COMPUTE
    for t in range(call.first_result, call.end_result):
        s = program.tensors[t].storage
        size = own_bytes(program, state, t)
        if state.run[0].in_place and can_take_over(program, state, t):
            before -= size
            log(state, TAKE_OVER, program.tensors[t].takes_over, size, call.origin)
            row = state.events[state.run[0].events - 1]
            row.start_ns = row.end_ns = end_ns - call.cost_ns
            row.memory_after_bytes = before
        before += size
        log_result(state, action, call.origin, t, (s, size))
        row = state.events[state.run[0].events - 1]
        row.start_ns, row.end_ns = end_ns - call.cost_ns, end_ns
        row.memory_after_bytes = before
        note_address(program, state, t)
    for t in range(call.first_result, call.end_result):
        if state.defined[t]:
            before -= own_bytes(program, state, t)
            s = program.tensors[t].storage
            log_result(state, DROP_DUPLICATE, call.origin, t, (s, own_bytes(program, state, t)))
            state.events[state.run[0].events - 1].memory_after_bytes = before
            note_address(program, state, t)


@kernel
def note_address(program: Program, state: State, t: int) -> None:
    """Say in the last row of the log where a result was put, be it a second copy."""
    if state.memory[0].serve != 0:
        place = t - program.calls[program.tensors[t].call].first_result
        state.events[state.run[0].events - 1].address = state.placed[place].address
