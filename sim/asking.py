"""Kernels: what a plan that moves data asks of memory: room for calls and copies, and it back.

With the counter, bytes are all there is to it. With addresses, a call and a copy from the host have
places once they have room; one that finds none is not tried again until something has been freed.
What is on its way to the host belongs to the transfer, not to the storage, which may be computed
again meanwhile (docs/semantics.md, 8).
"""

from __future__ import annotations

from .jit import call_at, kernel, shared_kernel
from .memory import ASK, FIT, GIVE_BACK, LET_PASS, REQUESTS
from .program import Program
from .serving import put
from .space import NONE
from .state import State
from .traffic import NO_TRANSFER


@kernel
def has_bytes_for(state: State, size_bytes: int) -> bool:
    """Say whether so many bytes fit beside what is in memory and what a running call holds."""
    memory = state.memory[0]
    taken = memory.used_bytes + state.link[0].passing_bytes
    return taken + size_bytes <= memory.budget_bytes  # type: ignore[no-any-return]


@shared_kernel
def finds_room(program: Program, state: State, c: int) -> bool:
    """Say whether a call that is first in line finds room; if it does, it has to be run next."""
    link, memory, call = state.link[0], state.memory[0], program.calls[c]
    size = call.result_bytes + call.workspace_bytes
    if memory.serve == 0:
        return bool(size == 0 or has_bytes_for(state, size))
    if size > 0 and link.is_refused:
        return False
    is_placed = call_at(memory.serve, program, state, REQUESTS * c + FIT) != 0
    if size > 0:
        link.is_refused = not is_placed
    return is_placed  # type: ignore[no-any-return]


@shared_kernel
def takes_room(program: Program, state: State, number: int) -> bool:
    """Let a transfer from the host that is first in line take its place; say whether it has one."""
    link, memory, transfer = state.link[0], state.memory[0], state.transfers[number]
    s = transfer.storage
    size = state.storages[s].size_bytes
    if memory.serve == 0:
        return has_bytes_for(state, size)
    if link.is_refused:
        return False
    p = call_at(memory.serve, program, state, REQUESTS * size + ASK)
    link.is_refused = p == NONE
    if p == NONE:
        return False
    transfer.address = state.pieces[p].address
    if state.moves[s].arrival == number:
        put(state, s, p)
    else:  # a transfer to the host will take it from here
        transfer.piece = p
    return True


@kernel
def take_from_storage(state: State, number: int) -> None:
    """Let a transfer to the host, which is issued, have what its storage has."""
    transfer = state.transfers[number]
    if state.memory[0].serve != 0:
        transfer.piece = state.places[transfer.storage].piece
        state.places[transfer.storage].piece = NONE


@shared_kernel
def give_back(program: Program, state: State, number: int) -> None:
    """Free what a transfer to the host has copied."""
    memory, transfer = state.memory[0], state.transfers[number]
    memory.used_bytes -= state.storages[transfer.storage].size_bytes
    if memory.serve == 0:
        return
    p = transfer.piece
    if p == NONE and transfer.source != NO_TRANSFER:
        p = state.transfers[transfer.source].piece
    if p != NONE:
        transfer.address = state.pieces[p].address
        call_at(memory.serve, program, state, REQUESTS * p + GIVE_BACK)
        state.link[0].is_refused = 0


@kernel
def let_pass(program: Program, state: State) -> None:
    """Free the workspace and the second copies of the call that has run last, if any are left."""
    link, memory = state.link[0], state.memory[0]
    if link.passing_bytes > 0 and memory.serve != 0:
        call_at(memory.serve, program, state, REQUESTS * state.run[0].current_call + LET_PASS)
        link.is_refused = 0
    link.passing_bytes = 0
