"""Reader of PyTorch execution traces, alone or with the Kineto trace of the same run.

An execution trace says what ran on which tensors, and neither when nor for how long, nor when a
storage was freed; the Kineto trace says the rest. The parts: ``et_nodes.py`` (the file),
``et_operators.py`` (which nodes are calls), ``et_storages.py`` (on what), ``kineto_join.py``
(times and frees), ``et_traces.py`` (the trace).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from ...errors import TraceError
from .reader import Content, Imported, Request, Summary

if TYPE_CHECKING:
    from .et_operators import Run
    from .et_storages import Lives
    from .kineto_join import Joined

FORMAT = "PyTorch execution trace"
TAKES_COMPANIONS = True

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
    from . import et_nodes
    from .et_operators import operators_of
    from .et_storages import follow
    from .json_stream import ElementStream

    companion = _companion(request)
    stream = ElementStream(request.data.open(et_nodes.MAX_BYTES), "nodes", request.where)
    run = operators_of(et_nodes.decode(stream.blocks(), request.where))
    lives = follow(run)
    if not lives.steps:
        raise TraceError("no operator on tensors in it", request.where)
    joined = _joined(run, lives, companion) if companion is not None else None
    return _imported(request, run, lives, joined)


def _companion(request: Request) -> Content | None:
    """Find the Kineto trace among the companions."""
    from . import kineto

    for companion in request.companions:
        if not kineto.recognizes(companion.head):
            rule = "beside an execution trace goes the Kineto trace of the same run"
            raise TraceError(f"no Kineto trace: {rule}", companion.where)
    if len(request.companions) > 1:
        rule = "one goes beside an execution trace"
        raise TraceError(f"{len(request.companions)} Kineto traces: {rule}", request.where)
    return request.companions[0] if request.companions else None


def _joined(run: Run, lives: Lives, companion: Content) -> Joined:
    """Read the Kineto trace and take from it what it says."""
    from .kineto import read_profile
    from .kineto_join import join

    wanted = {node.name for node in run.nodes if node.schema}
    return join(run, lives, read_profile(companion.open(), companion.where, wanted))


def _imported(request: Request, run: Run, lives: Lives, joined: Joined | None) -> Imported:
    """Make the trace, with what has been measured or else is estimated."""
    from ..builder import TraceBuilder
    from ..devices import DEFAULT
    from .et_storages import date_releases
    from .et_traces import WITHOUT_TIME, estimate_ns, to_trace

    workspaces = [step.operator.temporary_bytes for step in lives.steps]
    inferred = Counter(date_releases(lives, run))
    if joined is None:
        device = request.device or DEFAULT
        times = estimate_ns(lives.steps, device)
        inferred[f"times from the cost model ({device})"] = len(times)
    else:
        times = joined.times_ns
        inferred.update(joined.inferred)
        inferred[WITHOUT_TIME] = times.count(0)
    if joined is not None and joined.workspaces is not None:
        workspaces = joined.workspaces
    elif any(workspaces):
        inferred["workspaces from operators inside"] = sum(map(bool, workspaces))
    builder = TraceBuilder(
        request.name, request.where, rebinding="storage", times_estimated=joined is None
    )
    trace = to_trace(lives, builder, times, workspaces)
    taken = {"operator calls": trace.n_calls, "constants": trace.n_constants}
    taken["storages that calls make"] = len(lives.storages) - trace.n_constants
    dropped = Counter({"nodes that are no calls": len(run.nodes) - len(run.operators)})
    dropped.update(lives.dropped)
    elsewhere = sum(storage.device != lives.device for storage in lives.storages)
    dropped[f"sizes of storages that are not on {lives.device}"] = elsewhere
    if joined is not None:
        taken |= joined.taken
        dropped.update(joined.dropped)
    return Imported(trace, Summary(taken, _nonzero(inferred), _nonzero(dropped)))


def _nonzero(counts: Counter[str]) -> dict[str, int]:
    """Leave out what did not happen."""
    return {what: count for what, count in counts.items() if count}
