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
        "blocks": [  # of an older build, without addresses
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
    """One behind the other, so that the first and the last are at the ends of the segment."""
    blocks = [
        block(512, "inactive", address=4096),
        block(1536, "active_allocated", address=4608),
    ]
    segment = SEGMENTS[1] | {"blocks": blocks}
    assert load(snapshot(segments=[segment]), tmp_path).held.tolist() == [[4608, 1536]]


def at(address: object, size: object = 1024, state: object = "inactive", **more: object) -> object:
    return {"address": address, "size": size, "requested_size": 0, "state": state} | more


TWO = [at(4096), at(5120)]
BAD_BLOCKS = {
    "one in another": ([at(4096), at(4608)], r"1 of segment 0: address \(4608\): .* at 5120"),
    "a gap": ([at(4096, 512), at(5120)], r"block 1 of segment 0: address \(5120\): .* at 4608"),
    "not in order": (TWO[::-1], r"block 0 of segment 0: address \(5120\): .* segment, at 4096"),
    "one given twice": ([*TWO, TWO[1]], r"block 2 of segment 0: address \(5120\)"),
    "outside": ([at(0), at(1024)], r"block 0 of segment 0: address \(0\)"),
    "beyond the end": ([*TWO, at(6144)], r"total_size \(2048\): its blocks have 3072 bytes"),
    "too few": (TWO[:1], r"total_size \(2048\): its blocks have 1024 bytes together"),
    "below nothing": ([at(4096, -1)], r"size -1 of block 0 of segment 0 is not from 0 to 2\^53"),
    "empty": ([at(4096, 0), *TWO], r"block 0 of segment 0: size \(0\): a block has bytes"),
    "no number": ([at(4096, "x")], r"size 'x' of block 0 of segment 0"),
    "asked for more": (
        [at(4096, 1024, "active_allocated", requested_size=1025), TWO[1]],
        r"requested_size \(1025\): it is at most size \(1024\)",
    ),
    "no state": ([at(4096, state="busy"), TWO[1]], r"state \('busy'\): it is one of active_alloc"),
    "no dictionary": ([5], "block 0 of segment 0 is 5: it is no dictionary"),
    "no list": ({"a": 1}, "blocks of segment 0 is"),
}


@pytest.mark.parametrize("what", BAD_BLOCKS)
def test_blocks_that_do_not_cover_their_segment_are_refused(what: str, tmp_path: Path) -> None:
    """Each begins where the one before it ends, and together they are the segment."""
    blocks, message = BAD_BLOCKS[what]
    segment = {"device": 0, "address": 4096, "total_size": 2048, "blocks": blocks}
    with pytest.raises(TraceError, match=rf"profile\.bin: [^\n]*{message}[^\n]*$"):
        load(snapshot(segments=[segment]), tmp_path)


WHOLE = {"device": 0, "address": 4096, "total_size": 2048, "blocks": TWO}
BAD_SEGMENTS = {
    "one given twice": ([WHOLE, WHOLE], r"segment 1: address \(4096\): segment 0 lies there, with"),
    "one in another": (
        [{"device": 0, "address": 5120, "total_size": 512}, WHOLE],
        r"segment 0: address \(5120\): segment 1 lies there, with 2048 bytes from 4096 on",
    ),
    "below nothing": ([WHOLE | {"total_size": -1}], "total_size -1 of segment 0 is not from 0"),
    "holds too much": (
        [WHOLE | {"active_size": 2049}],
        r"segment 0: active_size \(2049\): it is at most total_size \(2048\)",
    ),
    "no dictionary": ([WHOLE, 7], "segment 1 is 7: it is no dictionary"),
    "too much in all": ([{"device": 0, "total_size": 2**53}] * 2, "bytes in all: at most 2.53"),
}


@pytest.mark.parametrize("what", BAD_SEGMENTS)
def test_segments_that_cannot_be_are_refused(what: str, tmp_path: Path) -> None:
    segments, message = BAD_SEGMENTS[what]
    with pytest.raises(TraceError, match=rf"profile\.bin: [^\n]*{message}[^\n]*$"):
        load(snapshot(segments=segments), tmp_path)


def test_segments_of_a_device_may_come_in_any_order(tmp_path: Path) -> None:
    """Those of another device may have the same addresses."""
    low = {"device": 0, "address": 0, "total_size": 4096}
    other = WHOLE | {"device": 1}
    events = load(snapshot(segments=[WHOLE, other, low]), tmp_path)
    assert events.segments.tolist() == [[0, 4096], [4096, 2048]]


@pytest.mark.parametrize("settings", [5, {"PYTORCH_CUDA_ALLOC_CONF": 5}])
def test_settings_that_are_none_are_refused(settings: object, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"profile\.bin: [^\n]*allocator_settings is 5: "):
        load(snapshot(allocator_settings=settings), tmp_path)


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
