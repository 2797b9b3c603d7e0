"""Reader of PyTorch execution traces, alone or with the Kineto trace of the same run.

An execution trace says what ran on which tensors, and neither when nor for how long, nor when a
storage was freed; the Kineto trace says the rest. The parts: ``et_nodes.py`` (the file),
``et_operators.py`` (which nodes are calls), ``et_storages.py`` (on what), ``kineto_join.py``
(times and frees), ``et_traces.py`` (the trace).
"""

from __future__ import annotations

import re

from .reader import Imported, Request, Summary

FORMAT = "PyTorch execution trace"

_SCHEMA = re.compile(rb'"schema"\s*:\s*"')
_NODES = re.compile(rb'"nodes"\s*:\s*\[')


def recognizes(head: bytes) -> bool:
    """Say whether it is an object with a schema and nodes."""
    return head.lstrip().startswith(b"{") and bool(_SCHEMA.search(head) and _NODES.search(head))


def read(request: Request) -> Imported:
    """Read an execution trace.

    Parameters
    ----------
    request : Request
        Its companion, if there is one, is the Kineto trace of the same run.

    Returns
    -------
    Imported

    Raises
    ------
    TraceError
        It is cut off or is none, or the companion is of another run.
    """
    from ..builder import TraceBuilder
    from . import et_nodes, et_traces, json_stream
    from .et_operators import operators_of
    from .et_storages import date_releases, follow

    stream = json_stream.ElementStream(request.data.open(), "nodes", request.where)
    run = operators_of(et_nodes.decode(stream.blocks(), request.where))
    lives = follow(run)
    times = et_traces.estimate_ns(lives.steps, request.device)
    workspaces = [step.operator.temporary_bytes for step in lives.steps]
    inferred = dict(date_releases(lives, run))
    inferred[f"times from the cost model ({request.device or et_traces.DEFAULT_DEVICE})"] = len(times)
    builder = TraceBuilder(request.name, request.where, rebinding="storage", times_estimated=True)
    trace = et_traces.to_trace(lives, builder, times, workspaces)
    taken = {"operator calls": trace.n_calls, "constants": trace.n_constants, "storages": len(lives.storages)}
    dropped = {"nodes that are no calls": len(run.nodes) - len(run.operators), **lives.dropped}
    return Imported(trace, Summary(taken, inferred, dropped))
