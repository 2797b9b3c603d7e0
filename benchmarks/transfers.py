"""Planners that move data: how far they are from what is proven, and how long POFO's table takes.

    python benchmarks/transfers.py [--only transformer] [--seconds 60]
    python benchmarks/transfers.py --tables

By default, of small graphs over links of several rates, the slowdown of each planner over the bound
of ``joint``, less 1; and whether that bound is met. With ``--tables``, POFO's dynamic program of
chains of 100 and 200 blocks. Seconds are of a machine as busy as it was; the load stands beside
them, and for tables the seconds of computing.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator

from rematsim.heuristics.static.pofo_chain import PofoTable, Rates
from rematsim.heuristics.static.rotor_chain import Chain
from rematsim.planning import plan_trace
from rematsim.traces.loading import load_trace
from rematsim.workload import workload

METHODS = ("offload-all", "rotor", "capuchin", "pofo", "poet")
# Traces, and rates that hide little, about half, and most of what has to go.
GRAPHS = {
    "synthetic:chain:8": ("300MB/s", "600MB/s", "1GB/s"),
    "synthetic:chain:12": ("300MB/s", "600MB/s", "1GB/s"),
    "synthetic:chain:20": ("300MB/s", "600MB/s", "1GB/s"),
    "synthetic:transformer:2": ("10GB/s", "50GB/s", "200GB/s"),
    "synthetic:random:3": ("300MB/s", "600MB/s", "1GB/s"),
}
BUDGETS = 0.5, 0.7
TABLES = ((100, 50), (200, 100))
RATES = 0.1, 0.3, 1.0  # time for a unit of size


def run_gaps(only: str, seconds: float) -> None:
    """Plan and print case by case."""
    heads = "".join(f"{method:>12}" for method in METHODS)
    print(f"{'graph':<26}{'calls':>6}{'budget':>7}{'rate':>9}{'bound':>9}{'joint':>9}{heads}"
          f"{'seconds':>9}{'load':>6}  status")  # fmt: skip
    for name, rate, budget in _cases(only):
        trace = load_trace(name)
        link = f"link(d2h={rate},h2d={rate},latency=0)"
        row = plan_trace(trace, "joint", budget, link=link, time_limit=seconds).row
        if row.bound_slowdown is None or row.slowdown is None:
            continue
        gaps = ""
        for method in METHODS:
            other = plan_trace(trace, method, budget, link=link, time_limit=seconds).row
            gap = None if other.slowdown is None else other.slowdown / row.bound_slowdown - 1
            gaps += f"{'-' if gap is None else f'{gap:.2%}':>12}"
        calls = workload(trace).graph.n_nodes
        print(f"{name:<26}{calls:>6}{budget:>7}{rate:>9}{row.bound_slowdown:>9.4f}"
              f"{row.slowdown:>9.4f}{gaps}{row.solve_seconds or 0:>9.1f}"
              f"{os.getloadavg()[0]:>6.1f}  {row.planner_status}", flush=True)  # fmt: skip


def _cases(only: str) -> Iterator[tuple[str, str, float]]:
    for name, rates in GRAPHS.items():
        if only in name:
            yield from ((name, rate, budget) for budget in BUDGETS for rate in rates)


def random_chain(n: int, seed: int = 0) -> Chain:
    """Make a chain of n blocks of random times and sizes."""
    draw = random.Random(seed)
    sizes = [0, *(draw.randint(5, 40) for _ in range(n))]
    forward, backward = ([draw.randint(10, 90) for _ in range(n)] for _ in range(2))
    extra, back_extra = ([draw.randint(0, 30) for _ in range(n)] for _ in range(2))
    record = [size + draw.randint(10, 80) for size in sizes[1:]]
    return Chain(forward, backward, sizes, record, sizes, extra, back_extra)


def run_tables() -> None:
    """Fill tables, and print how long it took."""
    PofoTable(random_chain(5), 100, 5, Rates(1.0, 1.0))  # it is loaded now
    for n, slots in TABLES:
        chain = random_chain(n)
        memory = int(0.4 * sum(chain.record))
        for rate in RATES:
            begun, computed = time.perf_counter(), time.process_time()
            table = PofoTable(chain, memory, slots, Rates(rate, rate))
            seconds, computed = time.perf_counter() - begun, time.process_time() - computed
            slowdown = table.time(memory) / sum(chain.forward + chain.backward)
            what = f"{n} blocks, {slots} slots, rate {rate}"
            load = os.getloadavg()[0]
            took = f"{seconds:.1f} s, {computed:.1f} s of computing, load {load:.1f}"
            print(f"{what}: {took}, slowdown {slowdown:.4f}", flush=True)
            del table  # before the next: they are large


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="graphs whose names have this in them")
    parser.add_argument("--seconds", type=float, default=60, help="for a plan")
    parser.add_argument("--tables", action="store_true", help="time POFO's table")
    options = parser.parse_args()
    if options.tables:
        run_tables()
    else:
        run_gaps(options.only, options.seconds)


if __name__ == "__main__":
    main()
