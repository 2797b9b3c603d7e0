"""Capture training steps of an eager PyTorch model as a Trace: what a user calls.

Needs torch, the extra ``capture``; the module says so if it is absent. How the recording is done is
in ``recorder.py``, what becomes of it in ``lowering.py``, and what to expect in
``docs/capture.md``. Captures without the memory are in ``faking.py``, of scripts in
``scripting.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingExtraError, TraceError
from .arguments import check_count, check_name, check_step
from .importers.dtr_export import exportable
from .lowering import to_trace
from .merging import merge
from .noting import notes_of
from .recording import Recording, live_bytes
from .saving import file_name, is_log, save_trace
from .stepping import repeats, whole
from .trace import Trace
from .wording import show

try:
    from .sessions import Session, check_parts
except ImportError as error:
    raise MissingExtraError(f"capture needs PyTorch ({error}): pip install torch") from error


class Capture:
    """A captured stretch of training.

    Attributes
    ----------
    name : str
        What the trace will be called.
    """

    def __init__(self, name: str, recording: Recording | None = None, source: str = "") -> None:
        self.name = name
        self._recording = recording
        self._source = source or f"capture of {name}"

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

    @property
    def recomputed_ops(self) -> int:
        """Number of calls that activation checkpointing, switched on in the model, ran again."""
        return sum(call.is_recomputed for call in self.recording.calls)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before believing a replay, a line each; the command prints them."""
        return notes_of(self.recording)

    @cached_property
    def peak_bytes(self) -> int:
        """Largest number of live bytes after any call, weights and inputs included."""
        return max(live_bytes(self.recording), default=0)

    @cached_property
    def trace(self) -> Trace:
        """The capture as a Trace."""
        return to_trace(self.recording, self.name, source=self._source)

    def save(self, path: str | Path) -> None:
        """Write it: a trace file if the name ends in .trace, or a DTR log (.log.gz).

        In a log, a call that updates what it is given and returns something is two calls.
        """
        said = exportable(self.trace)[0] if is_log(file_name(path)) else self.trace
        save_trace(said, path)


@contextmanager
def capture(
    model: Any = None, optimizer: Any = None, *, repeat: int = 1, name: str = "step"
) -> Iterator[Capture]:
    """Record what eager PyTorch runs in a ``with`` block.

    Parameters
    ----------
    model : torch.nn.Module, optional
        Gives names to parameters, buffers and calls.
    optimizer : torch.optim.Optimizer, optional
        Gives names to its state.
    repeat : int, optional
        How many times the block runs the same step: it becomes one, with the median of its times.
        A step ends where the optimizer's does, or where ``mark_step`` is called. One by default:
        a block runs once, and is recorded as it is.
    name : str, optional
        Name of the trace.

    Yields
    ------
    Capture
        Filled when the block ends.

    Raises
    ------
    InputError
        If another capture is running, an argument is not what it should be, or the model is
        compiled.
    TraceError
        If recording had to stop, or the repeats are not the same run.

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
    check_count("repeat", repeat)
    check_name(name)
    log = Capture(name)
    session = Session(name, _listed(model), _listed(optimizer), has_marks=repeat > 1)
    session.open()
    try:
        yield log
    finally:
        session.close()
    try:
        recorded = session.recording()
        log._recording = repeats(recorded, repeat, is_block=True) if repeat > 1 else whole(recorded)
    except TraceError as error:
        raise TraceError(f"capture {name!r}: {error}") from error.__cause__


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
    model, optimizer : optional
        As for ``capture``.
    warmup : int, optional
        Runs before, not recorded; at least one where an optimizer makes its state in the first.
    repeat : int, optional
        Recorded runs, at least one.
    name : str, optional
        Name of the trace.

    Returns
    -------
    Capture

    Raises
    ------
    InputError
        If an argument is not what it should be, or the model is compiled.
    TraceError
        If two runs do not call the same operators on the same storages in the same order.
    """
    check_step("capture_steps: step", step)
    check_count("warmup", warmup, least=0)
    check_count("repeat", repeat)
    check_name(name)
    check_parts(_listed(model), _listed(optimizer))
    for _ in range(warmup):
        step()
    recordings = []
    for _ in range(repeat):
        with capture(model, optimizer, name=name) as log:
            kept = step()
        recordings.append(log.recording)
        del kept
    return Capture(name, merge(recordings))


def measure_workspaces(
    log: Capture, step: Callable[[], object], model: Any = None, optimizer: Any = None
) -> Capture:
    """Run a captured step once more and note what each call takes beyond what it leaves.

    A capture sees storages before and after a call. What the call takes in between and gives back,
    such as a convolution's copy of an activation, PyTorch's profiler reports (on the CPU).

    Parameters
    ----------
    log : Capture
        Of ``capture_steps``.
    step, model, optimizer
        As they were given to it.

    Returns
    -------
    Capture
        The same, with workspaces.

    Raises
    ------
    InputError
        If an argument is not what it should be.
    TraceError
        If the step does not run as it was captured.
    """
    from .workspaces import with_workspaces

    if not isinstance(log, Capture):
        raise InputError(f"measure_workspaces: log {show(log)}: expected a Capture")
    check_step("measure_workspaces: step", step)
    check_parts(_listed(model), _listed(optimizer))

    return Capture(log.name, with_workspaces(log.recording, step, model, optimizer))


def _listed(given: Any) -> list[Any]:
    return [] if given is None else [given]
