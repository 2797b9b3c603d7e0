"""Measure workspaces: what each operator takes while it runs, beyond what it leaves.

Needs torch. A dispatch mode sees storages before and after an operator, not what comes and goes
inside, such as a convolution's copy of an activation in another layout. PyTorch's profiler does:
the step runs once more under both, and the recorder's clock is replaced by one that leaves marks in
the allocator's reports.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import TraceError
from .curves import Curve, load_curve
from .merging import are_equal
from .recording import RecordedCall, Recording
from .sessions import Session

MARK_BYTES = 1_000_003  # a size that no tensor has: it is prime, and no product of dimensions


class _Marks:
    """A clock that tells no time: it takes some memory and gives it back, so that it is reported.

    Attributes
    ----------
    workspaces : list of int
        Set once the reports have been read: bytes between each mark and the next.
    """

    def __init__(self) -> None:
        self.count = 0
        self.workspaces: list[int] = []

    def now(self) -> int:
        """Leave a mark; give its number."""
        torch.UntypedStorage(MARK_BYTES)  # no operator, which a mode would see
        self.count += 1
        return self.count - 1

    def elapsed_ns(self, starts: Sequence[int], _: Sequence[int]) -> list[int]:
        """Give bytes in place of nanoseconds."""
        return [self.workspaces[start] for start in starts]

    def read(self, curve: Curve) -> None:
        """Read the curve of a profile of the run.

        Raises
        ------
        TraceError
            Its marks are not those that were left.
        """
        allocated = curve.allocated_bytes
        changes = np.diff(allocated, prepend=curve.start_bytes)
        is_mark = (changes[:-1] == MARK_BYTES) & (changes[1:] == -MARK_BYTES)
        marks = np.flatnonzero(is_mark).tolist()
        if len(marks) != self.count:
            raise TraceError(
                f"the profiler reports {len(marks)} of {self.count} marks: no workspaces measured"
            )
        self.workspaces = [
            _beyond_ends(allocated[first + 1 : end])
            for first, end in zip(marks, [*marks[1:], len(allocated)], strict=True)
        ]


def _beyond_ends(bytes_held: Any) -> int:
    """Say how far a curve rises above both of its ends."""
    return int(bytes_held.max() - max(bytes_held[0], bytes_held[-1]))


def with_workspaces(
    recording: Recording, step: Callable[[], object], model: Any = None, optimizer: Any = None
) -> Recording:
    """Run a recorded step once more and note the workspace of each call.

    Parameters
    ----------
    recording : Recording
        Of the step.
    step, model, optimizer
        As for ``capture_steps``.

    Raises
    ------
    TraceError
        The step does not run as it did, or the profiler does not report what it should.
    """
    marks = _Marks()
    session = Session("workspaces", _given(model), _given(optimizer), clock=marks)
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    )
    with profiler:
        session.open()
        try:
            kept = step()  # an output of the step, as in the capture
        finally:
            session.close()
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        profiler.export_chrome_trace(str(path))
        marks.read(load_curve(path, device="cpu"))
    measured = session.recording()
    if not are_equal([recording, measured]):
        raise TraceError("the step does not run as it was captured: no workspaces measured")
    sizes = iter([call.time_ns for call in measured.calls])
    events = [
        event._replace(workspace_bytes=next(sizes)) if isinstance(event, RecordedCall) else event
        for event in recording.events
    ]
    return replace(recording, events=tuple(events))


def _given(value: Any) -> list[Any]:
    return [] if value is None else [value]
