"""Saved runs: what a file says that cannot be is named in one line, before anything reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rematsim.errors import InputError
from rematsim.explaining import explain
from rematsim.result import load_run
from rematsim.simulation import simulate
from rematsim.traces.synthetic import chain

Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """What is in the file of a run that moved data."""
    path = tmp_path_factory.mktemp("saved") / "x.run"
    link = "link(d2h=inf,h2d=2GB/s,latency=0)"
    run = simulate(chain(9), "h_DTR_offload", 0.6, link=link, event_log=True, live_sets=True)
    assert run.offloaded_bytes
    run.save(path)
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def cell(name: str, value: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][3] = value

    return change


def column(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], None]:
    def put(arrays: Arrays) -> None:
        arrays[name] = change(arrays[name])

    return put


def said(name: str, value: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        head = json.loads(bytes(arrays["head"]))
        (head if name in head else head["row"])[name] = value
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)

    return change


DAMAGES = {
    "row 3: storage (19): it is from -1 to 18": cell("events.storage", 19),
    "row 3: call (19): it is from -1 to 17": cell("events.call", 19),
    "row 3: action (-1): it is from 0 to 12": cell("events.action", -1),
    "row 3: end_ns (-5): it is from 0 to 9223372036854775807": cell("events.end_ns", -5),
    "row 0: call (-1): what is computed again has one": column("events.action", lambda v: v | 1),
    "the event log: bytes has the shape (2,), others (53,)": column(
        "events.bytes", lambda v: v[:2]
    ),
    "the event log: call has the shape (53, 1), others (53,)": column(
        "events.call", lambda v: v[:, None]
    ),
    "address of a log: no numbers, but <U21": column("events.address", lambda v: v.astype(str)),
    "bytes of a log: no numbers, but float64": column("storages.bytes", lambda v: v * 1.5),
    "name of storages: no texts, but int64": column("storages.name", lambda v: np.arange(len(v))),
    "category ('other'): it is one of constant, output, forward, backward": column(
        "storages.category", lambda v: np.full(len(v), "other")
    ),
    "peak_bytes ('x'): it is int": said("peak_bytes", "x"),
    "evictions (True): it is int": said("evictions", True),
    "budget_bytes (-1): it is from 0 to 2^63 - 1": said("budget_bytes", -1),
    "budget_fraction (inf): it is finite": said("budget_fraction", np.inf),
    "slowdown (0): at least 1 where a run ended ok, else none": said("slowdown", 0),
    "status ('good'): it is one of ok, oom, thrashed": said("status", "good"),
    "what was in memory at a moment: it is names with bytes": said("live_at_peak", {"x": 1}),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_what_cannot_be_is_named(arrays: Arrays, tmp_path: Path, message: str) -> None:
    path = tmp_path / "x.run"
    changed = {name: values.copy() for name, values in arrays.items()}
    DAMAGES[message](changed)
    with path.open("wb") as file:
        np.savez(file, **changed)
    with pytest.raises(InputError) as caught:
        load_run(path)
    assert str(caught.value).startswith(f"{path}: not a saved run, or damaged: {message}")


def test_a_log_that_is_not_of_its_trace_is_refused(arrays: Arrays, tmp_path: Path) -> None:
    """How many tensors there are, only the trace says."""
    path = tmp_path / "x.run"
    changed = {**arrays, "events.tensor": arrays["events.tensor"] + 1000}
    with path.open("wb") as file:
        np.savez(file, **changed)
    assert explain(load_run(path)).live().parts
    with pytest.raises(InputError, match="x.run: storages and tensors of its log are not those of"):
        explain(load_run(path), chain(9)).live()
