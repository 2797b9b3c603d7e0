"""Exact planners on reference graphs: value, status, seconds. Run on request, never in tests.

    python benchmarks/planners.py FOLDER [--method optimal] [--only unet] [--seconds 30]
    python benchmarks/planners.py --vectors planner-vectors.json

FOLDER holds the graphs (``vgg16_b256_train.json`` and so on); those that are missing are skipped.
A row is OK if the plan costs no more than it should, within the time, and is proven as far as asked
for. With ``--vectors``, every optimum of the file is found by two methods, and the rest is left to
the tests. Seconds are of a machine as busy as it was; the load stands beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rematsim.heuristics.static.registry import FEASIBLE, OPTIMAL, OPTIMAL_FOR_CV
from rematsim.planning import STARTS, plan_trace
from rematsim.result import RunResult
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace

GB = 1_000_000_000
DIGITS = 0.5e-4  # slowdowns are given to the fourth digit
LATE = 1.1, 2.0  # a limit is kept to within a tenth, or so many seconds
METHODS = ("checkmate", "moccasin")  # with HiGHS and with CP-SAT


class Target(NamedTuple):
    """What is to be reached: within how many seconds, at most which slowdown, how well proven.

    Without a slowdown it is that of the best online heuristic; a gap stands for its proof.
    """

    graph: str
    seconds: float
    budget: int
    slowdown: float | None
    proof: str | float = FEASIBLE


def targets() -> Iterator[Target]:
    """Give all rows of the table."""
    vgg = {
        "vgg16_b256_train": {13.16: 1.0197, 13.6: 1.0197, 14: 1.0197, 14.5: 1.0197, 15: 1.0165,
                             15.5: 1.0077, 15.83: 1},
        "vgg19_b256_train": {13.16: 1.0278, 13.6: 1.0276, 14.5: 1.0265, 15.5: 1.0009,
                             16.5: 1.0004, 17.06: 1},
    }  # fmt: skip
    for graph, slowdowns in vgg.items():
        for budget, slowdown in slowdowns.items():
            yield Target(graph, 1, round(budget * GB), slowdown, OPTIMAL)
    unet = {8.3: 1.1338, 9: 1.1019, 10: 1.0806, 12: 1.0493, 14: 1.0334, 16: 1.0231, 18: 1.0132,
            20: 1.0050}  # fmt: skip
    for budget, slowdown in unet.items():
        limit = 60 if budget <= 9 else 10
        yield Target("unet_b32_train", limit, round(budget * GB), slowdown, f"{OPTIMAL_FOR_CV}3")
    for units, cost in ((41688, 48146), (37056, 48866)):
        yield Target("random_layered_n100", 5, units, cost / 47769)
    mobilenet = [(31230950400, 1.001635, 0.002), (27760844800, 1.003702, 0.002),
                 (24290739200, 1.010520, FEASIBLE), (15 * GB, 1.0215, FEASIBLE)]  # fmt: skip
    for budget, slowdown, proof in mobilenet:
        yield Target("mobilenet_b512_train", 30, round(budget), slowdown, proof)
    for units in (255996, 227552):  # 0.9 and 0.8 of the naive peak, rounded up
        yield Target("random_layered_n500", 600, units, None)


def run_table(folder: Path, method: str, only: str, seconds: float | None) -> None:
    """Plan and print row by row."""
    print(f"{'graph':<22}{'budget':>13}{'target':>10}{'found':>10}{'bound':>10}"
          f"{'seconds':>9}{'limit':>7}{'load':>6}      status")  # fmt: skip
    for target in targets():
        path = folder / f"{target.graph}.json"
        if only not in target.graph or not path.exists():
            continue
        trace, limit = load_trace(path), seconds or target.seconds
        row = plan_trace(trace, method, target.budget, time_limit=limit).row
        asked = target.slowdown or _best_online(trace, target.budget)
        found = "-" if row.slowdown is None else f"{row.slowdown:.6f}"
        verdict = "OK" if _holds(row, target.proof, asked, limit) else "MISS"
        print(f"{target.graph:<22}{target.budget:>13}{asked:>10.6f}{found:>10}"
              f"{row.bound_slowdown or 1:>10.6f}{row.solve_seconds or 0:>9.2f}{limit:>7g}"
              f"{os.getloadavg()[0]:>6.1f} {verdict:<4} {row.planner_status}",
              flush=True)  # fmt: skip


def _best_online(trace: Trace, budget: int) -> float:
    runs = (simulate(trace, name, budget) for name in STARTS)
    slowdowns = [run.slowdown for run in runs if run.status == "ok" and run.slowdown is not None]
    return min(slowdowns, default=float("inf"))


def _holds(row: RunResult, proof: str | float, asked: float, limit: float) -> bool:
    if row.slowdown is None or row.slowdown > asked + DIGITS or is_late(row, limit):
        return False
    status = row.planner_status or ""
    if isinstance(proof, float):
        return row.gap is not None and row.gap <= proof
    is_enough = status.startswith(OPTIMAL_FOR_CV) and status >= proof  # one digit each
    return proof in (FEASIBLE, status) or (proof != OPTIMAL and (status == OPTIMAL or is_enough))


def is_late(row: RunResult, limit: float) -> bool:
    """Say whether planning took more than its limit in seconds, and what is forgiven."""
    return (row.solve_seconds or 0) > max(limit * LATE[0], limit + LATE[1])


def linear(n: int) -> Trace:
    """Make n forward nodes, a loss and n backward nodes of one byte and one unit of time."""
    builder = TraceBuilder(f"linear({n})")
    for node in range(2 * n + 1):
        reads = [f"x{r}" for r in (2 * n - node, node - 1) if 0 <= r < node]
        builder.call("f", reads, [(f"x{node}", 1, -1)], 1)
    for node in range(2 * n + 1):
        builder.release(f"x{node}")
    return builder.build()


def run_vectors(path: Path) -> None:
    """Find every optimum of a file of reference vectors by two methods."""
    known = json.loads(path.read_text(encoding="utf-8"))["linear_unit_optimal_cost"]
    started, misses = time.perf_counter(), 0
    print(f"{'graph':<10}{'budget':>7}{'cost':>6}" + "".join(f"{m:>22}" for m in METHODS))
    for n, costs in known.items():
        for budget, cost in costs.items():
            shown = ""
            for method in METHODS:
                found = plan_trace(linear(int(n)), method, int(budget), time_limit=100).found
                is_right = found.predicted is not None and found.predicted.cost == cost
                verdict = "OK" if is_right and found.status == OPTIMAL else "MISS"
                misses += verdict == "MISS"
                shown += f"{found.solve_seconds or 0:>14.2f} s  {verdict:<4} "
            print(f"linear({n}){'':<{2 - len(n)}}{budget:>7}{cost:>6}{shown}", flush=True)
    print(f"{time.perf_counter() - started:.1f} s together, {misses} misses, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--method", default="optimal")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, help="a limit for all rows, instead of their own")
    parser.add_argument("--vectors", type=Path)
    options = parser.parse_args()
    if options.vectors is not None:
        run_vectors(options.vectors)
    if options.folder is not None:
        run_table(options.folder, options.method, options.only, options.seconds)


if __name__ == "__main__":
    main()
