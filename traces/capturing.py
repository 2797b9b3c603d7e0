"""Capture a training step of an eager PyTorch model as a Trace: what a user calls.

Needs torch, the extra ``capture``; the module says so if it is absent. How the recording is done is
in ``recorder.py``, what becomes of it in ``lowering.py``, and what to expect in
``docs/capture.md``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingExtraError, TraceError
from .lowering import to_trace
from .recording import Recording, live_bytes, merge
from .saving import save_trace
from .trace import Trace

try:
    from .recorder import Recorder
except ImportError as error:
    raise MissingExtraError(
        f"capture needs PyTorch ({error}): pip install 'rematsim[capture]'"
    ) from error

_running: list[str] = []


class Capture:
    """A captured training step.

    Attributes
    ----------
    name : str
        What the trace will be called.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._recording: Recording | None = None

    def __repr__(self) -> str:
        """Show the name and whether the capture has ended."""
        state = "running" if self._recording is None else f"{self.ops} operator calls"
        return f"Capture({self.name!r}, {state})"

    @property
    def recording(self) -> Recording:
        """The recorded events; there once the capture has ended."""
        if self._recording is None:
            raise TraceError(f"capture {self.name!r}: still running, or ended by an exception")
        return self._recording

    @property
    def ops(self) -> int:
        """Number of operator calls."""
        return len(self.recording.calls)

    @cached_property
    def peak_bytes(self) -> int:
        """Largest number of live bytes after any call, weights and inputs included."""
        return max(live_bytes(self.recording), default=0)

    @cached_property
    def trace(self) -> Trace:
        """The step as a Trace."""
        return to_trace(self.recording, self.name, source=f"capture of {self.name}")

    def save(self, path: str | Path) -> None:
        """Write the step: a trace file if the name ends in .trace, or a DTR log (.log.gz)."""
        save_trace(self.trace, path)


@contextmanager
def capture(model: Any = None, optimizer: Any = None, *, name: str = "step") -> Iterator[Capture]:
    """Record what eager PyTorch runs in a ``with`` block.

    Parameters
    ----------
    model : torch.nn.Module, optional
        Gives names to parameters and buffers.
    optimizer : torch.optim.Optimizer, optional
        Gives names to its state.
    name : str, optional
        Name of the trace.

    Yields
    ------
    Capture
        Filled when the block ends.

    Raises
    ------
    InputError
        If another capture is running.

    Notes
    -----
    Warm the step up before: first runs are slow, and optimizer state is made in the first one.
    Drop what the program would drop (batches, losses of earlier steps) inside the block: what
    lives at its end is an output. Garbage cycles are collected before the block, not in it.

    Examples
    --------
    >>> with capture(model, name="mlp") as log:  # doctest: +SKIP
    ...     model(batch).sum().backward()
    >>> log.save("mlp.log.gz")  # doctest: +SKIP
    """
    if _running:
        raise InputError(
            f"capture {name!r}: capture {_running[0]!r} is running; nesting is refused"
        )
    log = Capture(name)
    was_collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    _running.append(name)
    recorder = Recorder(model, optimizer)
    try:
        with recorder:
            yield log
    finally:
        _running.clear()
        if was_collecting:
            gc.enable()
    if recorder.failure is not None:
        raise TraceError(f"capture {name!r}: {recorder.failure}") from recorder.failure
    log._recording = recorder.recording()


def capture_steps(
    step: Callable[[], object],
    model: Any = None,
    optimizer: Any = None,
    *,
    warmup: int = 1,
    repeat: int = 5,
    name: str = "step",
) -> Capture:
    """Capture one step several times; each call gets its median time.

    Parameters
    ----------
    step : callable
        Runs one training step; what it returns lives on as an output.
    warmup : int, optional
        Runs before, not recorded; at least one where an optimizer makes its state in the first.
    repeat : int, optional
        Recorded runs, at least one.

    Raises
    ------
    TraceError
        If two runs do not call the same operators on the same storages in the same order.
    """
    if repeat < 1:
        raise InputError(f"repeat {repeat}: at least one run must be recorded")
    for _ in range(warmup):
        step()
    recordings = []
    for _ in range(repeat):
        with capture(model, optimizer, name=name) as log:
            kept = step()
        recordings.append(log.recording)
        del kept
    merged = Capture(name)
    merged._recording = merge(recordings)
    return merged
