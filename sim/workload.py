"""A trace made ready to run: its Program and unlimited peak, worked out once and cached on disk."""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from .errors import UsageError
from .jit import Entry, engine_digest
from .lowering import MUTATIONS, compile_trace
from .program import Program, freeze
from .runner import Chooser, Run, Settings
from .static_graph import StaticGraph, static_graph
from .traces.cache import cache_get, cache_put
from .traces.trace import Trace

_PEAK = "unlimited_peak_bytes"


class Workload:
    """What runs of one trace, under one lowering, share.

    Attributes
    ----------
    trace : Trace
    program : Program
    unlimited_peak_bytes : int
        Peak of the run without a budget, under banish (docs/semantics.md, 6).
    graph : StaticGraph
        What planners see of it; made when it is first asked for.
    """

    def __init__(self, trace: Trace, mutation: str, *, cached: bool = True) -> None:
        self.trace = trace
        self.mutation = mutation
        key = f"program-{mutation}-{trace.digest}-{engine_digest()}"
        stored = cache_get(key) if cached else None
        if stored is None:
            self.program = compile_trace(trace, mutation)
            self.unlimited_peak_bytes = unlimited_peak_bytes(self.program, mutation)
            if cached:
                peak = np.array([self.unlimited_peak_bytes], np.int64)
                cache_put(key, {**self.program.arrays(), _PEAK: peak})
        else:
            self.program = Program(**{f: freeze(stored[f], d) for f, d in Program.LAYOUT.items()})
            self.unlimited_peak_bytes = int(stored[_PEAK][0])

    @cached_property
    def graph(self) -> StaticGraph:
        """What planners see of it."""
        return static_graph(self.program, self.trace)


_workloads: WeakKeyDictionary[Trace, dict[str, Workload]] = WeakKeyDictionary()


def workload(trace: Trace, mutation: str = "copy", *, cached: bool = True) -> Workload:
    """Get a trace's workload; the same object as long as the trace lives."""
    known = _workloads.setdefault(trace, {})
    if mutation not in known:
        if mutation not in MUTATIONS:
            raise UsageError(f"mutation {mutation!r}: it is one of {', '.join(MUTATIONS)}")
        known[mutation] = Workload(trace, mutation, cached=cached)
    return known[mutation]


# Never asked: without a budget everything fits, as all sizes together are below 2^60 bytes.
NO_CHOICE = Chooser(Entry(None, 0))


def unlimited_peak_bytes(program: Program, mutation: str) -> int:
    """Run without a budget, under banish, and give the peak."""
    run = Run(program, Settings(in_place=mutation == "inplace"))
    run.finish(NO_CHOICE)
    return int(run.state.room["peak_bytes"])
