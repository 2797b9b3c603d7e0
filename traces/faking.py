"""Capture a training step without the memory that it needs: under fake tensors, in seconds.

Needs torch, the extra ``capture``. Shapes, storages, views, updates and the order of frees are
those of a real run; times come from the cost model, and the trace says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors import InputError
from ..garbage import collection_paused
from .capturing import Capture, check_count, check_step
from .clocks import NoClock
from .devices import DEFAULT, device
from .estimating import with_estimated_times
from .guarding import fake_tensors
from .recording import Recording
from .sessions import Session
from .stepping import whole


def capture_fake(
    make: Callable[[], Any],
    *,
    steps: int = 1,
    warmup: int = 1,
    target: str = "cpu",
    device_name: str = DEFAULT,
    name: str = "step",
) -> Capture:
    """Capture training steps under fake tensors.

    Parameters
    ----------
    make : callable
        Makes model, optimizer and data, all fake then, and returns the function that runs one
        step; or a tuple of that function, the model and the optimizer, which gives names. (An
        object with attributes ``step``, ``model`` and ``optimizer`` will do too.)
    steps : int, optional
        Captured steps, one after another in one trace.
    warmup : int, optional
        Runs before, not recorded; at least one where an optimizer makes its state in the first.
    target : {"cpu", "cuda"}, optional
        Take the operators that the CPU runs, or those that a GPU would run.
    device_name : str, optional
        The device whose times are estimated (``devices.NAMES``).
    name : str, optional
        Name of the trace.

    Returns
    -------
    Capture
        With ``times_estimated``.

    Raises
    ------
    InputError
        If target or device is not known, or CUDA is asked for that this torch was not built for.
    TraceError
        If an operator needs values, or recording had to stop.

    Notes
    -----
    Warm-up steps leave no loss or output behind, as if the step were a function of its own.

    Examples
    --------
    >>> def make():  # doctest: +SKIP
    ...     model = Llama(config)
    ...     optimizer = torch.optim.AdamW(model.parameters())
    ...     return lambda: train_step(model, optimizer), model, optimizer
    >>> capture_fake(make, target="cuda").save("llama.log.gz")  # doctest: +SKIP
    """
    check_count("steps", steps)
    check_step(make, "capture_fake: make")
    times_of = device(device_name)
    with collection_paused(), fake_tensors(target) as fakes:
        step, model, optimizer = _taken_apart(make())
        for _ in range(warmup):
            step()
        recording = _record(step, model, optimizer, steps, name)
    recording = replace(recording, notes=(*recording.notes, *fakes.notes()))
    source = f"fake capture of {name}, target {target}, times estimated for {times_of.title}"
    return Capture(name, with_estimated_times(recording, times_of), source)


def _record(
    step: Callable[[], object], model: Any, optimizer: Any, steps: int, name: str
) -> Recording:
    """Run the steps that are captured."""
    models, optimizers = ([x] if x is not None else [] for x in (model, optimizer))
    session = Session(name, models, optimizers, clock=NoClock())
    session.open()
    try:
        for _ in range(steps):
            kept = step()
    finally:
        session.close()
    recording = whole(session.recording())
    del kept
    return recording


def _taken_apart(made: Any) -> tuple[Callable[[], object], Any, Any]:
    """Return step, model and optimizer of what a user's function made."""
    if hasattr(made, "step") and hasattr(made, "model"):
        return made.step, made.model, getattr(made, "optimizer", None)
    if isinstance(made, tuple) and made and callable(made[0]):
        return (*made, None, None)[:3]
    if callable(made):
        return made, None, None
    raise InputError(
        f"capture_fake: make() returned {type(made).__name__}: expected the function that runs a "
        "step, or a tuple of it, the model and the optimizer"
    )
