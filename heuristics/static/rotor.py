"""rotor: blocks between articulation points as the stages of a chain, and its cheapest schedule.

The dynamic program is in ``rotor_chain.py``. It knows blocks by a few sums; so it is asked for
several amounts of memory, and what it answers is judged on the graph itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ...static_graph import (
    Schedule,
    StaticGraph,
    evaluate,
    free_after_last_use,
    naive_peak_bytes,
    naive_schedule,
)
from ..parameters import OneOf, Truth, Whole
from .clock import Clock
from .registry import FEASIBLE, PlannerResult, planner, without_plan
from .rotor_chain import AGAIN, BACKWARD, Chain, RotorTable, Step
from .segments import NO_BACKWARD, POINTS, candidates
from .stages import read_again
from .sweeping import first_that_fits

MOST_STAGES, MOST_SLOTS = 100, 10_000
# The sums overrate memory: from more than the naive peak down to 0 so many amounts are looked at,
# and of those that fit the largest few are tried.
MOST_MEMORY, TRIALS, ENOUGH = 1.25, 60, 3


@planner(
    "rotor",
    reference="Beaumont et al., arXiv 1911.13214; blocks as in Rockmate",
    allowed={"points": OneOf(POINTS), "slots": Whole(1, MOST_SLOTS), "records": Truth()},
)
def rotor(
    graph: StaticGraph,
    budget: int | None,
    *,
    time_limit: float | None = None,
    points: str = "articulation",
    slots: int = 500,
    records: bool = True,
    **_: Any,
) -> PlannerResult:
    """Find the cheapest schedule of a chain of blocks by dynamic programming.

    Parameters
    ----------
    graph, budget, time_limit
        As for every planner.
    points : str
        Where blocks may end: ``"articulation"`` points, or ``"linear"``, after any node.
    slots : int
        Into how many parts memory is cut.
    records : bool
        Whether a block may also leave out what is cheapest of its record, as Rockmate's do.
    """
    clock = Clock(time_limit)
    if budget is None or naive_peak_bytes(graph) <= budget:
        return PlannerResult(FEASIBLE, naive_schedule(graph))
    if not graph.backward.any() or not (first := int(graph.backward.argmax())):
        return NO_BACKWARD
    ends = block_ends(graph, points, first)
    found = []
    for has_lighter in (False, True) if records else (False,):
        share = 0.4 if records and not has_lighter else 0.7
        blocks = BlockChain(graph, first, ends, has_lighter)
        found.append(_cheapest(blocks, budget, slots, clock.part(share)))
    plans = [answer for answer in found if answer.schedule is not None]
    return min(plans, key=lambda answer: _cost(graph, answer), default=found[-1])


def block_ends(graph: StaticGraph, points: str, first: int) -> list[int]:
    """Give the nodes after which a block may end, before the first node of the backward pass."""
    return [node for node in candidates(graph, points) if node < first - 1]


def _cost(graph: StaticGraph, answer: PlannerResult) -> int:
    assert answer.schedule is not None
    return evaluate(graph, answer.schedule).cost


def _cheapest(blocks: BlockChain, budget: int, slots: int, clock: Clock) -> PlannerResult:
    """Look for the most memory whose schedule fits, and a little below; take the cheapest."""
    graph, most = blocks.graph, naive_peak_bytes(blocks.graph)
    memory = int((most - graph.fixed_bytes) * MOST_MEMORY)
    table = RotorTable(blocks.chain(), memory, slots, clock)
    asked = np.linspace(memory, 0, TRIALS, endpoint=False).astype(int).tolist()
    known: dict[int, tuple[int, int, Schedule]] = {}

    def fits(trial: int) -> bool:
        """Try; say whether it fits, or whether with so little the chain has no schedule at all."""
        steps = table.steps(asked[trial])
        if steps and trial not in known:
            schedule = blocks.schedule(steps)
            known[trial] = (*evaluate(graph, schedule), schedule)
        return not steps or known[trial][1] <= budget

    low = first_that_fits(TRIALS, fits, clock)
    for trial in range(low, min(low + ENOUGH, TRIALS)):
        if not clock.is_over:
            fits(trial)
    fitting = [(cost, schedule) for cost, peak, schedule in known.values() if peak <= budget]
    if fitting:
        return PlannerResult(FEASIBLE, min(fitting, key=lambda pair: pair[0])[1])
    least = min((peak for _, peak, _ in known.values()), default=most)
    message = f"the smallest of its plans takes {least:,} bytes, the budget is {budget:,}"
    return without_plan(clock, message)


class BlockChain:
    """The graph as a chain: nodes before the backward pass in blocks, all others by block.

    Parameters
    ----------
    graph : StaticGraph
    first : int
        The first node of the backward pass.
    ends : sequence of int
        The nodes after which a block may end, ascending.
    has_lighter : bool
        Whether blocks have lighter records.
    """

    def __init__(
        self, graph: StaticGraph, first: int, ends: Sequence[int], has_lighter: bool
    ) -> None:
        self.graph, self.first, self.has_lighter = graph, first, has_lighter
        every = -(-(len(ends) + 1) // MOST_STAGES)
        self.starts = [0, *(end + 1 for end in ends[every - 1 :: every])]
        self.n = len(self.starts)
        self.block = np.searchsorted(self.starts, np.arange(first), side="right") - 1
        self.of_others = self._of_others()

    def _of_others(self) -> list[int]:
        """Give the block with whose backward step each later node runs; the order stays.

        Most nodes read what their own block has made, and newer blocks are differentiated first;
        but some read older or newer values. So each gets a block such that none is newer than that
        of the node before, as near as can be to the newest block that it reads from.
        """
        graph, first = self.graph, self.first
        newest = np.full(graph.n_nodes, -1)
        producer = graph.producer[graph.reads]
        is_read = (producer < first) & (graph.read_node >= first)
        np.maximum.at(newest, graph.read_node[is_read], self.block[producer[is_read]])
        newest[first] = self.n - 1
        reads = np.flatnonzero(newest >= 0)
        newest[reads] = _falling(newest[reads].tolist())
        latest = reads[np.searchsorted(reads, np.arange(first, graph.n_nodes), side="right") - 1]
        return newest[latest].tolist()  # type: ignore[no-any-return]

    def chain(self) -> Chain:
        """Sum up times and sizes of the blocks."""
        graph, first, n = self.graph, self.first, self.n
        forward = np.bincount(self.block, graph.cost[:first], n)
        backward = np.bincount(self.of_others, graph.cost[first:], n)
        is_forward = graph.producer < first
        made_in = self.block[graph.producer[is_forward]]
        size, last = graph.size[is_forward], graph.last_reader[is_forward]
        record = np.bincount(made_in, np.where(last >= first, size, 0), n)
        read_until = self.block[np.minimum(last, first - 1)]
        crosses = (read_until > made_in) | (last >= first)
        is_end = graph.producer[is_forward] == np.append(self.starts[1:], first)[made_in] - 1
        output = np.bincount(made_in, np.where(crosses & is_end, size, 0), n)
        record = np.maximum(record, output)
        need = graph.node_need_bytes - graph.fixed_bytes
        extra = np.zeros(n, np.int64)
        np.maximum.at(extra, np.array(self.of_others), need[first:])
        sizes = [0, *output.astype(int).tolist()]
        return Chain(
            forward=forward.astype(int).tolist(),
            backward=backward.astype(int).tolist(),
            output=sizes,
            record=record.astype(int).tolist(),
            gradient=sizes,
            backward_extra=np.maximum(extra - record - 2 * output, 0).astype(int).tolist(),
            lighter=[
                [(int(whole) - less, int(graph.cost[again].sum())) for less, again in lighter]
                for whole, lighter in zip(record, self.lighter, strict=True)
            ],
        )

    def values(self, parts: Iterable[tuple[int, bool]]) -> set[int]:
        """Give the values of some blocks: all that it makes, or those of its last node alone."""
        ends = [*self.starts[1:], self.first]
        found: set[int] = set()
        for block, is_whole in parts:
            first = self.starts[block] if is_whole else ends[block] - 1
            found.update(range(*self.graph.value_pointer[[first, ends[block]]].tolist()))
        return found

    @cached_property
    def lighter(self) -> list[list[tuple[int, list[int]]]]:
        """Give what records may lack, of each block: bytes, and the nodes to run again for it.

        The cheapest for their bytes are left out first: a part of the bytes, then more.
        """
        if not self.has_lighter:
            return [[] for _ in range(self.n)]
        ends = [*self.starts[1:], self.first]
        return [self._lighter(*block) for block in zip(self.starts, ends, strict=True)]

    def _lighter(self, start: int, end: int) -> list[tuple[int, list[int]]]:
        graph, last = self.graph, self.graph.last_reader
        bytes_of: dict[int, int] = {}
        for node in range(start, end - 1):
            readers = [graph.readers(value).tolist() for value in graph.values(node)]
            is_own = not any(end <= reader < self.first for read in readers for reader in read)
            if graph.recomputable[node] and is_own:
                values = [value for value in graph.values(node) if last[value] >= self.first]
                bytes_of[node] = int(graph.size[values].sum())
        cheap = [node for node, size in bytes_of.items() if size]
        cheap.sort(key=lambda node: (graph.cost[node] + 1) / bytes_of[node])
        whole, less, without = sum(bytes_of.values()), 0, set[int]()
        found: list[tuple[int, list[int]]] = []
        for node in cheap:
            less += bytes_of[node]
            without.add(node)
            if less * len(AGAIN) >= whole * (len(found) + 1):
                found.append((less, self._again(without, start)))
        return found[: len(AGAIN)]

    def _again(self, without: set[int], start: int) -> list[int]:
        """Give the nodes of a block to run for what its record lacks."""
        graph, again = self.graph, set(without)
        for node in range(max(without), start - 1, -1):
            if node in again:
                for value in graph.reads_of(node).tolist():
                    producer = int(graph.producer[value])
                    is_kept = graph.last_reader[value] >= self.first and producer not in without
                    if start <= producer and not is_kept and graph.recomputable[producer]:
                        again.add(producer)
        return sorted(again)

    def schedule(self, steps: Sequence[Step]) -> Schedule:
        """Run the blocks as a schedule of the chain says, but only what is read again."""
        return free_after_last_use(self.graph, read_again(self.graph, list(self._order(steps))))

    def _order(self, steps: Sequence[Step]) -> Iterator[int]:
        graph, done = self.graph, 0
        nodes = [range(*ends) for ends in pairwise([*self.starts, self.first])]
        others: list[list[int]] = [[] for _ in range(self.n)]
        for node, block in enumerate(self.of_others, self.first):
            others[block].append(node)
        for what, block in steps:
            if what in AGAIN:
                run: Sequence[int] = self.lighter[block][AGAIN.index(what)][1]
            else:
                run = others[block] if what == BACKWARD else nodes[block]
            for node in run:
                if node >= done or graph.recomputable[node]:
                    done = max(done, node + 1)
                    yield node


def _falling(numbers: Sequence[int]) -> list[int]:
    """Give numbers, none larger than the one before, with the least sum of differences to others.

    Seen from the end they rise; the heap holds the slopes of the least sum by the last number.
    """
    heap: list[int] = []
    tops = []
    for number in reversed(numbers):
        heapq.heappush(heap, -number)
        if -heap[0] > number:
            heapq.heapreplace(heap, -number)
        tops.append(-heap[0])
    fitted = np.minimum.accumulate(np.array(tops[::-1]))
    return fitted.tolist()  # type: ignore[no-any-return]
