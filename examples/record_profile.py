"""Record a training step of a model with the stock profiler, in the files that rematsim reads.

    python examples/record_profile.py FOLDER        # needs PyTorch

The model knows nothing of it. One step warms up; of the next, an execution trace (what ran on
which tensors), a Kineto trace (when, and every allocation) and, on a GPU, a memory snapshot are
written. `rematsim import FOLDER/execution_trace.json FOLDER/kineto.json -o step.trace` makes a
trace of the first two.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile


def model_and_data(device: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Make a small network and a batch; put your own here."""
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(32 * 16 * 16, 10),
    ]
    batch, target = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    return nn.Sequential(*layers).to(device), batch.to(device), target.to(device)


def main(folder: Path) -> None:
    """Warm up, record a step, write the files."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, batch, target = model_and_data(device)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()

    step()  # makes the optimizer's state, and the gradients that are there when a step begins
    folder.mkdir(parents=True, exist_ok=True)
    if device == "cuda":
        torch.cuda.memory._record_memory_history()
    observer = ExecutionTraceObserver()
    observer.register_callback(str(folder / "execution_trace.json"))
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(
        activities=activities,
        record_shapes=True,
        profile_memory=True,  # without it, releases have to be guessed
        execution_trace_observer=observer,
    ) as profiler:
        step()
    profiler.export_chrome_trace(str(folder / "kineto.json"))
    if device == "cuda":
        torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "profile"))
