"""What `benchmarks/allocator_truth.py` can be tested for without a device: all but the device."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rematsim.allocator_settings import parse_settings
from rematsim.audit_caching import PlainCaching
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.loading import load_trace
from rematsim.traces.trace import Trace

FILE = Path(__file__).parents[2] / "benchmarks" / "allocator_truth.py"
MIB = 1 << 20


@pytest.fixture(scope="module")
def truth() -> ModuleType:
    spec = importlib.util.spec_from_file_location("allocator_truth", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class SlowModel:
    """The slow model in the place of the device."""

    def __init__(self, settings: str = "", limit: int | None = None) -> None:
        self.model = PlainCaching(limit, parse_settings(settings))

    def allocate(self, size: int) -> int:
        address = self.model.place(size)
        return -1 if address is None else address

    def free(self, address: int) -> None:
        self.model.free(address)

    def sizes(self) -> tuple[int, int]:
        return self.model.allocated_bytes, self.model.reserved_bytes


def tiny() -> Trace:
    """Weights; x, updated in place; y with a workspace, when x goes."""
    builder = TraceBuilder("tiny", rebinding="storage")
    builder.constant("w", 10)
    builder.call("f", ["w"], [("x", 20, -1)], 100)
    builder.call("g_", ["x"], [], 100, mutates=[0])
    builder.call("h", ["x"], [("y", 30, -1)], 100, workspace_bytes=5)
    builder.release("x")
    return builder.build()


def test_the_steps_are_what_the_machine_allocates_and_frees(truth: ModuleType) -> None:
    """By hand: w, x, y, the workspace and its free, then x, which is still the second step's."""
    step = truth.Step
    assert truth.steps_of(tiny()) == [step(10), step(20), step(30), step(5), step(0, 3), step(0, 1)]


@pytest.mark.parametrize(
    ("settings", "limit"), [("", None), ("max_split_size_mb:21", None), ("", 60 * MIB)]
)
def test_allocators_that_agree_are_said_to(
    truth: ModuleType, settings: str, limit: int | None
) -> None:
    steps = truth.steps_of(load_trace("bundled:resnet32"))[:1500]
    real = truth.drive(steps, SlowModel(settings, limit))
    model = truth.drive_model(steps, parse_settings(settings), limit)
    lines = truth.report(steps, real, model)
    count = f"{len(steps):,} of {len(steps):,} steps the same; largest difference 0 bytes"
    assert lines[0].startswith(f"allocated: {count}")
    assert lines[1].startswith(f"reserved: {count}")
    placed = sum(step.freed < 0 for step in steps)
    assert lines[2] == f"places: {placed:,} of {placed:,} allocations have the same predecessor"


def test_where_they_first_differ_is_said(truth: ModuleType) -> None:
    """30 MiB freed serve 10 without a split limit, and not with one of 21."""
    steps = [truth.Step(30 * MIB), truth.Step(0, 0), truth.Step(10 * MIB), truth.Step(0, 2)]
    real = truth.drive(steps, SlowModel("max_split_size_mb:21"))
    lines = truth.report(steps, real, truth.drive_model(steps, parse_settings("")))
    assert lines == [
        "allocated: 4 of 4 steps the same; largest difference 0 bytes; peaks 31,457,280 real, "
        "31,457,280 model",
        "reserved: 2 of 4 steps the same; largest difference 10,485,760 bytes; peaks 41,943,040 "
        "real, 31,457,280 model",
        "  first at step 2: 41,943,040 and 31,457,280",
        "places: 1 of 2 allocations have the same predecessor",
    ]


def test_without_a_device_it_says_so(
    truth: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "")
    truth.main(["bundled:gpt"])
    assert capsys.readouterr().out.startswith("skipped: PyTorch is not installed")
