"""Schedules on a static graph, and the one judge of them: `evaluate` gives cost and peak.

A schedule is what a planner makes: which node is computed and which value is freed, in order.
Every planner's own figures are these; nothing here plans. The graph is in ``static_graph.py``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .errors import PlanError
from .jit import Bundle, Entry, entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from .static_graph import StaticGraph

    Int8 = NDArray[np.int8]
    Int32 = NDArray[np.int32]

COMPUTE, FREE = 0, 1

# What `walk` answers.
LEGAL, UNKNOWN_ACTION, NO_TARGET, OUT_OF_ORDER, NOT_RESIDENT, ONLY_ONCE, NOT_THERE, TOO_SHORT = (
    range(8)
)


class Schedule(NamedTuple):
    """What to do in order.

    Attributes
    ----------
    action : ndarray of int8
        `COMPUTE` or `FREE`; of planners that move data also `plan.OFFLOAD` and those after it.
    target : ndarray of int32
        The node to compute, or the value to free.
    """

    action: Int8
    target: Int32

    @classmethod
    def of(cls, actions: Iterable[tuple[int, int]]) -> Schedule:
        """Make one from pairs of action and target."""
        pairs = np.array(list(actions), np.int32).reshape(-1, 2)
        return cls(pairs[:, 0].astype(np.int8), np.ascontiguousarray(pairs[:, 1]))

    @property
    def order(self) -> Int32:
        """The nodes that it computes, repeats included."""
        return self.target[self.action == COMPUTE]  # type: ignore[no-any-return]


class Evaluation(NamedTuple):
    """What a schedule costs and the most memory that it takes, all that is fixed included."""

    cost: int
    peak_bytes: int


class GraphArrays(Bundle):
    """What kernels read of a StaticGraph."""

    cost: Any
    size: Any
    workspace: Any
    value_pointer: Any
    read_pointer: Any
    reads: Any
    recomputable: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "cost": np.int64,
        "size": np.int64,
        "workspace": np.int64,
        "value_pointer": np.int32,
        "read_pointer": np.int32,
        "reads": np.int32,
        "recomputable": np.bool_,
    }


WALK_FIELDS = np.dtype(
    [("used", "i8"), ("peak", "i8"), ("cost", "i8"), ("computed", "i4"), ("at", "i4"),
     ("value", "i4")],
    align=True,
)  # fmt: skip


class Walk(Bundle):
    """A schedule on its way: what is resident, what it has cost so far, where it is."""

    action: Any
    target: Any
    resident: Any
    now: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "action": np.int8,
        "target": np.int32,
        "resident": np.uint8,
        "now": WALK_FIELDS,
    }


def walk(graph: GraphArrays, here: Walk, count: int) -> int:
    """Follow a schedule to its end, or to the first action that is not legal."""
    now, resident = here.now[0], here.resident
    n_nodes, n_values = len(graph.cost), len(graph.size)
    for i in range(count):
        now.at = i
        target = here.target[i]
        if here.action[i] == FREE:
            if target < 0 or target >= n_values:
                return NO_TARGET
            if not resident[target]:
                return NOT_THERE
            resident[target] = 0
            now.used -= graph.size[target]
            continue
        if here.action[i] != COMPUTE:
            return UNKNOWN_ACTION
        if target < 0 or target >= n_nodes:
            return NO_TARGET
        if target > now.computed:
            return OUT_OF_ORDER
        if target == now.computed:
            now.computed += 1
        elif not graph.recomputable[target]:
            return ONLY_ONCE
        for j in range(graph.read_pointer[target], graph.read_pointer[target + 1]):
            if not resident[graph.reads[j]]:
                now.value = graph.reads[j]
                return NOT_RESIDENT
        now.cost += graph.cost[target]
        copies = 0  # second ones, there while the node runs
        for value in range(graph.value_pointer[target], graph.value_pointer[target + 1]):
            now.used += graph.size[value]
            if resident[value]:
                copies += graph.size[value]
            resident[value] = 1
        now.peak = max(now.peak, now.used + graph.workspace[target])
        now.used -= copies
    now.at = count
    return LEGAL if now.computed == n_nodes else TOO_SHORT


def evaluate(graph: StaticGraph, schedule: Schedule) -> Evaluation:
    """Follow a schedule by the rules; give its cost and its peak.

    Parameters
    ----------
    graph : StaticGraph
    schedule : Schedule

    Returns
    -------
    Evaluation
        The cost in the unit of the graph, and the most bytes at once: fixed ones, all that is
        resident, and of the node that runs its workspace and all its values, a second copy of
        those that are resident already.

    Raises
    ------
    PlanError
        At the first action that cannot be: something read that is not resident, a node computed
        for the first time before an earlier one, a second time although it must not be, a value
        freed that is not there; or if some node is never computed.
    """
    action = np.ascontiguousarray(schedule.action, np.int8)
    target = np.ascontiguousarray(schedule.target, np.int32)
    if len(action) != len(target):
        raise PlanError(f"schedule: {len(action)} actions, {len(target)} targets")
    now = np.zeros(1, WALK_FIELDS)
    now["used"] = now["peak"] = graph.fixed_bytes
    resident = np.zeros(graph.n_values, np.uint8)
    here = Walk(action=action, target=target, resident=resident, now=now.view(np.recarray))
    code = _walk().function(graph.arrays, here, len(action))
    if code != LEGAL:
        raise PlanError(_fault(graph, here, code))
    return Evaluation(int(now["cost"][0]), int(now["peak"][0]))


@functools.cache
def _walk() -> Entry:
    return entry(walk, (GraphArrays, Walk))


def _fault(graph: StaticGraph, here: Walk, code: int) -> str:
    """Say what is wrong with the action at which `walk` stopped."""
    at, value, computed = (int(here.now[0][name]) for name in ("at", "value", "computed"))
    if code == TOO_SHORT:
        return f"schedule: it ends before node {computed} of {graph.n_nodes} is computed"
    target = int(here.target[at])
    what = {COMPUTE: "compute node", FREE: "free value"}.get(int(here.action[at]), "action")
    rules = {
        UNKNOWN_ACTION: f"{int(here.action[at])} is neither COMPUTE (0) nor FREE (1)",
        NO_TARGET: f"the graph has {graph.n_nodes} nodes and {graph.n_values} values",
        OUT_OF_ORDER: f"node {computed} comes before it and has not been computed",
        NOT_RESIDENT: f"it reads value {value} (of node {int(graph.producer[value])}), "
        "which is not resident",
        ONLY_ONCE: "it can be computed only once",
        NOT_THERE: "it is not resident",
    }
    return f"schedule, action {at}: {what} {target}: {rules[code]}"


def naive_schedule(graph: StaticGraph) -> Schedule:
    """Compute every node once, in order, and free each value after it is read last.

    What the last node reads, the outputs, stays.
    """
    order = np.arange(graph.n_nodes, dtype=np.int32)
    last = graph.last_reader
    gone = np.flatnonzero(last < graph.n_nodes - graph.has_outputs).astype(np.int32)
    target = np.concatenate([order, gone])
    action = np.repeat(np.array([COMPUTE, FREE], np.int8), [len(order), len(gone)])
    # Nodes stand at 0, 2, 4, ...; what goes after node v at 2 v + 1.
    place = np.argsort(np.concatenate([2 * order, 2 * last[gone] + 1]), kind="stable")
    return Schedule(action[place], target[place])


def naive_peak_bytes(graph: StaticGraph) -> int:
    """Give the peak of the naive schedule: with so much memory nothing is computed twice."""
    return evaluate(graph, naive_schedule(graph)).peak_bytes


def least_budget(graph: StaticGraph) -> tuple[int, int]:
    """Give the bytes that the most demanding single node needs, and that node.

    Below it no schedule exists: all that a node reads and makes is there while it runs.
    """
    if not graph.n_nodes:
        return graph.fixed_bytes, -1
    need = graph.node_need_bytes
    node = int(need.argmax())
    return int(need[node]), node


def free_after_last_use(graph: StaticGraph, nodes: Iterable[int]) -> Schedule:
    """Turn an order of computations, repeats allowed, into a schedule with the least memory.

    Each value is freed as soon as it is not read again before its node runs again; copies of
    siblings that were made anew and are not wanted go at once. What the last node reads, the
    outputs, stays.

    Parameters
    ----------
    graph : StaticGraph
    nodes : iterable of int
        The nodes to compute.
    """
    order = np.fromiter(nodes, np.int32) if not isinstance(nodes, np.ndarray) else nodes
    order = np.ascontiguousarray(order, np.int32)
    most = len(order) + int(
        (np.diff(graph.value_pointer) + np.diff(graph.read_pointer))[order].sum()
    )
    uses = LastUses(
        order=order,
        wanted=np.zeros(graph.n_values, np.uint8),
        action=np.zeros(most, np.int8),
        target=np.zeros(most, np.int32),
    )
    first = _free_last().function(graph.arrays, uses, int(graph.has_outputs))
    return Schedule(uses.action[first:], uses.target[first:])


class LastUses(Bundle):
    """An order of computations; room for its schedule, which is written from the end on."""

    order: Any
    wanted: Any  # by value: whether it is read before it is made again
    action: Any
    target: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "order": np.int32,
        "wanted": np.uint8,
        "action": np.int8,
        "target": np.int32,
    }


def free_last(graph: GraphArrays, uses: LastUses, keeps_last: int) -> int:
    """Write the schedule of an order, from its end to its start; give where it starts."""
    place = len(uses.action)
    for at in range(len(uses.order) - 1, -1, -1):
        node = uses.order[at]
        is_kept = keeps_last and at == len(uses.order) - 1
        for i in range(graph.read_pointer[node + 1] - 1, graph.read_pointer[node] - 1, -1):
            value = graph.reads[i]
            if not uses.wanted[value] and not is_kept:
                place -= 1
                uses.action[place], uses.target[place] = FREE, value
        for value in range(graph.value_pointer[node + 1] - 1, graph.value_pointer[node] - 1, -1):
            if not uses.wanted[value] and not is_kept:
                place -= 1
                uses.action[place], uses.target[place] = FREE, value
            uses.wanted[value] = 0
        for i in range(graph.read_pointer[node], graph.read_pointer[node + 1]):
            uses.wanted[graph.reads[i]] = 1
        place -= 1
        uses.action[place], uses.target[place] = COMPUTE, node
    return place


@functools.cache
def _free_last() -> Entry:
    return entry(free_last, (GraphArrays, LastUses))
