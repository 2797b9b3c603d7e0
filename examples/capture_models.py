"""Capture the training steps whose traces ship with rematsim.

Needs PyTorch (``pip install torch``); no GPU, no data set: weights and batches come
from a seed. ``python examples/capture_models.py --out traces/data`` makes them all; or give the
names of some.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from llama import FAKES
from rematsim.traces import capture_fake, capture_steps
from rematsim.traces.capturing import Capture
from training_models import MODELS

BUNDLED = ("resnet32", "densenet", "unet", "lstm", "treelstm", "gpt", "vit_2steps", "llama_7b")


def captured(name: str, repeat: int) -> Capture:
    """Capture one training step; one that does not fit in memory under fake tensors."""
    torch.manual_seed(0)
    if name in FAKES:
        return capture_fake(FAKES[name], target="cuda", device_name="h100", name=name)
    made = MODELS[name]()
    return capture_steps(made.step, made.model, made.optimizer, repeat=repeat, name=name)


def report(names: list[str], out: Path, repeat: int, suffix: str) -> Iterator[str]:
    """Capture models; yield a line about each."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        log = captured(name, repeat)
        path = out / f"{name}{suffix}"
        log.save(path)
        times = "estimated" if log.trace.times_estimated else "measured"
        yield (
            f"{path}: {log.trace.n_calls:,} calls, {log.trace.compute_ns / 1e6:.1f} ms ({times}), "
            f"peak {log.peak_bytes:,} B, {path.stat().st_size:,} B on disk"
        )


def main() -> None:
    """Capture the models named on the command line, or those that are bundled."""
    known = [*MODELS, *FAKES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--out", type=Path, default=Path("out/captured"), help="folder to write to")
    parser.add_argument("--repeat", type=int, default=5, help="captured steps; times are medians")
    parser.add_argument("--suffix", default=".trace", help="which decides the format")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown {', '.join(unknown)}: known are {', '.join(known)}")
    torch.set_num_threads(1)
    for line in report(options.names or list(BUNDLED), options.out, options.repeat, options.suffix):
        print(line, flush=True)


if __name__ == "__main__":
    main()
