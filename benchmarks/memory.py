"""What memory with addresses costs, and whether the arena is right a million times over.

``python benchmarks/memory.py [PART ...]``. Parts:

counter    the reference runs in the counter, and a first replay with nothing compiled: this
           checkout and another one (``--against FOLDER``) take turns
evictions  h_DTR_eq in the arena beside the counter: time an eviction, trace by trace
pieces     a free and an allocation in an arena with 1 to 10^5 live pieces, asked from Python
random     random allocations and frees (``--operations``) in the arena and in a slow obvious one,
           compared after each
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import replay
from replay import REFERENCE, check_rows, run_child
from showing import Row, say, table

FOLDERS = ("traces", "heuristics", "analysis")
TRACES = ("unet", "resnet32", "densenet", "lstm", "gpt", "vit_2steps")
LOGS = ("resnet32", "densenet121", "lstm", "transformer", "unet", "treelstm")
FRACTIONS = ("0.4x", "0.5x", "0.6x", "0.8x")
UNIT = 512


def tree_of(checkout: Path, folder: Path) -> dict[str, str]:
    """Lay out a checkout as the package that it is; give what lets a process import it."""
    package = folder / "rematsim"
    package.mkdir(parents=True)
    for path in [*(checkout / "sim").iterdir(), *(checkout / name for name in FOLDERS)]:
        (package / path.name).symlink_to(path.resolve())
    return {"PYTHONPATH": str(folder), "REMATSIM_CACHE_DIR": str(folder / "cache")}


def measure_counter(given: argparse.Namespace) -> Row:
    """Time the counter before and after: runs of both checkouts, one by one in turns."""
    here = Path(__file__).resolve().parents[1]
    checkouts = {"this": here, "other": given.against}
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: tree_of(path, Path(folder) / n) for n, path in checkouts.items()}
        found: dict[str, dict[str, list[float]]] = {n: {"run": [], "first": []} for n in paths}
        for turn in range(1 + given.repeats):
            for name in sorted(paths, reverse=turn % 2 == 1):
                child = run_child("reference", str(given.reference), "3", "cache",
                                  environment=paths[name])  # fmt: skip
                check_rows(child)
                best = [min(run) for run in zip(*child["seconds"]["run"], strict=True)]
                cold = paths[name] | {"REMATSIM_CACHE_DIR": f"{folder}/{name}-{turn}"}
                first = run_child("one_run", environment=cold)["wall_seconds"]
                if turn:
                    found[name]["run"].append(sum(best))
                    found[name]["first"].append(first)
    rows = [
        {
            "checkout": name,
            "300 runs, s": statistics.median(times["run"]),
            "least, s": min(times["run"]),
            "most, s": max(times["run"]),
            "a first replay, s": statistics.median(times["first"]),
        }
        for name, times in found.items()
    ]
    table(f"the counter, {given.repeats} turns", rows)
    return {"rows": rows, "all": found}


def evictions_of(trace: str, repeats: int) -> Row:
    """Run a trace in both memories; add up the shortest times and the evictions."""
    from rematsim import load_trace, simulate

    loaded = load_trace(trace)
    totals: Row = {}
    for memory in ("counter", "arena"):
        seconds, evictions, steps = 0.0, 0, 0
        for fraction in FRACTIONS:
            runs = [simulate(loaded, "h_DTR_eq", fraction, memory=memory, slowdown_limit=8.0)
                    for _ in range(1 + repeats)]  # fmt: skip
            seconds += min(run.run_seconds for run in runs[1:])
            evictions += runs[0].pressure_evictions
            steps += runs[0].search_steps or 0
        totals |= {f"{memory} s": seconds, f"{memory} evictions": evictions,
                   f"{memory} steps": steps}  # fmt: skip
    return totals


def measure_evictions(given: argparse.Namespace) -> Row:
    """Time per eviction for lack of memory, calls and all."""
    names = [f"bundled:{name}" for name in TRACES]
    if (given.reference / "dtr-logs.zip").exists():
        names += replay.log_paths(given.reference, LOGS).values()
    rows = []
    for name in names:
        child = evictions_of(name, given.repeats)
        cost = {
            memory: 1e6 * child[f"{memory} s"] / max(child[f"{memory} evictions"], 1)
            for memory in ("counter", "arena")
        }
        rows.append(
            {
                "trace": Path(name.rpartition(":")[2]).stem,
                **{f"{memory} evictions": child[f"{memory} evictions"] for memory in cost},
                **{f"{memory}, us": cost[memory] for memory in cost},
                "times": cost["arena"] / cost["counter"],
                **{
                    f"{memory}, us a 100 steps": 1e8 * child[f"{memory} s"]
                    / max(child[f"{memory} steps"], 1)
                    for memory in cost
                },
            }
        )  # fmt: skip
    table("h_DTR_eq, an eviction for lack of memory, all that a run does included", rows)
    return {"rows": rows}


def measure_pieces(given: argparse.Namespace) -> Row:
    """Time operations of an arena with ever more pieces; the first row is what asking takes."""
    from rematsim.allocation import Allocator

    rows = []
    for live in (1, 10**3, 10**4, 10**5):
        draw = random.Random(live)
        arena = Allocator("arena", None, most_pieces=4 * live + 8)
        held = [arena.allocate(draw.randrange(1, 10**6)) for _ in range(live)]
        steps = [(draw.randrange(1, 10**6), draw.randrange(live)) for _ in range(50_000)]
        started = time.perf_counter()
        for size, i in steps:
            arena.free(held[i] or 0)
            held[i] = arena.allocate(size)
        used = time.perf_counter() - started
        rows.append(
            {
                "live": live,
                "pieces": int(arena.space.pieces),
                "us a free and an allocation": 1e6 * used / len(steps),
            }
        )
    table("pieces of an arena", rows)
    return {"rows": rows}


def measure_random(given: argparse.Namespace) -> Row:
    """Compare with the obvious arena, a fresh pair for each 10,000 operations."""
    from rematsim.allocation import Allocator
    from rematsim.audit_addresses import PlainArena

    totals = {"operations": 0, "without a place": 0, "most pieces": 0}
    for seed in range(-(-given.operations // 10_000)):
        draw = random.Random(seed)
        size = draw.choice((100, 1000, 100_000)) * UNIT
        small = size // 4 if seed % 2 else 0
        arena = Allocator(f"arena(small_area={small})", size, most_pieces=1 << 14)
        plain = PlainArena(size, small)
        live: list[tuple[int, int]] = []
        for _ in range(10_000):
            if live and draw.random() < 0.46 + 0.2 * (len(live) > 150):
                piece, address = live.pop(draw.randrange(len(live)))
                arena.free(piece)
                plain.free(address)
            else:
                most = draw.choice((40, size // 50, size // 8))
                asked, side = draw.randrange(1, most), int(draw.random() < 0.3)
                piece_or_none, due = arena.allocate(asked, side), plain.place(asked, side == 1)
                found = None if piece_or_none is None else arena.address(piece_or_none)
                assert found == due, f"seed {seed}: {found}, the obvious arena gives {due}"
                if piece_or_none is not None and due is not None:
                    live.append((piece_or_none, due))
                totals["without a place"] += due is None
            assert arena.largest_hole == plain.largest_hole, f"seed {seed}"
            totals["operations"] += 1
        totals["most pieces"] = max(totals["most pieces"], int(arena.space.pieces))
    table("random operations, equal in both arenas", [totals])
    return dict(totals)


PARTS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "counter": measure_counter,
    "evictions": measure_evictions,
    "pieces": measure_pieces,
    "random": measure_random,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--repeats", type=int, default=5, help="of each time, for the median")
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="folder of dtr-runs.csv")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    say(f"load of the machine: {os.getloadavg()[0]:.1f}")
    for part in given.parts or PARTS:
        if part == "counter" and given.against is None:
            say("counter: left out, there is no --against FOLDER")
        else:
            PARTS[part](given)


if __name__ == "__main__":
    main()
