"""Planners of large traces against all that is simpler. Run on request, never in tests.

    python benchmarks/large_plans.py FOLDER [--only gpt] [--parts 0.3,0.7] [--limit 60]

FOLDER holds logs and a ``manifest.csv`` with their sizes: ten of them, and the bundled traces, are
planned at five budgets each, which are parts of the way from the least budget to the peak of the
naive plan. What breaks a promise is flagged: a plan that is dearer than an online run's or a
trivial planner's, late, or without a bound. Seconds are of a machine as busy as it was; the load
stands beside them.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from planners import is_late
from rematsim.budgets import Budget
from rematsim.heuristics import registry
from rematsim.heuristics.methods import get as get_heuristic
from rematsim.heuristics.static import get
from rematsim.heuristics.static.starting import TRIVIAL
from rematsim.planning import Planned, plan_trace
from rematsim.simulation import Options, replay
from rematsim.static_graph import least_budget, naive_peak_bytes
from rematsim.traces.bundled import PREFIX, bundled_traces
from rematsim.traces.loading import load_trace
from rematsim.workload import Workload, workload

LARGE = ("annealing", "large-neighborhood")
SAMPLE, FIRST_SECONDS = 10, 10.0
TRIVIAL_SECONDS = 20.0
# Much slower than the others, random, or a part of another.
NOT_COMPARED = ("h_DTR_neighborhood", "h_rand", "h_abl_")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--parts", default="0.1,0.3,0.5,0.7,0.9")
    parser.add_argument("--limit", type=float, default=60.0)
    plan_all(parser.parse_args())


def plan_all(options: argparse.Namespace) -> None:
    """Hold the planners for large traces against all that is simpler."""
    print(f"{'trace':<30}{'calls':>6}{'part':>5}{'online':>8}{'trivial':>8}{'method':>20}"
          f"{'found':>8}{'bound':>8}{'gap':>7}{'first':>6}{'all':>6}"
          f"{'load':>6}  broken")  # fmt: skip
    for path in [*(PREFIX + name for name in bundled_traces()), *sample(options.folder)]:
        if options.only not in path:
            continue
        trace = load_trace(path)
        work = workload(trace)
        least, most = least_budget(work.graph)[0], naive_peak_bytes(work.graph)
        for part in map(float, options.parts.split(",")):
            budget = int(least + part * (most - least))
            online, trivial = best_online(work, budget), best_trivial(work, budget)
            for method in LARGE:
                planned = plan_trace(trace, method, budget, time_limit=options.limit)
                row, first = planned.row, planned.found.details.get("first_plan_seconds")
                print(f"{trace.name[:29]:<30}{len(work.program.calls):>6}{part:>5g}"
                      f"{shown(online):>8}{shown(trivial):>8}{method:>20}"
                      f"{shown(row.slowdown):>8}{shown(row.bound_slowdown):>8}{shown(row.gap):>7}"
                      f"{first or 0:>6.1f}{row.solve_seconds or 0:>6.1f}{os.getloadavg()[0]:>6.1f}"
                      f"  {', '.join(broken(planned, online, trivial, options.limit))}",
                      flush=True)  # fmt: skip


def sample(folder: Path) -> list[str]:
    """Choose logs of a folder from the fewest calls to the most."""
    with (folder / "manifest.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (int(row["calls"]), row["file"]))
    chosen = np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).round().astype(int)
    return [str(folder / rows[place]["file"]) for place in chosen.tolist()]


def shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.4f}"


def best_online(work: Workload, budget: int) -> float | None:
    names = [name for name in registry.names() if not name.startswith(NOT_COMPARED)]
    known = [get_heuristic(name) for name in names]
    bytes_only = [heuristic for heuristic in known if not heuristic.needs_addresses]
    rows = [replay(work, heuristic, Budget("bytes", budget), Options()) for heuristic in bytes_only]
    return min((row.slowdown for row in rows if row.slowdown is not None), default=None)


def best_trivial(work: Workload, budget: int) -> float | None:
    found = [get(name).plan(work.graph, budget, time_limit=TRIVIAL_SECONDS) for name in TRIVIAL]
    costs = [answer.predicted.cost for answer in found if answer.predicted is not None]
    return min(costs, default=None) and min(costs) / work.graph.base_cost


def broken(
    planned: Planned, online: float | None, trivial: float | None, limit: float
) -> Iterator[str]:
    """Name the promises that a plan breaks."""
    row, first = planned.row, planned.found.details.get("first_plan_seconds")
    is_possible = online is not None or trivial is not None
    if row.slowdown is None and is_possible:
        yield "no plan"
    for other, name in ((online, "online"), (trivial, "trivial")):
        if other is not None and (row.slowdown or other) > other * (1 + 1e-9):
            yield f"dearer than {name}"
    if first is not None and first > FIRST_SECONDS:
        yield "first plan late"
    if is_late(row, limit):
        yield "late"
    if row.bound_slowdown is None and row.planner_status != "infeasible":
        yield "no bound"


if __name__ == "__main__":
    main()
