"""From the nodes of an execution trace to the operators that make up the run, in their order.

Operators contain operators, and a call must be counted once. Where the inner ones do an operator's
work, they stand for it; where they only make storages that it fills itself (``addmm`` around
``empty``), it stands for them. ``et_storages.py`` says which storages they work on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from ...opcodes import PHASE_BACKWARD, PHASE_FORWARD, PHASE_OPTIMIZER, TAG_COLLECTIVE
from .et_nodes import ACCUMULATE, KERNELS, Node, Tensor
from .et_schemas import (
    FACTORIES,
    FILLERS,
    RESHAPERS,
    RUNNING_STATISTICS,
    parse_schema,
    tags_of,
)

MAX_DEPTH = 300  # of nodes in nodes; what is deeper counts as if it stood alone
ENGINE = "autograd::engine::evaluate_function"
OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")
ZERO_GRADIENTS = "Optimizer.zero_grad#"


class Operator(Struct):
    """One operator call.

    Attributes
    ----------
    name, operator : str
        Its name without and with the overload.
    node : int
        Its node, and its place in the program's order.
    tid, rf_id : int
        Thread, and the number that a Kineto trace of the same run may give it.
    inputs, outputs : list of Tensor
    written : frozenset of int
        Positions of the arguments that it writes.
    temporary_bytes : int
        Bytes of what is made inside and not returned.
    phase, tags : int
    sequence : tuple of int or None
        Thread and sequence number of the forward call that it is, or belongs to.
    """

    name: str
    operator: str
    node: int
    tid: int
    rf_id: int
    inputs: list[Tensor]
    outputs: list[Tensor]
    written: frozenset[int]
    temporary_bytes: int
    phase: int
    tags: int
    sequence: tuple[int, int] | None


class Run(NamedTuple):
    """The operators of a run in order, and what marks tell about storages.

    Attributes
    ----------
    operators : list of Operator
    gradients : list of (int, int)
        Node, storage: a gradient that belongs to a parameter from there on.
    zeroed : list of int
        Nodes at which an optimizer drops gradients.
    nodes : list of Node
        All nodes, by id.
    """

    operators: list[Operator]
    gradients: list[tuple[int, int]]
    zeroed: list[int]
    nodes: list[Node]


class _Inside:
    """What is known of the operators taken inside a node."""

    __slots__ = ("early", "is_simple", "made", "nodes", "read", "sizes", "written")

    def __init__(self) -> None:
        self.nodes: list[int] = []  # from the last to the first
        self.read: set[int] = set()  # storages whose content goes into what is written
        self.written: set[int] = set()  # storages whose content is made inside
        self.made: set[int] = set()  # storages that are returned inside
        self.early: set[int] = set()  # storages used inside before they are returned inside
        self.sizes: dict[int, int] = {}
        self.is_simple = True  # factories, reshapers and fillers only

    def precede(self, earlier: _Inside) -> None:
        """Take in what comes before."""
        self.early -= earlier.made
        self.early |= earlier.early
        self.read |= earlier.read
        self.written |= earlier.written
        self.made |= earlier.made
        self.sizes |= earlier.sizes
        self.nodes.extend(earlier.nodes)
        self.is_simple &= earlier.is_simple


class _Around(Struct):
    """What a node inherits: how deep it is, whether in an operator, phase, forward call."""

    depth: int
    in_operator: bool
    phase: int
    sequence: tuple[int, int] | None


_OUTSIDE = _Around(0, False, PHASE_FORWARD, None)


def operators_of(nodes: Iterable[Node]) -> Run:
    """Choose the operators of a run.

    Parameters
    ----------
    nodes : iterable of Node
        In any order; their ids give the program's.

    Returns
    -------
    Run
    """
    ordered = sorted(nodes, key=lambda node: node.id)
    around = _surroundings(ordered)
    inside: dict[int, _Inside] = {}
    temporaries: dict[int, int] = {}
    chosen: list[int] = []
    for node in reversed(ordered):  # a node's id is larger than its parent's
        found = inside.pop(node.id, None)
        in_operator = around[node.id].in_operator
        is_whole = _is_whole(node, found, in_operator)
        if is_whole and found is not None:
            _note_temporaries(node, found, temporaries)
        if not in_operator:
            chosen.extend([node.id] if is_whole else found.nodes if found is not None else ())
            continue
        if is_whole:
            found = _contents(node)
        if found is None:
            continue
        if node.parent in inside:
            inside[node.parent].precede(found)
        else:
            inside[node.parent] = found
    return _run(ordered, around, set(chosen), temporaries)


def _surroundings(ordered: list[Node]) -> dict[int, _Around]:
    """Say for each node what it stands in."""
    around: dict[int, _Around] = {}
    has_schema: set[int] = set()
    for node in ordered:
        above = around.get(node.parent, _OUTSIDE) if node.parent < node.id else _OUTSIDE
        in_operator = above.in_operator or node.parent in has_schema
        if above.depth >= MAX_DEPTH or node.parent >= node.id:
            in_operator = False
        phase = above.phase
        if node.name.startswith(OPTIMIZER):
            phase = PHASE_OPTIMIZER
        elif node.name.startswith(ENGINE) or node.scope == 1:
            phase = PHASE_BACKWARD
        sequence = above.sequence
        if node.seq_id >= 0:
            tid = node.fw_tid if phase == PHASE_BACKWARD else node.tid
            sequence = (tid, node.seq_id)
        around[node.id] = _Around(min(above.depth + 1, MAX_DEPTH), in_operator, phase, sequence)
        if node.schema:
            has_schema.add(node.id)
    return around


def _is_kernel(node: Node) -> bool:
    """Say whether a node without a schema is a kernel or a collective that works on tensors."""
    is_named = bool(node.kernel) or node.name.startswith(KERNELS)
    return is_named and any(tensor.storage for tensor in node.inputs)


def _written(node: Node) -> frozenset[int]:
    """Say which arguments a node writes: of a kernel nothing is known, so all."""
    if not node.schema:
        return frozenset(tensor.argument for tensor in node.inputs)
    written = parse_schema(node.schema).written
    if not written and tags_of(node.name) & TAG_COLLECTIVE:
        returned = {tensor.storage for tensor in node.outputs}
        written = frozenset(t.argument for t in node.inputs if t.storage in returned)
    hidden = RUNNING_STATISTICS.get(node.name)
    if hidden is not None:
        written |= hidden.of_call(node.values)
    return written


def _is_whole(node: Node, inside: _Inside | None, in_operator: bool) -> bool:
    """Say whether a node is taken as a whole, and not what is inside in its place."""
    if not node.schema:
        return inside is None and not in_operator and _is_kernel(node)
    if inside is None or tags_of(node.name) & TAG_COLLECTIVE:
        return True
    operands = {t.storage for t in node.inputs if t.storage and t.nbytes}
    results = {t.storage for t in node.outputs if t.storage and t.nbytes}
    written = _written(node)
    updated = {t.storage for t in node.inputs if t.argument in written and t.storage}
    fresh = results - {t.storage for t in node.inputs}
    makes = fresh | updated
    is_explained = (
        makes <= inside.written
        and (not makes or operands <= inside.read)
        and not fresh & inside.early
    )
    makes_and_fills = inside.is_simple and not updated and bool(fresh)
    return makes_and_fills or not is_explained


def _contents(node: Node) -> _Inside:
    """Say what a node that is taken as a whole does."""
    found = _Inside()
    found.nodes = [node.id]
    operands = {t.storage for t in node.inputs if t.storage}
    found.early = operands
    found.made = {t.storage for t in node.outputs if t.storage}
    makes_content = node.name not in FACTORIES and node.name not in RESHAPERS
    if makes_content:
        written = _written(node)
        updated = {t.storage for t in node.inputs if t.argument in written and t.storage}
        found.written = (found.made - operands) | updated
        found.read = operands if found.written else set()
    for tensor in node.outputs:
        if tensor.storage and tensor.storage not in operands:
            size = found.sizes.get(tensor.storage, 0)
            found.sizes[tensor.storage] = max(size, tensor.end_bytes)
    found.is_simple = not makes_content or node.name in FILLERS
    return found


def _note_temporaries(node: Node, inside: _Inside, temporaries: dict[int, int]) -> None:
    """Note what is made inside a node that is taken as a whole, and neither given nor returned."""
    kept = {t.storage for t in (*node.inputs, *node.outputs)}
    inner = sum(size for storage, size in inside.sizes.items() if storage not in kept)
    inner += sum(temporaries.pop(other, 0) for other in inside.nodes)
    if inner:
        temporaries[node.id] = inner


def _run(
    ordered: list[Node],
    around: dict[int, _Around],
    chosen: set[int],
    temporaries: dict[int, int],
) -> Run:
    """Put together what was chosen."""
    operators: list[Operator] = []
    gradients: list[tuple[int, int]] = []
    zeroed: list[int] = []
    for node in ordered:
        if node.id in chosen:
            operators.append(_operator(node, around[node.id], temporaries.get(node.id, 0)))
        elif node.name == ACCUMULATE:
            gradients.extend((node.id, t.storage) for t in node.inputs if t.storage)
        elif node.name.startswith(ZERO_GRADIENTS):
            zeroed.append(node.id)
    return Run(operators, gradients, zeroed, ordered)


def _operator(node: Node, around: _Around, temporary_bytes: int) -> Operator:
    """Make the operator of a node."""
    operator = parse_schema(node.schema).operator if node.schema else node.name
    return Operator(
        node.name,
        operator or node.name,
        node.id,
        node.tid,
        node.rf_id,
        node.inputs,
        node.outputs,
        _written(node),
        temporary_bytes,
        around.phase,
        tags_of(node.name),
        around.sequence,
    )
