"""Memory curves of profiles; and that nothing in a pickle is ever run."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import profile_files as files
import pytest
from profile_fuzz import RAW_TIMELINE, TIMELINE
from rematsim.errors import TraceError
from rematsim.traces.curves import Curve, load_curve
from rematsim.traces.importers import memory_snapshot
from rematsim.traces.loading import load_trace


def load(data: bytes, folder: Path, device: str | None = None) -> Curve:
    path = folder / "profile.bin"
    path.write_bytes(data)
    return load_curve(path, device=device)


def test_a_snapshot_ends_with_what_its_segments_hold(tmp_path: Path) -> None:
    """600 bytes at the end, after +1000, +500, -1000: so 100 before; a free counts when done."""
    curve = load(files.snapshot(), tmp_path)
    assert (curve.device, curve.start_bytes, curve.is_relative) == ("cuda:0", 100, False)
    assert curve.allocated_bytes.tolist() == [100, 1100, 1600, 600]
    assert curve.time_ns.tolist() == [0, 1_000, 2_000, 4_000]
    assert curve.reserved_bytes is not None
    assert curve.reserved_bytes.tolist() == [6144] * 4


def test_a_snapshot_without_segments_counts_from_what_was_there(tmp_path: Path) -> None:
    curve = load(files.snapshot(segments=None), tmp_path)
    assert curve.is_relative
    assert curve.allocated_bytes.tolist() == [0, 1000, 1500, 500]


def test_memory_events_of_a_kineto_trace(tmp_path: Path) -> None:
    curve = load(files.kineto(), tmp_path)
    assert (curve.device, curve.start_bytes) == ("cpu", 104)
    assert curve.allocated_bytes.tolist() == [144, 184, 144, 204, 164, 104]


def test_memory_events_without_totals_are_summed(tmp_path: Path) -> None:
    """Builds of 2021 give bytes alone."""
    events = [dict(event) for event in files.EVENTS]
    for event in events:
        event["args"] = {k: v for k, v in event["args"].items() if not k.startswith("Total")}
    curve = load(files.kineto(events), tmp_path)
    assert curve.is_relative
    assert curve.allocated_bytes.tolist() == [40, 80, 40, 100, 60, 0]


def test_memory_timelines_of_both_forms(tmp_path: Path) -> None:
    """By category: 3, 7, 0. Raw: 8 from before, +16, a new version, -16 written as such."""
    curve = load(TIMELINE, tmp_path)
    assert (curve.allocated_bytes.tolist(), curve.time_ns.tolist()) == ([3, 7, 0], [0, 1000, 2000])
    curve = load(RAW_TIMELINE, tmp_path)
    assert curve.allocated_bytes.tolist() == [8, 24, 24, 8]
    assert curve.start_bytes == 8


def event(action: str, size: int, **more: object) -> dict[str, object]:
    """As torch writes it, frames included."""
    frames = [{"filename": "a.py", "line": 1, "name": "f"}]
    known = {"addr": 0x7F00, "stream": 0, "frames": frames, "compile_context": "N/A"}
    return {"action": action, "size": size, **known, **more}


EVENTS = [
    event("segment_alloc", 4096),
    event("alloc", 1000),
    event("alloc", 300),
    event("segment_map", 2048),
    event("free_requested", 1000),
    event("snapshot", 1536, addr=0),
    event("oom", 1 << 40, device_free=123),
    event("free_completed", 1000),
    event("alloc", 700),
    event("free_requested", 700),
    event("segment_unmap", 2048),
    event("segment_free", 1024),
    event("workspace_snapshot", 5),
    {"size": 9},
]
# At the end 300 bytes are held and 700 wait to be freed, in blocks of multiples of 512.
BLOCKS = [
    {"address": 1, "size": 512, "requested_size": 300, "state": "active_allocated"},
    {"address": 513, "size": 1024, "requested_size": 700, "state": "active_awaiting_free"},
    {"address": 1537, "size": 1536, "requested_size": 0, "state": "inactive"},
]
SEGMENT = {
    "device": 0, "address": 1, "total_size": 3072, "allocated_size": 512, "active_size": 1536,
    "requested_size": 1000, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
    "is_expandable": False, "frames": [], "blocks": BLOCKS,
}  # fmt: skip
FULL = {
    "segments": [SEGMENT, {"device": 1, "total_size": 7, "requested_size": 7, "blocks": []}],
    "device_traces": [EVENTS, []],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
    "external_annotations": [{"stage": "START", "name": "x", "device": 0, "time_us": 1}],
}


def test_every_kind_of_event_counts_as_what_it_is(tmp_path: Path) -> None:
    """Bytes that were asked for: 0 before, +1000, +300, -1000 when done, +700 that only waits."""
    curve = load(pickle.dumps(FULL), tmp_path)
    assert not curve.is_relative
    assert curve.start_bytes == 0
    held = [0, 1000, 1300, 1300, 300, 1000, 1000, 1000]
    assert curve.allocated_bytes.tolist() == held
    assert curve.time_ns.tolist() == list(range(8)), "these events have no times"
    assert curve.reserved_bytes is not None
    assert curve.reserved_bytes.tolist() == [4096, 4096, 4096, 6144, 6144, 6144, 4096, 3072]


def test_frees_count_when_asked_for_where_no_completion_is_told(tmp_path: Path) -> None:
    """Then what waits is not held: 300 at the end."""
    events = [one for one in EVENTS if one.get("action") != "free_completed"]
    curve = load(pickle.dumps(FULL | {"device_traces": [events]}), tmp_path)
    assert curve.allocated_bytes.tolist() == [0, 1000, 1300, 1300, 300, 1000, 300, 300, 300]


def test_segments_of_older_builds_say_only_rounded_sizes(tmp_path: Path) -> None:
    for missing, end in ((("requested_size",), 1536), (("requested_size", "active_size"), 512)):
        segment = {key: value for key, value in SEGMENT.items() if key not in missing}
        curve = load(pickle.dumps(FULL | {"segments": [segment]}), tmp_path)
        assert curve.allocated_bytes[-1] == end


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_that_says_its_number_is_read(protocol: int, tmp_path: Path) -> None:
    curve = load(pickle.dumps(FULL, protocol), tmp_path)
    assert curve.allocated_bytes[-1] == 1000
    mark = tmp_path / "touched"
    with pytest.raises(TraceError, match="a snapshot is plain containers: refused"):
        load(pickle.dumps(FULL | {"more": Touch(mark)}, protocol), tmp_path)
    assert not mark.exists()


class Touch:
    """Touches a file if anybody unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "touched"
    with pytest.raises(TraceError, match="it names '.*', and a snapshot is plain containers"):
        load(pickle.dumps({"device_traces": [[Touch(mark)]]}), tmp_path)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Touch(mark)))
    assert mark.exists(), "the pickle would have done it"


GLOBALS = [
    b"cos\nsystem\n.",
    b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    b"\x80\x02cbuiltins\neval\n.",
    b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93.",
    b"\x80\x02(ios\nsystem\n.",
    b"\x80\x02\x82\x01.",
    b"\x80\x02Pobject\n.",
    b"\x80\x04\x8c\x01x\x85R.",
]


@pytest.mark.parametrize("data", GLOBALS)
def test_no_way_to_name_a_global_is_left(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        load(data, tmp_path)


def with_deep_list(document: object) -> bytes:
    """Pickle a document, with lists a hundred thousand deep where it says DEEP."""
    deep = b"]" * 100_000 + b"a" * 99_999
    return pickle.dumps(document, 2).replace(b"X\x04\x00\x00\x00DEEP", deep)


def doubled(times: int) -> bytes:
    """Write a dictionary whose key is a tuple of two, each of two, ...: the same ones shared."""
    body = b"".join(b"h%ch%c\x86q%c0" % (k, k, k + 1) for k in range(times))
    return b"\x80\x02})q\x000" + body + b"h%cNs." % times


BOMBS = {
    "a key of tuples three million deep": b"\x80\x02})" + b"\x85" * 3_000_000 + b"Ns.",
    "a memo of two billion": b"\x80\x04}r" + struct.pack("<I", 2**31 - 1) + b".",
    "bytes of a terabyte": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".",
    "one history a thousand times": pickle.dumps(
        {"device_traces": [[{"action": "alloc", "size": 1}] * 10_000] * 1_000}
    ),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
@pytest.mark.parametrize("what", BOMBS)
def test_a_pickle_that_would_fill_the_memory_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"profile\.bin: [^\n]*$"):
        load(BOMBS[what], tmp_path)


@pytest.mark.parametrize("key", ["device_traces", "segments", "size", "time_us", "event"])
def test_what_holds_itself_over_and_over_is_refused_in_a_short_line(
    key: str, tmp_path: Path
) -> None:
    """A billion lists that are ten, and lists a hundred thousand deep: what is shown is cut."""
    shared: list[object] = [1]
    for _ in range(9):
        shared = [shared] * 10
    for value in ([shared], "DEEP"):
        event = {"action": "alloc", "size": 8, "time_us": 1}
        document: dict[str, object] = {"device_traces": [[event]]}
        if key in event:
            event[key] = value  # type: ignore[assignment]
        elif key == "event":
            document["device_traces"] = [[value]]
        else:
            document[key] = {"a": value}
        with pytest.raises(TraceError) as caught:
            load(with_deep_list(document), tmp_path)
        assert len(str(caught.value)) < len(str(tmp_path)) + 200


def test_a_pickle_that_would_never_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashing the key takes 2^60 steps."""
    monkeypatch.setattr(memory_snapshot, "SECONDS", 3)
    with pytest.raises(TraceError, match="reading it takes more than 3 seconds: it is damaged or"):
        load(doubled(60), tmp_path)


def test_nothing_but_the_message_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """CPython writes a line of its own where memory for a bytearray is missing."""
    with pytest.raises(TraceError):
        load(b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"abc.", tmp_path)
    assert capfd.readouterr() == ("", "")


BIG = 2**53
TOO_MUCH = {
    "snapshot": files.snapshot(
        device_traces=[[{"action": "alloc", "size": BIG, "time_us": BIG}] * 2000]
    ),
    "timeline": json.dumps([[k, 2, BIG, 3] for k in range(1_101)]).encode(),
    "kineto": files.kineto(
        [{"ph": "i", "name": "[memory]", "ts": k, "args": {"Bytes": BIG}} for k in range(1_101)]
    ),
    "kineto, one event": files.kineto([{"name": "[memory]", "args": {"Bytes": 2**63 - 1}}]),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_sums_that_64_bits_do_not_hold_are_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"(2\^62|9223372036854775807) bytes[^\n]*$"):
        load(TOO_MUCH[what], tmp_path)


BROKEN = {
    "cut off": (files.snapshot()[:-20], "no memory snapshot, or damaged (pickle data was tr"),
    "no history": (files.snapshot(device_traces=[[]]), "no memory events in it: record it with"),
    "another pickle": (pickle.dumps([1]), "no memory snapshot: a pickle without device_traces"),
    "a word for a history": (files.snapshot(device_traces="x"), "device_traces is 'x'"),
    "a negative size": (
        files.snapshot(device_traces=[[{"action": "alloc", "size": -1}]]),
        "size -1 of an event is not from 0 to 2^53",
    ),
    "no memory events": (files.kineto([]), "no memory events in it: record it with"),
    "a timeline cut off": (TIMELINE[:-4], "no memory timeline (Input data was truncated)"),
    "times without sizes": (b"[[1,2],[[3]]]", "no memory timeline: 2 times and 1 sizes"),
    "something else": (b"hello", "no memory curve in it: it is not a CUDA memory snapshot"),
}


def test_a_curve_is_found_in_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.pickle", files.snapshot())
        archive.writestr("b.pickle", files.snapshot(segments=None))
    assert not load_curve(f"{path}::a").is_relative
    assert load_curve(f"{path}::b").name == "b"
    with pytest.raises(TraceError, match="a zip of several logs; it holds 'a', 'b'"):
        load_curve(path)


@pytest.mark.parametrize("what", BROKEN)
def test_what_holds_no_curve_is_refused_with_its_message(what: str, tmp_path: Path) -> None:
    data, message = BROKEN[what]
    with pytest.raises(TraceError) as caught:
        load(data, tmp_path)
    assert str(caught.value).removeprefix(f"{tmp_path}{os.sep}profile.bin: ").startswith(message)


def test_a_device_that_is_not_in_it_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no memory events of 'cuda:3'; there are of cpu"):
        load(files.kineto(), tmp_path, "cuda:3")


@pytest.mark.parametrize("data", [files.snapshot(), TIMELINE, RAW_TIMELINE])
def test_no_trace_is_made_of_a_curve(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "profile.bin"
    path.write_bytes(data)
    with pytest.raises(TraceError, match="it names no operators.*; use compare-memory"):
        load_trace(path, cache=False)
