"""Workers on a dask cluster: many machines by their scheduler's address, or processes here.

A worker, or the network, that is lost costs time and no row: dask runs again what a lost worker
had, and what is lost with the connection is handed out again. The scheduler needs nothing of
rematsim: what it reads is bytes and functions of the standard library. `distributed` is imported
when it is needed only.
"""

from __future__ import annotations

import functools
import importlib
import logging
import operator
import pickle
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .errors import MissingExtraError, UsageError
from .heuristics.static.registry import sources_digest
from .jit import engine_digest
from .workers import WorkerError, Workers, interrupts_held

if TYPE_CHECKING:
    from .traces.trace import Trace

CONNECT_SECONDS = 10.0
RECONNECT_SECONDS = 120.0
WORKERLESS_SECONDS = 60.0
LOOK_SECONDS = 5.0
CLOSE_SECONDS = 5.0
MOST_LOCAL = 1024
TRACES_KEPT = 2  # on the cluster at once; batches come in the order of their traces
# Those that have a level of their own.
LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado", "tornado.application",
           "asyncio")  # fmt: skip
LOSSES = 10  # times that all batches may be lost with none run in between

_LOCAL = re.compile(r"local:([1-9]\d{0,3})", re.ASCII)
_ADDRESS = re.compile(r"[a-z]+://[^\s/]+:\d{1,5}", re.ASCII)
_one_at_a_time = threading.Lock()  # of the threads that a worker may have


def parse_cluster(text: str) -> str:
    """Check what names a cluster, and that there is what it takes to use one.

    Raises
    ------
    UsageError
        If it is neither ``local:N`` nor an address such as ``tcp://host:8786``.
    MissingExtraError
        If dask.distributed is not installed.

    Examples
    --------
    >>> parse_cluster("local:4")
    'local:4'
    """
    from importlib.util import find_spec

    local = _LOCAL.fullmatch(text)
    if not (_ADDRESS.fullmatch(text) or (local and int(local[1]) <= MOST_LOCAL)):
        raise UsageError(
            f"cluster {text!r}: a scheduler's address such as tcp://host:8786, or local:N "
            f"with N from 1 to {MOST_LOCAL}"
        )
    if find_spec("distributed") is None:
        raise MissingExtraError(
            "a cluster needs dask.distributed, which is not installed: pip install distributed"
        )
    return text


@contextmanager
def cluster_workers(cluster: str) -> Iterator[Workers]:
    """Give the workers of a cluster; leave an existing one as it was.

    Parameters
    ----------
    cluster : str
        As `parse_cluster` takes it.

    Raises
    ------
    WorkerError
        If there is no scheduler, or it has no workers.
    """
    import dask
    import distributed  # noqa: F401 - before its loggers are silenced: it sets their levels

    # The one graph that is large holds a trace, which is sent once.
    settings = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with ExitStack() as stack:
        stack.enter_context(_silent_logs())
        stack.enter_context(dask.config.set(settings))
        local = _LOCAL.fullmatch(cluster)
        address = stack.enter_context(_local_cluster(int(local[1]))) if local else cluster
        workers = _ClusterWorkers(cluster, address, stack.enter_context(_noted_interrupts()))
        stack.callback(workers.close)
        workers.connect(CONNECT_SECONDS)
        yield workers


class _ClusterWorkers(Workers):
    """The workers that a scheduler has, as many as there are at the time."""

    def __init__(self, name: str, address: str, interrupts: Sequence[int]) -> None:
        self.name = name
        self._interrupts = interrupts
        self._address = address
        self._client: Any = None
        self._sent: dict[str, Any] = {}
        self._losses = 0
        self._looked = self._seen = time.monotonic()

    def connect(self, seconds: float) -> None:
        """Reach the scheduler within that time, and wait for a first worker."""
        from distributed import Client

        self.close()
        try:
            self._client = Client(self._address, timeout=seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = f" ({error})" if isinstance(error, ValueError) else ""
            raise WorkerError(
                f"cluster {self.name}: no dask scheduler answers within {seconds:g} s{reason}"
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=WORKERLESS_SECONDS)
        except TimeoutError as error:
            raise self._workerless() from error
        super().__init__(self._client.get_executor(pure=False), len(self._client.nthreads()))

    def close(self) -> None:
        """Leave the scheduler; it forgets what it has not run yet."""
        self._sent.clear()
        if self._client is not None:
            with suppress(OSError):
                self._client.close(timeout=CLOSE_SECONDS)
            self._client = None

    @property
    def window(self) -> int:
        """How many batches to hand out at once; one waits for each worker, a lone one too."""
        return 2 * self.count

    def submit(self, run: Callable[..., Any], trace: Trace, runs: Any) -> Future[Any]:
        """Hand out a batch; its trace is sent with the first one."""
        batch = pickle.dumps(functools.partial(run_there, own_identity(), run, runs))
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            self._await_connection(deadline)
            try:
                job = self._client.submit(pickle.loads, batch, pure=False)
                return self.executor.submit(operator.call, job, self._on_cluster(trace))
            except (OSError, RuntimeError):  # the connection has just been lost
                if time.monotonic() > deadline:
                    raise

    def wait(self, running: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Wait until a batch has ended; look after the cluster meanwhile."""
        futures = list(running)
        while True:
            if self._interrupts:
                raise KeyboardInterrupt
            if time.monotonic() > self._looked + LOOK_SECONDS:
                self._look()
            done = wait_for(futures, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done
            if done:
                if any(not future.cancelled() and not future.exception() for future in done):
                    self._losses = 0
                return done

    def is_lost(self, error: Exception) -> bool:
        """Whether a batch was lost with the connection, or with the only worker that had it."""
        if not isinstance(error, CancelledError | OSError):
            return False
        self._losses += 1
        return self._losses <= LOSSES * self.window

    def explained(self, error: Exception) -> Exception:
        """Say what dask's errors mean."""
        from distributed.scheduler import KilledWorker

        where = f"cluster {self.name}"
        if isinstance(error, KilledWorker):
            return WorkerError(
                f"{where}: several workers died one after the other at the same runs "
                "(out of memory? fewer workers on a machine need less)"
            )
        if isinstance(error, ImportError | AttributeError):
            return WorkerError(
                f"{where}: a worker has no rematsim of this version ({error}): "
                f"install rematsim {own_identity()[0]} there"
            )
        if isinstance(error, CancelledError | OSError):
            return WorkerError(f"{where}: the connection is lost again and again")
        return error

    def _await_connection(self, deadline: float) -> None:
        """Wait for the client to find the scheduler again; try anew where it has given up."""
        while self._client.status == "connecting" and time.monotonic() < deadline:
            time.sleep(0.1)
        if self._client.status != "running":
            self.connect(max(1.0, deadline - time.monotonic()))

    def _on_cluster(self, trace: Trace) -> Any:
        """Return dask's future of a trace, which moves from worker to worker as it is needed.

        It is a task, not data that dask calls scattered: those are gone with their worker.
        """
        known = self._sent.pop(trace.digest, None)
        if known is None or known.status not in ("pending", "finished"):
            known = self._client.submit(pickle.loads, pickle.dumps(trace), pure=False)
        self._sent[trace.digest] = known
        while len(self._sent) > TRACES_KEPT:
            del self._sent[next(iter(self._sent))]
        return known

    def _look(self) -> None:
        """Count the workers; complain when there have been none for long."""
        self._looked = time.monotonic()
        if self._client.status != "running":
            return
        with suppress(OSError):
            count = len(self._client.nthreads())
            if count:
                self.count, self._seen = count, self._looked
            elif self._looked > self._seen + WORKERLESS_SECONDS:
                raise self._workerless()

    def _workerless(self) -> WorkerError:
        return WorkerError(
            f"cluster {self.name}: the scheduler has had no worker for {WORKERLESS_SECONDS:g} s"
        )


def own_identity() -> tuple[str, str, str]:
    """Tell this rematsim from others: rows made by another one would be kept under a wrong key."""
    package = importlib.import_module(__name__.partition(".")[0])
    return package.__version__, engine_digest(), sources_digest()


def run_there(asked: tuple[str, str, str], run: Callable[..., Any], runs: Any, trace: Trace) -> Any:
    """Run a batch in a worker, whatever the number of its threads one at a time.

    Raises
    ------
    WorkerError
        If the worker's rematsim is not the one that asks.
    """
    own = own_identity()
    if own != asked:
        raise WorkerError(
            f"worker {socket.gethostname()}: its rematsim {own[0]} has other sources than "
            f"the {asked[0]} that runs the sweep: install the same there, and start it anew"
        )
    with _one_at_a_time:
        return run(trace, runs)


@contextmanager
def _local_cluster(count: int) -> Iterator[str]:
    """Start a scheduler and workers on this machine; give its address."""
    from distributed import LocalCluster

    # Threads and processes inherit that Ctrl-C is not for them.
    with interrupts_held():
        try:
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                memory_limit=0,  # as for processes without a cluster
                # Without an address it asks for port 8787, and complains where that is taken.
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                silence_logs=logging.CRITICAL,
            )
        except (OSError, RuntimeError) as error:
            raise WorkerError(f"cluster local:{count}: cannot start: {error}") from error
    try:
        yield cluster.scheduler_address
    finally:
        with suppress(OSError):
            cluster.close(timeout=CLOSE_SECONDS)


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Note Ctrl-C beside raising it: what is raised in a destructor, as dask's have, is lost."""
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield noted
        return

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Keep dask's loggers from telling what becomes one line of ours, or is no news."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
