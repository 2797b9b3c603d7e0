"""Sweeps: the cells of a grid run by processes, their rows kept one by one as they end.

What the cells are is in `grid.py`, where their rows live in `store.py`. The rows are the same
whatever the number of workers, and whether or not the sweep was killed on the way.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .budgets import BudgetLike
from .cluster import cluster_workers, parse_cluster
from .errors import HeuristicError, InputError, RematsimError, UsageError
from .grid import Cell, Grid, Run, Seeds, StaticMethod, expand_options, find_planners, make_grid
from .heuristics.methods import get
from .result import COLUMNS
from .store import INTEGER_COLUMNS, REAL_COLUMNS, CellKey, Row, Store
from .workers import WorkerError, Workers, available_cores, can_travel, local_workers

if TYPE_CHECKING:
    import pandas as pd

    from .traces.trace import Trace

HEURISTICS = ("h_DTR", "h_DTR_eq", "h_DTR_local", "h_LRU", "h_size", "h_MSPS")
BUDGETS = "0.1x:1.0x:0.1x"
BATCHES_PER_WORKER = 4
BATCH_SECONDS = 0.5
# Rough times by which `sweep` decides how many processes are worth their start.
CALL_SECONDS, WORKER_SECONDS = 2.5e-6, 2.0

Report: TypeAlias = Callable[[int, int], None]


def sweep(
    traces: Trace | str | Path | Iterable[Trace | str | Path],
    heuristics: Any = HEURISTICS,
    budgets: BudgetLike | Iterable[BudgetLike] = BUDGETS,
    *,
    deallocation: str | Sequence[str] = "eager",
    slowdown_limit: float | Sequence[float | None] | None = 2.0,
    mutation: str | Sequence[str] = "copy",
    memory: str | Sequence[str] = "counter",
    link: str | Sequence[str] = "none",
    seeds: Seeds = 0,
    count_accesses: bool = False,
    methods: Any = (),
    time_limit: float | None = None,
    jobs: int | None = 1,
    cluster: str | None = None,
    out: str | Path | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Run every trace under every heuristic and budget; return a row for each run.

    Parameters
    ----------
    traces : Trace or path, or several
        What to replay; a .zip may hold several logs.
    heuristics : str, function or Heuristic, or several
        A name, ``"file.py:function"``, or a function of (state, storage).
    budgets : str, int, float or Budget, or several
        ``"6GiB"``, ``"0.5x"`` of the unlimited peak, ranges, ``"unlimited"``; an int is bytes, a
        float a fraction.
    deallocation, slowdown_limit, mutation, memory, link : one value or several
        Options of `rematsim.simulate`; with several, every combination is run.
    seeds : int, str or ints
        For heuristics that draw lots: ``"0:9"``, ``"1,2,3"``. The others run once.
    count_accesses : bool
        Whether to fill ``evaluations`` and ``metadata_accesses``.
    methods : str or Planner, or several
        Planners, whose plans are executed; their rows come after those of the heuristics. For
        planners alone, give no heuristics: ``[]``.
    time_limit : float, optional
        Seconds that a planner may take for a row.
    jobs : int or None
        Processes; None: as many as there are processor cores and as the work is worth. A script
        that asks for more than one needs ``if __name__ == "__main__":``.
    cluster : str, optional
        The scheduler of a dask cluster, ``"tcp://host:8786"``, or ``"local:4"``, in the place of
        ``jobs``.
    out : path, optional
        SQLite file for the rows, each written as its run ends; what is there is not run again.
    report : callable, optional
        Called with the numbers of finished and of all cells.

    Returns
    -------
    pandas.DataFrame
        The documented columns; one row per cell, in the order of the arguments.

    Examples
    --------
    >>> table = rematsim.sweep("resnet.log", ["h_DTR", "h_LRU"], "0.3x,0.5x")  # doctest: +SKIP
    """
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise UsageError(f"jobs {jobs!r}: a whole number from 1 up")
    if cluster is not None and jobs not in (None, 1):
        raise UsageError(f"jobs {jobs!r}: a cluster has its own number of workers, leave it out")
    cluster = parse_cluster(cluster) if cluster is not None else None
    options = expand_options(
        mutation=mutation,
        deallocation=deallocation,
        slowdown_limit=slowdown_limit,
        memory=memory,
        link=link,
        count_accesses=count_accesses,
    )
    planners = find_planners(methods, time_limit)
    grid = make_grid(_loaded(traces), heuristics, budgets, seeds, options, planners)
    try:
        with Store(out) as store:
            return to_frame(run_grid(grid, store, jobs, report, cluster))
    except WorkerError as error:
        if cluster is not None:
            raise
        guard = 'a script needs if __name__ == "__main__": around a sweep with several jobs'
        raise WorkerError(f"{error}; {guard}") from error


def run_grid(
    grid: Grid,
    store: Store,
    jobs: int | None = 1,
    report: Report | None = None,
    cluster: str | None = None,
) -> list[Row]:
    """Run the cells that the store lacks; return the rows of all, in the grid's order.

    Parameters
    ----------
    grid : Grid
        What is asked for.
    store : Store
        Where rows are kept.
    jobs : int or None
        As for `sweep`.
    report : callable, optional
        As for `sweep`.
    cluster : str, optional
        As for `sweep`.

    Returns
    -------
    list of dict
        As the store gives them.

    Raises
    ------
    HeuristicError
        If a user's heuristic failed, naming the cell.
    WorkerError
        If the system killed a worker, or a cluster cannot be reached.
    OutputError
        If a row cannot be written. In all cases, rows written before stay.
    """
    cells = grid.cells()
    keys = list(cells)
    done = store.plan(keys)
    store.rename({trace.digest: trace.name for trace in grid.traces})
    pending = [(key, cell) for key, cell in cells.items() if key not in done]
    progress = _Progress(len(done), len(keys), report)
    if pending:
        try:
            with _workers(grid, [cell for _, cell in pending], jobs, cluster) as workers:
                _execute(_batches(pending, workers.count), store, workers, progress)
        except WorkerError as error:
            raise _with_place(error, store.path) from error
    return store.rows(keys)


def _workers(
    grid: Grid, pending: Sequence[Cell], jobs: int | None, cluster: str | None
) -> AbstractContextManager[Workers]:
    """Choose who runs the cells."""
    count = min(_worth(pending) if jobs is None else jobs, len(pending))
    if cluster is None and count == 1:
        return local_workers(1)
    if not can_travel(method.given for method in grid.methods):
        return local_workers(1)
    return local_workers(count) if cluster is None else cluster_workers(cluster)


def _worth(cells: Sequence[Cell]) -> int:
    """Count the processes for which these cells are work enough."""
    slow = (cell.method.is_slow or cell.options.count_accesses for cell in cells)
    if any(slow):
        return available_cores()
    seconds = sum(cell.trace.n_calls for cell in cells) * CALL_SECONDS
    return min(available_cores(), 1 + int(seconds / WORKER_SECONDS))


def to_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Make a table of rows: the documented columns, integers nullable, text as strings."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(COLUMNS), dtype=object)
    return frame.astype(
        {
            column: "Int64"
            if column in INTEGER_COLUMNS
            else "float64"
            if column in REAL_COLUMNS
            else "string"
            for column in COLUMNS
        }
    )


@dataclass
class _Progress:
    """How many cells are finished, told to whoever wants to know."""

    done: int
    total: int
    report: Report | None

    def __post_init__(self) -> None:
        self.add(0)

    def add(self, count: int) -> None:
        """Count cells that have been written."""
        self.done += count
        if self.report is not None:
            self.report(self.done, self.total)


_Batch: TypeAlias = list[tuple[CellKey, Cell]]


@dataclass(frozen=True)
class _Outcome:
    """Rows of the first cells of a batch, and the error that the next one ended with, if any."""

    rows: list[Row]
    error: Exception | None = None


def _batches(pending: _Batch, workers: int) -> deque[_Batch]:
    """Cut the cells into batches of one trace each, small enough to keep every worker busy."""
    size = -(-len(pending) // (workers * BATCHES_PER_WORKER))
    batches: deque[_Batch] = deque()
    for _, group in groupby(pending, key=lambda item: item[1].trace.digest):
        cells = list(group)
        batches.extend(cells[start : start + size] for start in range(0, len(cells), size))
    return batches


def _execute(batches: deque[_Batch], store: Store, workers: Workers, progress: _Progress) -> None:
    """Run the batches, a few at a time, and write rows as they come; stop at the first error.

    A worker hands a batch back after a while, and what it has not run is queued again: then
    little is lost when something is killed, and no worker is left waiting for a long batch.
    """
    running: dict[Future[_Outcome], _Batch] = {}
    failure: Exception | None = None
    while running or (batches and failure is None):
        while batches and failure is None and len(running) < workers.window:
            batch = batches.popleft()
            runs = [cell.run for _, cell in batch]
            running[workers.submit(_run_batch, batch[0][1].trace, runs)] = batch
        ended = workers.wait(running)
        for future in [future for future in running if future in ended]:
            batch = running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                if workers.is_lost(error):
                    batches.appendleft(batch)
                else:  # the others' rows first
                    failure = failure or error
                continue
            _keep(outcome, batch, store, progress)
            failure = failure or _located(outcome, batch)
            if len(outcome.rows) < len(batch):
                batches.appendleft(batch[len(outcome.rows) :])
    if failure is not None:
        raise workers.explained(failure) from failure


def _keep(outcome: _Outcome, batch: _Batch, store: Store, progress: _Progress) -> None:
    """Write the rows of a batch."""
    for (key, cell), row in zip(batch, outcome.rows, strict=False):
        store.add(key, row | {"trace": cell.trace.name})
        progress.add(1)


def _located(outcome: _Outcome, batch: _Batch) -> Exception | None:
    """Say in the error of an outcome which cell it belongs to."""
    error = outcome.error
    if error is not None:
        place = f"(in the run {batch[len(outcome.rows)][1]})"
        if isinstance(error, RematsimError):
            return type(error)(f"{error} {place}")
        error.add_note(place)
    return error


def _with_place(error: WorkerError, path: Path | None) -> WorkerError:
    """Say where the rows are when workers have ended a sweep."""
    if path is None:
        return error
    kept = f"the rows finished before are in {path}, and the same sweep goes on there"
    return WorkerError(f"{error}; {kept}")


def _portable(error: Exception) -> Exception:
    """Return an error that is sure to survive the way to another process."""
    if isinstance(error, RematsimError | MemoryError):
        return error
    described = RuntimeError(f"{type(error).__name__}: {error}")
    described.add_note("".join(traceback.format_exception(error)))
    return described


def _run_batch(trace: Trace, runs: list[Run]) -> _Outcome:
    """Do runs of one trace in order, for a while, at least one."""
    trace = _known(trace)
    rows: list[Row] = []
    start = time.perf_counter()
    for run in runs:
        try:
            rows.append(_row(trace, run))
        except Exception as error:
            return _Outcome(rows, _portable(error))
        if time.perf_counter() - start > BATCH_SECONDS:
            break
    return _Outcome(rows)


def _row(trace: Trace, run: Run) -> Row:
    """Do one run."""
    from .bounds import with_bound
    from .planning import plan_trace
    from .simulation import simulate

    if not isinstance(run.method, StaticMethod):
        heuristic = get(run.method)
        if heuristic.source != run.source:
            raise HeuristicError(f"{run.method}: its file has changed, or is another one here")
        result = simulate(trace, heuristic, run.budget, **asdict(run.options))
        return with_bound(trace, result, cached=run.options.cached).row
    return plan_trace(
        trace,
        run.method.planner,
        run.budget,
        time_limit=run.method.time_limit,
        seed=run.options.seed,
        memory=run.options.memory,
        link=run.options.link,
        interruptible=False,  # what is cut short is no row: the sweep ends
        cached=run.options.cached,
    ).row.row


_KNOWN: deque[Trace] = deque(maxlen=2)


def _known(trace: Trace) -> Trace:
    """Return the copy of a trace that this process has compiled already, if it has."""
    for known in _KNOWN:
        if known.digest == trace.digest:
            return known
    _KNOWN.append(trace)
    return trace


def _loaded(traces: Trace | str | Path | Iterable[Trace | str | Path]) -> list[Trace]:
    """Load what is not a Trace yet."""
    from .traces.loading import load_traces
    from .traces.trace import Trace

    is_one = isinstance(traces, str | Path) or not isinstance(traces, Iterable)
    items: Any = [traces] if is_one else traces
    loaded: list[Trace] = []
    for item in items:
        if isinstance(item, str | Path):
            loaded.extend(load_traces([item]))
        elif isinstance(item, Trace):
            loaded.append(item)
        else:
            raise InputError(f"trace {item!r}: a Trace or the path of one")
    return loaded
