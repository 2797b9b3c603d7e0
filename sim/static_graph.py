"""The static graph: what planners see of a Program, a node for each call, values with own lives.

Calls that only make views are folded into the node whose value they show; constants are bytes that
are always there. What a planner makes of it is a Schedule (``schedules.py``); ``plan.py`` turns
that into a plan in the trace's own calls. How calls become nodes is in ``view_folding.py``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .opcodes import PHASE_BACKWARD, PHASES
from .program import BEGIN_BACKWARD, RUN_CALL, Program
from .schedules import COMPUTE as COMPUTE
from .schedules import FREE as FREE
from .schedules import Evaluation as Evaluation
from .schedules import GraphArrays
from .schedules import Schedule as Schedule
from .schedules import evaluate as evaluate
from .schedules import free_after_last_use as free_after_last_use
from .schedules import least_budget as least_budget
from .schedules import naive_peak_bytes as naive_peak_bytes
from .schedules import naive_schedule as naive_schedule
from .view_folding import Folding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .traces.trace import Trace

    Bool = NDArray[np.bool_]
    Int32 = NDArray[np.int32]
    Int64 = NDArray[np.int64]

NO_CALL = -1


@dataclass(frozen=True, eq=False, repr=False)
class StaticGraph:
    """Nodes (calls, in the order of the trace) and the values that they make and read.

    With n nodes and m values; arrays are read-only.

    Attributes
    ----------
    cost : ndarray of int64, shape (n,)
        Of the call and of the views folded into it, ns (or the unit of a graph file).
    size : ndarray of int64, shape (m,)
        Bytes of each value.
    producer : ndarray of int32, shape (m,)
        The node that makes each value; values are sorted by it.
    value_pointer : ndarray of int32, shape (n + 1,)
        Node v makes the values ``value_pointer[v]:value_pointer[v + 1]``.
    read_pointer, reads : ndarray of int32
        Node v reads ``reads[read_pointer[v]:read_pointer[v + 1]]``, distinct and ascending.
    own_reads : tuple of tuple of int
        Of each node: the values that its call reads itself, without those of folded views alone.
    workspace : ndarray of int64, shape (n,)
        Bytes needed only while a node runs.
    recomputable : ndarray of bool, shape (n,)
        Whether a node may be computed again: not those of collective and data-dependent calls, nor
        those some of whose views could not be made again with them.
    backward : ndarray of bool, shape (n,)
        Whether a node belongs to the backward pass.
    phase, module, operator : tuple of str
        Of each node's call, empty where nothing is known.
    fixed_bytes : int
        Constants: charged from the start to the end.
    base_cost : int
        Sum of ``cost``: the model's own compute.
    call : ndarray of int32, shape (n,)
        The Program's call; -1 for the last node, which reads every output (if there are outputs).
    storage : ndarray of int32, shape (m,)
        The Program's storage.
    is_mark : ndarray of bool, shape (n,)
        Whether a node only marks the place where a folded view is made first: it has no value and
        no cost, and reads what the view does, which has to be there at that moment.
    view_call, view_node, view_place, view_is_before : ndarray, shape (number of folded views,)
        The calls of folded views in trace order; the node that each belongs to; the node with whose
        first computation it is made first, and whether before it (else after it).
    view_cost, view_value : ndarray, shape (number of folded views,)
        What the call takes, ns; the value that it shows.
    view_reads : tuple of tuple of int
        Of each folded view: the values that it is made from.
    views_read : tuple of tuple of int
        Of each node, then of each folded view: the folded views that it reads.
    name : str
        What the trace is called.
    """

    cost: Int64
    size: Int64
    producer: Int32
    value_pointer: Int32
    read_pointer: Int32
    reads: Int32
    own_reads: tuple[tuple[int, ...], ...]
    workspace: Int64
    recomputable: Bool
    backward: Bool
    phase: tuple[str, ...]
    module: tuple[str, ...]
    operator: tuple[str, ...]
    fixed_bytes: int
    base_cost: int
    call: Int32
    storage: Int32
    is_mark: Bool
    view_call: Int32
    view_node: Int32
    view_place: Int32
    view_is_before: Bool
    view_cost: Int64
    view_value: Int32
    view_reads: tuple[tuple[int, ...], ...]
    views_read: tuple[tuple[int, ...], ...]
    name: str = ""

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for field in dataclasses.fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        """Send the fields, not what was worked out from them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __repr__(self) -> str:
        """Show how large it is."""
        return (
            f"StaticGraph({self.name!r}, n_nodes={self.n_nodes}, n_values={self.n_values}, "
            f"fixed_bytes={self.fixed_bytes}, base_cost={self.base_cost})"
        )

    @property
    def n_nodes(self) -> int:
        """Nodes, the last one included."""
        return len(self.cost)

    @property
    def n_values(self) -> int:
        """Values."""
        return len(self.size)

    @cached_property
    def has_outputs(self) -> bool:
        """Whether there is a last node, which reads the outputs."""
        return bool(self.n_nodes) and int(self.call[-1]) == NO_CALL

    def values(self, node: int) -> range:
        """Give the values that a node makes."""
        return range(int(self.value_pointer[node]), int(self.value_pointer[node + 1]))

    def reads_of(self, node: int) -> Int32:
        """Give the values that a node reads."""
        return self.reads[self.read_pointer[node] : self.read_pointer[node + 1]]

    def readers(self, value: int) -> Int32:
        """Give the nodes that read a value, ascending."""
        return self.readers_of_values[self.reader_pointer[value] : self.reader_pointer[value + 1]]

    @cached_property
    def read_node(self) -> Int32:
        """The node of each entry of ``reads``."""
        counts = np.diff(self.read_pointer)
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), counts)

    @cached_property
    def reader_pointer(self) -> Int32:
        """Value x is read by ``readers_of_values[reader_pointer[x]:reader_pointer[x + 1]]``."""
        return _pointer(np.bincount(self.reads, minlength=self.n_values))

    @cached_property
    def readers_of_values(self) -> Int32:
        """Nodes that read each value, ascending; ``reader_pointer`` tells whose are whose."""
        return self.read_node[np.argsort(self.reads, kind="stable")]

    @cached_property
    def last_reader(self) -> Int32:
        """The node that reads each value last; its producer, where none does."""
        last = self.producer.copy()
        np.maximum.at(last, self.reads, self.read_node)
        return last

    @cached_property
    def own_cost(self) -> Int64:
        """What each node's call takes, without the views folded into it."""
        own = self.cost.copy()
        np.subtract.at(own, self.view_node, self.view_cost)
        own.flags.writeable = False
        return own

    @cached_property
    def node_need_bytes(self) -> Int64:
        """What each node needs in memory while it runs, fixed bytes included."""
        read = _sums(self.size[self.reads], self.read_pointer)
        made = _sums(self.size, self.value_pointer)
        return read + made + self.workspace + self.fixed_bytes

    @cached_property
    def arrays(self) -> GraphArrays:
        """What kernels read."""
        return GraphArrays(**{name: getattr(self, name) for name in GraphArrays.LAYOUT})

    def to_networkx(self) -> Any:
        """Give it as a ``networkx.DiGraph``.

        Returns
        -------
        networkx.DiGraph
            Nodes are numbers, with ``cost``, ``size`` (of all values together), ``workspace``,
            ``recomputable``, ``backward``, ``phase``, ``module`` and ``operator``; an edge leads
            from a node to one that reads some of its values: ``values``, and their ``size``.
        """
        import networkx as nx

        graph = nx.DiGraph(name=self.name, fixed_bytes=self.fixed_bytes)
        made = _sums(self.size, self.value_pointer)
        for node in range(self.n_nodes):
            graph.add_node(
                node,
                cost=int(self.cost[node]),
                size=int(made[node]),
                workspace=int(self.workspace[node]),
                recomputable=bool(self.recomputable[node]),
                backward=bool(self.backward[node]),
                phase=self.phase[node],
                module=self.module[node],
                operator=self.operator[node],
            )
        for node, value in zip(self.read_node.tolist(), self.reads.tolist(), strict=True):
            producer = int(self.producer[value])
            if not graph.has_edge(producer, node):
                graph.add_edge(producer, node, values=[], size=0)
            graph.edges[producer, node]["values"].append(value)
            graph.edges[producer, node]["size"] += int(self.size[value])
        return graph


def _pointer(counts: Any) -> Int32:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _sums(amounts: Int64, pointer: Int32) -> Int64:
    """Add up the amounts of each part."""
    before = np.concatenate([[0], np.cumsum(amounts)]).astype(np.int64)
    return before[pointer[1:]] - before[pointer[:-1]]


def static_graph(program: Program, trace: Trace | None = None) -> StaticGraph:
    """Derive the static graph of a Program.

    Parameters
    ----------
    program : Program
        A trace lowered with ``mutation="copy"``.
    trace : Trace, optional
        The trace, for operators and module paths.

    Returns
    -------
    StaticGraph

    Raises
    ------
    InputError
        If the Program updates operands in place.
    """
    if (program.tensors["takes_over"] >= 0).any():
        raise InputError("static graph: mutation 'inplace': planners use 'copy'")
    folding = Folding(program)
    nodes, views = folding.nodes, folding.views
    is_value = program.storages["is_constant"][:-1] == 0
    storage = np.flatnonzero(is_value)
    value_of = np.cumsum(is_value) - 1
    call = np.array([node.call for node in nodes], np.int32)
    place = np.full(len(program.calls) + 1, -1)
    place[call] = np.arange(len(nodes))  # the last node has none, and stands at the end
    producer = place[program.tensors["call"][program.storages["root"][storage]]]
    reads = [np.sort(value_of[list(node.reads)]) for node in nodes if node.reads]
    cost = np.array([node.cost for node in nodes], np.int64)
    return StaticGraph(
        cost=cost,
        size=np.array(program.storages["size_bytes"][storage], np.int64),
        producer=producer.astype(np.int32),
        value_pointer=_pointer([len(node.makes) for node in nodes]),
        read_pointer=_pointer([len(node.reads) for node in nodes]),
        reads=np.concatenate([np.zeros(0, np.int32), *reads]).astype(np.int32),
        own_reads=tuple(tuple(sorted(value_of[list(n.own_reads)].tolist())) for n in nodes),
        workspace=np.array([node.workspace for node in nodes], np.int64),
        recomputable=np.array([node.is_recomputable for node in nodes], np.bool_),
        backward=_backward(program, call),
        **_texts(program, trace, call),
        fixed_bytes=int(program.storages["size_bytes"][:-1][~is_value].sum()),
        base_cost=int(cost.sum()),
        call=call,
        storage=storage.astype(np.int32),
        is_mark=np.array([node.is_mark for node in nodes], np.bool_),
        view_node=place[[view.owner for view in views]].astype(np.int32),
        **_views(program, folding, call, value_of),
        name="" if trace is None else trace.name,
    )


def _views(program: Program, folding: Folding, call: Int32, value_of: Int64) -> dict[str, Any]:
    """Give what is known of folded views alone, and who reads which."""
    views = folding.views
    made_by = np.array([view.call for view in views], np.int32)
    first = program.calls["first_result"][made_by]
    of_call = {view.call: number for number, view in enumerate(views)}
    of_tensor = [of_call.get(maker, -1) for maker in program.tensors["call"].tolist()]
    read = []
    for reader in [*call.tolist(), *made_by.tolist()]:
        tensors = program.outputs
        if reader != NO_CALL:
            facts = program.calls[reader]
            tensors = program.parents[facts["first_parent"] : facts["end_parent"]]
        read.append(tuple(sorted({of_tensor[t] for t in tensors.tolist()} - {-1})))
    return {
        "view_call": made_by,
        "view_place": np.array([view.place for view in views], np.int32),
        "view_is_before": np.array([view.is_before for view in views], np.bool_),
        "view_cost": np.array(program.calls["cost_ns"][made_by], np.int64),
        "view_value": value_of[program.tensors["storage"][first]].astype(np.int32),
        "view_reads": tuple(
            tuple(sorted(int(value_of[s]) for s in folding.sources[view.call])) for view in views
        ),
        "views_read": tuple(read),
    }


def no_views(n_nodes: int) -> dict[str, Any]:
    """Give what is known of views where none is folded."""
    none = np.zeros(0, np.int32)
    return {
        **dict.fromkeys(("view_call", "view_node", "view_place", "view_value"), none),
        "view_is_before": np.zeros(0, np.bool_),
        "view_cost": np.zeros(0, np.int64),
        "view_reads": (),
        "views_read": ((),) * n_nodes,
    }


def _backward(program: Program, call: Int32) -> Bool:
    """Tell the nodes of the backward pass: by phase where phases are known, else by its mark."""
    phase = program.calls["phase"]
    if (phase == PHASE_BACKWARD).any():
        is_backward = phase == PHASE_BACKWARD
    else:
        is_backward = np.zeros(len(phase), np.bool_)
        marks = np.flatnonzero(program.instructions["code"] == BEGIN_BACKWARD)
        if len(marks):
            before = program.instructions["code"][: marks[0]] == RUN_CALL
            is_backward[int(before.sum()) :] = True
    # The last node reads what the whole pass has made.
    return np.append(is_backward, is_backward.any())[call]


def _texts(program: Program, trace: Trace | None, call: Int32) -> dict[str, Any]:
    """Give phase, module and operator of each node."""
    origin = np.append(program.calls["origin"], -1)[call]
    phase = np.append(program.calls["phase"], 0)[call]
    texts: dict[str, Any] = {"phase": tuple(PHASES[p] for p in phase.tolist())}
    if trace is None:
        return texts | dict.fromkeys(("module", "operator"), ("",) * len(call))
    for name, known, index in (
        ("module", trace.modules, trace.call_module),
        ("operator", trace.operators, trace.call_operator),
    ):
        places = np.where(origin < 0, -1, np.append(index, -1)[origin])
        texts[name] = tuple("" if p < 0 else known[p] for p in places.tolist())
    return texts
