"""Reader of graphs that networkx writes as node-link JSON, with a size and a cost for each node.

A node is a call with one result, in the order that the file gives; a result is released after its
last use, and nothing is an output. Two dialects are known: ``cost_ram`` and ``cost_cpu`` with nodes
by ``id`` (the graphs of Checkmate), and attributes that the graph itself names, with nodes by
``name`` and links from ``"0"`` to ``"1"`` (the graphs of Moccasin).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...errors import TraceError
from ...opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_UNKNOWN
from ..builder import TraceBuilder
from ..wording import show
from .json_files import NS_IN, amount, decoded, field_of
from .reader import Imported, Request, Summary

FORMAT = "networkx node-link graph"
MARKS = (b'"directed"', b'"multigraph"')
FIXED = "fixed"
BACKWARD_SUFFIX = "_backward"
Id = int | str

# What the graph calls an attribute that names another -> what that is called where it does not.
SIZE = ("node_output_cost_tag", "cost_ram")
TIME = ("node_duration_tag", "cost_cpu")
PARAMETERS = ("node_param_cost_tag", "param_cost")


class Node(NamedTuple):
    """A node: ``label`` names its operator, ``is_backward`` is None where the file says nothing."""

    label: str
    size_bytes: int
    time_ns: int
    is_backward: bool | None
    sources: list[Id]


def recognizes(head: bytes) -> bool:
    """Say whether it has the keys that networkx writes first."""
    return head.lstrip().startswith(b"{") and all(mark in head for mark in MARKS)


def read(request: Request) -> Imported:
    """Read a graph as a trace.

    Notes
    -----
    Costs have no unit in these files; unless one is given, 1 counts as 1 ns, and the times are
    marked as estimated.
    """
    where = request.where
    values = decoded(request.data, FORMAT)
    graph = values.get("graph")
    names = graph if isinstance(graph, dict) else {}
    scale = NS_IN[request.time_unit or "ns"]
    nodes, parameters = _nodes(values, names, scale, where)
    n_links = _link(nodes, values, where)
    order = _order(nodes, names, where)
    builder = TraceBuilder(request.name, where, times_estimated=request.time_unit is None)
    fixed = request.fixed_bytes + parameters
    if fixed:
        builder.constant(FIXED, fixed)
    _emit(builder, nodes, order, where)
    taken = {"nodes as calls": len(nodes), "links": n_links, "bytes throughout": fixed}
    inferred = {"releases after last use": len(nodes)}
    if request.time_unit is None:
        inferred["costs without a unit (1 counts as 1 ns: --time-unit)"] = len(nodes)
    return Imported(builder.build(), Summary(taken, inferred))


def _nodes(
    values: dict[str, Any], names: dict[str, Any], scale: int, where: str
) -> tuple[dict[Id, Node], int]:
    """Read the nodes, and add up their parameters."""
    if values.get("directed") is not True:
        raise TraceError("directed is not true, and a graph of calls is directed", where)
    size, time, own = (_attribute(names, *known) for known in (SIZE, TIME, PARAMETERS))
    nodes: dict[Id, Node] = {}
    parameters = 0
    for position, node in enumerate(field_of(values, "nodes", list, ("graph", where))):
        what = f"node {position}"
        is_by_id = isinstance(node, dict) and "id" in node
        key = field_of(node, "id" if is_by_id else "name", Id, (what, where))
        if key in nodes:
            raise TraceError(f"{what}: there is a node {show(key)} already", where)
        label = node.get("name", key)
        is_backward = node.get("backward")
        nodes[key] = Node(
            label if isinstance(label, str) else "node",
            amount(node.get(size), 1, (f"{what}: {size}", where)),
            amount(node.get(time), scale, (f"{what}: {time}", where)),
            is_backward if isinstance(is_backward, bool) else None,
            [],
        )
        parameters += amount(node.get(own, 0), 1, (f"{what}: {own}", where))
    return nodes, parameters


def _attribute(names: dict[str, Any], tag: str, usual: str) -> str:
    """Give the name of an attribute of nodes, which the graph may say."""
    named = names.get(tag)
    return named if isinstance(named, str) else usual


def _link(nodes: dict[Id, Node], values: dict[str, Any], where: str) -> int:
    """Give each node the nodes that it reads; return how many links there are."""
    key = "links" if "links" in values else "edges"
    seen = set()
    for position, link in enumerate(field_of(values, key, list, ("graph", where))):
        what = (f"link {position}", where)
        is_by_number = isinstance(link, dict) and "source" not in link
        ends = ("0", "1") if is_by_number else ("source", "target")
        source, target = (field_of(link, end, Id, what) for end in ends)
        for node in (source, target):
            if node not in nodes:
                raise TraceError(f"link {position}: there is no node {show(node)}", where)
        if (source, target) not in seen:
            seen.add((source, target))
            nodes[target].sources.append(source)
    return len(seen)


def _order(nodes: dict[Id, Node], names: dict[str, Any], where: str) -> list[Id]:
    """Give the order of the calls: the one that the graph names, or that of the file."""
    order = names.get("order")
    if not isinstance(order, list) or not order:
        return list(nodes)
    for node in order:
        if isinstance(node, bool) or not isinstance(node, Id) or node not in nodes:
            raise TraceError(f"order: there is no node {show(node)}", where)
    if len(order) != len(nodes) or len(set(order)) != len(nodes):
        raise TraceError(f"order: {len(order)} entries are not the {len(nodes)} nodes", where)
    return order


def _emit(builder: TraceBuilder, nodes: dict[Id, Node], order: Sequence[Id], where: str) -> None:
    """Make a call of each node, and release what is not read again."""
    names = _names(nodes)
    last_use = {source: key for key in order for source in nodes[key].sources}
    calls: dict[str, int] = {}
    done: set[Id] = set()
    has_begun = False
    for key in order:
        node = nodes[key]
        for source in node.sources:
            if source not in done:
                rule = "which is not before it in the order of the file"
                raise TraceError(f"node {show(key)} reads {show(source)}, {rule}", where)
        if node.is_backward and not has_begun:
            has_begun = True
            builder.backward()
        calls[node.label] = builder.call(
            node.label,
            [names[source] for source in node.sources],
            [(names[key], node.size_bytes, -1)],
            node.time_ns,
            phase=_phase(node),
            forward=_forward(node, calls),
        )
        done.add(key)
        for dead in _dead(key, node, last_use):
            builder.release(names[dead])


def _dead(key: Id, node: Node, last_use: dict[Id, Id]) -> Iterator[Id]:
    """Give what is not read after a node."""
    yield from (source for source in node.sources if last_use[source] == key)
    if key not in last_use:
        yield key


def _phase(node: Node) -> int:
    """Give the phase of a node."""
    if node.is_backward is None:
        return PHASE_UNKNOWN
    return PHASE_BACKWARD if node.is_backward else PHASE_FORWARD


def _forward(node: Node, calls: dict[str, int]) -> int:
    """Find the call that a backward node belongs to, by its name."""
    if not node.is_backward or not node.label.endswith(BACKWARD_SUFFIX):
        return -1
    return calls.get(node.label.removesuffix(BACKWARD_SUFFIX), -1)


def _names(nodes: dict[Id, Node]) -> dict[Id, str]:
    """Name the results: after the nodes' labels, or, where two have the same, by number."""
    labels = {key: node.label for key, node in nodes.items()}
    if len({FIXED, *labels.values()}) == len(nodes) + 1:
        return labels
    return {key: f"node{position}" for position, key in enumerate(nodes)}
