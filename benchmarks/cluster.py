"""What a cluster costs above one process: the same sweep with --jobs 1 and with --cluster local:1.

Whole commands, from their start to their end, in turns. The cells are alike: a heuristic that
draws lots, with many seeds. What starting costs is measured apart, by a sweep of one cell.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

MOST = 1.15  # times the wall time of one process
WAYS = {"jobs": ("--jobs", "1"), "cluster": ("--cluster", "local:1")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--trace", default="synthetic:chain:10000")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for way in WAYS:
        seconds_of(way, options.trace, 1)  # compiles, and fills the caches
    start = {way: seconds_of(way, options.trace, 1) for way in WAYS}
    print(f"one cell: jobs {start['jobs']:.2f} s, cluster {start['cluster']:.2f} s")
    ratios = []
    for _ in range(options.repeats):
        took = {way: seconds_of(way, options.trace, options.cells) for way in WAYS}
        ratios.append(took["cluster"] / took["jobs"])
        cell = 1e3 * (took["jobs"] - start["jobs"]) / max(1, options.cells - 1)
        print(
            f"{options.cells} cells of {cell:.0f} ms: jobs {took['jobs']:.2f} s, cluster "
            f"{took['cluster']:.2f} s, {ratios[-1]:.3f} times, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    middle = statistics.median(ratios)
    print(f"median {middle:.3f} times, {'OK' if middle <= MOST else 'MISS'} (at most {MOST})")


def seconds_of(way: str, trace: str, cells: int) -> float:
    """Time a sweep of so many cells."""
    arguments = ["sweep", trace, "--heuristic", "h_rand", "--budget", "0.5x", "--quiet"]
    arguments += ["--deallocation", "ignore", "--slowdown-limit", "none"]
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "rematsim", *arguments, "--seed", f"0:{cells - 1}", *WAYS[way]],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
