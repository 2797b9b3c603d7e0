"""Buffers with known lifetimes, and plans that give each of them an address.

The problem is dynamic storage allocation: buffers that live together must not overlap, and the
height, the end of the highest one, is to be small. `check_plan` is the one judge of plans, and
shares nothing with what makes them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import InputError
from .jit import Entry, entry
from .overlaps import NONE, Living, Sweep, first_overlap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

MOST_BYTES = 2**60  # of all buffers together, so that no sum of addresses leaves 64 bits


@dataclass(frozen=True)
class Buffers:
    """A set of buffers, one a place in each of the arrays.

    Attributes
    ----------
    ids : tuple of str
        What each is called.
    lower, upper : ndarray of int64
        Each lives from ``lower`` on and no more at ``upper``, in any unit of time.
    size : ndarray of int64
        Bytes; 0 is allowed, and takes no room.
    alignment : ndarray of int64
        Its address is to be a multiple of that.
    """

    ids: tuple[str, ...]
    lower: Int64
    upper: Int64
    size: Int64
    alignment: Int64

    @classmethod
    def of(
        cls,
        lower: Sequence[int] | Int64,
        upper: Sequence[int] | Int64,
        size: Sequence[int] | Int64,
        *,
        alignment: Sequence[int] | Int64 | None = None,
        ids: Sequence[str] | None = None,
    ) -> Buffers:
        """Make a set and check it; without ids they are numbered from 0.

        Raises
        ------
        InputError
            If a buffer breaks a rule; it is named.

        Examples
        --------
        >>> max_load(Buffers.of([0, 1], [2, 3], [4, 8]))
        12
        """
        first, end, bytes_ = (np.array(column, np.int64) for column in (lower, upper, size))
        ones = np.ones(len(first), np.int64)
        aligned = ones if alignment is None else np.array(alignment, np.int64)
        names = tuple(map(str, range(len(ones)) if ids is None else ids))
        made = cls(names, first, end, bytes_, aligned)
        _check_buffers(made)
        return made

    def __len__(self) -> int:
        """Give the number of buffers."""
        return len(self.ids)

    def part(self, chosen: Int64) -> Buffers:
        """Give some of them, by their places."""
        ids = tuple(self.ids[place] for place in chosen.tolist())
        columns = (self.lower, self.upper, self.size, self.alignment)
        return Buffers(ids, *(column[chosen] for column in columns))

    def rounded(self, unit: int) -> Buffers:
        """Give the same with sizes rounded up to a unit, and addresses that are multiples of it."""
        size = -(-self.size // unit) * unit
        return Buffers.of(
            self.lower,
            self.upper,
            size,
            alignment=np.lcm(self.alignment, unit),
            ids=self.ids,
        )


class AddressPlan(NamedTuple):
    """An address for each buffer, in their order.

    Attributes
    ----------
    buffers : Buffers
    address : ndarray of int64
    """

    buffers: Buffers
    address: Int64

    @property
    def height(self) -> int:
        """The end of the highest buffer."""
        return int((self.address + self.buffers.size).max(initial=0))


def max_load(buffers: Buffers) -> int:
    """Give the most bytes that live at once: no plan is lower."""
    return int(_loads(buffers)[1].max(initial=0))


def unit(buffers: Buffers) -> int:
    """Give the number of which all sizes and alignments are multiples, and so all heights."""
    solid = buffers.size > 0
    columns = (buffers.size[solid], buffers.alignment[solid])
    return int(np.gcd(*(np.gcd.reduce(column) for column in columns))) or 1


def sections(buffers: Buffers) -> tuple[Int64, Int64, int]:
    """Cut time where a lifetime begins or ends: the first and end section of each, their number."""
    ends = np.concatenate([buffers.lower, buffers.upper])
    times, places = np.unique(ends, return_inverse=True)
    first, end = np.split(places.ravel().astype(np.int64), 2)
    return first, end, max(0, len(times) - 1)


def peak_in_life(buffers: Buffers) -> Int64:
    """Give for each buffer the most bytes that live at once while it does."""
    first, end, count = sections(buffers)
    load = _loads(buffers)[1]
    peaks = [load]  # of 1, 2, 4, ... sections from each on
    while 2 ** len(peaks) <= count:
        half = 2 ** (len(peaks) - 1)
        last = peaks[-1]
        peaks.append(np.maximum(last[: len(last) - half], last[half:]))
    level = np.frexp(end - first)[1] - 1  # of the largest power of 2 in its length
    found = np.zeros(len(buffers), np.int64)
    for power, peak in enumerate(peaks):
        of_power = level == power
        low, high = first[of_power], end[of_power] - 2**power
        found[of_power] = np.maximum(peak[low], peak[high])
    return found


def parts(buffers: Buffers) -> Iterator[Int64]:
    """Give the places of the buffers between moments across which nothing lives."""
    order = np.argsort(buffers.lower, kind="stable")
    ends = np.maximum.accumulate(buffers.upper[order])
    cuts = np.flatnonzero(buffers.lower[order][1:] >= ends[:-1]) + 1
    yield from np.split(order, cuts)


def check_plan(plan: AddressPlan) -> None:
    """Refuse a plan that breaks a rule.

    Raises
    ------
    InputError
        If an address is missing, below 0 or not aligned, or two that live together overlap.
    """
    buffers, address = plan
    if len(address) != len(buffers):
        raise InputError(f"address plan: {len(address)} addresses for {len(buffers)} buffers")
    for wrong, rule in (
        (address < 0, "an address is at least 0"),
        (address % buffers.alignment != 0, "it is not a multiple of its alignment"),
    ):
        if wrong.any():
            place = int(np.argmax(wrong))
            raise InputError(
                f"address plan: buffer {buffers.ids[place]} at {int(address[place])}: {rule}"
            )
    pair = _overlap(plan)
    if pair is not None:
        one, other = pair
        raise InputError(
            f"address plan: buffers {buffers.ids[one]} (at {int(address[one])}, "
            f"{int(buffers.size[one])} bytes) and {buffers.ids[other]} (at {int(address[other])}, "
            f"{int(buffers.size[other])} bytes) overlap and live together"
        )


def _overlap(plan: AddressPlan) -> tuple[int, int] | None:
    """Give the first pair that overlaps, if there is one."""
    buffers = plan.buffers
    taking = np.flatnonzero(buffers.size > 0)
    taking = taking[np.lexsort((taking, plan.address[taking]))]  # now a rank is an index
    times = np.concatenate([buffers.upper[taking], buffers.lower[taking]])
    begins = np.repeat([False, True], len(taking))
    order = np.lexsort((begins, times))  # what ends goes before what begins
    sweep = Sweep(
        rank=np.tile(np.arange(len(taking), dtype=np.int32), 2)[order],
        begins=begins[order],
        low=plan.address[taking],
        high=(plan.address + buffers.size)[taking],
    )
    leaves = 1 << len(taking).bit_length()
    living = Living(count=np.zeros(2 * leaves, np.int32), found=np.zeros(1, np.int64))
    rank = _overlap_entry().function(sweep, living, len(order))
    return None if rank == NONE else (int(taking[living.found[0]]), int(taking[rank]))


@functools.cache
def _overlap_entry() -> Entry:
    """Get `overlaps.first_overlap`."""
    return entry(first_overlap, (Sweep, Living))


def _loads(buffers: Buffers) -> tuple[Int64, Int64]:
    """Give the times at which a lifetime begins or ends, and the bytes that live from each on."""
    times, places = np.unique(np.concatenate([buffers.lower, buffers.upper]), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, places.ravel(), np.concatenate([buffers.size, -buffers.size]))
    return times, np.cumsum(change)


def _check_buffers(buffers: Buffers) -> None:
    columns: dict[str, Any] = {
        "lower": buffers.lower,
        "upper": buffers.upper,
        "size": buffers.size,
        "alignment": buffers.alignment,
    }
    for name, column in columns.items():
        if column.shape != (len(buffers),):
            raise InputError(f"buffers: {len(column)} values of {name}, {len(buffers)} ids")
    rules = (
        ("size", buffers.size < 0, "it is at least 0"),
        ("size", buffers.size > MOST_BYTES, f"it is at most {MOST_BYTES}"),
        ("alignment", buffers.alignment < 1, "it is at least 1"),
        ("alignment", buffers.alignment > MOST_BYTES, f"it is at most {MOST_BYTES}"),
        ("upper", buffers.upper <= buffers.lower, "a lifetime ends after it begins"),
    )
    for name, wrong, rule in rules:
        if wrong.any():
            place = int(np.argmax(wrong))
            value = int(columns[name][place])
            raise InputError(f"buffer {buffers.ids[place]}: {name} ({value}): {rule}")
    room = (buffers.size + buffers.alignment - 1).astype(float).sum()
    if room > MOST_BYTES:
        raise InputError(f"buffers: {room:.3g} bytes in all: at most {MOST_BYTES}")
