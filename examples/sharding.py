"""What a device holds of a trace when weights and optimizer state are sharded, as FSDP does.

rematsim simulates one device without communication. What sharding does to memory is arithmetic on
top of that: weights and optimizer state are there from the beginning to the end of a step, so a
device of N needs less by the other N - 1 parts of them, and more by the weights that it has
gathered. Gradients are left whole, and what communication buffers take is not in it: the peaks are
from above but for the latter.

    python examples/sharding.py bundled:llama_7b --memory 80GiB --shards 1,8,64
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass

import pandas as pd
import rematsim
from rematsim.budgets import parse_budget
from rematsim.opcodes import CONSTANT
from rematsim.traces.trace import Trace

GIB = 2**30
AHEAD = 2  # units gathered at once: the one that runs, and the one that is fetched beside it


@dataclass(frozen=True)
class Sizes:
    """Bytes of a step: weights, the largest units that are gathered at once, optimizer, peak."""

    weights: int
    units: int
    optimizer: int
    peak: int


def sizes_of(trace: Trace, unit: str) -> Sizes:
    """Measure a trace; a unit is the weights whose names match alike, the rest is one, too."""
    kinds: Counter[str] = Counter()
    units: Counter[str] = Counter()
    rows = trace.instructions[trace.instructions[:, 0] == CONSTANT]
    for name_id, size in zip(rows[:, 1], trace.constant_bytes, strict=True):
        kind, _, name = trace.names[name_id].partition(":")
        kinds[kind] += int(size)
        if kind == "param":
            found = re.match(unit, name)
            units[found[0] if found else ""] += int(size)
    run = rematsim.simulate(trace, "h_DTR_eq", "unlimited")
    at_once = sum(size for _, size in units.most_common(AHEAD))
    return Sizes(kinds["param"], at_once, kinds["state"], run.peak_bytes)


def gathered(sizes: Sizes, shards: int, kept: int) -> float:
    """Weights beyond its own shard that a device holds at once.

    After the forward pass each unit stays, until the backward pass, in parts over ``kept`` devices.
    """
    stay = sizes.weights / kept - sizes.weights / shards
    return stay + sizes.units * (1 - 1 / kept)


def saved(sizes: Sizes, shards: int, kept: int, on_host: bool) -> float:
    """Bytes that a device needs less than one that holds everything."""
    optimizer = sizes.optimizer * (1 if on_host else 1 - 1 / shards)
    return sizes.weights * (1 - 1 / shards) + optimizer - gathered(sizes, shards, kept)


def gibibytes(count: float) -> str:
    """Write bytes in the one unit of the table."""
    return f"{count / GIB:.2f} GiB"


def table(sizes: Sizes, options: argparse.Namespace) -> pd.DataFrame:
    """Make a row for each way of sharding."""
    memory = parse_budget(options.memory).resolve(sizes.peak)
    rows = []
    for shards in options.shards:
        for kept in options.kept or [shards]:
            less = saved(sizes, shards, kept, options.optimizer_on_host)
            rows.append(
                {
                    "shards": shards,
                    "kept over": kept,
                    "gathered": gibibytes(gathered(sizes, shards, kept)),
                    "peak": gibibytes(sizes.peak - less),
                    "fits": "yes" if sizes.peak - less <= memory else "no",
                    # Without a space, as --budget takes it.
                    "same as a budget of": gibibytes(memory + less).replace(" ", ""),
                }
            )
    return pd.DataFrame(rows)


def numbers(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(part) for part in text.split(",")]


def main(arguments: list[str]) -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("trace")
    options.add_argument("--memory", default="80GiB", help="of a device")
    options.add_argument("--shards", type=numbers, default=[1, 8], help="devices, as in 1,8,64")
    options.add_argument("--kept", type=numbers, help="over how many units stay after the forward")
    options.add_argument("--unit", default=r"\w+\.\d+", help="pattern of the names of a unit")
    options.add_argument("--optimizer-on-host", action="store_true")
    chosen = options.parse_args(arguments)
    sizes = sizes_of(rematsim.load_trace(chosen.trace), chosen.unit)
    told = ("weights", "units", "optimizer", "peak")
    parts = ", ".join(f"{name} {gibibytes(getattr(sizes, name))}" for name in told)
    sys.stdout.write(f"{parts}\n{table(sizes, chosen).to_string(index=False, col_space=11)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
