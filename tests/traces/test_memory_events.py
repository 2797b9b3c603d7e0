"""Events of a real allocator, as snapshots and Kineto traces have them."""

from __future__ import annotations

import pickle
from pathlib import Path

import profile_files as files
import pytest
from rematsim.errors import TraceError
from rematsim.traces.memory_events import (
    ALLOC,
    FREE,
    MAP,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    UNMAP,
    MemoryEvents,
    load_events,
)


def load(data: bytes, folder: Path, device: str | None = None) -> MemoryEvents:
    path = folder / "profile.bin"
    path.write_bytes(data)
    return load_events(path, device=device)


def event(action: str, addr: int, size: int, stream: int = 0) -> dict[str, object]:
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 1}


def block(size: int, state: str, **more: object) -> dict[str, object]:
    return {"size": size, "requested_size": size, "state": state, **more}


HISTORY = [
    event("segment_alloc", 4096, 2048),
    event("alloc", 4096, 600),
    event("alloc", 5120, 100, stream=7),
    event("free_requested", 4096, 600),
    event("oom", 0, 1 << 40),
    event("free_completed", 4096, 600),
    event("segment_map", 8192, 512),
    event("segment_unmap", 8192, 512),
    event("segment_free", 0, 1024),
]
SEGMENTS = [
    {"device": 1, "address": 0, "total_size": 7, "blocks": []},
    {
        "device": 0,
        "address": 4096,
        "total_size": 2048,
        "requested_size": 100,
        "blocks": [
            block(1024, "inactive"),
            block(512, "active_allocated"),
            block(512, "active_awaiting_free"),
        ],
    },
]


def snapshot(**changed: object) -> bytes:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "max_split_size": 64}
    known = {"segments": SEGMENTS, "device_traces": [HISTORY], "allocator_settings": settings}
    return pickle.dumps(known | changed)


def test_a_snapshot_has_events_with_addresses_and_what_there_is_at_the_end(tmp_path: Path) -> None:
    events = load(snapshot(), tmp_path)
    assert events.kinds.tolist() == [SEGMENT_ALLOC, ALLOC, ALLOC, FREE, MAP, UNMAP, SEGMENT_FREE]
    assert events.addresses.tolist() == [4096, 4096, 5120, 4096, 8192, 8192, 0]
    assert events.sizes.tolist() == [2048, 600, 100, 600, 512, 512, 1024]
    assert events.allocated_bytes.tolist() == [0, 600, 700, 100, 100, 100, 100]
    assert events.reserved_bytes is not None
    assert events.reserved_bytes.tolist() == [3072, 3072, 3072, 3072, 3584, 3072, 2048]
    assert not events.counts_blocks
    assert events.n_streams == 2
    assert events.settings == "max_split_size_mb:64"


def test_blocks_without_addresses_lie_one_behind_the_other(tmp_path: Path) -> None:
    """A block that waits for its free to complete is held, as in the history."""
    events = load(snapshot(), tmp_path)
    assert events.segments.tolist() == [[4096, 2048]]
    assert events.held.tolist() == [[5120, 512], [5632, 512]]


def test_blocks_with_addresses_lie_there(tmp_path: Path) -> None:
    segment = SEGMENTS[1] | {"blocks": [block(512, "active_allocated", address=9000)]}
    assert load(snapshot(segments=[segment]), tmp_path).held.tolist() == [[9000, 512]]


def test_where_no_free_completes_what_waits_is_not_held(tmp_path: Path) -> None:
    history = [one for one in HISTORY if one["action"] != "free_completed"]
    assert load(snapshot(device_traces=[history]), tmp_path).held.tolist() == [[5120, 512]]


def test_a_snapshot_without_segments_says_nothing_of_the_end(tmp_path: Path) -> None:
    events = load(snapshot(segments=None, allocator_settings=None), tmp_path)
    assert not events.has_segments
    assert (len(events.held), events.settings) == (0, "")


def test_an_event_without_an_address_cannot_be_replayed(tmp_path: Path) -> None:
    for odd in (None, -1, 1 << 62, "x"):
        history = [event("alloc", 0, 5) | {"addr": odd}]
        with pytest.raises(TraceError, match="an event without an address"):
            load(snapshot(device_traces=[history]), tmp_path)


def test_a_kineto_trace_counts_blocks(tmp_path: Path) -> None:
    events = load(files.kineto(), tmp_path)
    assert events.kinds.tolist() == [ALLOC, ALLOC, FREE, ALLOC, FREE, FREE]
    assert events.allocated_bytes.tolist() == [144, 184, 144, 204, 164, 104]
    assert (events.counts_blocks, events.has_segments) == (True, False)
    assert len(events.addresses) == len(events.sizes) == 6
    assert (events.sizes > 0).all()


def test_a_kineto_trace_of_2021_has_no_addresses(tmp_path: Path) -> None:
    events = [dict(one) for one in files.EVENTS]
    for one in events:
        one["args"] = {k: v for k, v in one["args"].items() if k != "Addr"}
    with pytest.raises(TraceError, match="a memory event without an address"):
        load(files.kineto(events), tmp_path)


def test_a_timeline_has_no_events_of_an_allocator(tmp_path: Path) -> None:
    for data in (b"[[1,2,3],[[1,2],[3,4],[0,0]]]", b"x"):
        with pytest.raises(TraceError, match="no events of an allocator in it: it is not"):
            load(data, tmp_path)


def test_events_of_no_bytes_have_no_place(tmp_path: Path) -> None:
    history = [event("alloc", 0, 0), event("alloc", 512, 5)]
    assert load(snapshot(device_traces=[history]), tmp_path).addresses.tolist() == [512]
    with pytest.raises(TraceError, match="no memory events of any bytes"):
        load(snapshot(device_traces=[[event("alloc", 0, 0)]]), tmp_path)
