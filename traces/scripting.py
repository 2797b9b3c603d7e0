"""Capture training steps of a script that knows nothing of it.

Needs torch, the extra ``capture``. The script runs as it would by itself; each step of its
optimizer marks the end of a training step (or each ``mark_step()``, where it calls that), and when
enough steps are recorded the script is ended.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, RematsimError, Terminated, TraceError
from .capturing import Capture
from .clocks import NoClock
from .devices import device
from .estimating import with_estimated_times
from .guarding import fake_tensors, is_lack_of_cuda, no_cuda
from .marks import listeners
from .naming import models_of
from .sessions import Session, after_steps
from .stepping import repeats

_FAKE_HINT = "it ran under fake tensors, which have no values; without --fake it may pass"


class Wanted(NamedTuple):
    """What to record of a script.

    Attributes
    ----------
    skip : int
        Steps before, at least one: the first makes the optimizer's state, and is slow.
    steps : int
        Steps in the trace, one after another.
    repeat : int
        How many times these are recorded; times are medians.
    target : str or None
        ``cpu`` or ``cuda``: run under fake tensors, with the operators that this would run.
    device : str
        Whose times are estimated, under fake tensors.
    """

    skip: int = 2
    steps: int = 1
    repeat: int = 5
    target: str | None = None
    device: str = "cpu"


class ScriptCapture(NamedTuple):
    """A capture, what a user should know of it, a line each, and how many times it was recorded."""

    capture: Capture
    notes: tuple[str, ...]
    repeat: int


class _EnoughError(BaseException):
    """Ends a script whose steps are recorded; no ``except Exception`` stops it."""


def capture_script(
    script: str,
    arguments: Sequence[str],
    wanted: Wanted,
    *,
    name: str,
    when_cut: Callable[[], None] = lambda: None,
) -> ScriptCapture:
    """Run a script and record steps of its training.

    Parameters
    ----------
    script : str
        A Python file.
    arguments : sequence of str
        What the script finds behind its name in ``sys.argv``.
    wanted : Wanted
    name : str
        Name of the trace.
    when_cut : callable, optional
        Called where the script is ended before its own end: what it has started, such as a thread
        that waits for work, may never end.

    Returns
    -------
    ScriptCapture

    Raises
    ------
    TraceError
        The script failed or ended too early, repeats differ, or recording had to stop.
    InputError
        There is no such script, or what is wanted cannot be.
    """
    _check(script, wanted)
    watch = _Watch(script, wanted)
    with ExitStack() as stack:
        fakes = stack.enter_context(fake_tensors(wanted.target)) if wanted.target else None
        stack.enter_context(watch.hooks())
        hint = f"; {_FAKE_HINT}" if wanted.target else ""
        with _forks_apart():
            _run(script, arguments, when_cut, hint)
    recorded, repeat = watch.recorded()
    notes = []
    if repeat < wanted.repeat:
        notes.append(f"{repeat} repeats instead of {wanted.repeat}: the script ended")
    if fakes is not None:
        recorded = with_estimated_times(recorded, device(wanted.device))
        if fakes.values_made_up:
            notes.append(
                f"the script asked {fakes.values_made_up} times for a value that fake tensors do "
                "not have, and was given 1 (false for a truth)"
            )
    kind = f"fake capture, target {wanted.target}," if wanted.target else "capture"
    log = Capture(name, recorded, f"{kind} of {script}")
    if log.recomputed_ops:
        notes.append(
            f"{log.recomputed_ops} of the calls are recomputation by activation checkpointing, "
            "which the model has switched on; switch it off to let rematsim decide"
        )
    return ScriptCapture(log, tuple(notes), repeat)


def _check(script: str, wanted: Wanted) -> None:
    """Refuse what cannot be before anything runs."""
    if not Path(script).is_file():
        raise InputError(f"{script}: no such script")
    for what, least in (("skip", 1), ("steps", 1), ("repeat", 1)):
        if getattr(wanted, what) < least:
            raise InputError(f"--{what} {getattr(wanted, what)}: at least {least}")
    if wanted.target:
        device(wanted.device)


class _Watch:
    """Counts steps while a script runs, and records those that are wanted."""

    def __init__(self, script: str, wanted: Wanted) -> None:
        self._script, self._wanted = script, wanted
        self._thread, self._process = threading.get_ident(), os.getpid()
        self._optimizers: list[Any] = []
        self._is_said = False
        self._ended = 0
        self._session: Session | None = None

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Watch in the block."""
        hook = after_steps(self._stepped)
        listeners.append(self._said)
        try:
            yield
        finally:
            listeners.remove(self._said)
            hook.remove()
            if self._session is not None:
                self._session.close()

    def recorded(self) -> tuple[Any, int]:
        """Return the recording, and how many repeats there are of it."""
        wanted = self._wanted
        n_repeats = max(self._ended - wanted.skip, 0) // wanted.steps
        if self._session is not None:
            recording = self._session.recording()  # says why, if recording had to stop
            if n_repeats:
                n_repeats = min(n_repeats, wanted.repeat)
                try:
                    return repeats(recording, n_repeats, wanted.steps), n_repeats
                except TraceError as error:
                    hint = "; --repeat 1 takes one step as it is" if n_repeats > 1 else ""
                    raise TraceError(f"{error}{hint}", self._script) from None
        said = "no step of an optimizer and no mark_step() was seen"
        raise TraceError(
            f"{f'it ended after {self._ended} steps' if self._ended else said}: "
            f"--skip {wanted.skip} --steps {wanted.steps} needs {wanted.skip + wanted.steps}",
            self._script,
        )

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Count a step of the first optimizer that steps; a forked process trains for itself."""
        if os.getpid() != self._process:
            return
        if threading.get_ident() != self._thread:
            raise TraceError(
                f"{type(optimizer).__name__} stepped in thread "
                f"{threading.current_thread().name!r}: only the script's own thread is seen"
            )
        if all(optimizer is not known for known in self._optimizers):
            self._optimizers.append(optimizer)
        if not self._is_said and optimizer is self._optimizers[0]:
            self._step_ended()

    def _said(self) -> None:
        """Count a mark of the script; from the first on, only marks count."""
        if os.getpid() != self._process:
            return
        if not self._is_said:
            self._is_said, self._ended = True, 0
            if self._session is not None:
                self._session.close()
                self._session = None
        self._step_ended()

    def _step_ended(self) -> None:
        """Begin to record, go on, or end the script."""
        wanted = self._wanted
        self._ended += 1
        if self._session is not None:
            self._session.end_step(self._is_said)
            is_enough = self._ended == wanted.skip + wanted.steps * wanted.repeat
            if is_enough or self._session.has_failed:
                self._session.close()
                raise _EnoughError
        elif self._ended == wanted.skip:
            self._session = Session(
                self._script,
                models_of(self._optimizers),
                self._optimizers,
                clock=NoClock() if wanted.target else None,
            )
            self._session.open()


@contextmanager
def _forks_apart() -> Iterator[None]:
    """End a process that the script forks as the script alone would: it has nothing to record."""
    process = os.getpid()
    code: object = 0
    try:
        yield
    except BaseException as error:
        if os.getpid() == process:
            raise
        code = _exit_code(error)
    if os.getpid() != process:
        raise SystemExit(code)


def _exit_code(error: BaseException) -> int:
    """Tell what a script ended with as Python does, and return the exit code."""
    if isinstance(error, RematsimError) and error.__cause__ is not None:  # as ``_run`` puts it
        error = error.__cause__
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)  # noqa: T201 (in place of Python)
    return 1


def _run(
    script: str, arguments: Sequence[str], when_cut: Callable[[], None], hint: str = ""
) -> None:
    """Run a script as the main program, until it ends or enough is recorded.

    The hint stands behind what a script's own failure says.
    """
    before = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except _EnoughError:
        when_cut()
    except (KeyboardInterrupt, Terminated):
        raise
    except SystemExit as end:
        if end.code not in (None, 0):
            raise TraceError(f"it ended with exit code {end.code}", script) from end
    except RematsimError as error:
        raise type(error)(f"{_place(script, error)}: {error}") from error
    except BaseException as error:
        what = f"the script failed: {type(error).__name__}: {error}{hint}"
        if isinstance(error, Exception) and is_lack_of_cuda(error):
            what = no_cuda("cuda")
        raise TraceError(what, _place(script, error)) from error
    finally:
        sys.argv, sys.path[:] = before


def _place(script: str, error: BaseException) -> str:
    """Return the script and the last line of it that an exception passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == script]
    return f"{script}:{lines[-1]}" if lines else script
