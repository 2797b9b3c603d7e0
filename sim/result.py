"""What a run gives: one row of named columns, and on request its event log and storage table.

Nothing is simulated here. ``COLUMNS`` is the contract with tables, plots and other people's
programs; more columns may follow at the end.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError
from .files import write_atomically
from .showing import ShownRun

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .traces.trace import Trace

    Columns = dict[str, NDArray[Any]]

EVENT_COLUMNS = (
    "start_ns",
    "end_ns",
    "stream",
    "action",
    "call",
    "storage",
    "bytes",
    "score",
    "cause_call",
    "address",
    "memory_after_bytes",
    "reserved_after_bytes",
    "host_after_bytes",
    "tensor",
    "instruction",
)
LATER_EVENT_COLUMNS = ("instruction",)  # not in files written before there were transfers
STORAGE_COLUMNS = ("name", "bytes", "category", "module", "operator")
CATEGORIES = ("constant", "output", "forward", "backward")
RUN_FORMAT = "rematsim run 1"

# What may differ between two runs of one method on one trace, budget and seed aside.
OPTIONS = ("mutation", "deallocation", "memory", "slowdown_limit")
OPTIONS_OF_PLANS = ("memory",)  # of these, what can change the row of a plan
# The link of runs that have none to the host; a link can change what planners that move data plan.
NO_LINK = "none"

ESTIMATED = " (times estimated)"


@dataclass(frozen=True)
class LiveSet:
    """What is in memory at one moment.

    Attributes
    ----------
    categories : dict of str to int
        Bytes of constants, outputs, and the rest by whether it was made before or after BACKWARD;
        also the workspace and second copies of the call that runs, where there are some.
    locked : list of (str, int)
        The calls under way, outermost first, with the bytes that each holds as operands.
    """

    categories: dict[str, int]
    locked: list[tuple[str, int]]

    @property
    def total_bytes(self) -> int:
        """Everything in memory."""
        return sum(self.categories.values())


@dataclass(frozen=True, repr=False)
class RunResult(ShownRun):
    """One run of a trace under a budget.

    The fields down to ``calls`` are the columns of every table, in order.

    Attributes
    ----------
    trace, trace_digest : str
        The trace's name, and the digest of what it says.
    kind, method : str
        ``online`` and the heuristic, or ``static`` and the planner.
    deallocation, mutation, memory : str
        What releases do (``plan`` where a plan frees); how mutated operands are lowered; the memory
        model.
    slowdown_limit : float or None
        A run whose slowdown exceeds it has thrashed; None: no limit.
    budget_bytes, budget_fraction : int or None, float or None
        All bytes at once; the fraction of the unlimited peak that was asked for, if one was.
    unlimited_peak_bytes : int
        Peak of the run without a budget, under banish.
    seed : int or None
        None where the method is deterministic.
    status : str
        ``ok``, ``oom``, ``thrashed`` (online), ``refused``, ``infeasible`` or ``no_plan`` (static).
    model_ns, remat_ns, stall_ns, search_ns : int
        Compute of the model and of rematerialization, waiting for transfers, charged search.
    slowdown : float or None
        All of these over the model's own compute; None unless the run ended ok.
    clock : int
        Reading of the clock at the end, which starts at 1; ns.
    peak_bytes : int
        Most bytes at once, workspace included.
    evictions, pressure_evictions : int
        All of them, and those that memory forced.
    evict_sha : str
        First 16 hex digits of the SHA-256 of the evicted storages' root tensors, in order.
    rematerializations : int
        Calls that ran again.
    evaluations, metadata_accesses : int or None
        Work of the plain algorithm, where it was asked for (``count_accesses``).
    run_seconds : float
        Time that the simulation took.
    base_compute_ns : int
        The model's own compute, all of it.
    failed_at : int or None
        Instruction of the Program, or action of the plan, at which a run that is not ok ended.
    message : str
        One line about a run that is not ok.
    times : str
        ``measured``, or ``estimated``: the trace's times are a cost model's.
    planner_status : str or None
        How the planner ended (``heuristics.static.registry``); None for other runs, as below.
    bound_slowdown : float or None
        Nothing within the budget is faster; see ``docs/columns.md``.
    gap : float or None
        How far the run, or the execution of the plan, is above that bound, as a fraction of it.
    solve_seconds : float or None
        Time that planning took.
    predicted_slowdown, predicted_peak_bytes : float or None, int or None
        What the static graph predicts for the plan.
    time_limit : float or None
        Seconds that planning was allowed; None: no limit.
    calls : int or None
        Calls of the trace; None in files written before there was this column.
    reserved_peak_bytes : int or None
        Most bytes taken from the device; this and the next two are of memory models with addresses.
    fragmentation : float or None
        Mean, over the calls for which something was evicted, of the bytes free then over the
        budget.
    largest_hole_bytes : int or None
        The largest free piece when memory ran out.
    search_steps : int or None
        Storages or pieces considered as victims, all choices together; None of plans.
    retries : int or None
        How often a request was tried again after room had been made.
    link : str or None
        What connects the device to the host, ``none`` if nothing does (`links`).
    offloaded_bytes, prefetched_bytes : int or None
        Bytes copied to the host and from it.
    host_peak_bytes : int or None
        Most bytes on the host at once.
    events, storages : dict of arrays or None
        ``EVENT_COLUMNS`` and ``STORAGE_COLUMNS``, where an event log was asked for.
    live_at_peak, live_at_oom : LiveSet or None
        What was in memory then, where it was asked for.
    file : str
        Where the run was read, for messages.
    """

    trace: str
    trace_digest: str
    kind: str
    method: str
    deallocation: str
    mutation: str
    memory: str
    slowdown_limit: float | None
    budget_bytes: int | None
    budget_fraction: float | None
    unlimited_peak_bytes: int
    seed: int | None
    status: str
    model_ns: int
    remat_ns: int
    stall_ns: int
    search_ns: int
    slowdown: float | None
    clock: int
    peak_bytes: int
    evictions: int
    pressure_evictions: int
    evict_sha: str
    rematerializations: int
    evaluations: int | None
    metadata_accesses: int | None
    run_seconds: float
    base_compute_ns: int
    failed_at: int | None
    message: str
    times: str
    planner_status: str | None = None
    bound_slowdown: float | None = None
    gap: float | None = None
    solve_seconds: float | None = None
    predicted_slowdown: float | None = None
    predicted_peak_bytes: int | None = None
    time_limit: float | None = None
    calls: int | None = None
    reserved_peak_bytes: int | None = None
    fragmentation: float | None = None
    largest_hole_bytes: int | None = None
    search_steps: int | None = None
    retries: int | None = None
    link: str | None = None
    offloaded_bytes: int | None = None
    prefetched_bytes: int | None = None
    host_peak_bytes: int | None = None
    events: Columns | None = field(default=None, repr=False, compare=False)
    storages: Columns | None = field(default=None, repr=False, compare=False)
    live_at_peak: LiveSet | None = field(default=None, repr=False, compare=False)
    live_at_oom: LiveSet | None = field(default=None, repr=False, compare=False)
    file: str = field(default="", repr=False, compare=False)

    @property
    def row(self) -> dict[str, object]:
        """The columns, in order."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def overhead(self) -> float | None:
        """Slowdown minus 1."""
        return None if self.slowdown is None else self.slowdown - 1

    def logged(self, name: str = "") -> tuple[Columns, Columns]:
        """Give the event log and the storage table; ``name`` is what a message calls the run.

        Raises
        ------
        InputError
            If the run kept none.
        """
        if self.events is None or self.storages is None:
            raise InputError(
                f"{name or self.file or 'run'}: no event log in it; run again with one "
                "(event_log=True, --save-run)"
            )
        return self.events, self.storages

    def check_trace(self, trace: Trace) -> None:
        """Raise an InputError for a trace that the run is not of."""
        if self.trace_digest != trace.digest:
            raise InputError(
                f"{self.file or 'run'}: it is of the trace {self.trace!r} "
                f"({self.trace_digest[:16]}), not of {trace.name!r} ({trace.digest[:16]})"
            )

    def save(self, path: str | Path) -> None:
        """Write row, event log and storage table into one file.

        Raises
        ------
        InputError
            If the run kept no event log.
        OutputError
            If the file cannot be written; then there is none.
        """
        import numpy as np

        events, storages = self.logged(str(path))
        head = {
            "format": RUN_FORMAT,
            "row": self.row,
            "live_at_peak": self.live_at_peak and dataclasses.asdict(self.live_at_peak),
            "live_at_oom": self.live_at_oom and dataclasses.asdict(self.live_at_oom),
        }
        arrays: dict[str, Any] = {f"events.{k}": v for k, v in events.items()}
        arrays |= {f"storages.{k}": v for k, v in storages.items()}
        text = np.frombuffer(json.dumps(head).encode(), np.uint8)
        with write_atomically(path) as file:
            np.savez_compressed(file, head=text, **arrays)


COLUMNS = tuple(
    f.name
    for f in dataclasses.fields(RunResult)
    if f.name not in ("events", "storages", "live_at_peak", "live_at_oom", "file")
)

# Columns that files written before there were plans do not have.
LATER_COLUMNS = COLUMNS[COLUMNS.index("planner_status") :]


def shared_names(traces: Iterable[tuple[str, str]]) -> set[str]:
    """Find the names that several traces have, of pairs of name and digest."""
    counts = Counter(name for name, _ in set(traces))
    return {name for name, count in counts.items() if count > 1}


def told_apart(name: str, digest: str, shared: Collection[str]) -> str:
    """Put the start of the digest behind a name that several traces have.

    Examples
    --------
    >>> told_apart("gpt", "0123456789abcdef", {"gpt"})
    'gpt (01234567)'
    """
    return f"{name} ({digest[:8]})" if name in shared else name


def named(trace: str, times: str) -> str:
    """Name a trace for a reader, who has to know if its times are estimated.

    Examples
    --------
    >>> named("llama", "estimated")
    'llama (times estimated)'
    """
    is_marked = times != "estimated" or trace.endswith(ESTIMATED)
    return trace if is_marked else trace + ESTIMATED


def slowdown(model_ns: int, remat_ns: int, stall_ns: int = 0, search_ns: int = 0) -> float:
    """Give (own compute + rematerialization + stalls + search) / own compute; 1 if that is 0.

    Examples
    --------
    >>> slowdown(100, 25)
    1.25
    """
    if model_ns == 0:
        return 1.0
    return (model_ns + remat_ns + stall_ns + search_ns) / model_ns


def gap(slowdown: float | None, bound_slowdown: float | None) -> float | None:
    """Say how far a run is above a lower bound, as a fraction of the bound.

    Examples
    --------
    >>> gap(1.5, 1.2), gap(None, 1.2)
    (0.25, None)
    """
    if slowdown is None or bound_slowdown is None:
        return None
    return slowdown / bound_slowdown - 1


def load_run(path: str | Path) -> RunResult:
    """Read what `RunResult.save` wrote.

    Raises
    ------
    InputError
        If the file is not a saved run, or is damaged.
    """
    from .saved_runs import read_run

    return RunResult(**read_run(path), file=str(path))
