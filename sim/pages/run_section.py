"""What a report says of one run: its event log for the page, and tables for every reader.

The numbers are those of `rematsim explain` (`explaining.py`); nothing is simulated here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..opcodes import EVICT
from ..overheads import summed
from ..result import NO_LINK, named
from ..scores import FORCED
from ..story import NONE
from ..texts import format_bytes, format_count, format_ns
from .content import MOST_ROWS, Column, Fact, Section, Table, shown
from .packing import floats, places
from .run_chart import CallNames, chart

if TYPE_CHECKING:
    from ..explaining import Explanation
    from ..result import RunResult

MOST_WORTHS = 200
MOST_MESSAGE = 400  # letters


def run_section(told: Explanation) -> Section:
    """Make the section of one run.

    Parameters
    ----------
    told : Explanation
        Of a run with an event log.

    Returns
    -------
    Section
    """
    run = told.result
    names = CallNames(told.story)
    storages = list(map(shown, told.story.storages["name"].tolist()))
    tables = [
        *_overheads(told),
        _evictions(told, names, storages),
        _recomputations(told, names),
        _worths(told),
    ]
    return Section(
        kind="run",
        title=f"{shown(named(run.trace, run.times))}: {shown(run.method)}",
        facts=facts(run),
        provenance=[(name, _value(value)) for name, value in run.row.items()],
        tables=[table for table in tables if table.n_rows],
        chart=chart(told.story, names, storages),
        told=told,
    )


def facts(run: RunResult) -> list[Fact]:
    """Say of a run what matters most."""
    fraction = "-"
    if run.budget_bytes is not None and run.unlimited_peak_bytes:
        fraction = f"{run.budget_bytes / run.unlimited_peak_bytes:.3g}"
    found = [
        ("status", run.status),
        ("slowdown", "-" if run.slowdown is None else f"{run.slowdown:.4f}"),
        ("budget", format_bytes(run.budget_bytes)),
        ("of the unlimited peak", fraction),
        ("peak", format_bytes(run.peak_bytes)),
        ("own compute", format_ns(run.model_ns)),
        ("overhead", format_ns(run.remat_ns + run.stall_ns + run.search_ns)),
        ("recomputed calls", format_count(run.rematerializations)),
        ("evictions", format_count(run.evictions)),
        ("for lack of memory", format_count(run.pressure_evictions)),
    ]
    if run.link not in (None, NO_LINK):
        found.append(("moved to the host", format_bytes(run.offloaded_bytes)))
        found.append(("moved back", format_bytes(run.prefetched_bytes)))
    if run.bound_slowdown is not None:
        found.append(("lower bound", f"{run.bound_slowdown:.4f}"))
    if run.message:
        found.append(("why it ended", shown(run.message, MOST_MESSAGE)))
    return found


def _value(value: object) -> str:
    """Write a value of a row exactly."""
    return "-" if value is None else shown(value)


def _overheads(told: Explanation) -> list[Table]:
    """Say where the overhead goes, by module and by operator."""
    total = sum(part.total_ns for part in told.overhead)
    tables = []
    for field in ("module", "operator"):
        parts = summed(told.overhead, (field,))
        if not total or not any(getattr(part, field) for part in parts):
            continue
        kept = parts[:MOST_ROWS]
        columns = [
            Column(field, "text", [shown(getattr(part, field)) for part in kept]),
            Column("calls", "count", floats([part.remats for part in kept])),
            Column("recomputation", "ns", floats([part.remat_ns for part in kept])),
            Column("stalls", "ns", floats([part.stall_ns for part in kept])),
            Column("search", "ns", floats([part.search_ns for part in kept])),
            Column("share", "share", floats([part.total_ns / total for part in kept])),
        ]
        note = "What was added to the model's own compute; the rows add up to all of it."
        tables.append(Table(f"overhead-{field}", f"Overhead by {field}", note, columns, len(parts)))
    return tables


def _evictions(told: Explanation, names: CallNames, storages: list[str]) -> Table:
    """List what left memory for lack of room."""
    events = told.story.events
    is_online = told.result.kind == "online"
    rows = np.flatnonzero(np.isin(events["action"], FORCED if is_online else EVICT))
    kept = rows[:MOST_ROWS]
    columns = [
        Column("time", "ns", floats(events["start_ns"][kept])),
        Column("storage", "text", places(events["storage"][kept]), storages),
        Column("bytes", "bytes", floats(events["bytes"][kept])),
        Column("score", "number", floats(events["score"][kept])),
        Column("for", "text", names.places_of(events["cause_call"][kept]), names.texts),
    ]
    note = "What was evicted for lack of memory, and the call that needed the room."
    if not is_online:
        note = "What the plan freed to compute it again later."
    return Table("evictions", "Evictions", note, columns, len(rows), places(kept))


def _recomputations(told: Explanation, names: CallNames) -> Table:
    """List the calls that ran again."""
    causes, steps = told.causes, told.story.steps
    again = [number for number, step in enumerate(steps) if step.is_again]
    kept = again[:MOST_ROWS]
    first = [causes.first_reader(number) for number in kept]
    readers = np.array([NONE if n == NONE else steps[n].call for n in first], np.int64)
    calls = np.array([steps[n].call for n in kept], np.int64)
    columns = [
        Column("time", "ns", floats([steps[n].start_ns for n in kept])),
        Column("call", "text", names.places_of(calls), names.texts),
        Column("cost", "ns", floats([steps[n].cost_ns for n in kept])),
        Column("in all", "ns", floats([causes.in_all_ns[n] for n in kept])),
        Column("needed by", "text", names.places_of(readers), names.texts),
    ]
    note = "Calls that ran again; in all: with what had to be computed first, and for it only."
    events = places([steps[n].last_row for n in kept])
    return Table("recomputations", "Recomputations", note, columns, len(again), events)


def _worths(told: Explanation) -> Table:
    """List the storages whose evictions cost most per byte."""
    worths = told.worths[:MOST_WORTHS]
    columns = [
        Column("storages", "text", [shown(" ".join(worth.names)) for worth in worths]),
        Column("module", "text", [shown(worth.module) for worth in worths]),
        Column("operator", "text", [shown(worth.operator) for worth in worths]),
        Column("bytes", "bytes", floats([worth.bytes for worth in worths])),
        Column("again", "count", floats([worth.returns for worth in worths])),
        Column("cost", "ns", floats([worth.cost_ns for worth in worths])),
        Column("per MiB", "ns", floats([round(w.ns_per_byte * 2**20) for w in worths])),
    ]
    note = "What it cost to bring storages back: what a little more memory would buy."
    return Table("worths", "The dearest bytes", note, columns, len(told.worths))
