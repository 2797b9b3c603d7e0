"""Clusters: a real scheduler and real workers, each a process; what is lost costs time, no row.

The scheduler is started without rematsim, which it does not need. Every process that is killed here
was started here.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import rematsim
from processes import processes_of, wait_until
from rematsim import cluster
from rematsim.cli.main import main
from rematsim.errors import InputError, MissingExtraError
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace
from rematsim.workers import WorkerError

pytest.importorskip("distributed", reason="distributed is not installed")
pytestmark = pytest.mark.xdist_group("cluster")  # one after the other: each starts processes

SECONDS = 120.0  # that a loaded machine may take to start processes


class Cluster:
    """A scheduler, and workers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--scheduler-file", str(file), is_bare=True)
        assert wait_until(lambda: file.exists() and file.stat().st_size > 0, SECONDS)
        self.address: str = json.loads(file.read_text())["address"]

    def add(self, is_bare: bool = False, path: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker; a bare one has no rematsim, or the one that lies at a path."""
        options = ("--no-nanny", "--nthreads", "2", "--local-directory", str(self.folder))
        return self._start("worker", self.address, *options, is_bare=is_bare, path=path)

    def _start(
        self, what: str, *arguments: str, is_bare: bool, path: Path | None = None
    ) -> subprocess.Popen[bytes]:
        # Without `site`, a package that is installed in place, by a .pth file, is not found.
        command = [
            sys.executable,
            *(["-S"] if is_bare else []),
            "-m",
            f"distributed.cli.dask_{what}",
        ]
        found = [str(path)] if path else []
        found += [name for name in sys.path if "site-packages" in name]
        done = subprocess.Popen(
            [*command, *arguments, "--host", "127.0.0.1", "--no-dashboard"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(found)} if is_bare else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(done)
        return done

    def wait_for(self, count: int) -> None:
        """Wait until so many workers have joined."""
        from distributed import Client

        with Client(self.address, timeout=SECONDS, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=SECONDS)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cluster]:
    """Give a scheduler without workers."""
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.end()


class Wire:
    """A connection to a scheduler that can be cut: it hands bytes on, until it does not."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break all connections; new ones can be made."""
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._hand_on, args=ends, daemon=True).start()

    @staticmethod
    def _hand_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def chain(units: int, name: str) -> Trace:
    """Make a chain of units forward and their gradients backward, each of 10 bytes and 10 ns."""
    builder = TraceBuilder(name)
    builder.constant("x-1", 5)
    for unit in range(units):
        builder.call("forward", [f"x{unit - 1}"], [(f"x{unit}", 10, -1)], 10)
    builder.backward()
    builder.call("loss", [f"x{units - 1}"], [(f"g{units}", 10, -1)], 10)
    for unit in reversed(range(units)):
        builder.call("backward", [f"g{unit + 1}", f"x{unit}"], [(f"g{unit}", 10, -1)], 10)
    return builder.build()


def swept(**given: Any) -> pd.DataFrame:
    """Sweep 1,000 cells, or as many as there are seeds for; leave out what differs by the run."""
    arguments: dict[str, Any] = {"seeds": "0:124", "deallocation": "ignore"} | given
    traces = [chain(30, "a"), chain(40, "b")]
    table = rematsim.sweep(traces, "h_rand", "0.5x:0.8x:0.1x", **arguments)
    return table.drop(columns="run_seconds")


def once(past: int, act: Callable[[], object]) -> Callable[[int, int], None]:
    """Make a report that does something when so many rows are there, in the middle of a sweep."""
    acts = [act]

    def report(done: int, total: int) -> None:
        if past <= done < total and acts:
            acts.pop()()

    return report


def test_two_of_four_workers_killed_cost_no_row(own: Cluster) -> None:
    """1,000 cells; the rows are those of one process, in their order, with their digits."""
    workers = [own.add() for _ in range(4)]
    own.wait_for(4)
    killed: list[int] = []

    def kill_two() -> None:
        for worker in workers[:2]:
            worker.send_signal(signal.SIGKILL)
            killed.append(worker.wait())

    table = swept(cluster=own.address, report=once(300, kill_two))
    assert killed == [-signal.SIGKILL] * 2
    assert len(table) == 1000
    pd.testing.assert_frame_equal(table, swept())


def test_a_sweep_outlives_all_its_workers_where_others_come(own: Cluster) -> None:
    """What they had of the trace is gone with them, and is made again."""
    worker = own.add()
    own.wait_for(1)

    def replace_all() -> None:
        worker.kill()
        worker.wait()
        own.add()

    table = swept(seeds="0:49", cluster=own.address, report=once(60, replace_all))
    pd.testing.assert_frame_equal(table, swept(seeds="0:49"))


def test_a_lost_connection_costs_no_row(own: Cluster) -> None:
    """What was handed out is handed out again when the scheduler is found again."""
    own.add()
    own.wait_for(1)
    wire = Wire(own.address)
    cuts: list[int] = []

    def cut() -> None:
        wire.cut()
        cuts.append(1)

    table = swept(seeds="0:49", cluster=wire.address, report=once(60, cut))
    assert cuts
    pd.testing.assert_frame_equal(table, swept(seeds="0:49"))


def test_a_trace_is_sent_to_each_worker_once(own: Cluster) -> None:
    """By the log of what each worker has got from others; the first one has it from the client."""
    from distributed import Client

    for _ in range(2):
        own.add()
    own.wait_for(2)
    swept(cluster=own.address)
    with Client(own.address, timeout=SECONDS, set_as_default=False) as client:
        logs = client.run(lambda dask_worker: list(dask_worker.transfer_incoming_log))
    large = 1000  # bytes: a trace, not a batch of it
    got = [key for log in logs.values() for one in log for key, size in one["keys"].items()
           if size > large]  # fmt: skip
    per_worker = [[key for one in log for key in one["keys"]] for log in logs.values()]
    assert all(len(keys) == len(set(keys)) for keys in per_worker)
    assert len(set(got)) <= 2 and len(got) <= 2 * 2


def test_workers_without_rematsim_or_with_another_are_named_in_one_line(
    own: Cluster, root: Path, tmp_path: Path
) -> None:
    """Rows of another version would be kept under this one's key."""
    other = tmp_path / "other"
    shutil.copytree(root / "sim", other / "rematsim")
    for folder in ("traces", "heuristics", "analysis"):
        shutil.copytree(root / folder, other / "rematsim" / folder)
    engine = other / "rematsim" / "engine.py"
    engine.write_text(engine.read_text() + "# edited\n")
    bare = own.add(is_bare=True)
    own.wait_for(1)
    with pytest.raises(WorkerError, match="no rematsim of this version .*No module") as caught:
        swept(seeds=0, cluster=own.address)
    assert "\n" not in str(caught.value)
    bare.kill()
    bare.wait()
    own.add(is_bare=True, path=other)
    with pytest.raises(WorkerError, match="other sources") as caught:
        swept(seeds=0, cluster=own.address)
    assert "\n" not in str(caught.value)


def test_a_cluster_without_workers_or_without_a_scheduler_is_not_waited_for_for_ever(
    own: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor is one that loses its last worker; rows that were finished stay."""
    monkeypatch.setattr(cluster, "WORKERLESS_SECONDS", 1.0)
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(WorkerError, match="no dask scheduler answers within 1 s"):
        swept(seeds=0, cluster=closed)
    with pytest.raises(WorkerError, match="has had no worker for 1 s"):
        swept(seeds=0, cluster=own.address)
    worker = own.add()
    own.wait_for(1)
    out = tmp_path / "t.sqlite"
    with pytest.raises(WorkerError, match=r"no worker for 1 s; the rows .* are in .*t\.sqlite"):
        swept(seeds="0:49", cluster=own.address, out=out, report=once(60, worker.kill))
    seen: list[int] = []
    swept(seeds="0:49", out=out, report=lambda done, _: seen.append(done))
    assert 60 <= seen[0] < 400


def test_an_interrupt_that_a_destructor_swallows_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python only reports what is raised there; the sweep ends at its next wait."""

    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with cluster._noted_interrupts() as noted:
        Interrupted()
        workers = cluster._ClusterWorkers("local:1", "", noted)
        with pytest.raises(KeyboardInterrupt):
            workers.wait([])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def taken_port() -> Iterator[None]:
    """Hold dask's usual port for its page, unless another program does already."""
    with socket.socket() as server:
        with suppress(OSError):
            server.bind(("127.0.0.1", 8787))
            server.listen()
        yield


def test_interrupt_of_a_small_cluster_keeps_rows_and_leaves_nothing(
    taken_port: None, tmp_path: Path
) -> None:
    """Ctrl-C goes to every process of a terminal; one line is told, and all of them end."""
    out = tmp_path / "t.sqlite"
    arguments = ["sweep", "synthetic:chain:300", "--heuristic", "h_rand", "--budget", "0.5x"]
    arguments += ["--seed", "0:9999", "--deallocation", "ignore", "--cluster", "local:1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rematsim", *arguments, "--quiet", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert wait_until(lambda: count_rows(out) > 0, SECONDS)
        os.killpg(process.pid, signal.SIGINT)
        told = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 130
        assert "kept in" in told and "Traceback" not in told
        assert len(told.split("\n")) == 4 and "\n\n" in told, told  # click's empty line in between
        assert count_rows(out) > 0
        assert wait_until(lambda: not processes_of(process.pid), SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def count_rows(path: Path) -> int:
    """Count the rows that are there; none where the table is not there yet."""
    import sqlite3
    from contextlib import closing

    if not path.exists():
        return 0
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
    return 0


@pytest.mark.parametrize(
    "given", ["", "local", "local:0", "local:1025", "local:x", "host", "tcp://host", "local:1:2"]
)
def test_what_names_no_cluster_is_refused(given: str) -> None:
    """Before anything is loaded."""
    with pytest.raises(InputError, match="cluster"):
        cluster.parse_cluster(given)


def test_a_cluster_and_a_number_of_processes_exclude_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """There is one number of workers."""
    with pytest.raises(InputError, match="jobs"):
        swept(jobs=2, cluster="local:1")
    assert main(["sweep", "bundled:unet", "--jobs", "2", "--cluster", "local:1"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_no_logger_of_dask_speaks_beside_the_sweep() -> None:
    """Some have a level of their own."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    with cluster._silent_logs():
        assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    assert [logger.level for logger in loggers] == levels


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match="pip install distributed"):
        cluster.parse_cluster("local:1")


def test_a_users_file_must_be_the_same_where_the_run_is_done(tmp_path: Path) -> None:
    """Its rows are kept under the digest of what the one who asks has read."""
    from rematsim.errors import HeuristicError
    from rematsim.grid import expand_options, make_grid
    from rematsim.sweeps import _run_batch

    mine = tmp_path / "mine.py"
    mine.write_text("def score(state, s):\n    return float(s)\n")
    trace = chain(6, "a")
    grid = make_grid([trace], f"{mine}:score", "0.5x", 0, expand_options())
    (cell,) = grid.cells().values()
    mine.write_text("def score(state, s):\n    return -float(s)\n")
    outcome = _run_batch(trace, [cell.run])
    assert not outcome.rows and isinstance(outcome.error, HeuristicError)
    assert "another one here" in str(outcome.error)
