"""Kernels: transfers between device and host, from their issue to their end (docs/semantics.md, 8).

Each way is a queue in the order of issue. What can happen at a time happens at that time: a copy
starts when its turn has come, its source is there and it has room where it goes, and ends after a
time known beforehand. `catch_up` lets all happen up to a time, `step` what happens next.
"""

from __future__ import annotations

from .asking import give_back, let_pass, take_from_storage, takes_room
from .events import NOTHING, log
from .jit import kernel, shared_kernel
from .opcodes import DISCARD, OFFLOAD, PREFETCH
from .pool import enter, leave
from .program import Program
from .serving import NOWHERE
from .space import NONE
from .state import EVICTED, NO_LIMIT, RESIDENT, State
from .traffic import NO_TRANSFER, NOT_YET


@shared_kernel
def issue_transfer(state: State, s: int, is_to_host: int) -> None:
    """Put a transfer of a storage into its queue, now."""
    link, move = state.link[0], state.moves[s]
    number = link.issued
    link.issued += 1
    transfer = state.transfers[number]
    transfer.storage, transfer.instruction = s, state.run[0].instruction
    transfer.is_to_host = is_to_host
    transfer.start_ns, transfer.end_ns, transfer.discarded_by = NOT_YET, NOT_YET, NOT_YET
    transfer.has_asked = transfer.is_behind_call = 0
    transfer.has_ended = transfer.is_disowned = 0
    transfer.piece, transfer.address = NONE, NOWHERE
    if is_to_host:
        take_from_storage(state, number)
        transfer.source = move.arrival
        move.is_here, move.is_on_host = 0, 1
        move.arrival, move.departure = NO_TRANSFER, number
        leave(state, s)
    else:
        transfer.source = move.departure
        move.is_here, move.arrival = 1, number


@shared_kernel
def first_to_host(state: State) -> int:
    """Give the first transfer to the host that has not ended; the number of transfers if none."""
    link = state.link[0]
    while link.to_host < link.issued:
        transfer = state.transfers[link.to_host]
        if transfer.is_to_host and not transfer.has_ended:
            break
        link.to_host += 1
    return link.to_host  # type: ignore[no-any-return]


@shared_kernel
def first_from_host(state: State) -> int:
    """Give the first transfer from the host that has not ended; the number of all if none."""
    link = state.link[0]
    while link.from_host < link.issued:
        transfer = state.transfers[link.from_host]
        if not transfer.is_to_host and not transfer.has_ended:
            break
        link.from_host += 1
    return link.from_host  # type: ignore[no-any-return]


@kernel
def is_under_way(state: State, number: int) -> bool:
    """Say whether a transfer, or none, has started and not ended."""
    return bool(number < state.link[0].issued and state.transfers[number].start_ns != NOT_YET)


@kernel
def has_come(state: State, number: int) -> bool:
    """Say whether a transfer has ended; none has."""
    return number == NO_TRANSFER or state.transfers[number].has_ended != 0


@kernel
def start_to_host(state: State, number: int, other: int) -> None:
    """Start the first transfer to the host if it can; ``other`` is the first the other way."""
    link = state.link[0]
    if number >= link.issued or is_under_way(state, number):
        return
    transfer = state.transfers[number]
    size = state.storages[transfer.storage].size_bytes
    if not has_come(state, transfer.source) or link.host_bytes + size > link.host_limit_bytes:
        return
    if link.is_half_duplex and is_under_way(state, other):
        return
    transfer.start_ns = link.now_ns
    transfer.end_ns = link.now_ns + state.moves[transfer.storage].to_host_ns
    link.host_bytes += size
    link.host_peak_bytes = max(link.host_peak_bytes, link.host_bytes)


@kernel
def start_from_host(program: Program, state: State, number: int, other: int) -> None:
    """Start the first transfer from the host if it can; with its turn it asks for room."""
    link, memory = state.link[0], state.memory[0]
    if number >= link.issued or is_under_way(state, number):
        return
    transfer = state.transfers[number]
    s = transfer.storage
    size = state.storages[s].size_bytes
    if not has_come(state, transfer.source) or (link.is_half_duplex and is_under_way(state, other)):
        return
    if not transfer.has_asked:
        transfer.has_asked, transfer.is_behind_call = 1, link.call_waits
    is_behind = transfer.is_behind_call and link.call_waits
    if size > 0 and (is_behind or not takes_room(program, state, number)):
        return
    memory.used_bytes += size
    memory.peak_bytes = max(memory.peak_bytes, memory.used_bytes + link.passing_bytes)
    transfer.start_ns = link.now_ns
    transfer.end_ns = link.now_ns + state.moves[s].from_host_ns
    state.storages[s].residence = RESIDENT
    enter(state, s)
    log_transfer(state, number, PREFETCH)


@shared_kernel
def start_what_can(program: Program, state: State) -> None:
    """Start the transfers whose turn has come, the one issued first before the other."""
    out, back = first_to_host(state), first_from_host(state)
    if out < back:
        start_to_host(state, out, back)
        start_from_host(program, state, back, out)
    else:
        start_from_host(program, state, back, out)
        start_to_host(state, out, back)


@kernel
def next_end_ns(state: State) -> int:
    """Give when the next transfer ends of those under way."""
    out, back = first_to_host(state), first_from_host(state)
    end = NO_LIMIT
    if is_under_way(state, out):
        end = min(end, state.transfers[out].end_ns)
    if is_under_way(state, back):
        end = min(end, state.transfers[back].end_ns)
    return end


@shared_kernel
def end_transfers(program: Program, state: State) -> None:
    """End the transfers whose time has come: what they left is free."""
    link = state.link[0]
    for _ in range(2):
        out, back = first_to_host(state), first_from_host(state)
        if is_under_way(state, out) and state.transfers[out].end_ns <= link.now_ns:
            transfer = state.transfers[out]
            transfer.has_ended = 1
            give_back(program, state, out)
            link.offloaded_bytes += state.storages[transfer.storage].size_bytes
            if not transfer.is_disowned:
                state.storages[transfer.storage].residence = EVICTED
            log_transfer(state, out, OFFLOAD)
            discard_late(state, out)
        elif is_under_way(state, back) and state.transfers[back].end_ns <= link.now_ns:
            transfer = state.transfers[back]
            transfer.has_ended = 1
            link.prefetched_bytes += state.storages[transfer.storage].size_bytes
            discard_late(state, back)


@kernel
def discard_late(state: State, number: int) -> None:
    """Drop a host copy that a transfer, ended now, was the last to need."""
    transfer = state.transfers[number]
    if transfer.discarded_by != NOT_YET:
        drop_host_copy(state, transfer.storage, transfer.discarded_by)


@shared_kernel
def drop_host_copy(state: State, s: int, instruction: int) -> None:
    """Give back the host memory of a storage, now."""
    link = state.link[0]
    size = state.storages[s].size_bytes
    link.host_bytes -= size
    if state.run[0].logs_events:
        log(state, DISCARD, s, size, NOTHING)
        row = state.events[state.run[0].events - 1]
        row.start_ns = row.end_ns = link.now_ns - 1
        row.instruction = instruction


@shared_kernel
def log_transfer(state: State, number: int, action: int) -> None:
    """Write a transfer's row: that of an offload when it ends, of a prefetch when it starts."""
    transfer = state.transfers[number]
    if state.run[0].logs_events:
        log(state, action, transfer.storage, state.storages[transfer.storage].size_bytes, NOTHING)
        row = state.events[state.run[0].events - 1]
        row.start_ns, row.end_ns = transfer.start_ns - 1, transfer.end_ns - 1
        row.instruction, row.address = transfer.instruction, transfer.address


@shared_kernel
def step(program: Program, state: State) -> bool:
    """Let the next transfer end, and start what can then; say whether there was one."""
    end = next_end_ns(state)
    if end == NO_LIMIT:
        return False
    link = state.link[0]
    link.now_ns = max(link.now_ns, end)
    end_transfers(program, state)
    start_what_can(program, state)
    return True


@shared_kernel
def catch_up(program: Program, state: State) -> None:
    """Let all happen that happens up to the clock: there the call before has ended."""
    link = state.link[0]
    start_what_can(program, state)
    while next_end_ns(state) < state.next_free[0]:
        step(program, state)
    link.now_ns = state.next_free[0]
    let_pass(program, state)
    end_transfers(program, state)
    start_what_can(program, state)
    while next_end_ns(state) == link.now_ns:  # copies that take no time
        step(program, state)
