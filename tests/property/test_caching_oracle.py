"""The kernels of the caching allocator against the slow model, on random requests."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from rematsim.allocator_settings import parse_settings
from rematsim.audit_caching import PlainCaching
from rematsim.event_replay import ALLOCATE, EVENT_ROWS, RELEASE, replay_events
from rematsim.jit import is_compiling

MIB = 1 << 20
SETTINGS = (
    "",
    "max_split_size_mb:21",
    "max_split_size_mb:40,max_non_split_rounding_mb:60",
    "garbage_collection_threshold:0.5",
    "garbage_collection_threshold:0.2,max_split_size_mb:30",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:8,4:2,16:16,>:1]",
    "expandable_segments:True",
    "expandable_segments:True,max_split_size_mb:25,roundup_power2_divisions:8",
)
LIMITS = (None, 64 * MIB, 150 * MIB + 123, 600 * MIB)


def a_size(draw: random.Random) -> int:
    """Small, around the borders of the pools and segments, or large; often one of a few."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.randrange(1, 4096)
    if kind == 1:
        return draw.randrange(1, 2 * MIB)
    if kind == 2:
        borders = (512, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 21 * MIB, 30 * MIB, 40 * MIB)
        return draw.choice(borders) + draw.choice((-512, -1, 0, 1, 512, MIB, MIB + 512))
    if kind == 3:
        return draw.choice((3, 6, 9, 15, 25, 45)) * MIB
    return draw.randrange(1, 60 * MIB)


def random_rows(draw: random.Random, count: int) -> Any:
    """Allocations, and frees of what is held: waves, so that much is held and then little."""
    rows = np.zeros(count, EVENT_ROWS)
    held: list[int] = []
    for i in range(count):
        wave = 0.7 if (i // 40) % 2 else 0.45
        if held and draw.random() > wave:
            row = held.pop(draw.randrange(len(held)))
            rows[i]["kind"], rows[i]["allocated_by"] = RELEASE, row
        else:
            rows[i]["kind"], rows[i]["size_bytes"] = ALLOCATE, a_size(draw)
            held.append(i)
    return rows


def expected(rows: Any, settings: str, limit: int | None) -> tuple[list[Any], PlainCaching]:
    """Address, allocated and reserved bytes of each row, by the slow model."""
    allocator = PlainCaching(limit, parse_settings(settings))
    places: dict[int, int | None] = {}
    found = []
    for i, row in enumerate(rows):
        address: int | None = 0
        if row["kind"] == ALLOCATE:
            address = places[i] = allocator.place(int(row["size_bytes"]))
        elif (place := places[int(row["allocated_by"])]) is not None:
            allocator.free(place)
        shown = -1 if address is None else address
        found.append((shown, allocator.allocated_bytes, allocator.reserved_bytes))
    return found, allocator


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("limit", LIMITS)
def test_kernels_place_where_the_slow_model_does(settings: str, limit: int | None) -> None:
    """Addresses, bytes allocated and reserved after each event, retries and the largest hole."""
    for seed in range(12 if is_compiling() else 1):
        rows = random_rows(random.Random(seed), 250)
        wanted, allocator = expected(rows, settings, limit)
        space = replay_events(rows, parse_settings(settings), limit).space[0]
        names = ("address", "allocated_bytes", "reserved_bytes")
        found = [tuple(int(row[name]) for name in names) for row in rows]
        differing = [
            i for i, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]
        ]
        where = f"seed {seed}, event {differing[:1]}"
        assert not differing, f"{where}: {found[differing[0]]} but {wanted[differing[0]]}"
        assert int(space.retries) == allocator.retries
        assert int(space.reserved_peak_bytes) == max(reserved for _, _, reserved in wanted)
