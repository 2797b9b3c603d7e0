"""Measure how fast trace files are written and read, and how large they are.

    python benchmarks/formats.py [TRACE...] [--repeats N] [--json FILE]

TRACE is anything that ``load_trace`` reads; by default large synthetic traces, the bundled ones
and, where ``--reference`` has them, the logs of the DTR paper. "MB" is what a trace file holds
unpacked (the sizes in its header); "MB in memory", the columns of the trace that comes out. Times
are medians of the processor's time on one core, from bytes in memory to a trace whose rules are
checked. "peak MiB" is what reading adds at most to the memory of a fresh process (Linux only).
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rematsim.traces.importers.dtr_export import exportable
from rematsim.traces.importers.dtr_writer import encoded
from rematsim.traces.importers.trace_file import read_trace
from rematsim.traces.importers.trace_header import decode_header
from rematsim.traces.importers.trace_writer import encoded_trace
from rematsim.traces.loading import load_trace, load_traces
from rematsim.traces.trace import ARRAYS, Trace

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "dtr-logs.zip"
SYNTHETIC = ("synthetic:chain:500000", "synthetic:transformer:96,steps=20", "synthetic:tree:14")
BUNDLED = ("bundled:resnet32", "bundled:gpt", "bundled:treelstm")
GOAL = 200  # MB a second


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def measure(trace: Trace, repeats: int) -> dict[str, Any]:
    """Write and read one trace."""
    writing = median_seconds(lambda: encoded_trace(trace), 1)
    data = b"".join(encoded_trace(trace))
    header, _ = decode_header(data, "")
    megabytes = sum(column.bytes for column in header.columns) / 1e6
    again = read_trace(data, trace.name, "")
    assert again == trace
    names = sum(map(len, trace.names))
    in_memory = (names + sum(getattr(again, field).nbytes for field in ARRAYS)) / 1e6
    reading = median_seconds(lambda: read_trace(data, "", ""), repeats)
    log = b"".join(encoded(exportable(trace)[0])) if trace.n_calls < 100_000 else b""
    return {
        "trace": trace.name[:24],
        "calls": trace.n_calls,
        "MB": megabytes,
        "MB in memory": in_memory,
        "kB file": len(data) / 1e3,
        "kB log.gz": len(gzip.compress(log)) / 1e3 if log else None,
        "write MB/s": megabytes / writing,
        "read MB/s": megabytes / reading,
        "read, in memory MB/s": in_memory / reading,
        "peak MiB": peak_of_reading(data),
    }


def peak_of_reading(data: bytes) -> float:
    """Read a file in a process of its own; give what that adds to its memory."""
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        file.write(data)
        file.flush()
        command = [sys.executable, __file__, "--child", file.name]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def child(path: str) -> float:
    """Give the MiB that reading a file adds."""
    load_trace("synthetic:chain:2")
    read_trace(b"".join(encoded_trace(load_trace("synthetic:chain:2"))), "", "")
    before = peak_kib()
    load_trace(path)
    return (peak_kib() - before) / 1024


def peak_kib() -> int:
    """Give the most that this process has had in memory; rusage would tell of its parent too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def default_traces() -> list[Trace]:
    traces = [load_trace(spec) for spec in (*SYNTHETIC, *BUNDLED)]
    if zipfile.is_zipfile(REFERENCE):
        traces += load_traces([REFERENCE])
    return traces


def show(rows: Sequence[dict[str, Any]]) -> None:
    lines = [list(rows[0]), *([text(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        first, *rest = (f"{word:>{width}}" for word, width in zip(line, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *rest]))


def text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    parser.add_argument("--repeats", type=int, default=7, help="of each time, for the median")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    given = parser.parse_args(arguments)
    traces = [load_trace(trace) for trace in given.traces] or default_traces()
    rows = [measure(trace, given.repeats) for trace in traces]
    show(rows)
    large = [row["read MB/s"] for row in rows if row["MB"] > 5]
    if large:
        print(f"\nslowest of those over 5 MB: {min(large):,.0f} MB/s (goal: {GOAL})")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(child(sys.argv[2]))
    else:
        main()
