"""Trace files of runs keep the rules of the format, and say what the event log says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rematsim.analysis.chrome_traces import save_timeline, timeline
from rematsim.errors import InputError
from rematsim.planning import plan_trace
from rematsim.result import RunResult
from rematsim.simulation import simulate

REQUIRED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
    "i": {"name", "ts", "pid", "tid", "s"},
    "M": {"name", "pid", "args"},
}


def check_format(trace: Any) -> None:
    """Check what the Trace Event Format asks of each kind of event, and of slices in a lane."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    ends: dict[int, float] = {}
    for event in trace["traceEvents"]:
        assert REQUIRED[event["ph"]] <= set(event)
        assert isinstance(event["name"], str) and event.get("ts", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= ends.get(event["tid"], 0) - 1e-6  # in a lane, one after another
            ends[event["tid"]] = event["ts"] + event["dur"]
    named = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert set(ends) <= named and 0 not in named  # Perfetto takes lane 0 for the main thread
    counted = [(e["name"], e["ts"]) for e in trace["traceEvents"] if e["ph"] == "C"]
    assert len(counted) == len(set(counted))  # a counter has one value at a time
    times = [event["ts"] for event in trace["traceEvents"] if event["ph"] != "M"]
    assert times == sorted(times)


@cache
def runs() -> dict[str, RunResult]:
    link, fast = "link(d2h=2GB/s,h2d=2GB/s)", "link(d2h=900GB/s,h2d=900GB/s)"
    moved = plan_trace("synthetic:transformer:2", "offload-all", 0.6, link=link, event_log=True)
    planned = plan_trace("bundled:unet", "rotor", 0.8, event_log=True)
    return {
        "online": simulate("bundled:unet", "h_DTR_eq", 0.6, event_log=True),
        "addresses": simulate("bundled:unet", "h_DTR_eq", 0.8, memory="arena", event_log=True),
        "static": planned.row,
        "transfers": moved.row,
        "ahead": simulate(
            "synthetic:transformer:2", "h_next_use_offload", 0.6, link=fast, event_log=True
        ),
        "thrashed": simulate(
            "synthetic:transformer:2", "h_DTR_eq", 0.5, slowdown_limit=1.05, event_log=True
        ),
        "out of memory": simulate("bundled:unet", "h_LRU", 0.1, event_log=True),
    }


MOVING = ("transfers", "ahead")


@pytest.mark.parametrize(
    "kind", ["online", "addresses", "static", *MOVING, "thrashed", "out of memory"]
)
def test_every_kind_of_run_is_a_valid_trace(kind: str, tmp_path: Path) -> None:
    run = runs()[kind]
    save_timeline(run, tmp_path / "run.json")
    read = json.loads((tmp_path / "run.json").read_text())
    assert read == json.loads(json.dumps(timeline(run)))
    check_format(read)
    memory = [e["args"]["bytes"] for e in read["traceEvents"] if e["name"] == "memory"]
    assert run.events is not None
    assert memory[-1] == run.events["memory_after_bytes"][-1]
    assert max(memory) <= run.peak_bytes
    computed = [e["dur"] for e in read["traceEvents"] if e["ph"] == "X" and e["tid"] == 1]
    assert sum(computed) * 1e3 == pytest.approx(run.clock - 1)
    lanes = {e["tid"] for e in read["traceEvents"] if e["ph"] == "X"}
    assert lanes == ({1, 2, 3} if kind in MOVING else {1})
    names = {e["name"] for e in read["traceEvents"] if e["ph"] == "C"}
    assert ("host memory" in names) == (kind in MOVING)
    assert ("reserved" in names) == (kind == "addresses")


@pytest.mark.parametrize("kind", ["online", *MOVING])
def test_a_reader_that_cuts_off_nanoseconds_finds_slices_that_do_not_overlap(kind: str) -> None:
    """Perfetto reads whole nanoseconds, and drops what begins before another slice has ended."""
    run = runs()[kind]
    assert run.events is not None
    ends: dict[int, int] = {}
    spans = set()
    for event in timeline(run)["traceEvents"]:
        if event["ph"] == "X":
            start, length = int(event["ts"] * 1000), int(event["dur"] * 1000)
            assert start >= ends.get(event["tid"], 0)
            ends[event["tid"]] = start + length
            spans.add((start, start + length))
    logged = zip(run.events["start_ns"].tolist(), run.events["end_ns"].tolist(), strict=True)
    assert spans <= set(logged)


def test_what_goes_at_one_moment_is_one_event() -> None:
    """Whole, with its bytes and scores; viewers would stack them."""
    run = runs()["online"]
    instants = [event for event in timeline(run)["traceEvents"] if event["ph"] == "i"]
    places = [(event["ts"], event["cat"]) for event in instants]
    assert len(places) == len(set(places))
    evicted = [event["args"] for event in instants if event["cat"] == "evict"]
    assert sum(len(gone["storages"]) for gone in evicted) == run.pressure_evictions
    for gone in evicted:
        assert gone["bytes"] == sum(storage["bytes"] for storage in gone["storages"])
        assert all(storage["score"] >= 0 for storage in gone["storages"])


def test_a_run_without_an_event_log_has_no_timeline() -> None:
    with pytest.raises(InputError, match="no event log"):
        timeline(simulate("synthetic:chain:6", "h_LRU", 5))
