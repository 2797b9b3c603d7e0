"""The terms that scores are made of: one quantity of a storage each, as float64.

A heuristic reads the State only through these. Each term that the engine must keep up names what
a heuristic has to declare for it (``needs=``). Bytes times nanoseconds overflow int64, so every
term is a float.
"""

from __future__ import annotations

import math

from ..jit import inlineable
from ..moving import can_be_moved
from ..space import FREE, NONE
from ..state import State


@inlineable
def own_cost(state: State, s: int) -> float:
    """Cost of recomputing the storage alone, ns: c in the DTR paper."""
    return float(state.storages[s].cost_ns)


@inlineable
def size(state: State, s: int) -> float:
    """Size of the storage, bytes: m."""
    return float(state.storages[s].size_bytes)


@inlineable
def last_access(state: State, s: int) -> float:
    """Clock reading of the storage's last access, ns."""
    return float(state.storages[s].last_access)


@inlineable
def staleness(state: State, s: int) -> float:
    """Time since the storage's last access, ns: s."""
    return float(state.next_free[0] - state.storages[s].last_access)


@inlineable
def ancestor_cost(state: State, s: int) -> float:
    """Cost of the evicted ancestors, ns; needs ``ancestors``."""
    return float(state.storages[s].ancestor_ns)


@inlineable
def neighborhood_cost(state: State, s: int) -> float:
    """Cost of the evicted neighborhood e*, ns; needs ``ancestors`` and ``descendants``."""
    return float(state.storages[s].ancestor_ns + state.storages[s].descendant_ns)


@inlineable
def class_cost(state: State, s: int) -> float:
    """Cost of the equivalence classes next to the storage, ns; needs ``classes``."""
    run = state.run[0]
    return float(max(state.storages[s].class_ns - run.lost_ns, run.class_floor_ns))


@inlineable
def call_cost(state: State, s: int) -> float:
    """Cost of the classes of what its own call reads and makes, ns; needs ``classes, call``."""
    return float(state.run[0].call_ns)


@inlineable
def set_cost(state: State, s: int) -> float:
    """Cost of the evicted neighborhood as one set, ns; needs ``set``."""
    return float(state.run[0].set_ns)


@inlineable
def set_staleness(state: State, s: int) -> float:
    """Time since the last access of the storage or of its neighborhood, ns; needs ``set``."""
    return float(state.next_free[0] - state.run[0].set_last_access)


@inlineable
def next_use(state: State, s: int) -> float:
    """Time to the next use, ns; needs ``next_use`` or ``last_step``; staleness if unknown."""
    distance = state.run[0].next_use_ns
    return float(distance) if distance >= 0.0 else staleness(state, s)


@inlineable
def remat_count(state: State, s: int) -> float:
    """How often the storage has been rematerialized."""
    return float(state.holds[s].remat_count)


@inlineable
def free_neighbor_bytes(state: State, s: int) -> float:
    """Free bytes at the storage's two ends; none where memory has no addresses."""
    if state.memory[0].serve == 0 or state.places[s].piece == NONE:
        return 0.0
    piece = state.pieces[state.places[s].piece]
    total = 0
    if state.pieces[piece.before].storage == FREE:
        total += state.pieces[piece.before].size_bytes
    if state.pieces[piece.after].storage == FREE:
        total += state.pieces[piece.after].size_bytes
    return float(total)


@inlineable
def time_to_host(state: State, s: int) -> float:
    """Time that an eviction to the host waits, ns: none if a copy is there; infinity: no way."""
    if state.link[0].is_online == 0:
        return math.inf
    move = state.moves[s]
    if move.is_on_host != 0:
        return 0.0
    if not can_be_moved(state, s):
        return math.inf
    return float(state.link[0].queue_ns + move.to_host_ns)


@inlineable
def time_from_host(state: State, s: int) -> float:
    """Time that a copy back from the host takes, ns; infinity where there is no way."""
    if state.link[0].is_online == 0:
        return math.inf
    return float(state.moves[s].from_host_ns)


@inlineable
def cheaper(state: State, s: int, recompute: float, move: float) -> float:
    """Give the lower of what computing again costs and what moving does, ns.

    Infinity while the storage is being copied: till then its bytes stay, however it is to go.
    """
    if state.link[0].is_online != 0 and state.moves[s].busy_until_ns > state.next_free[0]:
        return math.inf
    return min(recompute, move)


@inlineable
def ratio(numerator: float, denominator: float) -> float:
    """Divide; a zero denominator scores infinity (docs/semantics.md, 4)."""
    return numerator / denominator if denominator != 0.0 else math.inf
