"""A capture while it runs: the recorder, the hooks around it, and what they must not disturb.

Needs torch, so only the modules of a capture import it. What users call is in ``capturing.py``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from traceback import FrameSummary
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook as after_steps

from ..errors import InputError
from .clocks import Clock
from .marks import listeners
from .recorder import Recorder
from .recording import Recording
from .refusing import CompiledSentinel, refuse_compiled
from .unseen import UnseenMakers

__all__ = ["Session", "after_steps"]

_running: list[Session] = []


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
        self._was_collecting = True
        self._recorder: Recorder | None = None
        self._hook: Any = None
        self._sentinel = CompiledSentinel(self._fail)
        self._makers: UnseenMakers | None = None

    def open(self) -> None:
        """Begin to record.

        Raises
        ------
        InputError
            If another capture is running, or a model is compiled.
        """
        if _running:
            raise InputError(
                f"capture {self.name!r}: capture {_running[0].name!r} is running; "
                "nesting is refused"
            )
        refuse_compiled(self._models)
        self._was_collecting = gc.isenabled()
        gc.collect()
        gc.disable()
        self._recorder = Recorder(self._models, self._optimizers, self._clock)
        if self._has_marks:
            listeners.append(self._said)
            self._hook = after_steps(self._stepped)
        self._sentinel.open()
        self._makers = UnseenMakers(self._recorder.run_maker)
        self._makers.open()
        _running.append(self)
        self._recorder.__enter__()

    def close(self) -> None:
        """Stop recording."""
        if self not in _running or self._recorder is None:
            return
        self._recorder.__exit__(None, None, None)
        _running.remove(self)
        self._sentinel.close()
        if self._makers is not None:
            self._makers.close()
        if self._has_marks:
            listeners.remove(self._said)
            self._hook.remove()
        if self._was_collecting:
            gc.enable()

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

    def _said(self) -> None:
        """Note a mark of the program."""
        self.end_step(is_said=True)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Note a step of the optimizer that counts: the first that steps, if none was given."""
        assert self._recorder is not None
        if self._recorder.is_elsewhere(f"the step of {type(optimizer).__name__}"):
            return
        if self._metronome is None:
            self._metronome = optimizer
        if optimizer is self._metronome:
            self.end_step(is_said=False)
