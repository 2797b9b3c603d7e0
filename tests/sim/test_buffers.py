"""Buffers and address plans: what they are, what breaks a rule, what is read and written."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from random_buffers import random_buffers
from rematsim.buffer_files import load_address_plan, load_buffers, save_address_plan
from rematsim.buffers import AddressPlan, Buffers, check_plan, max_load, parts, peak_in_life
from rematsim.errors import InputError

# Three of 4 bytes; the first two live together, the last two do.
THREE = Buffers.of([0, 1, 2], [2, 3, 4], [4, 4, 4])


def plan(buffers: Buffers, *address: int) -> AddressPlan:
    return AddressPlan(buffers, np.array(address, np.int64))


def overlaps_by_pairs(given: AddressPlan) -> bool:
    """Look at every pair."""
    buffers, address = given
    rows = list(zip(buffers.lower, buffers.upper, address, address + buffers.size, strict=True))
    return any(
        a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3] and a[3] > a[2] and b[3] > b[2]
        for i, a in enumerate(rows)
        for b in rows[:i]
    )


def test_the_maximum_load_is_that_of_the_worst_moment() -> None:
    """At 1 the first two live, at 2 the last two: 8 bytes; a lifetime does not have its end."""
    assert max_load(THREE) == 8
    assert peak_in_life(THREE).tolist() == [8, 8, 8]
    assert max_load(Buffers.of([0, 2], [2, 3], [4, 5])) == 5
    assert max_load(Buffers.of([], [], [])) == 0


def test_peaks_in_lives_are_those_of_a_plain_count() -> None:
    for seed in range(30):
        buffers = random_buffers(seed, 12, time=20)
        times = range(21)
        loads = [int(buffers.size[(buffers.lower <= t) & (t < buffers.upper)].sum()) for t in times]
        expected = [
            max(loads[a:b])
            for a, b in zip(buffers.lower.tolist(), buffers.upper.tolist(), strict=True)
        ]
        assert peak_in_life(buffers).tolist() == expected
        assert max_load(buffers) == max(loads)


def test_parts_are_cut_where_nothing_lives_across() -> None:
    buffers = Buffers.of([4, 0, 1, 6], [6, 2, 4, 9], [1, 1, 1, 1])
    assert [part.tolist() for part in parts(buffers)] == [[1, 2], [0], [3]]


def test_a_plan_may_use_an_address_again() -> None:
    check_plan(plan(THREE, 0, 4, 0))
    assert plan(THREE, 0, 4, 0).height == 8


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ((0, 3, 0), "buffers 0 .at 0, 4 bytes. and 1 .at 3, 4 bytes. overlap and live together"),
        ((0, 4, 7), "overlap"),
        ((0, -1, 4), "buffer 1 at -1: an address is at least 0"),
        ((0, 4), "2 addresses for 3 buffers"),
    ],
)
def test_a_plan_with_a_fault_is_refused(address: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_plan(plan(THREE, *address))


def test_an_address_is_a_multiple_of_its_alignment() -> None:
    buffers = Buffers.of([0], [1], [4], alignment=[8])
    check_plan(plan(buffers, 16))
    with pytest.raises(InputError, match="buffer 0 at 12: it is not a multiple"):
        check_plan(plan(buffers, 12))


def test_the_sweep_agrees_with_looking_at_every_pair() -> None:
    """On random addresses, most of which overlap somewhere, some of which do not."""
    draw = np.random.default_rng(1)
    refused = 0
    for seed in range(400):
        buffers = random_buffers(seed, int(draw.integers(1, 7)))
        given = plan(buffers, *draw.integers(0, 20, len(buffers)).tolist())
        if overlaps_by_pairs(given):
            refused += 1
            with pytest.raises(InputError, match="overlap"):
                check_plan(given)
        else:
            check_plan(given)
    assert 100 < refused < 350


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [0], [4]), "buffer 0: upper .0.: a lifetime ends after it begins"),
        (([0, 1], [1, 2], [4, -1]), "buffer 1: size .-1.: it is at least 0"),
        (([0], [1], [2**62]), "buffer 0: size"),
        (([0, 0], [1], [4]), "1 values of upper, 2 ids"),
        (([0] * 3, [1] * 3, [2**59] * 3), "bytes in all"),
    ],
)
def test_buffers_that_cannot_be_are_refused(columns: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Buffers.of(*columns)


def test_rounding_moves_sizes_and_addresses_to_a_grid() -> None:
    rounded = Buffers.of([0], [1], [513], alignment=[3]).rounded(512)
    assert (rounded.size.tolist(), rounded.alignment.tolist()) == ([1024], [1536])


def test_buffers_can_be_pickled() -> None:
    assert max_load(pickle.loads(pickle.dumps(THREE))) == 8


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    save_address_plan(plan(THREE, 0, 4, 0), path)
    assert path.read_text().splitlines()[:2] == ["id,lower,upper,size,offset", "0,0,2,4,0"]
    assert load_address_plan(path).address.tolist() == [0, 4, 0]
    assert load_buffers(path).ids == ("0", "1", "2")


def test_a_written_plan_with_a_fault_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("id,lower,upper,size,offset\nx,0,2,4,0\ny,1,3,4,2\n")
    with pytest.raises(InputError, match=r"plan.csv: address plan: buffers x .* and y .* overlap"):
        load_address_plan(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: no column lower"),
        ("id,lower,upper\n", ":1: no column size"),
        ("lower,upper,size,colour\n", ":1: column 'colour'"),
        ("lower,upper,size,size\n", ":1: column 'size' twice"),
        ("lower,upper,size\n1,2\n", ":2: 2 values: the header has 3"),
        ("lower,upper,size\n1,2,x\n", r":2: size \('x'\): it is a whole number"),
        ("lower,upper,size\n1,2,1e9\n", ":2: size"),
        ("lower,upper,size\n0,1,99999999999999999999\n", ":2: size"),
        ("id,lower,upper,size\nb,2,1,4\n", "buffer b: upper"),
        ('id,lower,upper,size\n"b\x00,2,1,4\n', ":"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"buffers.csv.*{message}") as caught:
        load_buffers(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_csv_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with pytest.raises(InputError, match="no such file"):
        load_buffers(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        load_buffers(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_buffers(tmp_path)
    path.write_text("lower,upper,size\n0,1,4\n")
    with pytest.raises(InputError, match="no column offset"):
        load_address_plan(path)
