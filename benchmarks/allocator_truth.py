"""The model of PyTorch's caching allocator against the real one, on a CUDA device: run by hand.

    python benchmarks/allocator_truth.py bundled:gpt
    python benchmarks/allocator_truth.py bundled:unet --settings max_split_size_mb:64
    python benchmarks/allocator_truth.py bundled:gpt --budget 150MiB      # retries, out of memory

What a trace allocates and frees, in its order, is asked of the real allocator (no tensor is made,
no operator runs) and of the model; after every step bytes allocated and reserved are compared, and
for every allocation which earlier block had been where it lies. Without PyTorch or a device it says
so and is done.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from rematsim.allocator_settings import AllocatorSettings, parse_settings
from rematsim.budgets import parse_budget
from rematsim.event_replay import ALLOCATE, EVENT_ROWS, RELEASE, replay_events
from rematsim.opcodes import COMPUTE, DEALLOCATE, EVICT, TAKE_OVER
from rematsim.simulation import simulate
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace

NOWHERE = -1  # the address of what found no place


@dataclass(frozen=True)
class Step:
    """An allocation of so many bytes, or the free of what an earlier step allocated."""

    size: int
    freed: int = NOWHERE  # the number of that step


@dataclass(frozen=True)
class Seen:
    """What an allocator says after a step."""

    address: int
    allocated: int
    reserved: int


class Allocator(Protocol):
    """Something that hands out addresses, and says how much it has."""

    def allocate(self, size: int) -> int:
        """Give an address, or NOWHERE."""

    def free(self, address: int) -> None:
        """Take it back."""

    def sizes(self) -> tuple[int, int]:
        """Give the bytes allocated and reserved."""


def steps_of(trace: Trace) -> list[Step]:
    """List what a trace allocates and frees without a budget, updates in place, workspaces too."""
    run = simulate(
        trace,
        budget="unlimited",
        mutation="inplace",
        deallocation="eager",
        slowdown_limit=None,
        event_log=True,
    )
    assert run.events is not None
    columns = (run.events[name].tolist() for name in ("action", "call", "storage", "bytes"))
    rows = list(zip(*columns, strict=True))
    return list(_steps(rows, trace.call_workspace_bytes.tolist()))


def _steps(rows: list[tuple[int, int, int, int]], workspaces: list[int]) -> Iterator[Step]:
    """Walk an event log; a result that takes over a storage's bytes has its step."""
    made: dict[int, int] = {}
    count, taken = 0, NOWHERE
    for i, (action, call, storage, size) in enumerate(rows):
        if action == TAKE_OVER:
            taken = made.pop(storage, NOWHERE)
        elif action == COMPUTE and taken != NOWHERE:
            made[storage], taken = taken, NOWHERE
        elif action == COMPUTE and size:
            yield Step(size)
            made[storage], count = count, count + 1
        elif action in (DEALLOCATE, EVICT) and storage in made:
            yield Step(0, made.pop(storage))
            count += 1
        is_last = action == COMPUTE and (i + 1 == len(rows) or rows[i + 1][1] != call)
        if is_last and call >= 0 and workspaces[call]:
            yield Step(workspaces[call])
            yield Step(0, count)
            count += 2


def drive(steps: Iterable[Step], allocator: Allocator) -> list[Seen]:
    """Ask an allocator for each step; what it does not serve is never freed."""
    seen: list[Seen] = []
    for step in steps:
        address = NOWHERE
        if step.freed == NOWHERE:
            address = allocator.allocate(step.size)
        elif seen[step.freed].address != NOWHERE:
            allocator.free(seen[step.freed].address)
        seen.append(Seen(address, *allocator.sizes()))
    return seen


def drive_model(
    steps: list[Step], settings: AllocatorSettings, limit: int | None = None
) -> list[Seen]:
    """Ask the model for each step."""
    rows = np.zeros(len(steps), EVENT_ROWS)
    for row, step in zip(rows, steps, strict=True):
        is_free = step.freed != NOWHERE
        row["kind"] = RELEASE if is_free else ALLOCATE
        row["size_bytes"], row["allocated_by"] = step.size, max(step.freed, 0)
    replay_events(rows, settings, limit)
    names = ("address", "allocated_bytes", "reserved_bytes")
    columns = [rows[name].tolist() for name in names]
    return [
        Seen(address if step.freed == NOWHERE else NOWHERE, allocated, reserved)
        for step, address, allocated, reserved in zip(steps, *columns, strict=True)
    ]


def report(steps: list[Step], real: list[Seen], model: list[Seen]) -> list[str]:
    """Say in lines how far the two agree."""
    lines = []
    for name in ("allocated", "reserved"):
        pairs = [
            (getattr(one, name), getattr(other, name))
            for one, other in zip(real, model, strict=True)
        ]
        differing = [i for i, (one, other) in enumerate(pairs) if one != other]
        largest = max((abs(one - other) for one, other in pairs), default=0)
        peaks = [max(side) for side in zip((0, 0), *pairs, strict=True)]
        lines.append(
            f"{name}: {len(pairs) - len(differing):,} of {len(pairs):,} steps the same; largest "
            f"difference {largest:,} bytes; peaks {peaks[0]:,} real, {peaks[1]:,} model"
        )
        if differing:
            first = differing[0]
            lines.append(f"  first at step {first:,}: {pairs[first][0]:,} and {pairs[first][1]:,}")
    before_real, before_model = predecessors(steps, real), predecessors(steps, model)
    placed = [i for i, step in enumerate(steps) if step.freed == NOWHERE]
    same = sum(before_real[i] == before_model[i] for i in placed)
    lines.append(f"places: {same:,} of {len(placed):,} allocations have the same predecessor")
    return lines


def predecessors(steps: list[Step], seen: list[Seen]) -> list[int]:
    """Give, for each allocation, the step that was the last to allocate at its address."""
    last: dict[int, int] = {}
    found = []
    for i, (step, here) in enumerate(zip(steps, seen, strict=True)):
        found.append(last.get(here.address, NOWHERE))
        if step.freed == NOWHERE:
            last[here.address] = i
    return found


class CudaAllocator:
    """PyTorch's allocator of a device.

    Parameters
    ----------
    torch : module
    limit : int or None
        Bytes that it may reserve.
    """

    def __init__(self, torch: Any, limit: int | None) -> None:
        self._cuda = torch.cuda
        self._error = torch.cuda.OutOfMemoryError
        self._cuda.init()
        self._cuda.empty_cache()
        if limit is not None:
            _, total = self._cuda.mem_get_info()
            self._cuda.set_per_process_memory_fraction(min(limit / total, 1.0))
        allocated, reserved = self.sizes()
        assert (allocated, reserved) == (0, 0), "something has been allocated before"

    def allocate(self, size: int) -> int:
        """Give an address, or NOWHERE."""
        try:
            return int(self._cuda.caching_allocator_alloc(size))
        except self._error:
            return NOWHERE

    def free(self, address: int) -> None:
        """Take it back."""
        self._cuda.caching_allocator_delete(address)

    def sizes(self) -> tuple[int, int]:
        """Give the bytes allocated and reserved."""
        return self._cuda.memory_allocated(), self._cuda.memory_reserved()


def find_torch(settings: str) -> Any:
    """Import PyTorch with an allocator of these settings; None, and why, if that is no use."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings  # read when the allocator is first used
    try:
        import torch
    except ImportError:
        print("skipped: PyTorch is not installed, so there is no allocator to compare with")
        return None
    if not torch.cuda.is_available():
        print("skipped: no CUDA device here, so there is no allocator to compare with")
        return None
    return torch


def main(arguments: list[str] | None = None) -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", nargs="?", default="bundled:gpt")
    parser.add_argument("--settings", default="", help="as in PYTORCH_CUDA_ALLOC_CONF")
    parser.add_argument("--budget", default="unlimited", help="bytes that may be reserved (4GiB)")
    given = parser.parse_args(arguments)
    settings = parse_settings(given.settings)
    limit = parse_budget(given.budget).resolve(0)
    torch = find_torch(given.settings)
    if torch is None:
        return
    steps = steps_of(load_trace(given.trace))
    real = drive(steps, CudaAllocator(torch, limit))
    print(f"{given.trace} on {torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"settings: {settings or 'the default ones'}; budget: {given.budget}")
    print("\n".join(report(steps, real, drive_model(steps, settings, limit))))


if __name__ == "__main__":
    main()
