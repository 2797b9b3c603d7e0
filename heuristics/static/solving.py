"""Solvers run in a process of their own: it can be killed, and its memory has a cap.

`solve` hands a task to that process, and gets what it tells on its way and what it answers. A task
is a function of a module of this folder, by name, with plain values; it is called with ``tell``,
to which it gives better solutions as it finds them. The process stays for the next task, as loading
a solver takes longer than many a task; it is ended when it does not answer in time, on Ctrl-C, and
with its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from .clock import INTERRUPTED, Clock, is_interrupted
from .registry import MEMORY_LIMIT, NOT_INSTALLED, SOLVER_FAILED, TIME_LIMIT

DONE = "done"  # beside INTERRUPTED and the statuses of planners, what `Ended` has
UNKNOWN = "unknown"  # how a solver ended that has neither a solution nor a proof
WORKERS = 1  # threads of a solver: with one, the same task has the same answer
MEMORY_GB = 8.0  # what a solver may take
_GRACE = 0.05, 0.5  # how much longer than its limit a solver may take: of the limit, and seconds
_LOADING = 60.0  # seconds, after which a task may try it for itself
_TURN = 0.2  # seconds
_TOLD, _ANSWER, _MEMORY, _MISSING, _FAILED = range(5)


@dataclass
class Ended:
    """How a task ended.

    Attributes
    ----------
    status : str
        ``DONE``, ``INTERRUPTED``, or the status of a planner.
    answer : object
        What the function returned; None where it did not end by itself.
    told : list
        What it told on its way, the last is the best.
    message : str
        What went wrong.
    """

    status: str
    answer: Any = None
    told: list[Any] = field(default_factory=list)
    message: str = ""


def solve(
    module: str, function: str, *args: Any, seconds: float | None, memory_gb: float = MEMORY_GB
) -> Ended:
    """Run a function of a module of this folder in the solvers' process.

    Parameters
    ----------
    module, function : str
    *args
        Plain values; ``tell`` and the seconds that it has are given to the function after them.
    seconds : float or None
        After that and a short grace the process is killed.
    memory_gb : float
        What the process may take.
    """
    clock = Clock(None if seconds is None else seconds * (1 + _GRACE[0]) + _GRACE[1])
    if is_interrupted():
        return Ended(INTERRUPTED, message=INTERRUPTED)
    ended = Ended(TIME_LIMIT)
    worker = None
    try:
        worker = _worker(memory_gb)
        worker.send((module, function, args, seconds))
        while True:
            kind, what = worker.receive(clock)
            if kind != _TOLD:
                break
            ended.told.append(what)
    except queue.Empty:
        _end(worker)
        ended.message = f"no answer within {seconds or 0:g} s"
        if is_interrupted():
            ended.status = ended.message = INTERRUPTED
        return ended
    except KeyboardInterrupt:
        _end(worker)
        raise
    except OSError as error:
        _end(worker)
        ended.status, ended.message = SOLVER_FAILED, f"the solver's process: {error}"
        return ended
    if kind == _ANSWER:
        ended.status, ended.answer = DONE, what
        return ended
    statuses = {_MEMORY: MEMORY_LIMIT, _MISSING: NOT_INSTALLED, _FAILED: SOLVER_FAILED}
    ended.status, ended.message = statuses[kind], what
    if kind != _MISSING:
        _end(worker)
    return ended


def load_solvers() -> None:
    """Start the process, if there is none, and let it load its solvers.

    It takes longer than many a task, and once: what is timed should come after it.
    """
    solve(__name__, "load", seconds=_LOADING)


def load(tell: Callable[[Any], None], seconds: float | None) -> None:
    """Import the solvers that there are; a task for the process."""
    for module in ("scipy.optimize", "scipy.sparse", "ortools.sat.python.cp_model"):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)


class _Worker:
    """The process, and a thread that reads what it says."""

    def __init__(self, memory_gb: float) -> None:
        self.memory_gb, self.owner = memory_gb, os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(memory_gb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self.said: queue.Queue[tuple[int, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self.said.put(pickle.load(self.process.stdout))
        except (EOFError, OSError, pickle.UnpicklingError, ValueError):
            self.said.put(self._death())

    def _death(self) -> tuple[int, str]:
        """Say why it ended by itself: what memory ran out on is aborted or killed."""
        code = self.process.wait()
        if -code in (signal.SIGABRT, getattr(signal, "SIGKILL", 9), signal.SIGSEGV):
            by = signal.Signals(-code).name
            return _MEMORY, f"the solver was ended by {by}, with {self.memory_gb:g} GB allowed"
        return _FAILED, f"the solver's process ended with code {code}"

    def send(self, task: Any) -> None:
        """Give it a task."""
        assert self.process.stdin is not None
        pickle.dump(task, self.process.stdin)
        self.process.stdin.flush()

    def receive(self, clock: Clock) -> tuple[int, Any]:
        """Wait for what it says next, in short turns: a long one would not notice Ctrl-C."""
        while not clock.is_over:
            with contextlib.suppress(queue.Empty):
                return self.said.get(timeout=_TURN)
        return self.said.get_nowait()

    def is_usable(self, memory_gb: float) -> bool:
        """Whether it lives, belongs to this process, and may take as much memory."""
        is_mine = self.owner == os.getpid() and self.memory_gb == memory_gb
        return is_mine and self.process.poll() is None


_workers: list[_Worker] = []


def _worker(memory_gb: float) -> _Worker:
    """Get the process, a new one if there is none."""
    if not _workers or not _workers[0].is_usable(memory_gb):
        end_worker()
        _workers.append(_Worker(memory_gb))
    return _workers[0]


def _end(worker: _Worker | None) -> None:
    if worker is not None and worker in _workers:
        end_worker()


@atexit.register
def end_worker() -> None:
    """End the process, if there is one."""
    while _workers:
        worker = _workers.pop()
        if worker.owner == os.getpid():
            worker.process.kill()
            worker.process.wait()


def _serve(commands: BinaryIO, answers: BinaryIO) -> None:
    """Be the process: take tasks and answer them, until there are no more."""

    def say(kind: int, what: Any) -> None:
        pickle.dump((kind, what), answers)
        answers.flush()

    while True:
        try:
            module, function, args, seconds = pickle.load(commands)
        except EOFError:
            return
        say(*_answer(module, function, (*args, lambda what: say(_TOLD, what), seconds)))


def _answer(module: str, function: str, args: tuple[Any, ...]) -> tuple[int, Any]:
    try:
        task: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return _ANSWER, task(*args)
    except MemoryError:
        return _MEMORY, "the solver ran out of memory"
    except ModuleNotFoundError as error:
        return _MISSING, f"{error.name} is not installed: pip install ortools"
    except BaseException as error:  # whatever a solver raises is its failure, and named
        if isinstance(error, SystemError) and _is_memory_short():
            return _MEMORY, "the solver ran out of memory"
        return (
            _FAILED,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        )


def _is_memory_short() -> bool:
    """Whether much of the allowed memory was taken: a library that was refused may say anything."""
    try:
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_DATA)[0]
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        taken = dict(line.split(":", 1) for line in status.splitlines())
        # Not getrusage: its ru_maxrss begins with what the parent had.
        return int(taken["VmHWM"].split()[0]) * 1024 > allowed // 2 > 0
    except (ImportError, OSError, ValueError, KeyError):
        return False


def _limit(memory_gb: float) -> None:
    """Cap the memory, and end with the parent, on systems that know how."""
    try:
        import ctypes
        import resource

        limit = int(memory_gb * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform == "linux":
            set_parent_death_signal = 1  # PR_SET_PDEATHSIG, prctl(2)
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    except (ImportError, OSError, ValueError):
        return


def _main() -> None:
    _limit(float(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)  # what solvers print is neither an answer nor for a person
    with contextlib.suppress(BrokenPipeError, pickle.UnpicklingError):  # the parent has ended
        _serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
