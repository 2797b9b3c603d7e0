"""Workspaces: what an operator takes while it runs is measured, and a replay counts it."""

from __future__ import annotations

import pytest
from rematsim import traces
from rematsim.errors import TraceError
from rematsim.workload import workload

torch = pytest.importorskip("torch", reason="capture needs torch: pip install torch")


@torch.library.custom_op("truth::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    between = torch.empty(1000, 1000)
    return between.copy_(x).mul(2)


def test_what_an_operator_gives_back_is_its_workspace() -> None:
    """Result 4 MB, workspace 4 MB beside it: 12 MB with the operand, where 8 MB are seen after."""
    x = torch.randn(1000, 1000)

    def step() -> torch.Tensor:
        return twice(x).sum()

    log = traces.capture_steps(step, repeat=1)
    measured = traces.measure_workspaces(log, step)
    workspaces = {call.operator: call.workspace_bytes for call in measured.recording.calls}
    assert workspaces["truth.twice"] == pytest.approx(4_000_000, abs=16)  # and the number 2
    assert workspaces["sum"] < 16
    assert workload(log.trace).unlimited_peak_bytes == 8_000_004
    assert workload(measured.trace).unlimited_peak_bytes == pytest.approx(12_000_000, abs=16)


def test_another_step_is_no_measurement() -> None:
    x = torch.randn(4)
    log = traces.capture_steps(lambda: x + 1, repeat=1)
    with pytest.raises(TraceError, match="the step does not run as it was captured"):
        traces.measure_workspaces(log, lambda: x * 2)
