"""Kernels: computations on demand, node by node, within a budget: what is missing comes first.

Each node of a static graph is computed in its turn; what it reads and is not there is computed
before it, depth first. Where room is needed, of the values that nobody waits for one goes that is
large, used late, and soon made again. So little is there at once that this nearly always ends, near
the least budget with many computations.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .jit import Bundle, kernel
from .schedules import GraphArrays

DEMAND_FIELDS = np.dtype(
    [("used", "i8"), ("budget", "i8"), ("length", "i8"), ("depth", "i8"), ("turn", "i8"),
     ("turned_at", "i8"), ("takes_oldest", "i8")],
    align=True,
)  # fmt: skip
FINISHED, GOES_ON, FAILED = 1, 0, -1
MOST_A_TURN = 20  # computations for one node's turn, by nodes of the graph
NEEDED = 1 << 20  # added to those who wait for a value while it must not go


class Demand(Bundle):
    """What is there, what waits for it, and what has been computed so far."""

    order: Any  # nodes computed so far
    stack: Any  # nodes that wait, each for the next
    producer: Any
    reader_pointer: Any
    readers: Any
    place: Any  # by value: in its readers, the first that has not had its turn
    held_until: Any  # by value: the last turn in which it must not go
    waited_for: Any  # by value: how many nodes on the stack read it
    is_there: Any
    price: Any  # by value that is not there: about what making it again takes
    is_dead: Any  # by value: whether it is of no use after its last reader's turn
    run: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "order": np.int32,
        "stack": np.int32,
        "producer": np.int32,
        "reader_pointer": np.int32,
        "readers": np.int32,
        "place": np.int32,
        "held_until": np.int32,
        "waited_for": np.int32,
        "is_there": np.uint8,
        "price": np.float64,
        "is_dead": np.uint8,
        "run": DEMAND_FIELDS,
    }


@kernel
def push(graph: GraphArrays, demand: Demand, node: int) -> None:
    """Let a node wait for what it reads."""
    here = demand.run[0]
    demand.stack[here.depth] = node
    here.depth += 1
    for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
        demand.waited_for[graph.reads[i]] += 1


@kernel
def missing_of(graph: GraphArrays, demand: Demand, node: int) -> int:
    """Give a value that the node reads and that is not there: the oldest or the newest; or -1."""
    found = -1
    for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
        value = graph.reads[i]
        if demand.is_there[value]:
            continue
        if found < 0 or (value < found) == (demand.run[0].takes_oldest != 0):
            found = value
    return found


@kernel
def distance_of(demand: Demand, value: int, n_nodes: int) -> int:
    """Give the turns until a value is read in one; 0 if it is of no use any more."""
    last, turn = demand.reader_pointer[value + 1], demand.run[0].turn
    while demand.place[value] < last and demand.readers[demand.place[value]] < turn:
        demand.place[value] += 1
    if demand.place[value] < last:
        return demand.readers[demand.place[value]] - turn + 1  # type: ignore[no-any-return]
    return 0 if demand.is_dead[value] else 2 * n_nodes


@kernel
def price_of(graph: GraphArrays, demand: Demand, value: int) -> float:
    """Give about what making a value again takes, with what is missing for it."""
    node = demand.producer[value]
    price = float(graph.cost[node]) + 1.0
    for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
        if not demand.is_there[graph.reads[i]]:
            price += demand.price[graph.reads[i]]
    return price


@kernel
def choose_victim(graph: GraphArrays, demand: Demand) -> int:
    """Choose a value to drop for which no node waits; -1 if there is none."""
    here, chosen, best = demand.run[0], -1, -1.0
    for value in range(len(graph.size)):
        is_held = demand.waited_for[value] > 0 or demand.held_until[value] >= here.turn
        if is_held or not demand.is_there[value] or graph.size[value] <= 0:
            continue
        distance = distance_of(demand, value, len(graph.cost))
        if distance == 0:
            return value
        score = distance * graph.size[value] / price_of(graph, demand, value)
        if score > best:
            chosen, best = value, score
    return chosen


@kernel
def choose_waited_for(graph: GraphArrays, demand: Demand) -> int:
    """Choose a value that a node waits for, the longer the better; -1 if there is none."""
    here = demand.run[0]
    for at in range(here.depth - 1):
        node, chosen = demand.stack[at], -1
        for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
            value = graph.reads[i]
            is_held = demand.waited_for[value] >= NEEDED or demand.held_until[value] >= here.turn
            if is_held or not demand.is_there[value]:
                continue
            if chosen < 0 or graph.size[value] > graph.size[chosen]:
                chosen = value
        if chosen >= 0 and graph.size[chosen] > 0:
            return chosen
    return -1


@kernel
def make_room(graph: GraphArrays, demand: Demand, size: int) -> bool:
    """Drop values until there is so much room; say whether that was possible.

    What others wait for goes last, and they will have it made again.
    """
    here = demand.run[0]
    while here.used + size > here.budget:
        chosen = choose_victim(graph, demand)
        if chosen < 0:
            chosen = choose_waited_for(graph, demand)
        if chosen < 0:
            return False
        demand.price[chosen] = price_of(graph, demand, chosen)
        demand.is_there[chosen] = 0
        here.used -= graph.size[chosen]
    return True


@kernel
def compute(graph: GraphArrays, demand: Demand, node: int) -> bool:
    """Compute the node on top of the stack; say whether there was room."""
    here, made = demand.run[0], graph.workspace[node]
    first, last = graph.value_pointer[node], graph.value_pointer[node + 1]
    for value in range(first, last):
        made += graph.size[value]
        demand.waited_for[value] += NEEDED  # a second copy of what is there goes afterwards
    for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
        demand.waited_for[graph.reads[i]] += NEEDED
    most = min(len(demand.order), here.turned_at + MOST_A_TURN * len(graph.cost))
    fits = here.length < most and make_room(graph, demand, made)
    for value in range(first, last):
        demand.waited_for[value] -= NEEDED
        if not demand.is_there[value]:
            demand.is_there[value] = 1
            here.used += graph.size[value]
    here.depth -= 1
    for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
        demand.waited_for[graph.reads[i]] -= NEEDED + 1
    if fits:
        demand.order[here.length] = node
        here.length += 1
    return fits


def take_turns(graph: GraphArrays, demand: Demand, count: int) -> int:
    """Compute so many nodes; say whether all are done, or more cannot be.

    Parameters
    ----------
    graph : GraphArrays
    demand : Demand
    count : int

    Returns
    -------
    int
        ``FINISHED``, ``GOES_ON`` or ``FAILED``.
    """
    here, n_nodes = demand.run[0], len(graph.cost)
    while count > 0:
        if here.depth == 0:
            if here.turn == n_nodes:
                return FINISHED
            push(graph, demand, here.turn)
            here.turned_at = here.length
        node = demand.stack[here.depth - 1]
        missing = missing_of(graph, demand, node)
        if missing >= 0:
            source = demand.producer[missing]
            if not graph.recomputable[source]:
                return FAILED
            push(graph, demand, source)
            continue
        if not compute(graph, demand, node):
            return FAILED
        if here.depth == 0:
            here.turn += 1
        count -= 1
    return GOES_ON
