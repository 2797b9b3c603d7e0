"""Kernels: what every memory model with addresses does; factory of the entry point that is one.

The engine asks a model by calling ``serve(program, state, REQUESTS * subject + request)`` by its
address (`memory.py`). The requests:

============ ======= ========================================================================
request      subject answer
============ ======= ========================================================================
BEGIN        0       0; memory is empty, as large as ``memory.budget_bytes`` and the settings say
FIT          call    1: its results and workspace have places now; 0: one has not, so none has
SETTLE       call    0; the call has run, results are where they were put, the rest goes, or,
                     where a plan moves data, passes: it has its places until it is let pass
LET_PASS     call    0; the workspace and the second copies that were left go
DROP         storage 0; its bytes are free
ASK          bytes   a piece for so many, or -1; for those who keep account of it themselves
GIVE_BACK    piece   0; that piece is free
LARGEST_HOLE 0       the most bytes that could be placed in one piece now
============ ======= ========================================================================

A model is made of kernels for `make_serve`, the same for each request; sizes are as they were asked
for, and rounding is the model's:

- ``begin(state)`` sets up `State.space` and the pieces;
- ``allocate(state, size_bytes, side) -> piece`` finds a place and takes it, or answers NONE;
- ``free(state, piece)`` lets it go;
- ``settle(state, piece, side)`` is told of each piece of a call that fits (accounts of what has
  been in use belong here, as a call that does not fit leaves no trace);
- ``largest_hole(state) -> bytes``.

They keep `occupied_bytes`, `reserved_bytes` and its peak; `fit` keeps the rest of `State.space`.
"""

from __future__ import annotations

from collections.abc import Callable

from .jit import kernel
from .memory import ASK, DROP, FIT, GIVE_BACK, LARGEST_HOLE, LET_PASS, REQUESTS, SETTLE
from .placed_results import can_take_over, own_bytes
from .program import Program
from .space import NONE, SCRATCH
from .state import State

Serve = Callable[[Program, State, int], int]
NOWHERE = -1  # the address of what has no bytes


@kernel
def takes_over(program: Program, state: State, t: int) -> bool:
    """Say whether a result gets the piece of the storage that it replaces."""
    return state.run[0].in_place != 0 and can_take_over(program, state, t)


@kernel
def asked_bytes(program: Program, state: State, c: int, i: int) -> int:
    """Give the bytes that a call asks for its i-th result; after the last: for its workspace."""
    call = program.calls[c]
    t = call.first_result + i
    if t == call.end_result:
        return call.workspace_bytes  # type: ignore[no-any-return]
    return 0 if takes_over(program, state, t) else own_bytes(program, state, t)


@kernel
def hand_on(state: State, s: int, old: int) -> None:
    """Let a storage have the piece of another one."""
    state.places[s].address, state.places[s].piece = (
        state.places[old].address,
        state.places[old].piece,
    )
    if state.places[s].piece != NONE:
        state.pieces[state.places[s].piece].storage = s
    state.places[old].piece = NONE


@kernel
def put(state: State, s: int, p: int) -> None:
    """Let a storage lie in a piece, or in none."""
    state.places[s].piece = p
    state.places[s].address = NOWHERE
    if p != NONE:
        state.places[s].address = state.pieces[p].address
        state.pieces[p].storage = s


def make_serve(
    begin: Callable[[State], None],
    allocate: Callable[[State, int, int], int],
    free: Callable[[State, int], None],
    settle: Callable[[State, int, int], None],
    largest_hole: Callable[[State], int],
) -> Serve:
    """Make the entry point of a memory model, of kernels that this module describes."""

    @kernel
    def fit(program: Program, state: State, c: int) -> int:
        """Place a call's results and workspace, each for itself; if one has no place, none."""
        space, side = state.space[0], state.sides[c]
        evictions = state.run[0].pressure_evictions
        is_retry = space.failed_at >= 0 and evictions > space.failed_at
        space.retries += is_retry
        free_bytes = space.size_bytes - space.occupied_bytes
        count = program.calls[c].end_result - program.calls[c].first_result + 1
        for i in range(count):
            state.placed[i].piece, state.placed[i].address = NONE, NOWHERE
        for i in range(count):
            size = asked_bytes(program, state, c, i)
            if size == 0:
                continue
            p = allocate(state, size, side)
            if p == NONE:
                for j in range(i):
                    if state.placed[j].piece != NONE:
                        free(state, state.placed[j].piece)
                space.failed_at, space.wanted_bytes, space.wanted_side = evictions, size, side
                return 0
            state.pieces[p].storage = SCRATCH
            state.placed[i].piece, state.placed[i].address = p, state.pieces[p].address
        for i in range(count):
            if state.placed[i].piece != NONE:
                settle(state, state.placed[i].piece, side)
        if is_retry:
            space.crowded += 1
            space.crowded_free_bytes += free_bytes
        space.failed_at = -1
        return 1

    @kernel
    def let_pass(program: Program, state: State, c: int) -> int:
        """Free the workspace of a call that has run, and what was there already."""
        for i in range(program.calls[c].end_result - program.calls[c].first_result + 1):
            if state.placed[i].piece != NONE:
                free(state, state.placed[i].piece)
                state.placed[i].piece = NONE
        return 0

    @kernel
    def run(program: Program, state: State, c: int) -> int:
        """Keep a call's results; what does not stay goes now, or is left for `let_pass`."""
        call = program.calls[c]
        for t in range(call.first_result, call.end_result):
            place, s = state.placed[t - call.first_result], program.tensors[t].storage
            if takes_over(program, state, t):
                hand_on(state, s, program.tensors[t].takes_over)
                place.address = state.places[s].address
            elif not state.defined[t] and program.storages[s].root == t:
                put(state, s, place.piece)
                place.piece = NONE
        return 0 if state.link[0].is_planned else let_pass(program, state, c)

    @kernel
    def drop(state: State, s: int) -> int:
        """Free the piece of a storage, if it has one; its address is remembered."""
        if state.places[s].piece != NONE:
            free(state, state.places[s].piece)
            state.places[s].piece = NONE
        return 0

    @kernel
    def give_back(state: State, p: int) -> int:
        free(state, p)
        return 0

    @kernel
    def ask(state: State, size: int) -> int:
        """Allocate for somebody who keeps the piece himself."""
        p = allocate(state, size, state.space[0].wanted_side)
        if p != NONE:
            state.pieces[p].storage = SCRATCH
            settle(state, p, state.space[0].wanted_side)
        return p

    @kernel
    def start(state: State) -> int:
        space = state.space[0]
        space.failed_at = -1
        space.wanted_bytes = space.wanted_side = space.retries = 0
        space.crowded = space.crowded_free_bytes = 0
        space.occupied_bytes = space.reserved_bytes = space.reserved_peak_bytes = 0
        begin(state)
        return 0

    def serve(program: Program, state: State, number: int) -> int:
        request, subject = number % REQUESTS, number // REQUESTS
        if request == FIT:
            return fit(program, state, subject)
        if request == SETTLE:
            return run(program, state, subject)
        if request == LET_PASS:
            return let_pass(program, state, subject)
        if request == DROP:
            return drop(state, subject)
        if request == ASK:
            return ask(state, subject)
        if request == GIVE_BACK:
            return give_back(state, subject)
        if request == LARGEST_HOLE:
            return largest_hole(state)
        return start(state)

    return serve
