"""Does the simulator tell the truth? Checkpointed training steps, measured and simulated.

``torch.utils.checkpoint`` is applied to blocks of three models in many ways. Each run's peak memory
and slowdown are measured on this machine, and held against the execution of the same choice, as a
Plan, on the trace that was captured without checkpointing. Times are the processor's, of one
thread, so that other work on the machine does not count; ``wall`` is the same by the wall's clock.
What steps take beside operators is in no trace, above all what checkpointing itself takes, Python
and hooks: it is measured once for each model, on a batch of one, and added to what is simulated
(column ``itself``).
Needs PyTorch, and some minutes; ``--quick`` a few seconds (one small model, no times).
Exits with 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import json
import math
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler speaks of itself otherwise

import matplotlib.pyplot as plt
import pandas as pd
import torch
from rematsim.checkpointing import checkpoint_plan
from rematsim.execution import execute
from rematsim.result import RunResult
from rematsim.traces.clocks import HostClock
from rematsim.traces.lowering import to_trace
from rematsim.traces.merging import merge
from rematsim.traces.recording import Recording, live_bytes
from rematsim.traces.sessions import Session
from rematsim.traces.stepping import whole
from rematsim.traces.trace import Trace
from rematsim.traces.workspaces import with_workspaces
from torch.utils.checkpoint import checkpoint
from training_models import Training, gpt, resnet32, unet

MOST_PEAK_ERROR = 0.005  # of the peak above what is there before the step
MOST_SLOWDOWN_ERROR = 0.05
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h
REPEATS = 7  # captured steps; times are medians
CALIBRATIONS = 25  # pairs of steps on a batch of one
# PyTorch turns Python's numbers into tensors of 8 bytes where no capture sees them.
NUMBERS_BYTES = 64


class Subject(NamedTuple):
    """A model to be tried: its maker by batch, the batch, a pattern of its blocks' names."""

    name: str
    make: Callable[[int], Training]
    batch: int
    blocks: str


UNET_BLOCKS = r"head|down\.\d+|merge\.\d+"
SUBJECTS = (
    Subject("resnet32", resnet32, 24, r"[3-9]|1[0-7]"),
    Subject("gpt", gpt, 5, r"blocks\.\d+"),
    Subject("unet", unet, 16, UNET_BLOCKS),
)
QUICK = Subject("unet", unet, 4, UNET_BLOCKS)


def choices(n: int) -> dict[str, tuple[int, ...]]:
    """Give ways to choose some of n blocks."""
    blocks = range(n)
    found = {
        "all": blocks,
        "every 2nd": blocks[1::2],
        "every 2nd, from the first": blocks[::2],
        "every 3rd": blocks[2::3],
        "the first": blocks[:1],
        "the last": blocks[-1:],
        "first half": blocks[: n // 2],
        "last half": blocks[n // 2 :],
        "middle": blocks[n // 4 : -(n // 4)],
    }
    draw = random.Random(n)
    for share in (0.4, 0.7):
        found[f"random {share:.0%}"] = sorted(draw.sample(blocks, round(share * n)))
    unique = {tuple(chosen): label for label, chosen in reversed(found.items())}
    return {label: chosen for chosen, label in reversed(unique.items())}


@contextmanager
def checkpointed(model: torch.nn.Module, names: list[str]) -> Iterator[None]:
    """Let some modules of a model run under ``torch.utils.checkpoint``."""
    modules = [model.get_submodule(name) for name in names]
    for module in modules:
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
    try:
        yield
    finally:
        for module in modules:
            del module.forward


def allocated_bytes(step: Callable[[], object]) -> int:
    """Run a step and give the peak above its beginning, as the allocator reports it."""
    gc.collect()
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profiler:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_bytes())["traceEvents"]
    changes = [(e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]"]
    now = peak = 0
    for _, change in sorted(changes, key=lambda event: event[0]):
        now += change
        peak = max(peak, now)
    return peak


def keep_memory() -> None:
    """Let freed memory stay with the process, as GPU allocators do: no new pages in each step."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**30)


class CpuClock(HostClock):
    """The thread's own time: what other processes on the machine take does not count."""

    now = staticmethod(time.thread_time_ns)


class Seconds(NamedTuple):
    """How long a step took: of the processor's time, and by the clock on the wall."""

    cpu: float
    wall: float


def seconds(step: Callable[[], object]) -> Seconds:
    """Time a step."""
    cpu, wall = time.process_time(), time.perf_counter()
    step()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


class Plain(NamedTuple):
    """A step without checkpointing: live storages only, and with workspaces; what was there."""

    live: Trace
    whole: Trace
    fixed_bytes: int


def recorded(made: Training) -> Recording:
    """Capture a step once."""
    session = Session("step", [made.model], [made.optimizer], clock=CpuClock())
    session.open()
    try:
        loss = made.step()  # an output of the step
    finally:
        session.close()
    del loss
    return whole(session.recording())


def repeated(made: Training) -> Recording:
    """Capture a step several times."""
    return merge([recorded(made) for _ in range(REPEATS)])


def captured(made: Training, name: str) -> Plain:
    """Capture a step without checkpointing."""
    live = repeated(made)
    full = with_workspaces(live, made.step, made.model, made.optimizer)
    fixed_bytes = sum(constant.bytes for constant in live.constants.values())
    return Plain(to_trace(live, name), to_trace(full, name), fixed_bytes)


class Steps:
    """Steps of a model with some blocks checkpointed, each timed between two plain ones."""

    def __init__(self, made: Training, names: list[str]) -> None:
        self.made, self.names = made, names
        self.times: list[tuple[Seconds, Seconds]] = []

    def time(self, before: Seconds) -> Seconds:
        """Time a checkpointed step and the plain one after it; return the latter."""
        with checkpointed(self.made.model, self.names):
            own = seconds(self.made.step)
        after = seconds(self.made.step)
        self.times.append((Seconds(*map(statistics.fmean, zip(before, after, strict=True))), own))
        return after

    def simulated(self, trace: Trace) -> RunResult:
        """Execute the choice on a trace."""
        paths = [f"{type(self.made.model).__name__}.{name}" for name in self.names]
        return execute(trace, checkpoint_plan(trace, paths))

    def slowdown(self) -> Seconds:
        """Give the median of the ratios."""
        if not self.times:
            return Seconds(math.nan, math.nan)
        ratios = [(own.cpu / plain.cpu, own.wall / plain.wall) for plain, own in self.times]
        return Seconds(*map(statistics.median, zip(*ratios, strict=True)))


class Untraced(NamedTuple):
    """What is in no trace: nanoseconds of a plain step beside its operators, and of a block.

    The former may be negative: a recorded operator takes longer, by the recorder's own work.
    """

    step_ns: float
    block_ns: float


def untraced(subject: Subject, names: list[str]) -> Untraced:
    """Measure on a batch of one what plain and checkpointed steps take beside operators."""
    made = subject.make(1)
    made.step()
    steps = Steps(made, names)
    result = steps.simulated(to_trace(repeated(made), subject.name))
    plain = seconds(made.step)
    for _ in range(CALIBRATIONS):
        plain = steps.time(plain)
    step = statistics.median(plain.cpu for plain, _ in steps.times) * 1e9
    longer = statistics.median(own.cpu - plain.cpu for plain, own in steps.times) * 1e9
    return Untraced(step - result.model_ns, (longer - result.remat_ns) / len(names))


class Pair(Steps):
    """A model and a choice of its blocks: what is simulated, and what is measured."""

    def __init__(self, made: Training, plain: Plain, label: str, names: list[str]) -> None:
        super().__init__(made, names)
        self.plain, self.label = plain, label
        self.peak_bytes = self.live_bytes = 0

    def measure(self) -> None:
        """Measure the peak in two ways: as the allocator reports it, and by a capture."""
        with checkpointed(self.made.model, self.names):
            self.made.step()
            self.peak_bytes = allocated_bytes(self.made.step)
            self.live_bytes = max(live_bytes(recorded(self.made))) - self.plain.fixed_bytes

    def row(self, model: str, beside: Untraced) -> dict[str, object]:
        """Simulate, and put it beside what was measured."""
        # checkpoint() keeps a state for each block, and one more while a block runs again.
        states_bytes = (len(self.names) + 1) * torch.get_rng_state().nbytes
        beyond = states_bytes + NUMBERS_BYTES - self.plain.fixed_bytes
        result = self.simulated(self.plain.whole)
        peak, live = (r.peak_bytes + beyond for r in (result, self.simulated(self.plain.live)))
        assert result.slowdown is not None, result.message
        cpu, wall = self.slowdown()
        step_ns = result.model_ns + beside.step_ns
        itself = len(self.names) * beside.block_ns / step_ns
        slowdown = 1 + result.remat_ns / step_ns + itself
        return {
            "model": model,
            "checkpointed": f"{self.label} ({len(self.names)})",
            "peak": self.peak_bytes,
            "simulated": peak,
            "error": peak / self.peak_bytes - 1,
            "live error": live / self.live_bytes - 1,
            "wall": wall,
            "slowdown": cpu,
            "simulated slowdown": slowdown,
            "itself": itself,
            "difference": slowdown - cpu,
        }


def timed(pairs: list[Pair], rounds: int) -> list[float]:
    """Time steps in rounds over all pairs, in any order; return the times of plain ones."""
    step = pairs[0].made.step
    order = random.Random(0)
    for _ in range(rounds):
        plain = seconds(step)
        for pair in order.sample(pairs, len(pairs)):
            plain = pair.time(plain)
    return [plain.cpu for pair in pairs for plain, _ in pair.times]


def measured(subject: Subject, rounds: int, n_choices: int | None) -> pd.DataFrame:
    """Measure and simulate a model."""
    torch.manual_seed(0)
    made = subject.make(subject.batch)
    made.step()
    plain = captured(made, subject.name)
    names = [name for name, _ in made.model.named_modules() if re.fullmatch(subject.blocks, name)]
    pairs = [
        Pair(made, plain, label, [names[block] for block in chosen])
        for label, chosen in choices(len(names)).items()
    ][:n_choices]
    for pair in pairs:
        pair.measure()
    beside = Untraced(math.nan, math.nan)
    if rounds:
        beside = untraced(subject, names)
        step_ms = statistics.median(timed(pairs, rounds)) * 1e3
        operators_ms = plain.live.compute_ns / 1e6
        print(
            f"{subject.name}, batch of {subject.batch}: a plain step {step_ms:.0f} ms, "
            f"its operators {operators_ms:.0f}, beside them {beside.step_ns / 1e6:+.1f}; "
            f"checkpointing itself {beside.block_ns / 1e6:.2f} ms a block"
        )
    return pd.DataFrame([pair.row(subject.name, beside) for pair in pairs])


def verdict(table: pd.DataFrame) -> tuple[str, bool]:
    """Sum up in a line; say whether all bounds are kept."""
    peak, live, slow = (table[c].abs().max() for c in ("error", "live error", "difference"))
    too_low = int((table["simulated"] < table["peak"]).sum())
    times = "not measured" if pd.isna(slow) else f"within {slow:.3f}"
    line = (
        f"{len(table)} pairs: peak within {peak:.3%} (of live storages alone: {live:.3%}), "
        f"slowdown {times}, {too_low} said to fit that do not"
    )
    is_kept = peak <= MOST_PEAK_ERROR and not too_low and not slow > MOST_SLOWDOWN_ERROR
    return line, bool(is_kept)


FORMATS = {
    **dict.fromkeys(("peak", "simulated"), "{:,}".format),
    **dict.fromkeys(("error", "live error"), "{:.3%}".format),
    **dict.fromkeys(("wall", "slowdown", "simulated slowdown", "itself"), "{:.3f}".format),
    "difference": "{:+.3f}".format,
}


def drawn(table: pd.DataFrame, path: Path) -> None:
    """Draw what was simulated against what was measured, in a band of the bounds."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
    share, most = MOST_PEAK_ERROR, MOST_SLOWDOWN_ERROR
    columns = (
        ("peak", "simulated", 1e6, "peak, MB", share, 0, f"within {share:.1%}"),
        ("slowdown", "simulated slowdown", 1, "slowdown", 0, most, f"within {most}"),
    )
    for axes, (of_run, simulated, unit, text, relative, margin, bounds) in zip(
        panels, columns, strict=True
    ):
        for (model, rows), marker in zip(table.groupby("model", sort=False), "osD", strict=False):
            x, y = rows[of_run] / unit, rows[simulated] / unit
            axes.plot(x, y, marker, markersize=5, fillstyle="none", label=model)
        x = pd.Series(axes.get_xlim())
        off = x * relative + margin
        axes.fill_between(x, x - off, x + off, color="0.6", alpha=0.35, zorder=0, label=bounds)
        axes.set(xlabel=f"measured {text}", ylabel=f"simulated {text}", aspect="equal")
        axes.legend()
    figure.savefig(path, dpi=150)


def main() -> int:
    """Measure, print the table and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small model, no times")
    parser.add_argument("--model", choices=[s.name for s in SUBJECTS], help="one of them alone")
    parser.add_argument("--rounds", type=int, default=7, help="timed steps of each pair")
    parser.add_argument("--csv", type=Path, help="file for the table")
    parser.add_argument("--figure", type=Path, help="file for a picture of it")
    options = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    chosen = [subject for subject in SUBJECTS if options.model in (None, subject.name)]
    subjects = [QUICK] if options.quick else chosen
    limits = (0, 3) if options.quick else (options.rounds, None)
    tables = []
    for subject in subjects:
        tables.append(measured(subject, *limits))
        print(tables[-1].to_string(index=False, formatters=FORMATS), flush=True)
    table = pd.concat(tables)
    if options.csv:
        table.to_csv(options.csv, index=False)
    if options.figure:
        drawn(table, options.figure)
    line, is_kept = verdict(table)
    print(line)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
