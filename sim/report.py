"""From a run's State to what a reader sees: event and storage columns, what is live, messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .budgets import Budget
from .engine import ONLY_RETURN, REACHED_BYTES
from .memory import LARGEST_HOLE
from .opcodes import (
    COMPUTE,
    CONSTANT,
    DEALLOCATE,
    DISCARD,
    DROP_DUPLICATE,
    EVICT,
    OFFLOAD,
    OOM,
    PHASES,
    PREFETCH,
    RECOMPUTE,
    SAVE,
    STALL,
    STREAMS,
)
from .program import BEGIN_BACKWARD, RUN_CALL, Program
from .result import CATEGORIES, LiveSet
from .runner import Run, Settings
from .state import EVICTED, PINNED, RESIDENT, REVIVED
from .texts import format_ns
from .traces.trace import Trace
from .traffic import NOT_YET
from .workload import Workload

UNKNOWN = -1

# The columns of `columns_of_run` where nothing was run.
NO_RUN: dict[str, Any] = {
    "model_ns": 0,
    "remat_ns": 0,
    "stall_ns": 0,
    "search_ns": 0,
    "clock": 1,
    "peak_bytes": 0,
    "evictions": 0,
    "pressure_evictions": 0,
    "evict_sha": "",
    "rematerializations": 0,
    "offloaded_bytes": 0,
    "prefetched_bytes": 0,
    "host_peak_bytes": 0,
}


def columns_of_work(work: Workload, budget: Budget) -> dict[str, Any]:
    """Fill in what a row says of what was run, and of the budget."""
    return {
        "trace": work.trace.name,
        "trace_digest": work.trace.digest,
        "calls": work.trace.n_calls,
        "mutation": work.mutation,
        "budget_bytes": budget.resolve(work.unlimited_peak_bytes),
        "budget_fraction": budget.fraction,
        "unlimited_peak_bytes": work.unlimited_peak_bytes,
        "base_compute_ns": work.program.base_compute_ns,
        "times": "estimated" if work.trace.times_estimated else "measured",
    }


def columns_of_run(run: Run) -> dict[str, Any]:
    """Fill in what a row says of what happened."""
    facts = run.facts()
    counted = ("model_ns", "remat_ns", "evictions", "pressure_evictions", "rematerializations")
    return {
        **NO_RUN,
        **{name: facts[name] for name in counted},
        "clock": int(run.state.next_free[0]),
        "peak_bytes": int(run.state.room["peak_bytes"]),
        "evict_sha": run.evict_sha,
        **_columns_of_space(run),
        **_columns_of_link(run),
    }


def _columns_of_space(run: Run) -> dict[str, Any]:
    """Fill in what a row says of addresses, where there are any."""
    if not run.has_addresses:
        return {}
    space = run.state.space[0]
    crowded = int(space.crowded)
    return {
        "reserved_peak_bytes": int(space.reserved_peak_bytes),
        "fragmentation": int(space.crowded_free_bytes)
        / crowded
        / int(run.state.room["budget_bytes"])
        if crowded
        else None,
        "largest_hole_bytes": run.ask_memory(LARGEST_HOLE) if run.code == OOM else None,
        "retries": int(space.retries),
    }


def _columns_of_link(run: Run) -> dict[str, Any]:
    """Fill in what a row says of transfers, if there are any."""
    if not run.has_transfers:
        return {}
    names = ("stall_ns", "offloaded_bytes", "prefetched_bytes", "host_peak_bytes")
    return {name: int(run.state.link[name][0]) for name in names}


def event_columns(run: Run) -> dict[str, Any]:
    """Lay out the event log as the documented columns."""
    rows = run.events()
    if run.has_transfers and not run.is_online:  # those of online runs are in order
        rows = _by_time(np.concatenate([rows, _never_begun(run, rows.dtype)]))
    count = len(rows)
    columns = {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
    columns["stream"] = np.zeros(count, np.int32)
    columns["stream"][np.isin(rows["action"], (OFFLOAD, SAVE))] = STREAMS.index("to_host")
    columns["stream"][rows["action"] == PREFETCH] = STREAMS.index("from_host")
    if not run.has_addresses:
        columns["address"] = np.full(count, UNKNOWN, np.int64)
        columns["reserved_after_bytes"] = columns["memory_after_bytes"]
    return columns


def _never_begun(run: Run, dtype: Any) -> Any:
    """Give rows, of no bytes, of what was issued in a run that failed and never came about."""
    transfers = run.state.transfers[: int(run.state.link["issued"][0])]
    left = transfers[transfers["has_ended"] == 0]
    late = left[left["discarded_by"] != NOT_YET]
    rows = np.zeros(len(left) + len(late), dtype)
    rows["action"][: len(left)] = np.where(left["is_to_host"] == 1, OFFLOAD, PREFETCH)
    rows["action"][len(left) :] = DISCARD
    rows["storage"] = np.concatenate([left["storage"], late["storage"]])
    rows["instruction"] = np.concatenate([left["instruction"], late["discarded_by"]])
    rows["start_ns"] = rows["end_ns"] = run.state.next_free[0] - 1
    rows["host_after_bytes"] = run.state.link["host_bytes"][0]
    rows["address"] = UNKNOWN
    rows["reserved_after_bytes"] = run.state.space["reserved_bytes"][0]
    rows["call"] = rows["tensor"] = rows["cause_call"] = -1
    rows["score"] = np.nan
    return rows


def _by_time(rows: Any) -> Any:
    """Put rows in the order in which memory changes: when an offload or a stall ends, others begin.

    Second copies, which go when their call ends, are logged when it begins.
    """
    is_late = np.isin(rows["action"], (OFFLOAD, STALL))
    when = np.where(is_late, rows["end_ns"], rows["start_ns"])
    rows = rows[np.argsort(when, kind="stable")]
    sign = np.zeros(len(rows), np.int64)
    sign[np.isin(rows["action"], (COMPUTE, RECOMPUTE, PREFETCH))] = 1
    sign[np.isin(rows["action"], (DROP_DUPLICATE, EVICT, DEALLOCATE, OFFLOAD))] = -1
    rows["memory_after_bytes"] = np.cumsum(sign * rows["bytes"])
    places = np.arange(len(rows))
    places[rows["action"] == DROP_DUPLICATE] = 0
    rows["reserved_after_bytes"] = rows["reserved_after_bytes"][np.maximum.accumulate(places)]
    return rows


def storage_names(trace: Trace, program: Program) -> list[str]:
    """Give each storage the name that its first tensor had first; its views may have others."""
    constants = iter(trace.instructions[trace.instructions[:, 0] == CONSTANT, 1].tolist())
    roots = program.storages["root"][:-1]
    calls = program.calls[program.tensors["call"][roots]]
    places = roots - calls["first_result"]
    return [
        trace.names[next(constants)] if origin < 0 else _result_name(trace, origin, place)
        for origin, place in zip(calls["origin"].tolist(), places.tolist(), strict=True)
    ]


def _result_name(trace: Trace, call: int, place: int) -> str:
    """Name a call's result; a mutated operand's new value has none of its own."""
    first, end = trace.result_offsets[call], trace.result_offsets[call + 1]
    if first + place < end:
        return trace.names[int(trace.result_names[first + place])]
    return f"{trace.operators[int(trace.call_operator[call])]}#{call}.{place}"


def categories(program: Program) -> Any:
    """Give each storage's category, as an index into ``CATEGORIES``."""
    count = program.n_storages
    root = program.storages["root"][:-1]
    maker = program.tensors["call"][root]
    marks = np.flatnonzero(program.instructions["code"] == BEGIN_BACKWARD)
    category = np.full(count, CATEGORIES.index("forward"))
    if len(marks):
        before = program.instructions[: marks[0]]
        calls_before = int((before["code"] == RUN_CALL).sum())
        category[maker >= calls_before] = CATEGORIES.index("backward")
    category[program.tensors["storage"][program.outputs]] = CATEGORIES.index("output")
    category[program.storages["is_constant"][:-1] == 1] = CATEGORIES.index("constant")
    return category


def storage_columns(trace: Trace, program: Program) -> dict[str, Any]:
    """Lay out the storage table: one row a storage, by its number."""
    root = program.storages["root"][:-1]
    origin = program.calls["origin"][program.tensors["call"][root]]
    is_made = origin >= 0
    made_by = origin[is_made]
    operator, module = np.full((2, len(origin)), UNKNOWN)
    operator[is_made], module[is_made] = trace.call_operator[made_by], trace.call_module[made_by]
    return {
        "name": np.array(storage_names(trace, program), dtype=np.str_),
        "bytes": np.array(program.storages["size_bytes"][:-1]),
        "category": np.array(CATEGORIES)[categories(program)],
        "module": _texts(trace.modules, module),
        "operator": _texts(trace.operators, operator),
    }


def _texts(texts: tuple[str, ...], index: Any) -> Any:
    return np.array([*texts, ""], dtype=np.str_)[index]


def live_set(trace: Trace, program: Program, run: Run) -> LiveSet:
    """Sum what is in memory now, by category, and what each call under way holds."""
    state = run.state
    residence = state.storages["residence"]
    is_live = np.isin(residence, (RESIDENT, PINNED, REVIVED))
    if run.has_transfers and run.is_online:
        is_live &= state.moves["is_away"] == 0
    category = categories(program)
    sizes = state.storages["size_bytes"]
    sums = {name: int(sizes[is_live & (category == i)].sum()) for i, name in enumerate(CATEGORIES)}
    return LiveSet(sums, _locked(trace, run))


def live_sets(
    work: Workload, run: Run, settings: Settings, finish: Callable[[Run], object]
) -> dict[str, LiveSet | None]:
    """Fill in what a row says was in memory at the peak, and when memory ran out.

    Parameters
    ----------
    work : Workload
    run : Run
        That has ended.
    settings : Settings
        That it had.
    finish : callable
        Does a run as this one was done: it is done again, up to the moment of the peak.
    """
    peak = int(run.state.room["peak_bytes"])
    again = Run(run.program, dataclasses.replace(settings, pause_at_bytes=peak, logs_events=False))
    finish(again)
    assert again.code in (REACHED_BYTES, run.code)
    live = live_set(work.trace, work.program, again)
    rest = peak - live.total_bytes
    return {
        "live_at_peak": LiveSet(
            {**live.categories, "workspace and second copies": rest}, live.locked
        ),
        "live_at_oom": live_set(work.trace, work.program, run) if run.code == OOM else None,
    }


def _locked(trace: Trace, run: Run) -> list[tuple[str, int]]:
    program, state = run.program, run.state
    locked = []
    for frame in state.frames[: run.fact("depth")]:
        call = program.calls[program.tensors[frame["tensor"]]["call"]]
        operands = program.parents[call["first_parent"] : call["end_parent"]]
        held = np.unique(program.tensors["storage"][operands])
        held = held[state.storages["residence"][held] != EVICTED]
        size = int(state.storages["size_bytes"][held].sum())
        locked.append((call_name(trace, int(call["origin"])), size))
    return locked


def call_name(trace: Trace, origin: int) -> str:
    """Name a call for a reader: operator, and line or module where they are known."""
    if origin < 0:
        return "a constant"
    operator = trace.operators[int(trace.call_operator[origin])]
    line, module = int(trace.call_line[origin]), int(trace.call_module[origin])
    phase = PHASES[int(trace.call_phase[origin])]
    details = [f"line {line}"] if line else [f"call {origin}"]
    details += [phase] if phase else []
    details += [trace.modules[module]] if module >= 0 else []
    return f"{operator} ({', '.join(details)})"


def no_hole(run: Run) -> str:
    """Say what found no place among the addresses, and what there was."""
    if not run.has_addresses:
        return ""
    space, hole = run.state.space[0], run.ask_memory(LARGEST_HOLE)
    free = int(space.size_bytes - space.occupied_bytes)
    return (
        f", {int(space.wanted_bytes):,} of it in one piece; {free:,} bytes are free, the largest "
        f"hole has {hole:,},"
    )


def failure_message(trace: Trace, run: Run) -> str:
    """Say in one line where and why a run ended early."""
    program = run.program
    c = run.fact("current_call")
    where = "making an output" if c >= len(program.calls) else "at"
    if c < len(program.calls):
        where = f"at {call_name(trace, int(program.calls[c]['origin']))}"
    if run.code == OOM:
        return f"out of memory {where}: {_unmet_need(trace, run, where)}"
    if run.fact("idle_remats") > run.fact("idle_limit"):
        return f"no progress {where}: {run.fact('idle_remats'):,} recomputations that take no time"
    lost = f"{format_ns(run.fact('remat_ns'))} of rematerialization"
    if waited := int(run.state.link["stall_ns"][0]) if run.has_transfers else 0:
        lost += f" and {format_ns(waited)} of waiting for copies"
    return f"over the slowdown limit {where}, {lost}"


def _unmet_need(trace: Trace, run: Run, where: str) -> str:
    """Say which call of an online run found no room, or which storage none to come back."""
    program, state = run.program, run.state
    frame = state.frames[run.fact("depth") - 1]
    call = program.calls[program.tensors[frame["tensor"]]["call"]]
    asks = call_name(trace, int(call["origin"]))
    who = "it" if where == f"at {asks}" else asks
    need = int(call["result_bytes"] + call["workspace_bytes"])
    back = _comes_back(run, frame)
    if back >= 0:
        who = f"{storage_names(trace, program)[back]}, which comes back from the host,"
        need = int(state.storages["size_bytes"][back])
    held = f"{int(state.room['used_bytes']):,} are held{no_hole(run)}"
    return f"{who} needs {need:,} bytes, {held} and nothing is left to evict"


def _comes_back(run: Run, frame: Any) -> int:
    """Give the storage for whose copy back room was wanted; -1 if it was for a call."""
    state, tensor = run.state, -1
    if frame["is_remat"] == ONLY_RETURN:
        tensor = int(frame["tensor"])
    elif frame["next"] < frame["end"]:
        tensor = int(state.pending[frame["next"]])
    return int(run.program.tensors["storage"][tensor]) if tensor >= 0 else -1
