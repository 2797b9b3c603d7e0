"""A run as a trace file of Chrome and Perfetto: a lane for each stream, and memory as counters.

The format is the Trace Event Format (JSON object format): complete events (``X``), counters
(``C``), instants (``i``) and names of lanes (``M``); times are in microseconds.

Perfetto's trace processor cuts what it reads off to nanoseconds, drops a slice that begins before
another in its lane has ended, and takes lane 0 for lane `PROCESS`.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
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
FIRST_LANE = PROCESS  # the main thread of the process; the others follow it


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


def _microseconds(time_ns: float) -> float:
    """Give microseconds that are the same nanoseconds again, cut off or rounded."""
    value = time_ns / 1e3
    return value if value * 1e3 >= time_ns else math.nextafter(value, math.inf)


def _time(event: dict[str, Any]) -> float:
    return float(event["ts"])


def _names(run: RunResult) -> Iterator[dict[str, Any]]:
    """Name the process, and the lanes in their order."""
    yield _meta("process_name", FIRST_LANE, name=f"{run.trace}, {run.method}")
    for lane, stream in enumerate(STREAMS):
        yield _meta("thread_name", FIRST_LANE + lane, name=LANES[stream])
        yield _meta("thread_sort_index", FIRST_LANE + lane, sort_index=lane)


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
        yield {"ph": "X", "name": title, "cat": kind, "pid": PROCESS,
               "tid": FIRST_LANE + stream, "ts": _microseconds(start),
               "dur": _microseconds(end - start), "args": arguments}  # fmt: skip


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
    return {"ph": "C", "name": name, "pid": PROCESS, "ts": _microseconds(time), "args": values}


def _instants(run: RunResult) -> Iterator[dict[str, Any]]:
    """Give what takes no time: storages that go, or stay for good.

    What happens at one moment is one event: viewers stack those that coincide in a lane.
    """
    assert run.storages is not None
    names = run.storages["name"].tolist()
    moments: defaultdict[tuple[float, int], list[dict[str, Any]]] = defaultdict(list)
    columns = ("start_ns", "action", "storage", "bytes", "score")
    for start, action, storage, size, score in _columns(run, _is_any(run, INSTANT), *columns):
        about = {"storage": names[storage], "bytes": size}
        moments[start, action].append(about | ({"score": score} if np.isfinite(score) else {}))
    for (start, action), gone in moments.items():
        kind = ACTIONS[action]
        what = gone[0]["storage"] if len(gone) == 1 else f"{len(gone)} storages"
        arguments = {"bytes": sum(each["bytes"] for each in gone), "storages": gone}
        yield {"ph": "i", "name": f"{kind} {what}", "cat": kind, "pid": PROCESS,
               "tid": FIRST_LANE, "ts": _microseconds(start), "s": "t",
               "args": arguments}  # fmt: skip
