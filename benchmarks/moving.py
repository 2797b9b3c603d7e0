"""What moving data costs a replay: time per eviction with and without a link.

Run it on a quiet machine: ``python benchmarks/moving.py``. Each heuristic replays the same trace at
the same budget, in turns; times are the least of all turns, of the run alone. An eviction is one
for lack of memory, dropped or offloaded.
"""

from __future__ import annotations

import argparse
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
    least = dict.fromkeys(cells, float("inf"))
    for _ in range(1 + repeats):
        for heuristic, link in cells:
            run = simulate(trace, heuristic, budget, link=link, slowdown_limit=None)
            seconds = run.run_seconds / max(run.pressure_evictions, 1)
            least[heuristic, link] = min(least[heuristic, link], seconds)
    return [
        {
            "trace": Path(name).name,
            "budget": budget,
            "heuristic": heuristic,
            "link": link,
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
