"""Graphs with known plans: Checkmate's toy family, and reference graphs where they are at hand."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from rematsim.opcodes import PHASE_BACKWARD, PHASE_FORWARD
from rematsim.static_graph import StaticGraph
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace
from rematsim.workload import workload

GRAPHS = Path(__file__).resolve().parents[2] / "shared" / "reference" / "graphs"


def linear_trace(n: int) -> Trace:
    """Make n forward nodes, a loss and n backward nodes, each of one byte and one unit of time.

    Each reads the one before it; backward node 2 n - i reads forward node i too. No outputs.
    """
    builder = TraceBuilder(f"linear({n})")
    for node in range(2 * n + 1):
        reads = [node - 1] if node else []
        reads += [2 * n - node] if node > n else []
        phase = PHASE_FORWARD if node < n else PHASE_BACKWARD
        builder.call("f", [f"x{r}" for r in sorted(reads)], [(f"x{node}", 1, -1)], 1, phase=phase)
    for node in range(2 * n + 1):
        builder.release(f"x{node}")
    return builder.build()


# Of linear(n): (n, budget) -> least time of a plan that computes only.
LINEAR = {(2, 3): 6, (3, 3): 10, (3, 4): 8, (4, 3): 15, (4, 4): 11, (4, 5): 10, (5, 5): 13}


@functools.cache
def linear(n: int) -> StaticGraph:
    return workload(linear_trace(n), cached=False).graph


@functools.cache
def reference_graph(name: str) -> StaticGraph:
    """Give a graph of the literature, or skip the test: they are not part of the repository."""
    path = GRAPHS / f"{name}_train.json"
    if not path.exists():
        pytest.skip(f"needs ../shared/reference/graphs/{path.name}")
    return workload(load_trace(path), cached=False).graph


def gigabytes(peak_bytes: float) -> float:
    return round(peak_bytes / 1e9, 3)
