"""Kernels: sequences of computations on a static graph, and random steps that make them cheaper.

A sequence names each node once in order, and some again: then it says node + number of nodes. Each
value is freed after its last use before it is made again, so that a sequence is a whole schedule,
and every sequence is legal in which nothing is read before it is first made. A *step* takes out one
of the repeats, or moves it. Where that takes too much memory, it *repairs*: at the peak it takes a
value that is not used there, and has it computed again just before its next use.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .jit import Bundle, kernel, shared_kernel
from .randomness import draw_below
from .schedules import GraphArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEARCH_FIELDS = np.dtype(
    [("random", "i8"), ("length", "i8"), ("trial_length", "i8"), ("best_length", "i8"),
     ("cost", "i8"), ("trial_cost", "i8"), ("best_cost", "i8"), ("fixed", "i8"), ("budget", "i8"),
     ("peak", "i8"), ("peak_at", "i8"), ("noise", "i8"), ("temperature", "f8"),
     ("last_temperature", "f8"), ("cooling", "f8")],
    align=True,
)  # fmt: skip
MOST_REPAIRS = 12
LONGEST_CHAIN = 256
ATTEMPTS = 6
NOT_USED = -1
DRAWS = 1 << 20


class Sequences(Bundle):
    """The sequence reached, the one tried and the best, each with its length and cost."""

    order: Any
    trial: Any
    best: Any
    producer: Any
    next_use: Any  # by value: where it is read next, or NOT_USED
    chain: Any  # nodes to be inserted together
    in_chain: Any
    run: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "order": np.int32,
        "trial": np.int32,
        "best": np.int32,
        "producer": np.int32,
        "next_use": np.int32,
        "chain": np.int32,
        "in_chain": np.uint8,
        "run": SEARCH_FIELDS,
    }


@kernel
def look_back(graph: GraphArrays, search: Sequences, stop: int) -> None:
    """Go from the end of the trial to ``stop``: the peak of that part, and each value's next use.

    Repeats that make nothing that is used are blanked.
    """
    here, n_nodes = search.run[0], len(graph.cost)
    for value in range(len(search.next_use)):
        search.next_use[value] = NOT_USED
    used, here.peak, here.peak_at = here.fixed, 0, -1
    for at in range(here.trial_length - 1, stop - 1, -1):
        code = search.trial[at]
        node = code - n_nodes if code >= n_nodes else code
        if code < 0:
            continue
        made, is_used = 0, code < n_nodes
        for value in range(graph.value_pointer[node], graph.value_pointer[node + 1]):
            is_used = is_used or search.next_use[value] != NOT_USED
        if not is_used:
            search.trial[at] = -1
            here.trial_cost -= graph.cost[node]
            continue
        after = used
        for value in range(graph.value_pointer[node], graph.value_pointer[node + 1]):
            if search.next_use[value] == NOT_USED:
                made += graph.size[value]
            else:
                used -= graph.size[value]
                search.next_use[value] = NOT_USED
        for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
            value = graph.reads[i]
            if search.next_use[value] == NOT_USED:
                used += graph.size[value]
                after += graph.size[value]
            search.next_use[value] = at
        if after + made + graph.workspace[node] > here.peak:
            here.peak = after + made + graph.workspace[node]
            here.peak_at = at


@kernel
def compact(search: Sequences) -> None:
    """Close the gaps of the trial."""
    here, length = search.run[0], 0
    for at in range(here.trial_length):
        if search.trial[at] >= 0:
            search.trial[length] = search.trial[at]
            length += 1
    here.trial_length = length


@kernel
def measure(graph: GraphArrays, search: Sequences) -> bool:
    """Say whether the trial fits; clean it, and find its peak."""
    look_back(graph, search, 0)
    before = search.run[0].trial_length
    compact(search)
    if search.run[0].trial_length < before and search.run[0].peak > search.run[0].budget:
        look_back(graph, search, 0)  # for where the peak is now
    return search.run[0].peak <= search.run[0].budget


@kernel
def gain_of(graph: GraphArrays, search: Sequences, value: int) -> int:
    """Give the bytes that the peak would lose: less what is kept longer to make the value again."""
    gain = graph.size[value]
    node = search.producer[value]
    for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
        if search.next_use[graph.reads[i]] == NOT_USED:
            gain -= graph.size[graph.reads[i]]
    return gain


@kernel
def choose_value(graph: GraphArrays, search: Sequences, noise: int) -> int:
    """Choose a value that lives across the peak, by cost per byte and chance; -1 if none can go."""
    here, chosen, least = search.run[0], -1, 0.0
    for value in range(len(graph.size)):
        node = search.producer[value]
        # `next_use` is that before the peak's own node ran: what it reads is used there.
        if search.next_use[value] <= here.peak_at or not graph.recomputable[node]:
            continue
        gain, cost = gain_of(graph, search, value), float(graph.cost[node])
        if graph.size[value] <= 0:
            continue
        if gain <= 0:
            for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
                if search.next_use[graph.reads[i]] == NOT_USED:
                    cost += graph.cost[search.producer[graph.reads[i]]]
            gain = graph.size[value]
        score = (cost + 1e-3) / gain
        score *= 1.0 + noise * draw_below(search, DRAWS) / DRAWS  # type: ignore[arg-type]
        if chosen < 0 or score < least:
            chosen, least = value, score
    return chosen


@kernel
def collect_chain(graph: GraphArrays, search: Sequences, value: int) -> int:
    """Collect the nodes to compute for a value from what lives across the peak; give their number.

    0 if it takes too many, or one that cannot run again.
    """
    count, done = 1, 0
    search.chain[0] = search.producer[value]
    search.in_chain[search.producer[value]] = 1
    is_possible = True
    while done < count and is_possible:
        node = search.chain[done]
        done += 1
        is_possible = graph.recomputable[node]
        for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
            source = search.producer[graph.reads[i]]
            if search.next_use[graph.reads[i]] != NOT_USED or search.in_chain[source]:
                continue
            if count == LONGEST_CHAIN:
                is_possible = False
                break
            search.chain[count] = source
            search.in_chain[source] = 1
            count += 1
    for i in range(count):
        search.in_chain[search.chain[i]] = 0
    return count if is_possible else 0


@kernel
def insert_chain(graph: GraphArrays, search: Sequences, count: int, place: int) -> bool:
    """Insert the nodes of the chain, ascending, before a place of the trial."""
    here, n_nodes = search.run[0], len(graph.cost)
    if here.trial_length + count > len(search.trial):
        return False
    for at in range(here.trial_length - 1, place - 1, -1):
        search.trial[at + count] = search.trial[at]
    here.trial_length += count
    for i in range(count):
        node, at = search.chain[i], place + i
        here.trial_cost += graph.cost[node]
        while at > place and search.trial[at - 1] > node + n_nodes:
            search.trial[at] = search.trial[at - 1]
            at -= 1
        search.trial[at] = node + n_nodes
    return True


@shared_kernel
def repair(graph: GraphArrays, search: Sequences, noise: int) -> bool:
    """Have one value that lives across the peak computed again; say whether one can."""
    here = search.run[0]
    look_back(graph, search, here.peak_at)
    for attempt in range(ATTEMPTS):
        value = choose_value(graph, search, noise + 4 * attempt)
        if value < 0:
            return False
        count = 1
        search.chain[0] = search.producer[value]
        is_far = gain_of(graph, search, value) <= 0
        if is_far or draw_below(search, 4) == 0:  # type: ignore[arg-type]
            count = collect_chain(graph, search, value)
        if count > 0:
            return insert_chain(graph, search, count, search.next_use[value])
    return False


@kernel
def copy_sequence(source: NDArray[Any], target: NDArray[Any], length: int) -> None:
    """Copy the first part of an array."""
    for at in range(length):
        target[at] = source[at]


@kernel
def take_out(graph: GraphArrays, search: Sequences) -> int:
    """Take a random repeat out of the trial; give where it was, or -1 if there is none."""
    here, n_nodes = search.run[0], len(graph.cost)
    start = draw_below(search, here.trial_length)  # type: ignore[arg-type]
    for i in range(here.trial_length):
        at = (start + i) % here.trial_length
        if search.trial[at] >= n_nodes:
            here.trial_cost -= graph.cost[search.trial[at] - n_nodes]
            search.trial[at] = -1
            return at
    return -1


@kernel
def put_elsewhere(graph: GraphArrays, search: Sequences, at: int, code: int) -> None:
    """Put a repeat that stood somewhere to a place near by."""
    here, n_nodes = search.run[0], len(graph.cost)
    width = 1 + draw_below(search, 64)  # type: ignore[arg-type]
    other = at + draw_below(search, 2 * width + 1) - width  # type: ignore[arg-type]
    other = min(max(other, 0), here.trial_length - 1)
    step = 1 if other > at else -1
    while at != other:
        following = search.trial[at + step]
        if step < 0 and following == code - n_nodes:
            break  # not before its own first time
        search.trial[at] = following
        at += step
    search.trial[at] = code
    here.trial_cost += graph.cost[code - n_nodes]


@kernel
def is_accepted(search: Sequences) -> bool:
    """Say whether the trial is cheap enough, by Metropolis' rule."""
    here = search.run[0]
    if here.trial_cost <= here.cost:
        return True
    chance = (1 + draw_below(search, DRAWS)) / DRAWS  # type: ignore[arg-type]
    return here.trial_cost - here.cost <= -here.temperature * math.log(chance)


@kernel
def keep_trial(search: Sequences) -> None:
    """Let the trial be where the search is, and the best if it is."""
    here = search.run[0]
    copy_sequence(search.trial, search.order, here.trial_length)
    here.length, here.cost = here.trial_length, here.trial_cost
    if here.cost < here.best_cost:
        copy_sequence(search.order, search.best, here.length)
        here.best_length, here.best_cost = here.length, here.cost


@shared_kernel
def step(graph: GraphArrays, search: Sequences) -> bool:
    """Try one change of the sequence; say whether there was anything to change."""
    here = search.run[0]
    copy_sequence(search.order, search.trial, here.length)
    here.trial_length, here.trial_cost = here.length, here.cost
    at = take_out(graph, search)
    if at < 0:
        return False
    code, repairs = search.order[at], 0
    is_move = draw_below(search, 4) == 0  # type: ignore[arg-type]
    if is_move:
        put_elsewhere(graph, search, at, code)
    fits = measure(graph, search)
    limit = 0 if is_move else MOST_REPAIRS
    while not fits and repairs < limit and repair(graph, search, 4):
        fits = measure(graph, search)
        repairs += 1
        if here.trial_cost - here.cost > 20.0 * here.temperature:
            break
    if fits and is_accepted(search):
        keep_trial(search)
    return True


def anneal(graph: GraphArrays, search: Sequences, steps: int) -> int:
    """Take a number of steps while it gets colder; give how many there were."""
    here = search.run[0]
    for i in range(steps):
        if not step(graph, search):
            return i
        here.temperature = max(here.temperature * here.cooling, here.last_temperature)
    return steps


def make_fit(graph: GraphArrays, search: Sequences, steps: int) -> int:
    """Repair the trial until it fits: 1 if it does, 0 if it goes on, -1 if nothing more can go."""
    for _ in range(steps):
        if measure(graph, search):
            keep_trial(search)
            return 1
        if not repair(graph, search, search.run[0].noise):
            return -1
    return 0
