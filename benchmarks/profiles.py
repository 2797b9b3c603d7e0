"""How long profiles take to read, and how much memory: run by hand, never by the tests.

    python benchmarks/profiles.py                  # made: a trace of 14 MB, a Kineto file of 1 GB
    python benchmarks/profiles.py --trace FILE     # an execution trace of your own
    python benchmarks/profiles.py --kineto-mb 100

The files are made here and deleted. Each reading is a process of its own; of several, the quickest
counts. Memory is the most that the process ever held.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

REPEATS = 5
MEGABYTE = 1_000_000
EVENTS_A_BLOCK = 20_000
ADDMM = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1) -> Tensor"
RELU = "aten::clamp_min(Tensor self, Scalar min) -> Tensor"

# What a process runs, with the peak of its memory in KiB on the last line (Linux).
READ_TRACE = "from rematsim.traces.importing import import_trace; import_trace(sys.argv[1:])"
READ_CURVE = "from rematsim.traces.curves import load_curve; load_curve(sys.argv[1])"
MEASURED = (
    "import pathlib, sys; {code}; "
    "print(pathlib.Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, help="an execution trace, in place of a made one")
    parser.add_argument("--trace-mb", type=float, default=14, help="size of the made one")
    parser.add_argument("--kineto-mb", type=float, default=1000, help="size of the Kineto file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = given.trace or Path(folder) / "execution_trace.json"
        if given.trace is None:
            write_trace(trace, int(given.trace_mb * MEGABYTE))
        report("execution trace", trace, READ_TRACE, REPEATS)
        kineto = Path(folder) / "kineto.json"
        write_kineto(kineto, int(given.kineto_mb * MEGABYTE))
        report("Kineto, memory curve", kineto, READ_CURVE, 1)


def report(what: str, path: Path, code: str, repeats: int) -> None:
    """Read a file in processes of their own, and print the quickest."""
    best, memory = float("inf"), 0
    for _ in range(repeats):
        begin = time.perf_counter()
        command = [sys.executable, "-c", MEASURED.format(code=code), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        best = min(best, time.perf_counter() - begin)
        memory = max(memory, int(done.stdout.split()[-1]))
    size = path.stat().st_size / MEGABYTE
    sys.stdout.write(
        f"{what:<22}{size:9.1f} MB {best:8.2f} s {size / best:8.1f} MB/s "
        f"{memory / 1024:8.0f} MiB at most\n"
    )


def write_trace(path: Path, size_bytes: int) -> None:
    """Make an execution trace of many layers: a product around a factory, and an activation."""
    nodes, number, tensors, size = [], 2, 10, 0
    while size < size_bytes:
        made = [
            _node(number, 1, "aten::addmm", ADDMM, (tensors, tensors + 1, tensors), tensors + 2),
            _node(number + 1, number, "aten::empty", "aten::empty() -> Tensor", (), tensors + 2),
            _node(number + 2, 1, "aten::clamp_min", RELU, (tensors + 2,), tensors + 3),
        ]
        number, tensors = number + 3, tensors + 3
        nodes += [json.dumps(node) for node in made]
        size += sum(len(node) for node in nodes[-3:])
    head = '{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [\n'
    path.write_text(head + ",\n".join(nodes) + "\n]}")


def _node(
    number: int, parent: int, name: str, schema: str, inputs: tuple[int, ...], output: int
) -> dict[str, object]:
    def io(tensors: tuple[int, ...]) -> dict[str, object]:
        return {
            "values": [[t, t, 0, 4096, 4, "cuda:0"] for t in tensors],
            "shapes": [[64, 64]] * len(tensors),
            "types": ["Tensor(float)"] * len(tensors),
            "strides": [[64, 1]] * len(tensors),
        }

    attributes = {"rf_id": number, "seq_id": -1, "scope": 0, "tid": 1, "op_schema": schema}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": io(inputs),
        "outputs": io((output,)),
        "attrs": [{"name": k, "type": "uint64", "value": v} for k, v in attributes.items()],
    }


def write_kineto(path: Path, size_bytes: int) -> None:
    """Make a Kineto trace of operators, launches, kernels, memory events and Python functions."""
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n')
        lines = _events()
        while file.tell() < size_bytes:
            file.write("".join(next(lines) for _ in range(EVENTS_A_BLOCK)))
        file.write('{"ph": "M", "name": "process_name"}\n]}')


def _events() -> Iterator[str]:
    """Events as the profiler writes them, without end."""
    chance = random.Random(0)
    ts = total = number = 0
    held: list[tuple[int, int]] = []
    while True:
        number += 1
        ts += chance.randrange(1, 30)
        for event in _operator(number):
            yield json.dumps(event | {"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": 9.5}) + ",\n"
        if len(held) < 100 or chance.random() < 0.5:
            held.append((number * 4096, 512 * chance.randrange(1, 10_000)))
            address, size = held[-1]
        else:
            address, size = held.pop(0)
            size = -size
        total += size
        args = {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size}
        args |= {"Total Allocated": total, "Total Reserved": 80 << 30}
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1}
        yield json.dumps(event | {"tid": 1, "ts": ts, "args": args}) + ",\n"


def _operator(number: int) -> list[dict[str, object]]:
    """An operator, its launch, its kernel, and the Python function around it."""
    inputs = {"Input Dims": [[64, 64], [64, 64]], "Ev Idx": number, "Record function id": number}
    kernel = {"correlation": number, "stream": 7, "grid": [16, 8, 2], "block": [128, 1, 1]}
    launch = {"correlation": number, "cbid": 211}
    function = {"Python id": number, "Python parent id": 1}
    named = [
        ("cpu_op", "aten::mm", inputs),
        ("cuda_runtime", "cudaLaunchKernel", launch),
        ("kernel", "ampere_sgemm_64x64_nn", kernel),
        ("python_function", "torch/nn/modules/linear.py(114): forward", function),
    ]
    return [{"cat": kind, "name": name, "args": args} for kind, name, args in named]


if __name__ == "__main__":
    main()
