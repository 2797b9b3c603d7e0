"""A run as a trace file of Chrome and Perfetto: a lane for each stream, and memory as counters.

The format is the Trace Event Format (JSON object format): complete events (``X``), counters
(``C``), instants (``i``) and names of lanes (``M``); times are in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files import write_atomically
from ..opcodes import ACTIONS, STREAMS
from .timelines import call_begins, moments

if TYPE_CHECKING:
    from ..result import RunResult

LANES = {"compute": "compute", "to_host": "to the host", "from_host": "from the host"}
LASTING = ("offload", "save", "prefetch", "stall")  # and calls
INSTANT = ("evict", "deallocate", "banish", "discard", "pin")
PROCESS = 1


def save_timeline(run: RunResult, path: str | Path) -> None:
    """Write a run as a trace file.

    Raises
    ------
    InputError
        If the run kept no event log.
    OutputError
        If the file cannot be written; then there is none.
    """
    content = json.dumps(timeline(run), separators=(",", ":"), allow_nan=False)
    with write_atomically(path) as file:
        file.write(content.encode())


def timeline(run: RunResult) -> dict[str, Any]:
    """Give a run as an object of the Trace Event Format.

    Parameters
    ----------
    run : RunResult
        With its event log.

    Returns
    -------
    dict
        ``traceEvents``, in the order of their times, and what was run.

    Raises
    ------
    InputError
        If the run kept no event log.
    """
    run.logged()
    events = sorted([*_slices(run), *_counters(run), *_instants(run)], key=_time)
    about = {name: getattr(run, name) for name in ("trace", "method", "status", "slowdown", "link")}
    return {
        "traceEvents": [*_names(run), *events],
        "displayTimeUnit": "ns",
        "otherData": {name: str(value) for name, value in about.items()},
    }


def _time(event: dict[str, Any]) -> float:
    return float(event["ts"])


def _names(run: RunResult) -> Iterator[dict[str, Any]]:
    """Name the process, and the lanes in their order."""
    yield _meta("process_name", 0, name=f"{run.trace}, {run.method}")
    for lane, stream in enumerate(STREAMS):
        yield _meta("thread_name", lane, name=LANES[stream])
        yield _meta("thread_sort_index", lane, sort_index=lane)


def _meta(what: str, lane: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": lane, "ts": 0, "args": arguments}


def _columns(run: RunResult, chosen: Any, *names: str) -> Iterator[tuple[Any, ...]]:
    """Give the values of some columns at the chosen rows."""
    assert run.events is not None
    rows = np.flatnonzero(chosen)
    return zip(*(np.asarray(run.events[name])[rows].tolist() for name in names), strict=True)


def _is_any(run: RunResult, actions: tuple[str, ...]) -> Any:
    assert run.events is not None
    return np.isin(run.events["action"], [ACTIONS.index(name) for name in actions])


def _slices(run: RunResult) -> Iterator[dict[str, Any]]:
    """Give what takes time: calls once each, copies, waiting."""
    assert run.events is not None and run.storages is not None
    operators, storages = run.storages["operator"].tolist(), run.storages["name"].tolist()
    chosen = call_begins(run.events) | _is_any(run, LASTING)
    columns = ("action", "stream", "start_ns", "end_ns", "call", "storage", "bytes")
    for action, stream, start, end, call, storage, size in _columns(run, chosen, *columns):
        kind, name = ACTIONS[action], storages[storage] if storage >= 0 else "room"
        arguments: dict[str, Any] = {"storage": name}
        if call >= 0:
            title, arguments["call"] = operators[storage] or f"call {call}", call
        else:
            title, arguments["bytes"] = f"{kind} {name}", size
        yield {"ph": "X", "name": title, "cat": kind, "pid": PROCESS, "tid": stream,
               "ts": start / 1e3, "dur": (end - start) / 1e3, "args": arguments}  # fmt: skip


def _counters(run: RunResult) -> Iterator[dict[str, Any]]:
    """Give memory, and the host if anything was there, at each time at which they changed."""
    assert run.events is not None
    times = moments(run.events)
    is_last = np.append(times[1:] != times[:-1], True) if len(times) else np.zeros(0, bool)
    has_host = bool(np.asarray(run.events["host_after_bytes"]).any())
    names = ("memory_after_bytes", "reserved_after_bytes", "host_after_bytes")
    for time, (used, reserved, host) in zip(
        times[is_last].tolist(), _columns(run, is_last, *names), strict=True
    ):
        yield _counter("memory", time, {"bytes": used})
        if run.reserved_peak_bytes is not None:
            yield _counter("reserved", time, {"bytes": reserved})
        if has_host:
            yield _counter("host memory", time, {"bytes": host})


def _counter(name: str, time: float, values: dict[str, int]) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": PROCESS, "ts": time / 1e3, "args": values}


def _instants(run: RunResult) -> Iterator[dict[str, Any]]:
    """Give what takes no time: storages that go, or stay for good."""
    assert run.storages is not None
    names = run.storages["name"].tolist()
    columns = ("action", "start_ns", "storage", "bytes", "score")
    for action, start, storage, size, score in _columns(run, _is_any(run, INSTANT), *columns):
        arguments = {"storage": names[storage], "bytes": size}
        if np.isfinite(score):
            arguments["score"] = score
        kind = ACTIONS[action]
        yield {"ph": "i", "name": f"{kind} {names[storage]}", "cat": kind, "pid": PROCESS,
               "tid": 0, "ts": start / 1e3, "s": "t", "args": arguments}  # fmt: skip
