"""How fast rematsim is, measured against the time that the paper's own simulator took.

Run it on a quiet machine: ``python benchmarks/replay.py [PART ...]``. Parts:

engine   the 300 runs of dtr-runs.csv, loaded: a run is from a State put back to its digest of
         evictions; every row is checked
allin    the same from a fresh process: start, and reading of the logs, included
cold     first replay ever (nothing compiled), all built-in heuristics, ``rematsim --version``
read     reading logs, the first time and from the cache
growth   a chain of N forward and N backward units: time per call, pool, memory

Times are medians on one core. The reference rows and logs are not part of the project;
``--reference`` says where they lie. Nothing is judged here but whether the rows are right.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from showing import Row, say, table

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference"
REPEATS = 5
FIGURES = (
    *("status", "unlimited_peak_bytes", "base_compute_ns", "model_ns", "remat_ns", "clock"),
    *("peak_bytes", "evictions", "evict_sha"),
)
IN_ZIP = {"densenet121": "tv_densenet121", "unrolled_gan": "unroll_gan"}
GROWTH = {"h_DTR": 100_000, "h_DTR_eq": 1_000_000, "h_LRU": 1_000_000}
LOGGED_CALLS = 100_000  # more would not fit a small machine's memory with all events


def run_child(part: str, *arguments: str, environment: dict[str, str] | None = None) -> Row:
    """Run a part of this file in a fresh process; give what it printed, and its wall time."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", part, *arguments]
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = inherited | (environment or {})
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{part} {' '.join(arguments)} failed:\n{done.stderr}")
    return {**json.loads(done.stdout), "wall_seconds": seconds}


# The reference runs.


def reference_rows(folder: Path) -> dict[str, list[Row]]:
    """Read the rows by log."""
    rows = defaultdict(list)
    with (folder / "dtr-runs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            rows[row["log"]].append(row)
    return rows


def log_paths(folder: Path, logs: Iterable[str]) -> dict[str, str]:
    """Give what to load for each log of the rows."""
    archive = folder / "dtr-logs.zip"
    with zipfile.ZipFile(archive) as members:
        stems = [Path(path).stem for path in members.namelist()]
    return {
        log: f"{archive}::{next(s for s in stems if s.startswith(IN_ZIP.get(log, log)))}"
        for log in logs
    }


def child_reference(folder: str, passes: str, cache: str) -> Row:
    """Replay every reference row, several times over; check each.

    Tells the seconds of each run (as its own column says), and of the whole call of `simulate`.
    """
    from rematsim.simulation import simulate
    from rematsim.traces.loading import load_trace

    rows = reference_rows(Path(folder))
    is_cached = cache == "cache"
    traces = {
        log: load_trace(path, cache=is_cached)
        for log, path in log_paths(Path(folder), rows).items()
    }
    seconds: dict[str, list[list[float]]] = {"run": [], "call": []}
    wrong = 0
    for _ in range(int(passes)):
        for column in seconds.values():
            column.append([])
        for log, runs in rows.items():
            for row in runs:
                started = time.perf_counter()
                result = simulate(
                    traces[log],
                    row["heuristic"],
                    int(row["budget_bytes"]),
                    deallocation=row["deallocation"],
                    cached=is_cached,
                )
                seconds["call"][-1].append(time.perf_counter() - started)
                seconds["run"][-1].append(result.run_seconds)
                wrong += any(str(result.row[figure]) != row[figure] for figure in FIGURES)
    return {"seconds": seconds, "wrong": wrong}


def measure_engine(given: argparse.Namespace) -> Row:
    """Time the runs alone: after a pass that warms up, medians of each run."""
    rows = [row for runs in reference_rows(given.reference).values() for row in runs]
    child = run_child("reference", str(given.reference), str(1 + given.repeats), "cache")
    check_rows(child)
    medians = {
        what: [statistics.median(run) for run in zip(*passes[1:], strict=True)]
        for what, passes in child["seconds"].items()
    }
    seconds, evictions = medians["run"], sum(int(row["evictions"]) for row in rows)
    found: Row = {
        "runs": len(rows),
        "seconds": sum(seconds),
        "reference seconds": reference_seconds(rows),
        "times faster": reference_seconds(rows) / sum(seconds),
        "us an eviction": 1e6 * sum(seconds) / evictions,
        "simulate(), s": sum(medians["call"]),
    }
    table("the engine alone, all runs", [found])
    for key in ("log", "heuristic"):
        found[f"by {key}"] = by_key(rows, seconds, key)
        table(f"by {key}", found[f"by {key}"])
    return found


def measure_all_in(given: argparse.Namespace) -> Row:
    """Time whole processes that read the logs and do the runs; what is compiled stays."""
    rows = [row for runs in reference_rows(given.reference).values() for row in runs]
    expected, folder = reference_seconds(rows), str(given.reference)
    run_child("reference", folder, "1", "cache")  # fills the caches
    found = []
    for cache, how in (("no-cache", "read anew"), ("cache", "from the cache")):
        children = [run_child("reference", folder, "1", cache) for _ in range(given.repeats)]
        check_rows(*children)
        wall = statistics.median(child["wall_seconds"] for child in children)
        found.append({"logs": how, "seconds": wall, "times faster": expected / wall})
    table("a process from start to end, all runs", found)
    return {"rows": found}


def reference_seconds(rows: Iterable[Row]) -> float:
    return sum(float(row["reference_seconds"]) for row in rows)


def check_rows(*children: Row) -> None:
    """Stop if a row came out otherwise than in the reference."""
    if wrong := sum(child["wrong"] for child in children):
        sys.exit(f"{wrong} rows differ from the reference: nothing is measured")


def by_key(rows: Sequence[Row], seconds: Sequence[float], key: str) -> list[Row]:
    """Add up runs that share a log or a heuristic."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for row, own in zip(rows, seconds, strict=True):
        total = found[row[key]]
        total[0] += own
        total[1] += float(row["reference_seconds"])
        total[2] += int(row["evictions"])
    return [
        {
            key: name,
            "seconds": own,
            "times faster": reference / own,
            "evictions": int(evictions),
            "us an eviction": 1e6 * own / evictions,
        }
        for name, (own, reference, evictions) in found.items()
    ]


def child_compile() -> Row:
    """Run every built-in heuristic once."""
    from rematsim import heuristics, simulate

    for name in heuristics.names():
        memory = "arena" if heuristics.get(name).needs_addresses else "counter"
        simulate("synthetic:chain:10", name, "0.7x", memory=memory)
    return {"heuristics": len(heuristics.names())}


def child_one_run() -> Row:
    """Do what a first user does."""
    from rematsim import simulate

    return {"status": simulate("bundled:unet", "h_DTR_eq", "0.5x").status}


def measure_cold(given: argparse.Namespace) -> Row:
    """First single run, all heuristics, ``--version``: with empty caches and full ones."""
    found = []
    for part, what in (("one_run", "a replay"), ("compile", "all built-in heuristics")):
        with tempfile.TemporaryDirectory() as folder:
            caches = {"REMATSIM_CACHE_DIR": folder}
            cold = run_child(part, environment=caches)["wall_seconds"]
            warm = [run_child(part, environment=caches) for _ in range(given.repeats)]
        found.append(
            {
                "process": what,
                "first ever, s": cold,
                "again, s": statistics.median(run["wall_seconds"] for run in warm),
            }
        )
    command = [sys.executable, "-m", "rematsim", "--version"]
    times = []
    for _ in range(given.repeats):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    found.append(
        {
            "process": "rematsim --version",
            "first ever, s": None,
            "again, s": statistics.median(times),
        }
    )
    table("whole processes", found)
    return {"rows": found}


def child_reading(*paths: str) -> Row:
    """Read plain logs: without a cache, into an empty cache, and from it."""
    from rematsim.traces.loading import load_trace

    def clock(work: Callable[[str], object]) -> list[float]:
        times = []
        for path in paths:
            started = time.perf_counter()
            work(path)
            times.append(time.perf_counter() - started)
        return times

    load_trace(paths[0], cache=False)  # imports
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REMATSIM_CACHE_DIR"] = folder
        return {
            "read": clock(lambda path: load_trace(path, cache=False)),
            "read and stored": clock(load_trace),
            "from the cache": clock(load_trace),
        }


def measure_reading(given: argparse.Namespace) -> Row:
    """Megabytes of plain log a second."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(given.reference / "dtr-logs.zip") as archive:
            archive.extractall(folder)
        paths = sorted(Path(folder).rglob("*.log"))
        megabytes = [path.stat().st_size / 1e6 for path in paths]
        names = [str(path) for path in paths]
        children = [run_child("reading", *names) for _ in range(given.repeats)]
    ways = [way for way in children[0] if way != "wall_seconds"]
    found = {
        way: [statistics.median(t) for t in zip(*(c[way] for c in children), strict=True)]
        for way in ways
    }
    rows = [
        {"log": path.stem, "MB": size, **{way: size / found[way][i] for way in ways}}
        for i, (path, size) in enumerate(zip(paths, megabytes, strict=True))
    ]
    total = sum(megabytes)
    rows.append({"log": "all", "MB": total, **{way: total / sum(found[way]) for way in ways}})
    table("MB/s of plain log", rows)
    return {"megabytes_per_second": rows}


def child_growth(heuristic: str, calls: str, logs: str) -> Row:
    """Replay a chain; with all events, tell how many storages there were to choose from."""
    import resource

    from rematsim.opcodes import ACTIONS
    from rematsim.simulation import simulate
    from rematsim.traces.synthetic import chain
    from rematsim.workload import workload

    simulate(chain(10), heuristic, 8)  # loads what is compiled
    times = [time.perf_counter()]
    trace = chain(int(calls) // 2)
    times.append(time.perf_counter())
    workload(trace, cached=False)
    times.append(time.perf_counter())
    budget = int(4 * int(calls) ** 0.5)
    run = simulate(trace, heuristic, budget, cached=False, event_log=logs == "events")
    times.append(time.perf_counter())
    seconds = [after - before for before, after in zip(times, times[1:], strict=False)]
    pool_mean = pool_max = None
    if run.events is not None:
        chosen = run.events["action"] == ACTIONS.index("evict")
        there = run.events["memory_after_bytes"][chosen]  # t_0 is no choice, the victim was
        pool_mean, pool_max = float(there.mean()), int(there.max())
    return {
        "heuristic": heuristic,
        "calls": int(calls),
        "status": run.status,
        "calls simulated": run.clock - 1,  # each takes a nanosecond
        "build s": seconds[0],
        "lower s": seconds[1],
        "run s": seconds[2],
        "us a call": 1e6 * seconds[2] / (run.clock - 1),
        "pool, mean": pool_mean,
        "pool, max": pool_max,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_growth(given: argparse.Namespace) -> Row:
    """Time per simulated call, storages to choose from, memory: chains of 10^3 calls and more."""
    rows = []
    for heuristic, most in GROWTH.items():
        calls = 1_000
        while calls <= min(most, given.calls):
            runs = [
                run_child("growth", heuristic, str(calls), "none") for _ in range(given.repeats)
            ]
            row = sorted(runs, key=lambda run: float(run["run s"]))[len(runs) // 2]
            if calls <= LOGGED_CALLS:
                logged = run_child("growth", heuristic, str(calls), "events")
                row |= {key: logged[key] for key in ("pool, mean", "pool, max")}
            rows.append({key: row[key] for key in row if key != "wall_seconds"})
            calls *= 10
    table("a chain under 4 sqrt(calls) units", rows)
    return {"rows": rows}


PARTS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "engine": measure_engine,
    "allin": measure_all_in,
    "cold": measure_cold,
    "read": measure_reading,
    "growth": measure_growth,
}
NEED_REFERENCE = ("engine", "allin", "read")
CHILDREN: dict[str, Callable[..., Row]] = {
    "reference": child_reference,
    "compile": child_compile,
    "one_run": child_one_run,
    "reading": child_reading,
    "growth": child_growth,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each time, for the median")
    parser.add_argument("--calls", type=int, default=10**6, help="longest chain of growth")
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="folder of dtr-runs.csv")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    found = {}
    for part in given.parts or PARTS:
        if part in NEED_REFERENCE and not (given.reference / "dtr-runs.csv").exists():
            say(f"{part}: left out, there is no {given.reference / 'dtr-runs.csv'}")
            continue
        found[part] = PARTS[part](given)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
        say(f"written: {given.json}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(CHILDREN[sys.argv[2]](*sys.argv[3:])))
    else:
        main()
