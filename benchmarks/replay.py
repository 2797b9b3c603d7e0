"""How fast rematsim replays: measured against the time that the paper's own simulator took.

Run it on a quiet machine, one core: ``python benchmarks/replay.py [PART ...]``. Parts:

engine   the 300 runs of dtr-runs.csv, engine alone, warm; every row is checked while it is timed
allin    the same from a fresh process: start and reading of the logs included
cold     first replay ever (nothing compiled), all built-in heuristics, ``rematsim --version``
read     reading logs, the first time and from the cache
growth   a chain of N forward and N backward units: time per call, pool, memory

The reference rows and logs are not part of the project; ``--reference`` says where they lie.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[2] / "shared" / "reference"
FILES = {"densenet121": "tv_densenet121"}
FIGURES = (
    "status",
    "unlimited_peak_bytes",
    "base_compute_ns",
    "model_ns",
    "remat_ns",
    "clock",
    "peak_bytes",
    "evictions",
    "evict_sha",
)
Report = dict[str, Any]


def reference_rows(reference: Path) -> list[dict[str, str]]:
    """Read the 300 rows."""
    with (reference / "dtr-runs.csv").open() as file:
        return list(csv.DictReader(file))


def load_logs(reference: Path) -> dict[str, Any]:
    """Read the logs that the rows are about."""
    from rematsim.traces.loading import load_traces

    found = {}
    traces = load_traces([reference / "dtr-logs.zip"])
    for log in ("resnet32", "unet", "densenet121", "treelstm", "lstm"):
        stem = FILES.get(log, log)
        found[log] = next(t for t in traces if Path(t.source.split("::")[-1]).name.startswith(stem))
    return found


def replay_all(rows: list[dict[str, str]], traces: dict[str, Any]) -> list[float]:
    """Do every run, check its figures, and give the seconds that each took."""
    from rematsim import simulate

    seconds = []
    for row in rows:
        started = time.perf_counter()
        result = simulate(traces[row["log"]], row["heuristic"], int(row["budget_bytes"]))
        seconds.append(time.perf_counter() - started)
        for figure in FIGURES:
            assert str(getattr(result, figure)) == row[figure], (row, figure)
    return seconds


def measure_engine(reference: Path, repeats: int) -> Report:
    """Time the runs alone, after one warm-up of all."""
    rows, traces = reference_rows(reference), load_logs(reference)
    replay_all(rows, traces)
    passes = [replay_all(rows, traces) for _ in range(repeats)]
    medians = [statistics.median(times) for times in zip(*passes, strict=True)]
    report: Report = {"repeats": repeats, "total_s": statistics.median(map(sum, passes))}
    report["reference_s"] = sum(float(row["reference_seconds"]) for row in rows)
    report["ratio"] = report["reference_s"] / report["total_s"]
    for key in ("log", "heuristic"):
        for name in dict.fromkeys(row[key] for row in rows):
            mine = [i for i, row in enumerate(rows) if row[key] == name]
            spent = sum(medians[i] for i in mine)
            evictions = sum(int(rows[i]["evictions"]) for i in mine)
            report[f"{key} {name}"] = {
                "seconds": spent,
                "ratio": sum(float(rows[i]["reference_seconds"]) for i in mine) / spent,
                "us_per_eviction": spent / evictions * 1e6,
            }
    return report


def measure_all_in(reference: Path, repeats: int) -> Report:
    """Time whole processes that read the logs and do the 300 runs."""
    command = [sys.executable, __file__, "child", "--reference", str(reference)]
    times = _whole_processes(command, repeats)
    total = statistics.median(times)
    expected = sum(float(row["reference_seconds"]) for row in reference_rows(reference))
    return {"repeats": repeats, "seconds": total, "ratio": expected / total, "all_s": times}


def _whole_processes(command: list[str], repeats: int, **environment: str) -> list[float]:
    times = []
    for _ in range(repeats + 1):  # the first warms the caches
        started = time.perf_counter()
        subprocess.run(command, check=True, env={**os.environ, **environment}, capture_output=True)
        times.append(time.perf_counter() - started)
    return times[1:]


def measure_cold(reference: Path, repeats: int) -> Report:
    """Time what a new user waits for: compiling the engine, and every heuristic."""
    program = [sys.executable, "-m", "rematsim"]
    with tempfile.TemporaryDirectory() as folder:
        cache = {"REMATSIM_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder}
        environment = {**os.environ, **cache}
        started = time.perf_counter()
        replay = [*program, "replay", "bundled:mlp", "--budget", "0.8x"]
        subprocess.run(replay, check=True, env=environment, capture_output=True)
        first = time.perf_counter() - started
        code = (
            "from rematsim import simulate\nfrom rematsim.heuristics import names\n"
            "for name in names():\n    simulate('bundled:mlp', name, '0.8x')\n"
        )
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        every = time.perf_counter() - started
    version = statistics.median(_whole_processes([*program, "--version"], max(repeats, 5)))
    warm = statistics.median(_whole_processes(replay, repeats))
    return {
        "first_replay_s": first,
        "all_heuristics_after_it_s": every,
        "version_s": version,
        "warm_replay_s": warm,
    }


def measure_reading(reference: Path, repeats: int) -> Report:
    """Time reading the logs of the zip, unpacked, without the cache and with it."""
    import zipfile

    from rematsim.traces.loading import load_trace

    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(reference / "dtr-logs.zip") as archive:
            archive.extractall(folder)
        logs = sorted(Path(folder).rglob("*.log"))
        size = sum(log.stat().st_size for log in logs)
        os.environ["REMATSIM_CACHE_DIR"] = str(Path(folder) / "cache")

        def read(cache: bool) -> Callable[[], None]:
            return lambda: [load_trace(log, cache=cache) for log in logs].clear()

        first = _median_time(read(False), repeats)
        read(True)()
        cached = _median_time(read(True), repeats)
    return {
        "bytes": size,
        "first_mb_per_s": size / first / 1e6,
        "cached_mb_per_s": size / cached / 1e6,
    }


def _median_time(action: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def measure_growth(reference: Path, repeats: int) -> Report:
    """Replay ever longer chains, each in a process of its own, so that the peak memory is its own."""
    report: Report = {}
    for heuristic, longest in (("h_LRU", 6), ("h_DTR_eq", 6), ("h_DTR", 5)):
        for power in range(3, longest + 1):
            command = [sys.executable, __file__, "chain", heuristic, str(10**power)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            report[f"{heuristic} 1e{power} calls"] = json.loads(done.stdout)
    return report


def run_chain(heuristic: str, calls: int) -> Report:
    """Replay one chain and give its figures."""
    from rematsim import simulate
    from rematsim.traces.synthetic import chain

    started = time.perf_counter()
    trace = chain(calls // 2)
    built = time.perf_counter() - started
    budget = int(4 * calls**0.5)
    result = simulate(trace, heuristic, budget, slowdown_limit=None, cached=False)
    total = time.perf_counter() - started
    return {
        "status": result.status,
        "build_s": built,
        "total_s": total,
        "run_s": result.run_seconds,
        "us_per_call": result.run_seconds / (calls + result.rematerializations) * 1e6,
        "rematerializations": result.rematerializations,
        "budget_units": budget,
        "slowdown": result.slowdown,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


PARTS: dict[str, Callable[[Path, int], Report]] = {
    "engine": measure_engine,
    "allin": measure_all_in,
    "cold": measure_cold,
    "read": measure_reading,
    "growth": measure_growth,
}


def show(report: Report, indent: str = "  ") -> None:
    """Print a report so that a person can read it."""
    for name, value in report.items():
        if isinstance(value, dict):
            shown = "  ".join(f"{k} {_figure(v)}" for k, v in value.items())
            print(f"{indent}{name:24} {shown}")
        else:
            print(f"{indent}{name:24} {_figure(value)}")


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="folder of dtr-runs.csv")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.parts[0] == "child":
        replay_all(reference_rows(asked.reference), load_logs(asked.reference))
        return
    if asked.parts[0] == "chain":
        print(json.dumps(run_chain(asked.parts[1], int(asked.parts[2]))))
        return
    reports = {}
    for part in asked.parts:
        reports[part] = PARTS[part](asked.reference, asked.repeats)
        if not asked.json:
            print(part)
            show(reports[part])
    if asked.json:
        print(json.dumps(reports, indent=2))


if __name__ == "__main__":
    main()
