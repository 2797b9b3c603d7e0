"""Capture training steps of a script that knows nothing of it.

Needs torch, the extra ``capture``. The script runs as it would by itself; each step of its
optimizer marks the end of a training step (or each ``mark_step()``, where it calls that), and when
enough steps are recorded the script is ended, at the next forward pass.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ..errors import InputError, RematsimError, Terminated, TraceError
from .arguments import check_count, check_name
from .capturing import Capture
from .clocks import NoClock
from .devices import device
from .estimating import with_estimated_times
from .guarding import fake_tensors, said_of_fakes
from .marks import listeners
from .merging import UnlikeRepeatsError
from .naming import models_of
from .recording import Recording
from .refusing import compiled_calls_reported
from .sessions import Session, after_steps, before_forward
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


class _EnoughError(BaseException):
    """Ends a script whose steps are recorded; no ``except Exception`` stops it."""


def capture_script(
    script: str,
    arguments: Sequence[str],
    wanted: Wanted,
    *,
    name: str,
    when_cut: Callable[[], None] = lambda: None,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Capture:
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
    report : callable, optional
        Called at the end of each step: how many have been run, of how many.

    Returns
    -------
    Capture

    Raises
    ------
    TraceError
        The script failed or ended too early, repeats differ, or recording had to stop.
    InputError
        There is no such script, or what is wanted cannot be.
    """
    _check(script, wanted, name)
    watch = _Watch(script, wanted, report)
    with ExitStack() as stack:
        fakes = None
        if wanted.target:
            fakes = stack.enter_context(fake_tensors(wanted.target))
            stack.enter_context(compiled_calls_reported(_refuse))  # also in steps that are skipped
        stack.enter_context(watch.hooks())
        with _forks_apart():
            _run(script, arguments, watch)
    if watch.is_done:
        when_cut()
    recorded = watch.recorded()
    if fakes is not None:
        recorded = with_estimated_times(recorded, device(wanted.device))
        recorded = replace(recorded, notes=(*recorded.notes, *fakes.notes()))
    kind = f"fake capture, target {wanted.target}," if wanted.target else "capture"
    return Capture(name, recorded, f"{kind} of {script}")


def _refuse(failure: Exception) -> None:
    raise failure


def _check(script: str, wanted: Wanted, name: str) -> None:
    """Refuse what cannot be before anything runs."""
    if not Path(script).is_file():
        raise InputError(f"{script}: no such script")
    for what in ("skip", "steps", "repeat"):
        check_count(f"--{what}", getattr(wanted, what))
    check_name(name)
    if wanted.target:
        device(wanted.device)


class _Watch:
    """Counts steps while a script runs, and records those that are wanted.

    Attributes
    ----------
    is_done : bool
        Whether recording has ended: what the script does then changes nothing.
    is_fake : bool
        Whether the script runs under fake tensors.
    """

    def __init__(self, script: str, wanted: Wanted, report: Callable[[int, int], None]) -> None:
        self._script, self._wanted, self._report = script, wanted, report
        self._n_steps = wanted.skip + wanted.steps * wanted.repeat
        self.is_fake = wanted.target is not None
        self._thread, self._process = threading.get_ident(), os.getpid()
        self._hooks = ExitStack()
        self._optimizers: list[Any] = []
        self._is_said = False
        self._ended = 0
        self._session: Session | None = None
        self._failure: TraceError | None = None
        self.is_done = False

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Watch in the block."""
        with self._hooks as hooks:
            hooks.callback(after_steps(self._stepped).remove)
            listeners.append(self._said)
            hooks.callback(listeners.remove, self._said)
            hooks.callback(self._close)
            yield

    def recorded(self) -> Recording:
        """Return the recording."""
        wanted = self._wanted
        if self._failure is not None:
            raise self._failure
        n_repeats = max(self._ended - wanted.skip, 0) // wanted.steps
        if self._session is not None:
            recording = self._recorded(self._session)
            if n_repeats:
                return self._merged(recording, min(n_repeats, wanted.repeat))
        said = (
            "no step of an optimizer and no mark_step() was seen in the script's own process "
            "(others are not recorded)"
        )
        raise TraceError(
            f"{f'it ended after {self._ended} steps' if self._ended else said}: "
            f"--skip {wanted.skip} --steps {wanted.steps} needs {wanted.skip + wanted.steps}",
            self._script,
        )

    def _merged(self, recording: Recording, n_repeats: int) -> Recording:
        """Return one recording of the repeats that there are."""
        wanted = self._wanted
        try:
            merged = repeats(recording, n_repeats, wanted.steps)
        except UnlikeRepeatsError as error:
            several = f"--steps {error.period * wanted.steps}" if error.period else "--steps N"
            hint = f"{several} takes those that take turns as one, --repeat 1 a single step"
            raise TraceError(f"{error}; {hint}", self._script) from None
        except TraceError as error:
            raise TraceError(str(error), self._script) from None
        if n_repeats == wanted.repeat:
            return merged
        note = f"{n_repeats} repeats instead of {wanted.repeat}: the script ended"
        return replace(merged, notes=(note, *merged.notes))

    def _recorded(self, session: Session) -> Recording:
        """Return what a session recorded; if it had to stop, say where and why."""
        try:
            return session.recording()
        except TraceError as error:
            raise TraceError(str(error), _place(self._script, session.failed_at)) from error

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Count a step of the first optimizer that steps; a forked process trains for itself."""
        if os.getpid() != self._process:
            return
        if threading.get_ident() != self._thread:
            self._refuse_thread(optimizer)
        if all(optimizer is not known for known in self._optimizers):
            self._optimizers.append(optimizer)
        if not self._is_said and optimizer is self._optimizers[0]:
            self._step_ended()

    def _refuse_thread(self, optimizer: Any) -> None:
        """End a thread in which an optimizer stepped, quietly; the reason is told at the end."""
        if self._failure is None and not self.is_done:
            self._failure = TraceError(
                f"{type(optimizer).__name__} stepped in thread "
                f"{threading.current_thread().name!r}: only the script's own thread is seen",
                _place(self._script, traceback.extract_stack()),
            )
        self.is_done = True
        raise SystemExit

    def _said(self) -> None:
        """Count a mark of the script; from the first on, only marks count."""
        if os.getpid() != self._process:
            return
        if not self._is_said and not self.is_done:
            self._is_said, self._ended = True, 0
            if self._session is not None:
                self._session.close()
                self._session = None
        self._step_ended()

    def _step_ended(self) -> None:
        """Begin to record, go on, or end the script; again, if it did not let itself be ended."""
        if self.is_done or self._is_full():
            self._end()
        wanted = self._wanted
        self._ended += 1
        self._report(self._ended, self._n_steps)
        if self._session is not None:
            self._session.end_step(self._is_said)
            if self._session.has_failed or (self._is_full() and self._is_said):
                self._end()
            if self._is_full():  # it ends where the next forward pass begins: see stepping.py
                self._hooks.callback(before_forward(self._goes_on).remove)
        elif self._ended == wanted.skip:
            self._session = Session(
                self._script,
                models_of(self._optimizers),
                self._optimizers,
                clock=NoClock() if wanted.target else None,
            )
            self._session.open()

    def _is_full(self) -> bool:
        """Say whether all steps that are wanted have been recorded."""
        return self._ended == self._n_steps

    def _goes_on(self, *_: Any) -> None:
        """End the script where a module begins to run, behind the last step."""
        if (os.getpid(), threading.get_ident()) == (self._process, self._thread):
            self._end()

    def _end(self) -> NoReturn:
        """End the script; what it does then changes nothing."""
        self._close()
        self.is_done = True
        raise _EnoughError

    def _close(self) -> None:
        """Stop recording."""
        if self._session is not None:
            self._session.close()


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
    if isinstance(error, RematsimError) and error.__cause__ is not None:  # as ``_explain`` puts it
        error = error.__cause__
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)  # noqa: T201 (in place of Python)
    return 1


def _run(script: str, arguments: Sequence[str], watch: _Watch) -> None:
    """Run a script as the main program, until it ends or enough is recorded."""
    before = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as end:
        if not watch.is_done:
            _explain(script, end, watch.is_fake)
    finally:
        sys.argv, sys.path[:] = before


def _explain(script: str, end: BaseException, is_fake: bool) -> None:
    """Raise what a user should read of how a script ended; nothing, if it ended well."""
    place = _place(script, traceback.extract_tb(end.__traceback__))
    if isinstance(end, SystemExit):
        if end.code not in (None, 0):
            raise TraceError(f"it ended with exit code {end.code}", script) from end
    elif isinstance(end, RematsimError):
        raise type(end)(f"{place}: {end}") from end
    elif isinstance(end, KeyboardInterrupt | Terminated):
        raise end
    else:
        what = said_of_fakes(end) if is_fake and isinstance(end, Exception) else None
        hint = f"; {_FAKE_HINT}" if is_fake else ""
        failure = f"{type(end).__name__}: {' '.join(str(end).split())}"
        what = what or f"the script failed: {failure}{hint}"
        raise TraceError(what, place) from end


def _place(script: str, frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the script and its last line among some frames."""
    lines = [frame.lineno for frame in frames if frame.filename == script]
    return f"{script}:{lines[-1]}" if lines else script
