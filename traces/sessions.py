"""A capture while it runs: the recorder, the hooks around it, and what they must not disturb.

Needs torch, so only the modules of a capture import it. What users call is in ``capturing.py``.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cache
from traceback import FrameSummary
from typing import Any

from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook as before_forward
from torch.optim.optimizer import register_optimizer_step_post_hook as after_steps

from ..errors import InputError, TraceError
from ..garbage import collection_paused
from .clocks import Clock
from .marks import listeners
from .recorder import Recorder
from .recording import Recording
from .refusing import (
    backward_passes_reported,
    compiled_calls_reported,
    is_watched_here,
    refuse_compiled,
)
from .unseen import makers_noticed

__all__ = ["Session", "after_steps", "before_forward", "check_parts"]

_running: list[Session] = []


@cache
def _watch_forks() -> None:
    """Let forked processes, which run this once each, not record: nobody would read it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_abandon)


def _abandon() -> None:
    for session in _running:
        session._fail(TraceError("this process was forked in it"))
        if session._was_collecting:
            gc.enable()


class Session:
    """Records from ``open`` to ``close``, in the thread that opens it.

    Parameters
    ----------
    name : str
        What messages call it.
    models, optimizers : iterable
        They give names; the first optimizer is the one whose steps count.
    clock : Clock, optional
    has_marks : bool, optional
        Whether ends of steps are to be noted.

    Notes
    -----
    Garbage cycles are collected before, and at each mark if marks are noted, not in between.
    """

    def __init__(
        self,
        name: str,
        models: Iterable[Any] = (),
        optimizers: Iterable[Any] = (),
        *,
        clock: Clock | None = None,
        has_marks: bool = False,
    ) -> None:
        self.name = name
        self._models, self._optimizers = list(models), list(optimizers)
        self._clock, self._has_marks = clock, has_marks
        self._metronome = self._optimizers[0] if self._optimizers else None
        self._recorder: Recorder | None = None
        self._was_collecting = True
        self._closing = ExitStack()

    def open(self) -> None:
        """Begin to record.

        Raises
        ------
        InputError
            If another capture is running, a model is compiled or is none, or an optimizer is none.
        """
        if _running:
            raise InputError(
                f"capture {self.name!r}: capture {_running[0].name!r} is running; "
                "nesting is refused"
            )
        _watch_forks()
        check_parts(self._models, self._optimizers)
        self._was_collecting = gc.isenabled()
        gc.collect()
        with ExitStack() as stack:  # so that nothing is left behind if something here fails
            stack.enter_context(collection_paused())
            recorder = Recorder(self._models, self._optimizers, self._clock)
            listeners.append(self._said)
            stack.callback(listeners.remove, self._said)
            stack.callback(after_steps(self._stepped).remove)
            stack.enter_context(compiled_calls_reported(self._fail))
            stack.enter_context(backward_passes_reported(self._backward_begins))
            stack.enter_context(makers_noticed(recorder.run_maker))
            self._recorder = recorder
            stack.enter_context(recorder)
            _running.append(self)
            stack.callback(_running.remove, self)
            self._closing = stack.pop_all()

    def close(self) -> None:
        """Stop recording, if it has not been."""
        self._closing.close()

    def recording(self) -> Recording:
        """Return what was recorded.

        Raises
        ------
        TraceError
            If recording had to stop; the message says why.
        """
        assert self._recorder is not None, "a session that was opened"
        return self._recorder.recording()

    @property
    def has_failed(self) -> bool:
        """Whether recording had to stop."""
        return self._recorder is not None and self._recorder.failure is not None

    @property
    def failed_at(self) -> Iterable[FrameSummary]:
        """The stack of calls, outermost first, when recording had to stop; else empty."""
        return (self._recorder and self._recorder.failed_at) or ()

    def end_step(self, is_said: bool) -> None:
        """Note that a step ends: by a mark of the program, or because its optimizer stepped."""
        assert self._recorder is not None, "a session that was opened"
        self._recorder.end_step(is_said)

    def _fail(self, failure: Exception) -> None:
        if self._recorder is not None:
            self._recorder.fail(failure)

    def _is_unseen(self, what: str) -> bool:
        """Say whether something runs where it is not recorded; then there will be no recording."""
        recorder = self._recorder
        assert recorder is not None, "a session that was opened"
        return not is_watched_here(recorder) and recorder.is_elsewhere(what)

    def _backward_begins(self) -> None:
        """Notice a backward pass."""
        self._is_unseen("a backward pass")

    def _said(self) -> None:
        """Note a mark of the program."""
        if not self._is_unseen("mark_step()") and self._has_marks:
            self.end_step(is_said=True)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Note a step of the optimizer that counts: the first that steps, if none was given."""
        if self._is_unseen(f"the step of {type(optimizer).__name__}") or not self._has_marks:
            return
        if self._metronome is None:
            self._metronome = optimizer
        if optimizer is self._metronome:
            self.end_step(is_said=False)


def check_parts(models: Iterable[Any], optimizers: Iterable[Any]) -> None:
    """Refuse what is no model or optimizer; what behaves like an optimizer is one.

    Raises
    ------
    InputError
        One is none, or a model is compiled.
    """
    for model in models:
        if not isinstance(model, Module):
            raise InputError(f"model {type(model).__name__}: expected a torch.nn.Module")
    for optimizer in optimizers:
        if not isinstance(getattr(optimizer, "state", None), Mapping):
            raise InputError(
                f"optimizer {type(optimizer).__name__}: expected a torch.optim.Optimizer"
            )
    refuse_compiled(models)
