"""Write FX graphs as JSON that rematsim reads: joint graphs of AOTAutograd above all.

Needs torch, the extra ``capture``; the module says so if it is absent. Nothing is executed: sizes
are those of the fake tensors in the graph. The file is read by ``importers/fx_graph.py``, and
described in docs/reading-profiles.md.
"""

from __future__ import annotations

import gzip
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import InputError, MissingExtraError
from ..files import write_atomically
from ..opcodes import TAG_RANDOM

try:
    import torch
except ImportError as error:
    raise MissingExtraError(f"dumping graphs needs PyTorch ({error}): pip install torch") from error

FORMAT, VERSION = "rematsim fx graph", 1
# Operators that share their argument's storage although their schema does not say so.
HIDDEN_VIEWS = (
    *("aten::_unsafe_view", "aten::lift_fresh", "aten::unsafe_chunk"),
    *("aten::unsafe_split", "aten::unsafe_split_with_sizes"),
)


def dump_joint_graph(
    model: Any,
    args: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    loss: Callable[[Any], Any] | None = None,
) -> None:
    """Trace forward and backward of a model ahead of time, and write the joint graph.

    Parameters
    ----------
    model : torch.nn.Module
    args : sequence
        What the model is called with; fake tensors are enough.
    path : str or path
        Compressed if it ends in .gz.
    loss : callable, optional
        Makes a scalar of the model's output; if not given, the output is one.
    """
    from torch._functorch.aot_autograd import aot_export_module

    class WithLoss(torch.nn.Module):  # type: ignore[misc]  # torch may be absent
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> tuple[Any]:
            output = self.model(*inputs)
            return (loss(output) if loss else output,)

    graph, signature = aot_export_module(
        WithLoss(), tuple(args), trace_joint=True, output_loss_index=0
    )
    labels = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    n_forward = len(signature.buffers_to_mutate) + len(signature.user_outputs)
    dump_graph(graph, path, n_forward_outputs=n_forward, labels=labels)


def dump_graph(
    graph_module: Any,
    path: str | os.PathLike[str],
    *,
    n_forward_outputs: int | None = None,
    labels: Mapping[str, str] | None = None,
    times_ns: Mapping[str, int] | None = None,
) -> None:
    """Write a graph whose nodes have ``meta["val"]``.

    Parameters
    ----------
    graph_module : torch.fx.GraphModule
        From ``torch.export``, ``make_fx`` or AOTAutograd (as its ``partition_fn`` gets it).
    path : str or path
        Compressed if it ends in .gz.
    n_forward_outputs : int, optional
        How many of the outputs, the first ones, are those of the forward pass; what follows the
        last node that they need is the backward pass. None: there is no backward pass.
    labels : mapping of str to str, optional
        What to call inputs, by the names of their nodes.
    times_ns : mapping of str to int, optional
        Measured times of nodes, by name.

    Raises
    ------
    InputError
        The graph says nothing of its values.
    """
    content = msgspec.json.encode(
        described(graph_module, n_forward_outputs, labels or {}, times_ns or {})
    )
    target = os.fspath(path)
    with write_atomically(target) as file:
        file.write(gzip.compress(content, mtime=0) if target.endswith(".gz") else content)


def described(
    graph_module: Any,
    n_forward_outputs: int | None,
    labels: Mapping[str, str],
    times_ns: Mapping[str, int],
) -> dict[str, Any]:
    """Describe a graph as plain values; the parameters are those of ``dump_graph``."""
    nodes = list(graph_module.graph.nodes)
    outputs = [node for node in nodes if node.op == "output"]
    returned = _flat(outputs[-1].args) if outputs else []
    n_forward = _forward_nodes(nodes, returned, n_forward_outputs)
    inputs, calls = [], []
    for position, node in enumerate(nodes):
        if node.op in ("placeholder", "get_attr"):
            value = _value(graph_module, node)
            if isinstance(value, torch.Tensor):
                label = labels.get(node.name, node.name)
                inputs.append({"name": node.name, "label": label} | _tensor(value))
        elif node.op != "output" and node.target is not operator.getitem:
            call = _call(node, times_ns)
            if call["results"] or call["mutates"]:
                calls.append(call | {"phase": "fwd" if position < n_forward else "bwd"})
    return {
        "format": FORMAT,
        "version": VERSION,
        "torch": str(torch.__version__),
        "inputs": inputs,
        "nodes": calls,
        "outputs": [name for node in returned for name in _names(node)],
    }


def _call(node: Any, times_ns: Mapping[str, int]) -> dict[str, Any]:
    """Describe a call: tensors that it reads, tensors that it makes."""
    if "val" not in node.meta:
        raise InputError(f"node {node.name}: no meta['val']; trace the graph with fake tensors")
    args = [name for argument in _flat((node.args, node.kwargs)) for name in _names(argument)]
    views, mutates = _aliases(node, args)
    values = node.meta["val"]
    values = values if isinstance(values, list | tuple) else [values]
    results = []
    for k, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            alias = views[min(k, len(views) - 1)] if views else -1
            results.append({"name": _output_name(node, k), "alias": alias} | _tensor(value))
    tags = getattr(node.target, "tags", ())
    call: dict[str, Any] = {
        "name": node.name,
        "target": str(node.target),
        "args": args,
        "results": results,
        "mutates": mutates,
        "module": _module(node),
        "tags": TAG_RANDOM if torch.Tag.nondeterministic_seeded in tags else 0,
    }
    return call | ({"time_ns": times_ns[node.name]} if node.name in times_ns else {})


def _aliases(node: Any, args: list[str]) -> tuple[list[int], list[int]]:
    """Read the schema: which operand each result is a view of (or -1), which are written."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return [], []
    places: dict[str, int] = {}
    mutates: list[int] = []
    given = [*node.args, *(None,) * (len(schema.arguments) - len(node.args))]
    for argument, value in zip(schema.arguments, given, strict=True):
        value = node.kwargs.get(argument.name, value)
        names = [name for node_ in _flat(value) for name in _names(node_)]
        if argument.alias_info is None or not names:
            continue
        place = args.index(names[0])
        places.update(dict.fromkeys(argument.alias_info.before_set, place))
        if argument.alias_info.is_write:
            mutates.extend(args.index(name) for name in names)
    if schema.name in HIDDEN_VIEWS:
        return [0], mutates
    views = []
    for value in schema.returns:
        sets = value.alias_info.before_set if value.alias_info is not None else ()
        if value.alias_info is not None and not sets:  # a list of views names no set
            sets = list(places)[:1]
        views.append(next((places[one] for one in sets if one in places), -1))
    return views, sorted(set(mutates))


def _forward_nodes(nodes: list[Any], returned: list[Any], n_outputs: int | None) -> int:
    """Count the nodes up to the last one that the forward outputs need."""
    if n_outputs is None:
        return len(nodes)
    needed, waiting = set(), [node for node in returned[:n_outputs] if node is not None]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    return max((k + 1 for k, node in enumerate(nodes) if node in needed), default=0)


def _flat(value: Any) -> list[Any]:
    """Give the nodes, and the places of those that are None, in nested arguments in order."""
    return list(_flattened(value))


def _flattened(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.fx.Node) or value is None:
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flattened(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _flattened(item)


def _names(node: Any) -> list[str]:
    """Name the tensors of a node: none for a number or None, several for a tuple."""
    if not isinstance(node, torch.fx.Node):
        return []
    if node.target is operator.getitem:
        parent, index = node.args[:2]
        is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
        return [_output_name(parent, index)] if is_tensor else []
    value = node.meta.get("val")
    if isinstance(value, list | tuple):
        return [_output_name(node, k) for k, v in enumerate(value) if isinstance(v, torch.Tensor)]
    is_attribute = node.op == "get_attr"
    return [node.name] if is_attribute or isinstance(value, torch.Tensor) else []


def _output_name(node: Any, index: int) -> str:
    """Name one tensor of a node."""
    return f"{node.name}.{index}" if isinstance(node.meta["val"], list | tuple) else str(node.name)


def _value(graph_module: Any, node: Any) -> Any:
    """Give the value of an input."""
    if node.op == "get_attr" and "val" not in node.meta:
        return operator.attrgetter(node.target)(graph_module)
    return node.meta.get("val")


def _tensor(value: Any) -> dict[str, Any]:
    """Describe a tensor: dtype, shape, and the bytes of its elements."""
    shape = [_size(size) for size in value.shape]
    count = 1
    for size in shape:
        count *= size
    dtype = str(value.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": shape, "bytes": count * value.element_size()}


def _size(size: Any) -> int:
    """Give a size as a number: the one that a symbol stood for while tracing."""
    return int(size) if isinstance(size, int) else int(size.node.hint)


def _module(node: Any) -> str:
    """Give the path of the module that a node comes from, if the graph tells."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] if isinstance(entry, tuple) else entry for entry in stack.values()]
    return str(paths[-1]).removeprefix("L['self'].") if paths else ""
