"""What moving data costs a replay: time per eviction with and without a link.

Run it on a quiet machine: ``python benchmarks/moving.py``. Each heuristic replays the same trace at
the same budget, in turns; times are the least of all turns, of the run alone, less that of a run
without a budget. An eviction is one for lack of memory, dropped or offloaded.

Runs that move data evict less often, and others: what a run with a budget does besides
(recomputing, returns, copies ahead, the upkeep of classes) falls upon fewer evictions. So the time
is also given by the storages that were looked at as victims.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from showing import Row, table

TRACES = ("synthetic:transformer:48", "bundled:llama_7b", "bundled:gpt")
PAIRS = {"h_DTR_offload": "h_DTR_eq", "h_next_use_offload": "h_next_use"}
LINKS = ("none", "link(d2h=300MB/s,h2d=300MB/s)", "link(d2h=24GB/s,h2d=24GB/s)")


def measure(name: str, budget: str, repeats: int) -> list[Row]:
    """Replay one trace with all heuristics, over all links."""
    from rematsim.simulation import simulate
    from rematsim.traces.loading import load_trace

    trace = load_trace(name)
    cells = [(heuristic, link) for heuristic in PAIRS for link in LINKS]
    cells += [(plain, "none") for plain in PAIRS.values()]
    seconds: dict[tuple[str, str, str], float] = {}
    evictions: dict[tuple[str, str], int] = {}
    looked_at: dict[tuple[str, str], int] = {}
    for _ in range(1 + repeats):
        for (heuristic, link), limit in itertools.product(cells, (budget, "unlimited")):
            run = simulate(trace, heuristic, limit, link=link, slowdown_limit=None)
            before = seconds.get((heuristic, link, limit), float("inf"))
            seconds[heuristic, link, limit] = min(before, run.run_seconds)
            if limit == budget:
                evictions[heuristic, link] = max(run.pressure_evictions, 1)
                looked_at[heuristic, link] = max(run.search_steps or 0, 1)
    lost = {cell: seconds[*cell, budget] - seconds[*cell, "unlimited"] for cell in cells}
    least = {cell: lost[cell] / evictions[cell] for cell in cells}
    return [
        {
            "trace": Path(name).name,
            "budget": budget,
            "heuristic": heuristic,
            "link": link,
            "evictions": evictions[heuristic, link],
            "ns a storage looked at": 1e9 * lost[heuristic, link] / looked_at[heuristic, link],
            "us an eviction": 1e6 * least[heuristic, link],
            "speed to plain": least[PAIRS[heuristic], "none"] / least[heuristic, link],
        }
        for heuristic in PAIRS
        for link in LINKS
    ]


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", nargs="+", default=TRACES)
    parser.add_argument("--budget", default="0.4x")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    table("moving data", [r for t in given.trace for r in measure(t, given.budget, given.repeats)])


if __name__ == "__main__":
    main()
