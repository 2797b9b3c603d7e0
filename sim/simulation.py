"""`simulate`: one run of a trace under a budget with an online heuristic, from names to a row."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import choosing, compiled, report, windows
from .budgets import Budget, parse_budget
from .errors import HeuristicError, UnknownNameError, UsageError
from .heuristics.methods import get
from .heuristics.registry import AHEAD, Heuristic, place_of
from .jit import Entry, inlineable, is_compiling
from .links import NO_LINK, find_link, parse_link
from .lowering import MUTATIONS
from .memory_models import ARENA, CACHING, COUNTER, find_memory, parse_memory
from .opcodes import DEALLOCATIONS, OK, STATUSES
from .partition import sides
from .pythonchoice import PythonScan
from .result import RunResult, slowdown
from .runner import Chooser, Run, Settings, remat_limit_ns
from .state import NEEDS_ANCESTORS, NEEDS_CLASSES, NEEDS_DESCENDANTS
from .traces.loading import load_trace
from .traces.trace import Trace
from .workload import Workload, workload

UPKEEP = NEEDS_ANCESTORS | NEEDS_DESCENDANTS | NEEDS_CLASSES
FAILED = "Failed in nopython mode"
DEFAULT_HEURISTIC = "h_DTR_eq"
MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class Options:
    """How a trace is run, the trace, heuristic and budget aside.

    Attributes
    ----------
    deallocation : {"eager", "banish", "ignore"}
        What the program's releases do (docs/semantics.md, 5).
    slowdown_limit : float or None
        A run whose slowdown exceeds it has thrashed; None: no limit.
    seed : int
        For heuristics that draw random numbers.
    mutation : {"copy", "inplace"}
        Whether the new value of a mutated operand is a copy.
    memory : str
        The memory model, with its settings: ``counter``, ``arena``, ``arena(small_area=10MiB)``
        (docs/semantics.md, 7).
    link : str
        What connects device and host (`links`), for methods that move data.
    count_accesses : bool
        Whether to run the plain algorithm and count its work; slow.
    event_log : bool
        Whether to keep every action.
    live_sets : bool
        Whether to say what is in memory at the peak, and at an out-of-memory.
    cached : bool
        Whether the compiled trace may be kept on disk.
    """

    deallocation: str = "eager"
    slowdown_limit: float | None = 2.0
    seed: int = 0
    mutation: str = "copy"
    memory: str = COUNTER
    link: str = NO_LINK
    count_accesses: bool = False
    event_log: bool = False
    live_sets: bool = False
    cached: bool = True

    def __post_init__(self) -> None:
        """Check what can be checked without a trace."""
        for name, known in (("deallocation", DEALLOCATIONS), ("mutation", MUTATIONS)):
            given = getattr(self, name)
            if given not in known:
                raise UnknownNameError(f"{name} {given!r}: it is one of {', '.join(known)}")
        object.__setattr__(self, "memory", parse_memory(self.memory))
        object.__setattr__(self, "link", parse_link(self.link))
        limit: object = self.slowdown_limit
        seed: object = self.seed
        if limit is not None and not (
            isinstance(limit, int | float | np.number) and 1.0 <= limit < math.inf
        ):
            raise UsageError(
                f"slowdown limit ({limit!r}): it is a number from 1, or none for no limit"
            )
        if not isinstance(seed, int | np.integer) or not 0 <= seed <= MAX_SEED:
            raise UsageError(f"seed {seed!r}: a whole number from 0 to {MAX_SEED}")
        for name in ("count_accesses", "event_log", "live_sets", "cached"):
            flag = getattr(self, name)
            if not isinstance(flag, bool | np.bool_):
                raise UsageError(f"{name} ({flag!r}): it is True or False")


def simulate(
    trace: Trace | str | Path,
    heuristic: Any = DEFAULT_HEURISTIC,
    budget: Any = "unlimited",
    **options: Any,
) -> RunResult:
    """Replay a trace under a memory budget with an online eviction heuristic.

    Parameters
    ----------
    trace : Trace, str or Path
        What the model did, or the file to read it from.
    heuristic : str, callable or Heuristic
        A built-in's name, ``"file.py:function"``, or a function ``(state, s) -> float``: the
        storage with the lowest value is evicted.
    budget : str, int, float or Budget
        All bytes at once, constants and outputs included: ``"6GiB"``, an int of bytes, ``"0.5x"``
        or a float as a fraction of the unlimited peak, or ``"unlimited"``.
    **options
        The fields of `Options`: ``deallocation, slowdown_limit, seed, mutation, memory,
        link, count_accesses, event_log, live_sets, cached``.

    Returns
    -------
    RunResult
        Out of memory and thrashing are results: see ``status``.

    Raises
    ------
    InputError
        If the log or the heuristic is not what it should be; `UsageError`, if the budget or an
        option is not.

    Examples
    --------
    >>> from rematsim.traces.synthetic import chain
    >>> result = simulate(chain(6), "h_LRU", budget=5)
    >>> result.status, result.peak_bytes, result.model_ns, result.remat_ns
    ('ok', 5, 12, 2)
    """
    if not isinstance(trace, Trace):
        trace = load_trace(trace)
    if unknown := sorted(set(options) - set(Options.__dataclass_fields__)):
        known = ", ".join(Options.__dataclass_fields__)
        raise UsageError(f"option {', '.join(unknown)}: the options are {known}")
    chosen = Options(**options)
    work = workload(trace, chosen.mutation, cached=chosen.cached)
    return replay(work, get(heuristic), parse_budget(budget), chosen)


def replay(work: Workload, heuristic: Heuristic, budget: Budget, options: Options) -> RunResult:
    """Do one run of a workload; `simulate` for callers that have everything at hand."""
    started = time.perf_counter()
    budget_bytes = budget.resolve(work.unlimited_peak_bytes)
    settings = settings_for(work, heuristic, budget_bytes, options)
    chooser = chooser_for(work, heuristic, options)
    run = Run(work.program, settings)
    run.finish(chooser)
    run_seconds = time.perf_counter() - started
    result = _result(work, heuristic, budget, options, run, run_seconds)
    if options.live_sets:
        live = report.live_sets(work, run, settings, lambda again: again.finish(chooser))
        result = dataclasses.replace(result, **live)  # type: ignore[arg-type]
    if not options.event_log:
        run.close()
    return result


def settings_for(
    work: Workload, heuristic: Heuristic, budget_bytes: int | None, options: Options
) -> Settings:
    """Put what a run is asked for into the engine's terms."""
    check_memory(heuristic, options)
    walks_afresh = options.count_accesses or _is_partial(heuristic)
    needs = heuristic.needs_bits
    memory = find_memory(options.memory)
    return Settings(
        budget_bytes=budget_bytes,
        policy=DEALLOCATIONS.index(options.deallocation),
        remat_limit_ns=remat_limit_ns(work.program, options.slowdown_limit),
        needs=needs,
        upkeep=0 if walks_afresh else needs & UPKEEP,
        seed=options.seed,
        in_place=options.mutation == "inplace",
        logs_events=options.event_log,
        memory=memory.model,
        memory_settings=memory.settings,
        sides=sides(work.trace, work.program, heuristic.partition),
        drops_intermediates=heuristic.drops_intermediates,
        link=find_link(link_of(heuristic, options)),
        prefetches=heuristic.moves == AHEAD,
    )


def link_of(heuristic: Heuristic, options: Options) -> str:
    """Give the link of a run: none where the heuristic does not move data."""
    return options.link if heuristic.moves else NO_LINK


def check_memory(heuristic: Heuristic, options: Options) -> None:
    """Refuse a heuristic that needs addresses where memory has none, or that knows none.

    Raises
    ------
    HeuristicError
        If it needs them.
    UsageError
        If it moves data, and memory has addresses.
    """
    if heuristic.needs_addresses and not find_memory(options.memory).has_addresses:
        raise HeuristicError(
            f"{heuristic.name}: memory {options.memory}: it evicts neighbors by address: "
            f"give memory={ARENA} (--memory {ARENA}), or {CACHING}"
        )
    if link_of(heuristic, options) != NO_LINK and find_memory(options.memory).has_addresses:
        raise UsageError(
            f"memory {options.memory}: {heuristic.name} moves data over {options.link}, and is "
            f"replayed with {COUNTER}: give memory={COUNTER}, or no link"
        )


def _is_partial(heuristic: Heuristic) -> bool:
    return heuristic.samples or heuristic.least_size > 0


def chooser_for(work: Workload, heuristic: Heuristic, options: Options) -> Chooser:
    """Get what finds a run's victims: compiled, or Python where that cannot be."""

    def name(s: int) -> str:
        return report.storage_names(work.trace, work.program)[s]

    scan = PythonScan(heuristic, options.count_accesses, name)
    if heuristic.source and not is_compiling():
        return Chooser(compiled.choose_in_python(), scan)
    model = find_memory(options.memory).model if heuristic.kind == "window" else ""
    made = _compiled(heuristic, options.count_accesses, model)
    place = place_of(heuristic.function)
    if isinstance(made, Entry):
        return Chooser(made, None, scan, place)
    if _is_partial(heuristic):
        raise HeuristicError(f"{place}: {heuristic.name} needs a function that compiles: {made}")
    warnings.warn(
        f"{place}: {heuristic.name} cannot be compiled and runs in Python, slowly: {made}",
        stacklevel=2,
    )
    return Chooser(compiled.choose_in_python(), scan)


def _reason(error: Exception) -> str:
    """Give the telling line of a compiler's long message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # The cause stands behind the innermost of these; each call on the way there repeats them.
    heads = [place for place, line in enumerate(lines[:-2]) if FAILED in line]
    reason, detail = (lines[heads[-1] + 1 :][:2]) if heads else (lines[0], "")
    return f"{reason} {detail.lstrip('> ')}" if reason.endswith(":") else reason


@functools.lru_cache(maxsize=256)
def _compiled(heuristic: Heuristic, counts: bool, model: str) -> Entry | str:
    """Compile the `choose` of a heuristic, or load it; say why a user's cannot be compiled.

    ``model`` is the memory model where the choice depends on it, or empty.
    """
    is_foreign = bool(heuristic.source)
    facts = {f.name: getattr(heuristic, f.name) for f in dataclasses.fields(heuristic)}
    facts["function"] = getattr(heuristic.function, "__qualname__", "")
    name = f"{heuristic.name} {counts} {model} {facts}"
    try:
        return compiled.choose(_made(heuristic, counts, model), name, cached=not is_foreign)
    except Exception as error:  # compilers fail in many ways
        if not is_foreign:
            raise
        return _reason(error)


def _made(heuristic: Heuristic, counts: bool, model: str) -> choosing.Choose:
    """Make the scan that a heuristic asks for."""
    function = inlineable(heuristic.function)
    needs = heuristic.needs_bits
    if heuristic.kind == "random":
        return choosing.make_random_choose()
    if heuristic.kind == "window":
        is_cut = model == CACHING
        make = windows.make_segment_choose if is_cut else windows.make_window_choose
        return make(function, needs, counts)
    if _is_partial(heuristic):
        return choosing.make_sampling_choose(
            function, needs, heuristic.samples, heuristic.least_size
        )
    if counts:
        return choosing.make_plain_choose(function, needs)
    return choosing.make_fast_choose(function, needs, heuristic.is_monotone, bool(heuristic.moves))


def _result(
    work: Workload,
    heuristic: Heuristic,
    budget: Budget,
    options: Options,
    run: Run,
    run_seconds: float,
) -> RunResult:
    is_ok = run.code == OK
    facts = run.facts()
    ran, counts = report.columns_of_run(run), options.count_accesses
    return RunResult(
        **report.columns_of_work(work, budget),
        **ran,
        kind="online",
        method=heuristic.name,
        deallocation=options.deallocation,
        memory=options.memory,
        link=link_of(heuristic, options),
        search_steps=facts["search_steps"],
        slowdown_limit=options.slowdown_limit,
        seed=options.seed if heuristic.is_random else None,
        status=STATUSES[run.code],
        slowdown=slowdown(facts["model_ns"], facts["remat_ns"], ran["stall_ns"]) if is_ok else None,
        evaluations=facts["evaluations"] if counts else None,
        metadata_accesses=facts["metadata_accesses"] if counts else None,
        run_seconds=run_seconds,
        failed_at=None if is_ok else facts["instruction"],
        message="" if is_ok else report.failure_message(work.trace, run),
        events=report.event_columns(run) if options.event_log else None,
        storages=report.storage_columns(work.trace, work.program) if options.event_log else None,
    )
