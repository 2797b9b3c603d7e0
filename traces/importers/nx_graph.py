"""Reader of graphs that networkx writes as node-link JSON, with a size and a cost for each node.

A node is a call with one result, in the order that the file gives; a result is released after its
last use, and nothing is an output. Two dialects are known: ``cost_ram`` and ``cost_cpu`` with nodes
by ``id`` (the graphs of Checkmate), and attributes that the graph itself names, with nodes by
``name`` and links from ``"0"`` to ``"1"`` (the graphs of Moccasin). `node_amounts.py` has numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...errors import TraceError
from ...opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_UNKNOWN
from ..builder import TraceBuilder
from ..provenance import WITH_FRACTIONS
from ..wording import show
from .json_files import NS_IN, decoded, field_of
from .node_amounts import Amounts, in_unit, numbers, scaled
from .reader import Imported, Request, Summary

FORMAT = "networkx node-link graph"
MARKS = (b'"directed"', b'"multigraph"')
FIXED = "fixed"
BACKWARD_SUFFIX = "_backward"
LONGEST_CYCLE = 8  # nodes of a cycle that a message names
Id = int | str

# What names an attribute of nodes in the graph, and what that is called where nothing does.
SIZE = ("node_output_cost_tag", "cost_ram")
TIME = ("node_duration_tag", "cost_cpu")
PARAMETERS = ("node_param_cost_tag", "param_cost")

# What the known dialects call a size and a time.
SIZES, TIMES = ("cost_ram", "out_cost"), ("cost_cpu", "duration")


class Node(NamedTuple):
    """A node: ``label`` names its operator, ``is_backward`` is None where the file says nothing."""

    label: str
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
    graph = {"graph": {}} | values
    names = field_of(graph, "graph", dict, ("the file", where))
    nodes = _nodes(values, where)
    sizes, times, fixed = _amounts(values, names, request)
    n_links = _link(nodes, values, where)
    order = _order(nodes, names, where)
    _refuse_cycles(nodes, order, where)
    builder = TraceBuilder(request.name, where, times_estimated=request.time_unit is None)
    if fixed:
        builder.constant(FIXED, fixed)
    amounts = dict(zip(nodes, zip(sizes.whole, times.whole, strict=True), strict=True))
    _emit(builder, nodes, order, amounts)
    taken = {"nodes as calls": len(nodes), "links": n_links, "bytes throughout": fixed}
    inferred = {"releases after last use": len(nodes)} | _told(sizes, times, request)
    return Imported(builder.build(), Summary(taken, inferred))


def _told(sizes: Amounts, times: Amounts, request: Request) -> dict[str, int]:
    """Say in which units the numbers are taken, where the file does not or they have fractions."""
    told = {}
    if request.time_unit is None:
        unit = f"1 counts as {times.scale} ns: --time-unit"
        told[f"costs without a unit ({unit})"] = len(times.whole)
    if times.n_fractions:
        is_scaled = request.time_unit is None
        how = f"scaled: 1 counts as {times.scale} ns" if is_scaled else "rounded to whole ns"
        told[f"costs {WITH_FRACTIONS} ({_both(how, times.rounding)})"] = times.n_fractions
    if sizes.n_fractions:
        how = f"scaled: 1 counts as {sizes.scale} bytes, in budgets too"
        told[f"sizes {WITH_FRACTIONS} ({_both(how, sizes.rounding)})"] = sizes.n_fractions
    return told


def _both(how: str, rounding: str) -> str:
    return f"{how}; {rounding}" if rounding else how


def _nodes(values: dict[str, Any], where: str) -> dict[Id, Node]:
    """Read the nodes, their numbers aside."""
    if values.get("directed") is not True:
        raise TraceError("directed is not true, and a graph of calls is directed", where)
    nodes: dict[Id, Node] = {}
    for position, node in enumerate(field_of(values, "nodes", list, ("graph", where))):
        what = f"node {position}"
        is_by_id = isinstance(node, dict) and "id" in node
        key = field_of(node, "id" if is_by_id else "name", Id, (what, where))
        if key in nodes:
            raise TraceError(f"{what}: there is a node {show(key)} already", where)
        label = node.get("name", key)
        is_backward = node.get("backward")
        if is_backward is not None:
            is_backward = field_of(node, "backward", bool, (what, where))
        nodes[key] = Node(label if isinstance(label, str) else "node", is_backward, [])
    return nodes


def _amounts(
    values: dict[str, Any], names: dict[str, Any], request: Request
) -> tuple[Amounts, Amounts, int]:
    """Read sizes, times, and what is in memory throughout."""
    nodes, where = values["nodes"], request.where
    size, time, own = (_attribute(names, *known, where) for known in (SIZE, TIME, PARAMETERS))
    costs = numbers(nodes, time, TIMES, where)
    unit = request.time_unit
    times = scaled(costs) if unit is None else in_unit(costs, NS_IN[unit], time, where)
    parameters = numbers([{own: node.get(own, 0)} for node in nodes], own, (), where)
    both = scaled([*numbers(nodes, size, SIZES, where), *parameters])
    sizes = both._replace(whole=both.whole[: len(nodes)])
    return sizes, times, request.fixed_bytes * both.scale + sum(both.whole[len(nodes) :])


def _attribute(names: dict[str, Any], tag: str, usual: str, where: str) -> str:
    """Give the name of an attribute of nodes, which the graph may say."""
    named: str = field_of({tag: usual} | names, tag, str, ("graph", where))
    return named


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
    order: list[Id] = field_of({"order": []} | names, "order", list, ("graph", where))
    if not order:
        return list(nodes)
    for node in order:
        if isinstance(node, bool) or not isinstance(node, Id) or node not in nodes:
            raise TraceError(f"order: there is no node {show(node)}", where)
    if len(order) != len(nodes) or len(set(order)) != len(nodes):
        raise TraceError(f"order: {len(order)} entries are not the {len(nodes)} nodes", where)
    return order


def _refuse_cycles(nodes: dict[Id, Node], order: Sequence[Id], where: str) -> None:
    """Refuse an order in which a node is not after all that it reads, and say if none would be."""
    place = {key: number for number, key in enumerate(order)}
    for key in order:
        for source in nodes[key].sources:
            if place[source] >= place[key]:
                if cycle := _cycle(nodes):
                    raise TraceError(f"cycle {cycle}: a graph of calls has none", where)
                rule = "which is not before it in the order of the file"
                raise TraceError(f"node {show(key)} reads {show(source)}, {rule}", where)


def _cycle(nodes: dict[Id, Node]) -> str:
    """Name nodes that read one another in a circle, from the first in the file; or nothing."""
    import networkx as nx

    graph = nx.DiGraph((source, key) for key, node in nodes.items() for source in node.sources)
    try:
        cycle = [source for source, _ in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        return ""
    start = cycle.index(next(key for key in nodes if key in cycle))
    names = [show(key) for key in (*cycle[start:], *cycle[:start])]
    shown = names if len(names) <= LONGEST_CYCLE else [*names[: LONGEST_CYCLE - 1], "..."]
    return " -> ".join([*shown, names[0]])


def _emit(
    builder: TraceBuilder,
    nodes: dict[Id, Node],
    order: Sequence[Id],
    amounts: dict[Id, tuple[int, int]],
) -> None:
    """Make a call of each node, and release what is not read again."""
    names = _names(nodes)
    last_use = {source: key for key in order for source in nodes[key].sources}
    calls: dict[str, int] = {}
    has_begun = False
    for key in order:
        node = nodes[key]
        size_bytes, time_ns = amounts[key]
        if node.is_backward and not has_begun:
            has_begun = True
            builder.backward()
        calls[node.label] = builder.call(
            node.label,
            [names[source] for source in node.sources],
            [(names[key], size_bytes, -1)],
            time_ns,
            phase=_phase(node),
            forward=_forward(node, calls),
        )
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
