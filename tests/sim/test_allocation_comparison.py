"""Events of an allocator through the model of it, and what is worked out of their beginning.

Snapshots are written by the slow model of the allocator: its events, and its segments at the end.
"""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rematsim.allocation_comparison import AllocationComparison, compare_allocations
from rematsim.allocation_layout import Block, FreeBlocks, Layout, Segment, starting_layout
from rematsim.allocator_settings import DEFAULTS, parse_settings
from rematsim.audit_caching import Block as PlainBlock
from rematsim.audit_caching import PlainCaching
from rematsim.cli.main import main
from rematsim.errors import InputError
from rematsim.traces.memory_events import (
    ALLOC,
    FREE,
    MAP,
    SEGMENT_ALLOC,
    MemoryEvents,
    load_events,
)

MIB = 1 << 20
H100 = Path(__file__).parents[3] / "shared" / "files" / "h100" / "vgg13_b128.chrome_trace.json.gz"


class Recorder:
    """The slow model, with a memory history as PyTorch keeps one."""

    def __init__(self, settings: str, limit: int | None) -> None:
        self.settings = settings
        self.allocator = PlainCaching(limit, parse_settings(settings))
        self.history: list[dict[str, Any]] = []

    def note(self, action: str, address: int, size: int) -> None:
        time = len(self.history) + 1
        event = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time}
        self.history.append(event)

    def allocate(self, size: int) -> int | None:
        before = list(self.allocator.segments)
        address = self.allocator.place(size)
        after = self.allocator.segments
        for segment in (one for one in before if one not in after):
            self.note("segment_free", segment.address, segment.size)
        for segment in (one for one in after if one not in before):
            self.note("segment_alloc", segment.address, segment.size)
        if address is not None:
            self.note("alloc", address, size)
        return address

    def free(self, address: int, size: int) -> None:
        self.note("free_requested", address, size)
        self.note("free_completed", address, size)
        self.allocator.free(address)

    def snapshot(self, skipped: int = 0) -> bytes:
        """Write what a snapshot has that forgot its first events."""
        segments = [
            {
                "device": 0,
                "address": segment.address,
                "total_size": segment.size,
                "blocks": [self._block(block) for block in segment.blocks],
            }
            for segment in self.allocator.segments
        ]
        settings = {"PYTORCH_CUDA_ALLOC_CONF": self.settings}
        return pickle.dumps(
            {
                "segments": segments,
                "device_traces": [self.history[skipped:]],
                "allocator_settings": settings,
            }
        )

    @staticmethod
    def _block(block: PlainBlock) -> dict[str, Any]:
        state = "active_allocated" if block.use == "allocated" else "inactive"
        return {"address": block.address, "size": block.size, "state": state}


def a_recording(seed: int, settings: str, limit: int | None, count: int = 300) -> Recorder:
    """Random requests, of sizes that come again."""
    draw = random.Random(seed)
    recorder = Recorder(settings, limit)
    held: list[tuple[int, int]] = []
    sizes = [draw.randrange(1, 2000) for _ in range(5)]
    sizes += [draw.randrange(MIB // 2, 30 * MIB) for _ in range(8)]
    for i in range(count):
        if held and draw.random() > (0.6 if i % 100 < 50 else 0.4):
            recorder.free(*held.pop(draw.randrange(len(held))))
        else:
            size = draw.choice(sizes)
            address = recorder.allocate(size)
            if address is not None:
                held.append((address, size))
    return recorder


def compared(data: bytes, folder: Path, **options: Any) -> AllocationComparison:
    path = folder / "snapshot.pickle"
    path.write_bytes(data)
    return compare_allocations(load_events(path), **options)


@pytest.mark.parametrize("skipped", [0, 1, 57, 200])
@pytest.mark.parametrize(
    ("settings", "limit"),
    [("", None), ("max_split_size_mb:22", None), ("roundup_power2_divisions:4", None)],
)
def test_an_allocator_that_does_as_the_model_is_predicted_wholly(
    settings: str, limit: int | None, skipped: int, tmp_path: Path
) -> None:
    """From the first event on or from the middle: what there was then is worked out exactly."""
    for seed in range(3):
        recorder = a_recording(seed, settings, limit)
        found = compared(recorder.snapshot(skipped), tmp_path)
        assert found.start.source in (("segments",) if skipped else ("segments", "nothing"))
        assert found.unknown_frees == 0
        assert (found.unseen_frees > 0) == (skipped > 1)
        assert found.reserved is not None and (found.reserved.moves or skipped)
        assert found.reserved.largest_bytes == 0
        assert found.reserved.model_peak_bytes == found.reserved.recorded_peak_bytes
        assert found.reuse.reuses > 20
        assert found.reuse.predicted == found.reuse.told == found.reuse.reuses
        assert found.reuse.told_of_all == found.reuse.allocations
        assert str(found.settings) == settings


def test_with_the_wrong_settings_it_is_not(tmp_path: Path) -> None:
    recorder = a_recording(1, "", None)
    found = compared(recorder.snapshot(), tmp_path, settings=parse_settings("max_split_size_mb:21"))
    assert found.reuse.predicted < found.reuse.reuses
    assert found.reserved is not None and found.reserved.largest_bytes > 0


def test_bad_settings_of_a_profile_are_refused_by_its_name(tmp_path: Path) -> None:
    recorder = a_recording(1, "", None, count=3)
    recorder.settings = "max_split_size_mb:x"
    with pytest.raises(InputError, match=r"snapshot\.pickle: allocator setting 'max_split_.*other"):
        compared(recorder.snapshot(), tmp_path)
    assert compared(recorder.snapshot(), tmp_path, settings=DEFAULTS).settings == DEFAULTS


def test_a_limit_brings_retries_as_on_the_device(tmp_path: Path) -> None:
    """Segments that the history says were given back are given back at the same events."""
    limit = 100 * MIB
    recorder = a_recording(2, "", limit)
    assert recorder.allocator.retries > 0
    succeeded = [one for one in recorder.history if one["action"] == "alloc"]
    found = compared(recorder.snapshot(), tmp_path, budget_bytes=limit)
    assert found.reuse.allocations == len(succeeded)
    assert found.retries > 0


def events(*rows: tuple[int, int, int], **more: Any) -> MemoryEvents:
    """Events from rows of kind, address and size."""
    kinds, addresses, sizes = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    total = np.cumsum(np.array([1, -1, 0, 0, 0, 0])[kinds] * sizes)
    known: dict[str, Any] = {"kinds": kinds, "addresses": addresses, "sizes": sizes}
    return MemoryEvents(
        "e", "e.json", "Kineto trace", "cuda:0", **known, allocated_bytes=total, **more
    )


def test_addresses_that_are_named_are_what_there_was() -> None:
    """2 MiB at 0 are freed that were never allocated, and 3 MiB behind them are then used."""
    start = starting_layout(
        events((FREE, 0, 2 * MIB), (ALLOC, 2 * MIB, 3 * MIB), (ALLOC, 9 * MIB, 512))
    )
    assert start.source == "addresses"
    assert start.segments == [
        Segment(Block(0, 5 * MIB), False, [Block(0, 2 * MIB)]),
        Segment(Block(9 * MIB, 512), True, []),
    ]
    assert (start.held_bytes, start.reserved_bytes) == (2 * MIB, 5 * MIB + 512)


def test_addresses_of_both_pools_tell_of_nothing() -> None:
    """They were given back in between: nobody knows what was there at first."""
    start = starting_layout(events((ALLOC, 0, 2 * MIB), (FREE, 0, 2 * MIB), (ALLOC, MIB, 512)))
    assert start == Layout([], "nothing")


def test_expandable_segments_and_contradictions_tell_of_nothing() -> None:
    there = np.array([[0, 20 * MIB]])
    for rows in (
        [(MAP, 0, 20 * MIB)],
        [(SEGMENT_ALLOC, 40 * MIB, 20 * MIB)],
        [(ALLOC, 0, 5 * MIB)],
    ):
        assert starting_layout(events(*rows, segments=there)).source == "nothing"
    held = np.array([[30 * MIB, 512]])
    assert starting_layout(events((FREE, 0, 512), segments=there, held=held)).source == "nothing"


def test_a_held_block_has_what_is_too_little_to_be_split_off() -> None:
    """19 MiB were asked for of a segment of 20; a free that says 19 was of all 20."""
    start = starting_layout(events((FREE, 0, 19 * MIB), segments=np.array([[0, 20 * MIB]])))
    assert start.segments == [Segment(Block(0, 20 * MIB), False, [Block(0, 20 * MIB)])]


def test_free_blocks_are_those_between_and_after_events() -> None:
    """Best fits by hand: 5 MiB at 0 and 8 at 12 are free; 12 is held."""
    layout = Layout([Segment(Block(0, 20 * MIB), False, [Block(5 * MIB, 7 * MIB)])], "segments")
    free = FreeBlocks(layout, DEFAULTS)
    assert free.best_fit(4 * MIB) == 0
    assert free.best_fit(6 * MIB) == 12 * MIB
    assert free.best_fit(9 * MIB) is None
    assert free.best_fit(512) is None, "that is the small pool's"
    free.take(12 * MIB, 6 * MIB)
    assert free.best_fit(2 * MIB) == 18 * MIB
    free.free(5 * MIB, 7 * MIB)
    assert free.best_fit(12 * MIB) == 0
    free.take_segment(20 * MIB, 20 * MIB)
    assert free.best_fit(20 * MIB) == 20 * MIB, "it does not merge with the other segment's end"
    free.give_back_segment(20 * MIB, 20 * MIB)
    assert free.best_fit(20 * MIB) is None


def test_a_free_that_nothing_explains_is_counted() -> None:
    """The snapshot's segments contradict it, so that nothing is known of the start."""
    rows = [(MAP, 0, 20 * MIB), (FREE, 0, 2 * MIB), (ALLOC, 0, 2 * MIB)]
    found = compare_allocations(events(*rows, segments=np.array([[0, 20 * MIB]])))
    assert (found.unseen_frees, found.unknown_frees) == (1, 1)
    assert found.reuse.predicted == 0
    assert found.reserved is None


def test_events_of_a_cpu_are_refused() -> None:
    of_a_cpu = MemoryEvents("e", "e.json", "Kineto trace", "cpu", *[np.zeros(1, np.int64)] * 4)
    with pytest.raises(InputError, match="e.json: its events are of a CPU"):
        compare_allocations(of_a_cpu)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    path = tmp_path / "real.pickle"
    path.write_bytes(a_recording(3, "", None).snapshot(50))
    return str(path)


def test_the_command_reports_and_draws(
    snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "curves.svg"
    assert main(["compare-memory", snapshot, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "(CUDA memory snapshot, cuda:0), replayed by caching" in text
    assert "the default settings" in text
    assert "(100.0%) when told where all before lay" in text.replace("\n", " ")
    assert out.stat().st_size > 1000


def test_the_command_takes_settings(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = "max_split_size_mb:64,backend:native"
    assert main(["compare-memory", snapshot, "--allocator-settings", given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"] == "max_split_size_mb:64"
    assert found["ignored_settings"] == ["backend:native"]
    assert found["start"]["known_from"] == "segments"
    assert main(["compare-memory", "a", "b", "--allocator-settings", given]) == 2
    assert main(["compare-memory", "a", "b", "c"]) == 2
    assert main(["compare-memory", snapshot, "--allocator-settings", "max_split_size_mb:1"]) == 2


@pytest.mark.skipif(not H100.exists(), reason=f"{H100} is not there: it is not shipped")
def test_the_events_of_an_h100() -> None:
    """One training step that begins in the middle: what docs/caching.md says of it."""
    found = compare_allocations(load_events(H100))
    assert (found.reuse.allocations, found.frees, found.unseen_frees) == (180, 180, 28)
    assert found.allocated.recorded_peak_bytes == 39_343_881_216
    assert found.allocated.largest_bytes == 2_359_296
    assert found.reserved is not None
    assert (found.reserved.moves, found.reserved.largest_bytes) == (False, 0)
    assert found.reuse.reuses == 122
    assert (found.reuse.predicted, found.reuse.told, found.reuse.told_of_all) == (78, 102, 155)
