"""What memory with addresses costs, and whether it is right a million times over.

``python benchmarks/memory.py [PART ...]``. All but the first part are of the arena, or of the model
that ``--memory`` says (``caching``). Parts:

counter    the reference runs in the counter, and a first replay with nothing compiled: this
           checkout and another one (``--against FOLDER``) take turns
evictions  h_DTR_eq in it beside the counter: time an eviction, trace by trace
pieces     a free and an allocation with 1 to 10^5 live pieces, asked from Python
crowd      an eviction with 10^4 and 10^5 storages in memory: h_DTR_eq in the counter, and in an
           arena h_DTR_eq, h_DTE and Coop
random     random allocations and frees (``--operations``) in it and in a slow obvious one, compared
           after each
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import replay
from replay import REFERENCE, check_rows
from showing import Row, say, table

FOLDERS = ("traces", "heuristics", "analysis")
TRACES = ("unet", "resnet32", "densenet", "lstm", "gpt", "vit_2steps")
LOGS = ("resnet32", "densenet121", "lstm", "transformer", "unet", "treelstm")
FRACTIONS = ("0.4x", "0.5x", "0.6x", "0.8x")
UNIT = 512
CROWDED = (
    *(("counter", "h_DTR_eq"), ("arena", "h_DTR_eq"), ("arena", "h_DTE")),
    *(("arena", "Coop"), ("arena", "Coop(partition=none)")),
)
PASSES = 4  # over all runs, for each of --repeats


def tree_of(checkout: Path, folder: Path) -> dict[str, str]:
    """Lay out a checkout as the package that it is; give what lets a process import it."""
    package = folder / "rematsim"
    package.mkdir(parents=True)
    for path in [*(checkout / "sim").iterdir(), *(checkout / name for name in FOLDERS)]:
        (package / path.name).symlink_to(path.resolve())
    return {"PYTHONPATH": str(folder), "REMATSIM_CACHE_DIR": str(folder / "cache")}


def child_passes(folder: str) -> None:
    """Do all reference runs once for each line of input; tell the seconds of each run."""
    for _ in sys.stdin:
        print(json.dumps(replay.child_reference(folder, "1", "cache")), flush=True)


def child_first() -> None:
    """Tell the processor time of a first replay, with nothing compiled."""
    replay.child_one_run()
    print(time.process_time())


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Start this file as a child that talks in lines."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(child: subprocess.Popen[str]) -> list[float]:
    """Let a child do all runs once."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    found = json.loads(child.stdout.readline())
    check_rows(found)
    return list(found["seconds"]["run"][0])


def measure_counter(given: argparse.Namespace) -> Row:
    """Time the counter in two checkouts in turns: of each run the least of all turns counts."""
    here = Path(__file__).resolve().parents[1]
    checkouts = {"this": here, "other": given.against}
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: tree_of(path, Path(folder) / n) for n, path in checkouts.items()}
        first: dict[str, list[float]] = {name: [] for name in paths}
        for turn in range(given.repeats):
            for name, path in paths.items():
                cold = path | {"REMATSIM_CACHE_DIR": f"{folder}/{name}-{turn}"}
                first[name].append(float(start(cold, "first").communicate()[0]))
        children = {n: start(path, "passes", str(given.reference)) for n, path in paths.items()}
        passes: dict[str, list[list[float]]] = {name: [] for name in paths}
        for _ in range(1 + PASSES * given.repeats):
            for name, child in children.items():
                passes[name].append(ask(child))
        for child in children.values():
            child.communicate()
    rows = [
        {
            "checkout": name,
            "300 runs, s": sum(map(min, zip(*passes[name][1:], strict=True))),
            "a first replay, s of processor": min(first[name]),
        }
        for name in paths
    ]
    table(f"the counter, {PASSES * given.repeats} turns", rows)
    return {"rows": rows}


def evictions_of(trace: str, memories: Sequence[str], repeats: int) -> Row:
    """Run a trace in both memories; add up the shortest times and the evictions."""
    from rematsim import load_trace, simulate

    loaded = load_trace(trace)
    totals: Row = {}
    for memory in memories:
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
    rows, memories = [], ("counter", given.memory)
    for name in names:
        child = evictions_of(name, memories, given.repeats)
        cost = {
            memory: 1e6 * child[f"{memory} s"] / max(child[f"{memory} evictions"], 1)
            for memory in memories
        }
        rows.append(
            {
                "trace": Path(name.rpartition(":")[2]).stem,
                **{f"{memory} evictions": child[f"{memory} evictions"] for memory in cost},
                **{f"{memory}, us": cost[memory] for memory in cost},
                "times": cost[given.memory] / cost["counter"],
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
    """Time operations with ever more pieces; the first row is what asking takes."""
    from rematsim.allocation import Allocator

    rows = []
    for live in (1, 10**3, 10**4, 10**5):
        draw = random.Random(live)
        arena = Allocator(given.memory, None, most_pieces=8 * live + 64)
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
    table(f"pieces of {given.memory}", rows)
    return {"rows": rows}


def crowd(live: int, more: int) -> tuple[Any, int]:
    """Calls in a row, all results held to the end; and the bytes of so many of them."""
    from rematsim.traces.builder import TraceBuilder

    draw = random.Random(live)
    builder = TraceBuilder("crowd")
    builder.constant("x", UNIT)
    budget, names = UNIT, ["x"]
    for k in range(live + more):
        operands = [names[-1], *([names[-draw.randrange(1, 50)]] if k > 50 and k % 3 == 0 else [])]
        names.append(f"a{k}")
        size = draw.choice((1, 1, 2, 2, 3, 4, 8, 16)) * UNIT
        budget += size if k < live else 0
        operator = ("mm", "relu", "mul", "exp")[k % 4]
        builder.call(operator, operands, [(names[-1], size, -1)], draw.randrange(1, 1000))
    for name in names[1:]:
        builder.release(name)
    return builder.build(), budget


def measure_crowd(given: argparse.Namespace) -> Row:
    """Time evictions: the processor time of a run, less that of one with room for all."""
    from rematsim import simulate

    rows: list[Row] = []
    for live, more in ((10**4, 1000), (10**5, 300)):
        trace, budget = crowd(live, more)
        for place, (memory, method) in enumerate(CROWDED):
            seconds: dict[int, float] = {}
            evictions: list[int] = []
            for room in (budget, 2 * budget):
                times = []
                for _ in range(1 + given.repeats):
                    started = time.process_time()
                    run = simulate(trace, method, room, memory=memory, slowdown_limit=None)
                    times.append(time.process_time() - started)
                seconds[room] = min(times[1:])
                evictions.append(run.pressure_evictions)
            cost = 1e6 * (seconds[budget] - seconds[2 * budget]) / evictions[0]
            base = rows[-place]["us an eviction"] if place else cost
            rows.append({"live": live, "memory": memory, "method": method,
                         "evictions": evictions[0], "us an eviction": cost,
                         "times": cost / base})  # fmt: skip
    table("evictions with many storages in memory", rows)
    return {"rows": rows}


def a_pair(memory: str, seed: int, size: int) -> tuple[Any, Any]:
    """Make an allocator, of an arena every other time with an area apart, and the obvious one."""
    from rematsim.allocation import Allocator
    from rematsim.audit_addresses import plain_model

    if memory == "arena":
        memory = f"arena(small_area={size // 4 if seed % 2 else 0})"
    return Allocator(memory, size, most_pieces=1 << 14), plain_model(memory, size)


def measure_random(given: argparse.Namespace) -> Row:
    """Compare with the obvious one, a fresh pair for each 10,000 operations."""
    unit = UNIT if given.memory.startswith("arena") else 4096 * UNIT
    totals = {"operations": 0, "without a place": 0, "most pieces": 0}
    for seed in range(-(-given.operations // 10_000)):
        draw = random.Random(seed)
        size = draw.choice((100, 1000, 100_000)) * unit
        fast, plain = a_pair(given.memory, seed, size)
        live: list[tuple[int, int]] = []
        for _ in range(min(10_000, given.operations)):
            if live and draw.random() < 0.46 + 0.2 * (len(live) > 150):
                piece, address = live.pop(draw.randrange(len(live)))
                fast.free(piece)
                plain.free(address)
            else:
                most = draw.choice((40, size // 50, size // 8))
                asked, side = draw.randrange(1, most), int(draw.random() < 0.3)
                piece_or_none, due = fast.allocate(asked, side), plain.place(asked, side == 1)
                found = None if piece_or_none is None else fast.address(piece_or_none)
                assert found == due, f"seed {seed}: {found}, the obvious one gives {due}"
                if piece_or_none is not None and due is not None:
                    live.append((piece_or_none, due))
                totals["without a place"] += due is None
            assert fast.largest_hole == plain.largest_hole, f"seed {seed}"
            totals["operations"] += 1
        totals["most pieces"] = max(totals["most pieces"], int(fast.space.pieces))
    table(f"random operations, equal in {given.memory} and in the obvious one", [totals])
    return dict(totals)


PARTS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "counter": measure_counter,
    "evictions": measure_evictions,
    "pieces": measure_pieces,
    "crowd": measure_crowd,
    "random": measure_random,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--memory", default="arena", help="a model with addresses")
    parser.add_argument(
        "--repeats", type=int, default=5, help="of each time, of which the least counts"
    )
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
    if sys.argv[1:2] == ["--child"]:
        {"passes": child_passes, "first": child_first}[sys.argv[2]](*sys.argv[3:])
    else:
        main()
