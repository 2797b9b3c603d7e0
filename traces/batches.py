"""Captures of a user's step at several batch sizes, under fake tensors, in a process of their own.

Nothing here needs torch, and no failure of the user's code is more than an exception with a line.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import MissingExtraError, TraceError, UsageError
from .batch_process import MISSING
from .devices import device as find_device
from .loading import load_trace
from .trace import Trace

PROCESS = "rematsim.traces.batch_process"


class BatchCaptures:
    """Traces of a step by batch size, each captured once; a context manager.

    Parameters
    ----------
    spec : str
        ``module:function`` or ``file.py:function``. The function takes a batch size and returns
        what ``capture_fake`` asks of ``make``: the function that runs a step, or a tuple of it, the
        model and the optimizer.
    target, device : str
        As for ``capture_fake``.

    Attributes
    ----------
    notes : list of str
        What captures said, each once.

    Raises
    ------
    UsageError
        If ``spec`` names no function, or there is no such device.
    """

    def __init__(self, spec: str, target: str = "cpu", device: str = "h100") -> None:
        module, _, function = spec.rpartition(":")
        if not module or not function:
            raise UsageError(f"{spec!r}: a function is module:function, or file.py:function")
        find_device(device)
        self.spec = spec
        self.notes: list[str] = []
        self._arguments = [spec, target, device]
        self._folder = tempfile.TemporaryDirectory(prefix="rematsim-batches-")
        self._process: subprocess.Popen[str] | None = None
        self._traces: dict[int, Trace] = {}

    def __enter__(self) -> BatchCaptures:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process; what it captured stays in memory."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._folder.cleanup()

    def __call__(self, batch: int) -> Trace:
        """Give the trace of a batch size.

        Raises
        ------
        TraceError
            If the user's code failed, or ended the process.
        MissingExtraError
            If there is no torch.
        """
        if batch not in self._traces:
            path = str(Path(self._folder.name, f"{batch}.trace"))
            self._read(self._ask(batch, path))
            self._traces[batch] = load_trace(path, cache=False)
        return self._traces[batch]

    def _ask(self, batch: int, path: str) -> str:
        """Send a request, and wait for its answer; it is empty where the process ended."""
        if self._process is None:
            command = [sys.executable, "-P", "-m", PROCESS, *self._arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None, "pipes"
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([batch, path]) + "\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise TraceError(
                f"{self.spec} at batch {batch}: its process ended with exit code {process.wait()}"
            )
        return answer

    def _read(self, line: str) -> None:
        """Take in an answer."""
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            kind = MissingExtraError if answer["failure"] == MISSING else TraceError
            raise kind(answer["message"])
        self.notes += [note for note in answer["notes"] if note not in self.notes]
