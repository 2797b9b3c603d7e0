"""Exact planners on reference graphs: value, status, seconds. Run on request, never in tests.

    python benchmarks/planners.py FOLDER [--method optimal] [--only unet]

FOLDER holds the graphs (``vgg16_b256_train.json`` and so on); those that are missing are skipped.
Seconds are of a machine as busy as it was; the load stands beside them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rematsim.planning import plan_trace
from rematsim.traces.loading import load_trace

GB = 1_000_000_000
# (graph, seconds, budgets in bytes, slowdowns to reach)
TARGETS: list[tuple[str, float, list[float], list[float]]] = [
    ("vgg16_b256_train", 1, [b * GB for b in (13.16, 13.6, 14, 14.5, 15, 15.5, 15.83)],
     [1.0197, 1.0197, 1.0197, 1.0197, 1.0165, 1.0077, 1]),
    ("vgg19_b256_train", 1, [b * GB for b in (13.16, 13.6, 14.5, 15.5, 16.5, 17.06)],
     [1.0278, 1.0276, 1.0265, 1.0009, 1.0004, 1]),
    ("unet_b32_train", 60, [8.3 * GB, 9 * GB], [1.1338, 1.1019]),
    ("unet_b32_train", 10, [b * GB for b in (10, 12, 14, 16, 18, 20)],
     [1.0806, 1.0493, 1.0334, 1.0231, 1.0132, 1.0050]),
    ("random_layered_n100", 5, [41688, 37056], [48146 / 47769, 48866 / 47769]),
    ("mobilenet_b512_train", 30, [31230950400, 27760844800, 24290739200, 15 * GB],
     [1.001635, 1.003702, 1.010520, 1.0215]),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--method", default="optimal")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{'graph':<24}{'budget':>14}{'target':>10}{'found':>10}{'bound':>10}"
          f"{'seconds':>9}{'limit':>7}{'load':>6}  status")  # fmt: skip
    for graph, limit, budgets, slowdowns in TARGETS:
        path = options.folder / f"{graph}.json"
        if options.only not in graph or not path.exists():
            continue
        trace = load_trace(path)
        for budget, target in zip(budgets, slowdowns, strict=True):
            row = plan_trace(trace, options.method, round(budget), time_limit=limit).row
            found = "-" if row.slowdown is None else f"{row.slowdown:.6f}"
            print(f"{graph:<24}{round(budget):>14}{target:>10.6f}{found:>10}"
                  f"{row.bound_slowdown or 1:>10.6f}{row.solve_seconds or 0:>9.2f}{limit:>7g}"
                  f"{os.getloadavg()[0]:>6.1f}  {row.planner_status}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
