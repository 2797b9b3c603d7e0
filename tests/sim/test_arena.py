"""The arena on its own: where things are put, how holes merge, against a slow obvious one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rematsim.allocation import Allocator
from rematsim.audit_addresses import PlainArena
from rematsim.space import FREE, HEAD, HIGH, LOW, NONE

UNIT = 512
MIB = 1 << 20


def pieces_of(arena: Allocator, area: int = 0) -> list[tuple[int, int, bool]]:
    """Address, size and freedom of an area's pieces, by address."""
    pieces, found = arena.state.pieces, []
    p = pieces[area].after
    while pieces[p].storage != HEAD:
        row = pieces[p]
        found.append((int(row.address), int(row.size_bytes), bool(row.storage == FREE)))
        p = row.after
    return found


def tree_of(arena: Allocator, area: int = 0) -> list[tuple[int, int]]:
    """Size and address of the free pieces, as the tree orders them; its heap order is checked."""
    pieces, found, stack = arena.state.pieces, [], []
    node = int(pieces[area].left)
    while stack or node != NONE:
        while node != NONE:
            stack.append(node)
            node = int(pieces[node].left)
        node = stack.pop()
        row = pieces[node]
        found.append((int(row.size_bytes), int(row.address)))
        for child in (row.left, row.right):
            assert child == NONE or pieces[child].priority <= row.priority
        node = int(row.right)
    return found


def check(arena: Allocator, size: int) -> None:
    """No byte is lost or had twice, free neighbors are one, and the tree has what is free."""
    pieces = pieces_of(arena)
    ends = [0, *(address + length for address, length, _ in pieces)]
    assert [address for address, _, _ in pieces] == ends[:-1]
    assert ends[-1] == size
    assert not any(a[2] and b[2] for a, b in zip(pieces, pieces[1:], strict=False))
    assert tree_of(arena) == sorted((size, address) for address, size, free in pieces if free)


def filled(*units: int, most: int | None = None) -> tuple[Allocator, list[Any]]:
    """An arena with pieces of so many units side by side, exactly as large or larger."""
    arena = Allocator("arena", (most or sum(units)) * UNIT)
    return arena, [arena.allocate(n * UNIT) for n in units]


def test_sizes_are_rounded_up_and_the_arena_down() -> None:
    arena = Allocator("arena", 3 * UNIT + 511)
    pieces = [arena.allocate(n) for n in (1, 512, 2, 1)]
    assert [p if p is None else arena.address(p) for p in pieces] == [0, 512, 1024, None]
    assert arena.space.occupied_bytes == arena.space.size_bytes == 3 * UNIT


def test_the_smallest_hole_is_taken_and_of_equal_ones_the_lowest() -> None:
    """Holes of 3, 2 and 2 units: 2 units go into the lower of the two that fit exactly."""
    arena, pieces = filled(3, 1, 2, 1, 2, 1)
    for i in (0, 2, 4):
        arena.free(pieces[i])
    assert arena.address(arena.allocate(2 * UNIT) or 0) == 4 * UNIT
    assert arena.address(arena.allocate(2 * UNIT) or 0) == 7 * UNIT
    assert arena.address(arena.allocate(1 * UNIT) or 0) == 0
    assert arena.largest_hole == 2 * UNIT


def test_free_neighbors_merge_at_once_on_either_side() -> None:
    arena, (a, b, c, _) = filled(1, 1, 1, 1)
    arena.free(a)
    arena.free(c)
    assert arena.largest_hole == UNIT
    arena.free(b)
    assert pieces_of(arena) == [(0, 3 * UNIT, True), (3 * UNIT, UNIT, False)]


def test_a_piece_for_the_high_side_is_flush_with_the_high_end() -> None:
    arena = Allocator("arena", 10 * UNIT)
    low, high = arena.allocate(UNIT, LOW), arena.allocate(2 * UNIT, HIGH)
    assert (arena.address(low or 0), arena.address(high or 0)) == (0, 8 * UNIT)
    assert arena.space.reserved_bytes == 3 * UNIT
    arena.free(high or 0)
    assert arena.space.reserved_bytes == 3 * UNIT  # it has been in use
    assert pieces_of(arena) == [(0, UNIT, False), (UNIT, 9 * UNIT, True)]


def test_small_objects_have_an_area_at_the_end_and_go_elsewhere_when_it_is_full() -> None:
    arena = Allocator(f"arena(small_area={2 * UNIT})", 10 * UNIT)
    small = [arena.allocate(100) for _ in range(3)]
    assert [arena.address(p or 0) for p in small] == [8 * UNIT, 9 * UNIT, 0]
    large = Allocator("arena(small_area=1MiB)", 4 * MIB)
    assert large.allocate(4 * MIB) is None
    assert large.address(large.allocate(3 * MIB) or 0) == 0
    assert large.allocate(10 * 1024 + 1) is None
    assert large.address(large.allocate(10 * 1024) or 0) == 3 * MIB


def test_an_arena_too_small_for_an_area_apart_has_none() -> None:
    arena = Allocator("arena(small_area=1MiB)", 2 * MIB - UNIT)
    assert arena.allocate(2 * MIB - UNIT) is not None


def test_an_arena_without_a_unit_has_no_place() -> None:
    arena = Allocator("arena", UNIT - 1)
    assert arena.allocate(1) is None
    assert arena.largest_hole == 0


def test_records_of_pieces_are_used_again() -> None:
    """As many records as there have been pieces at once, however long it goes on."""
    arena = Allocator("arena", 8 * UNIT)
    for _ in range(100):
        for piece in [arena.allocate(UNIT) for _ in range(4)]:
            arena.free(piece or 0)
    assert arena.space.pieces <= 2 + 5  # two heads, four pieces, what is left


def play_both(seed: int, operations: int, checks: bool) -> int:
    """Allocate and free at random in the arena and the obvious one; count what found no place."""
    draw = random.Random(seed)
    small = (0, 0, MIB)[seed % 3]
    size = draw.choice((64, 300, 5000)) * UNIT
    arena = Allocator(f"arena(small_area={small})", size, most_pieces=4096)
    plain = PlainArena(size, small)
    live: list[tuple[int, int]] = []
    failed = 0
    for _ in range(operations):
        if live and draw.random() < 0.45 + 0.2 * (len(live) > 400):
            piece, address = live.pop(draw.randrange(len(live)))
            arena.free(piece)
            plain.free(address)
        else:
            asked = draw.choice((1, UNIT, draw.randrange(1, 20 * UNIT), draw.randrange(1, size)))
            side = draw.choice((LOW, LOW, HIGH))
            found, due = arena.allocate(asked, side), plain.place(asked, side == HIGH)
            assert (None if found is None else arena.address(found)) == due
            failed += found is None
            if found is not None and due is not None:
                live.append((found, due))
            plain.touch()
        assert arena.largest_hole == plain.largest_hole
        assert arena.space.size_bytes - arena.space.occupied_bytes == plain.free_bytes
        assert arena.space.reserved_bytes == plain.reserved_bytes
        if checks and not small:
            check(arena, size)
    return failed


@pytest.mark.parametrize("seed", range(6))
def test_places_are_those_of_a_slow_obvious_arena(seed: int) -> None:
    """`benchmarks/memory.py random` does the same a million times."""
    assert play_both(seed, 600, checks=True) > 0
