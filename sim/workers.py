"""Workers: the processes that run a sweep's batches, and how they end.

It knows no cells and no rows. `Workers` is the face that a sweep sees, whether they are this
process, processes of this machine (here) or those of a cluster (`cluster.py`). Nothing is left
running after an error, a Ctrl-C or the end of the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from typing import Any

from .errors import RematsimError


class WorkerError(RematsimError):
    """The system killed a worker of a sweep; the rows that were finished are kept."""


class Workers:
    """What runs the batches of a sweep: an executor, and what it means when one is not run.

    Parameters
    ----------
    executor : concurrent.futures.Executor
        What runs them.
    count : int
        Workers; a cluster's may change.
    """

    def __init__(self, executor: Executor, count: int) -> None:
        self.executor = executor
        self.count = count

    @property
    def window(self) -> int:
        """How many batches to hand out at once.

        One waits for each worker, so that none has to wait; alone, nothing waits.
        """
        return 2 * self.count if self.count > 1 else 1

    def submit(self, run: Callable[..., Any], trace: Any, runs: Any) -> Future[Any]:
        """Hand out a batch: what runs it, its trace, which is to be sent seldom, and the rest."""
        try:
            return self.executor.submit(run, trace, runs)
        except BrokenProcessPool as error:  # noticed here before any batch has ended so
            raise self.explained(error) from error

    def wait(self, running: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Wait until a batch has ended, and return those that have."""
        return wait_for(running, return_when=FIRST_COMPLETED).done

    def is_lost(self, error: Exception) -> bool:
        """Whether a batch that ended so is no fault of its own, and is to be handed out again."""
        return False

    def explained(self, error: Exception) -> Exception:
        """Say what an error that ends the sweep means, where it is about the workers."""
        if isinstance(error, BrokenProcessPool):
            return WorkerError(
                "a worker was killed by the system (out of memory? fewer jobs need less)"
            )
        return error


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """Give workers on this machine; when their user fails or is interrupted, end them.

    Parameters
    ----------
    count : int
        Processes; one means this process, and none is started.
    """
    if count == 1:
        yield Workers(_InlineExecutor(), 1)
        return
    before = set(multiprocessing.active_children())
    with interrupts_held():
        pool = _Pool(count, _context(), initializer=_start_worker)
    try:
        yield Workers(pool, count)
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def can_travel(functions: Iterable[Any]) -> bool:
    """Whether user's functions can be sent to other processes; say so where they cannot.

    Parameters
    ----------
    functions : iterable
        Names, functions or other objects; names always can.
    """
    for function in functions:
        if not isinstance(function, str) and not _is_importable(function):
            name = getattr(function, "__name__", None) or getattr(function, "name", function)
            warnings.warn(
                f"{name} is no function of a module: the sweep runs in one process", stacklevel=2
            )
            return False
    return True


def available_cores() -> int:
    """Count the processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_importable(function: Any) -> bool:
    """Whether another process would find the function where it stands."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    # What was typed at a prompt or in a notebook has no file that a worker could import.
    return hasattr(sys.modules["__main__"], "__file__")


def _context() -> Any:
    """Choose how processes start: from one that has loaded the engine, where there is such."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rematsim.simulation"])
    try:
        forkserver.ensure_running()
    except ChildProcessError:
        _forget_inherited_server()
        forkserver.ensure_running()
    return context


def _forget_inherited_server() -> None:
    """Let a forked process start a server of its own: its parent's is not its child to wait for.

    The standard library has no public way to say so.
    """
    server: Any = forkserver.ensure_running.__self__  # type: ignore[attr-defined]
    server._forkserver_pid = None


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let signals wait; processes started meanwhile are deaf to Ctrl-C, which is for this one."""
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        yield
        return
    resource_tracker.ensure_running()  # first: it would let Ctrl-C through again
    waiting: list[int] = []
    # The mask is what a new process inherits; handlers are for signals that other threads get.
    handlers = {
        number: signal.signal(number, lambda number, _: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if waiting:
            signal.raise_signal(waiting[0])


def _show_note(message: Warning | str, *_: Any) -> None:
    """Show a warning of a worker as one line, as the command does its own."""
    print(f"rematsim: note: {' '.join(str(message).split())}", file=sys.stderr)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and end when the parent does, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.showwarning = _show_note  # type: ignore[assignment]
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


class _Pool(ProcessPoolExecutor):
    """A pool of processes, each of which is either not begun or known, and so can be ended."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit, and start a process if one is needed, without being interrupted midway."""
        with interrupts_held():
            return super().submit(fn, *args, **kwargs)


class _InlineExecutor(Executor):
    """Runs everything at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the function now; an error is raised here, not kept in the future."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
