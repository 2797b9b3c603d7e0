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
from .arguments import check_count, check_name, check_step
from .capturing import Capture
from .clocks import NoClock
from .devices import DEFAULT, device
from .estimating import with_estimated_times
from .guarding import fake_tensors
from .recording import Recording
from .sessions import Session, check_parts
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
        If an argument is not what it should be, or a device is asked for that this torch was not
        built for.
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
    check_step("capture_fake: make", make)
    check_count("steps", steps)
    check_count("warmup", warmup, least=0)
    check_name(name)
    times_of = device(device_name)
    with collection_paused(), fake_tensors(target) as fakes:
        step, models, optimizers = _taken_apart(make())
        for _ in range(warmup):
            step()
        session = Session(name, models, optimizers, clock=NoClock())
        recording = _record(session, step, steps)
    recording = replace(recording, notes=(*recording.notes, *fakes.notes()))
    source = f"fake capture of {name}, target {target}, times estimated for {times_of.title}"
    return Capture(name, with_estimated_times(recording, times_of), source)


def _record(session: Session, step: Callable[[], object], steps: int) -> Recording:
    """Run the steps that are captured."""
    session.open()
    try:
        for _ in range(steps):
            kept = step()
    finally:
        session.close()
    recording = whole(session.recording())
    del kept
    return recording


def _taken_apart(made: Any) -> tuple[Callable[[], object], list[Any], list[Any]]:
    """Return the step of what a user's function made, and the model and optimizer in it."""
    parts = made if isinstance(made, tuple) else (made,)
    if hasattr(made, "step") and hasattr(made, "model"):
        parts = (made.step, made.model, getattr(made, "optimizer", None))
    if not (1 <= len(parts) <= 3 and callable(parts[0])):
        raise InputError(
            f"capture_fake: make() returned {_told(made)}: expected the function that runs a "
            "step, or a tuple of it, the model and the optimizer"
        )
    step, model, optimizer = (*parts, None, None)[:3]
    check_step("capture_fake: the step that make() returned", step)
    models, optimizers = ([x] if x is not None else [] for x in (model, optimizer))
    check_parts(models, optimizers)
    return step, models, optimizers


def _told(made: Any) -> str:
    is_tuple = isinstance(made, tuple)
    return f"a tuple of {len(made)}" if is_tuple else type(made).__name__
