"""Address plans against their capacity, their maximum load and the clock. Never part of tests.

    python benchmarks/addresses.py FOLDER [--only minimalloc] [--limit 60]

FOLDER holds the sets of the literature as CSV: MiniMalloc's, which should fit in 1,048,576 bytes,
and ``somas_resnet50.csv``, which should be within 1.02 of its maximum load in 10 s. A random set of
20,000 buffers should have a plan in 60 s. ``cpu`` is what the process itself took: beside the load,
it says what the machine gave.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from rematsim.addressing import Addressed, plan_addresses
from rematsim.buffer_files import load_buffers
from rematsim.buffers import Buffers

CAPACITY = 1_048_576
TRAINING_RATIO, TRAINING_SECONDS = 1.02, 10.0
MANY, MANY_SECONDS = 20_000, 60.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    plan_addresses(Buffers.of([0, 0], [1, 1], [3, 3], alignment=[4, 4]))  # compiles
    print(f"{'set':<18}{'buffers':>8}{'height':>15}{'ratio':>8}{'status':>12}"
          f"{'seconds':>9}{'cpu':>7}{'load':>6}")  # fmt: skip
    for path in sorted(options.folder.glob("*.csv")):
        is_training = not path.stem.startswith("minimalloc")
        if options.only not in path.stem:
            continue
        capacity, limit = (None, TRAINING_SECONDS) if is_training else (CAPACITY, options.limit)
        show(path.stem, load_buffers(path), capacity, limit)
    if options.only in "random":
        show("random", many_buffers(), None, MANY_SECONDS)


def many_buffers() -> Buffers:
    """Make a set as large as a long run's: mostly short lives, sizes over some magnitudes."""
    draw = np.random.default_rng(0)
    lower = draw.integers(0, 2 * MANY, MANY)
    life = 1 + draw.exponential(200, MANY).astype(np.int64)
    size = 512 * (1 + draw.lognormal(3, 2, MANY).astype(np.int64))
    return Buffers.of(lower, lower + life, size)


def show(name: str, buffers: Buffers, capacity: int | None, limit: float) -> None:
    """Plan a set and tell how it went."""
    cpu = time.process_time()
    found = plan_addresses(buffers, capacity=capacity, time_limit=limit)
    cpu = time.process_time() - cpu
    print(f"{name:<18}{len(buffers):>8}{found.height:>15,}{found.ratio:>8.4f}{found.status:>12}"
          f"{found.solve_seconds:>9.2f}{cpu:>7.2f}{os.getloadavg()[0]:>6.1f}"
          f"  {verdict(found, limit)}", flush=True)  # fmt: skip


def verdict(found: Addressed, limit: float) -> str:
    """Say whether what was to be reached was."""
    is_late = found.solve_seconds > limit * 1.05 + 0.5
    is_high = found.capacity is None and limit == TRAINING_SECONDS and found.ratio > TRAINING_RATIO
    return "MISS" if is_late or is_high or not found.fits else "OK"


if __name__ == "__main__":
    main()
