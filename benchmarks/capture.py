"""What capture costs: microseconds an operator, above what an empty dispatch mode costs.

Run it on a quiet machine: ``python benchmarks/capture.py [MODEL ...]``. Needs PyTorch. Plain steps,
steps under a mode that does nothing and captured steps take turns; of each the minimum of the
process's own time counts, so that other programs disturb little. Batches are small: what an
operator computes costs the same three times, and would drown what is measured. ``fake`` is a 7B
Llama under fake tensors. Nothing is judged here but that the three give the same loss, bit for bit.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from rematsim.traces.recorder import Recorder
from torch.utils._python_dispatch import TorchDispatchMode

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BATCH = 2
DEFAULT = ("resnet32", "gpt", "treelstm", "lstm", "fake")


class Empty(TorchDispatchMode):
    """A mode that passes everything on: what any capture costs at least."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def seconds_of(step: Callable[[], Any], mode: AbstractContextManager[Any]) -> tuple[float, bytes]:
    """Process time of one step, and the bytes of what it returns."""
    torch.manual_seed(1)
    gc.collect()
    gc.disable()
    try:
        with mode:
            start = time.process_time()
            output = step()
            elapsed = time.process_time() - start
    finally:
        gc.enable()
    return elapsed, output.detach().numpy().tobytes()


def measure(name: str, repeats: int) -> dict[str, Any]:
    """Take turns; give the minimum of each and what an operator costs above the empty mode."""
    from training_models import MODELS

    torch.manual_seed(0)
    model, optimizer, step = MODELS[name](batch=BATCH)
    for group in optimizer.param_groups:  # no learning: every step computes the same
        group["lr"] = 0.0
    step()
    calls = 0
    best = dict.fromkeys(("plain", "empty", "capture"), float("inf"))
    for _ in range(repeats):
        recorder = Recorder([model], [optimizer])
        modes = {"plain": nullcontext(), "empty": Empty(), "capture": recorder}
        outputs = set()
        for kind, mode in modes.items():
            elapsed, output = seconds_of(step, mode)
            best[kind] = min(best[kind], elapsed)
            outputs.add(output)
        assert len(outputs) == 1, f"{name}: a captured step computes something else"
        calls = len([event for event in recorder.recording().events if hasattr(event, "operator")])
    above = (best["capture"] - best["empty"]) / calls * 1e6
    return {"model": name, "calls": calls, **best, "us an operator above an empty mode": above}


def measure_fake() -> dict[str, Any]:
    """Capture a step of a 7B Llama (batch 8, 2048 tokens, AdamW) under fake tensors, once."""
    from llama import llama_7b
    from rematsim.traces import capture_fake

    wall, process = time.perf_counter(), time.process_time()
    log = capture_fake(llama_7b, target="cuda", name="llama_7b")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "model": "llama_7b, fake",
        "calls": log.ops,
        "wall seconds": time.perf_counter() - wall,
        "process seconds": time.process_time() - process,
        "GiB": memory,
    }


def report(names: list[str], repeats: int) -> Iterator[dict[str, Any]]:
    """Measure models; print a line about each."""
    print(
        f"{'model':<12}{'calls':>8}{'plain ms':>10}{'empty ms':>10}{'capture ms':>12}{'us/op':>8}"
    )
    for name in names:
        if name == "fake":
            row = measure_fake()
            print(", ".join(f"{key} {value:.4g}" for key, value in list(row.items())[1:]))
            yield row
            continue
        row = measure(name, repeats)
        times = [row[kind] * 1e3 for kind in ("plain", "empty", "capture")]
        above = row["us an operator above an empty mode"]
        numbers = "".join(
            f"{value:>{width}.1f}" for value, width in zip(times, (10, 10, 12), strict=True)
        )
        print(f"{name:<12}{row['calls']:>8}{numbers}{above:>8.1f}", flush=True)
        yield row


def main() -> None:
    """Measure the models named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="MODEL")
    parser.add_argument("--repeats", type=int, default=15, help="turns of each")
    parser.add_argument("--json", type=Path, help="file to keep the numbers in")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(EXAMPLES))
    rows = list(report(list(options.models), options.repeats))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
