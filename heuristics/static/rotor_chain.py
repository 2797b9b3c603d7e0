"""Rotor's dynamic program: the cheapest memory-persistent schedule of a chain of stages.

A stage is run forward so that nothing stays but its output, so that its input stays too, or so that
all stays that its backward step needs. What is kept stays until that backward step.

References
----------
Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: arXiv 1911.13214.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .clock import NO_LIMIT, Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What a schedule of a chain consists of.
FORWARD, FORWARD_ALL, BACKWARD = "forward", "forward-all", "backward"
# Before a backward step: make again what the stage's first, second, ... lighter record lacks.
AGAIN = ("again", "again-2", "again-3", "again-4")
Step = tuple[str, int]


@dataclass(frozen=True)
class Chain:
    """Stages 0 to L - 1; sizes in one unit, times in another.

    Attributes
    ----------
    forward, backward : sequence of int
        Times of each stage.
    output : sequence of int, L + 1 of them
        Size of what each stage starts from, and of what the last one makes.
    record : sequence of int
        Size of all that a stage's backward step needs of it, its output included.
    gradient : sequence of int, L + 1 of them
        Sizes of the gradients of ``output``.
    forward_extra, backward_extra : sequence of int
        Size of what is there only while a step runs; empty: none.
    lighter : sequence of sequence of (int, int)
        Of each stage records of which something is left out, at most four: their size, and the time
        to make what is left out again before the backward step; empty: none.
    """

    forward: Sequence[int]
    backward: Sequence[int]
    output: Sequence[int]
    record: Sequence[int]
    gradient: Sequence[int]
    forward_extra: Sequence[int] = ()
    backward_extra: Sequence[int] = ()
    lighter: Sequence[Sequence[tuple[int, int]]] = ()


class _Sizes(NamedTuple):
    """Sizes of a chain in slots, each rounded up."""

    output: list[int]
    record: list[int]
    gradient: list[int]
    forward_extra: list[int]
    backward_extra: list[int]


class RotorTable:
    """The least times of all parts of a chain, for every number of slots of memory.

    Parameters
    ----------
    chain : Chain
    memory : int
        The most memory that will be asked for, all included.
    slots : int
        Into how many equal parts memory is cut; sizes are rounded up to whole parts.
    clock : Clock
        When it is over, the whole chain has no time and no schedule.

    Notes
    -----
    The input of a part is there and not counted; the gradient of its output is counted.
    Time O(L^3 slots), space O(L^2 slots).
    """

    def __init__(
        self, chain: Chain, memory: int, slots: int = 500, clock: Clock = NO_LIMIT
    ) -> None:
        self.chain = chain
        self.n = len(chain.forward)
        self.slots = min(slots, memory)
        self.unit = memory / max(1, self.slots)
        none = [0] * self.n
        self.sizes = _Sizes(
            *(
                [math.ceil(size / self.unit - 1e-9) for size in part]
                for part in (
                    chain.output,
                    chain.record,
                    chain.gradient,
                    chain.forward_extra or none,
                    chain.backward_extra or none,
                )
            )
        )
        # Of each stage: size in slots, and more time, of its records; the whole one first.
        self.records = [[(size, 0)] for size in self.sizes.record]
        for records, lighter in zip(self.records, chain.lighter, strict=False):
            records += [(math.ceil(size / self.unit - 1e-9), extra) for size, extra in lighter]
        self.before = np.concatenate([[0], np.cumsum(chain.forward)]).astype(np.float64)
        self.best: dict[tuple[int, int], NDArray[Any]] = {}
        # The same by first and last stage; by last and first stage, with the first's input there.
        shape = (self.n, self.n, self.slots + 1)
        self._times, self._after = np.empty(shape), np.empty(shape)
        for length in range(self.n):
            for first in range(self.n - length):
                if clock.is_over:
                    return
                self._fill(first, first + length)

    def _need_all(self, first: int, last: int) -> int:
        """Give the slots in which a part's first stage can leave all, and be differentiated."""
        output, record, gradient, extra, back_extra = self.sizes
        return max(
            gradient[last + 1] + record[first] + extra[first],
            gradient[first + 1] + gradient[first] + record[first] + back_extra[first],
        )

    def _need_forward(self, first: int, last: int) -> int:
        """Give the slots in which a part can be run forward from its input, to its last stage."""
        output, extra = self.sizes.output, self.sizes.forward_extra
        most = output[first + 1] + extra[first]
        for stage in range(first + 1, last):
            most = max(most, output[stage] + output[stage + 1] + extra[stage])
        return self.sizes.gradient[last + 1] + most

    def _fill(self, first: int, last: int) -> None:
        own = float(self.chain.forward[first] + self.chain.backward[first])
        best = np.full(self.slots + 1, np.inf)
        if first == last:
            best[self._need_all(first, last) :] = own
        else:
            best = self._cut(first, last).min(axis=0)
            best[: self._need_forward(first, last)] = np.inf
            kept = np.full(self.slots + 1, np.inf)
            for size, extra in self.records[first]:
                np.minimum(kept, own + extra + _less(self.best[first + 1, last], size), out=kept)
            kept[: self._need_all(first, last)] = np.inf
            np.minimum(best, kept, out=best)
        self._times[first, last] = self.best[first, last] = best
        self._after[last, first] = _less(best, self.sizes.output[first])

    def _cut(self, first: int, last: int, room: Any = slice(None)) -> NDArray[Any]:
        """Run forward to each later stage, do what follows, and come back to the rest."""
        advance = self.before[first + 1 : last + 1] - self.before[first]
        after = self._after[last, first + 1 : last + 1, room]
        return np.asarray((advance + after.T).T + self._times[first, first:last, room])

    def _room(self, memory: int) -> int:
        """Give the slots beside the chain's input; negative where there are none."""
        return min(math.floor(memory / self.unit + 1e-9), self.slots) - self.sizes.output[0]

    def time(self, memory: int) -> float:
        """Give the least time within a memory; infinite if there is none."""
        room, whole = self._room(memory), self.best.get((0, self.n - 1))
        return math.inf if room < 0 or whole is None else float(whole[room])

    def steps(self, memory: int) -> list[Step]:
        """Give a cheapest schedule within a memory; empty if there is none."""
        if math.isinf(self.time(memory)):
            return []
        return self.steps_of_part(0, self.n - 1, self._room(memory))

    def steps_of_part(self, first: int, last: int, room: int) -> list[Step]:
        """Give a cheapest schedule of a part that has one in so many slots beside its input."""
        steps: list[Step] = []
        todo: list[tuple[str, int, int, int]] = [("part", first, last, room)]
        while todo:
            what, first, last, room = todo.pop()
            if what != "part":
                steps.append((what, first))
            elif first == last:
                steps += [(FORWARD_ALL, first), (BACKWARD, first)]
            else:
                todo += reversed(self._choice(first, last, room))
        return steps

    def _choice(self, first: int, last: int, room: int) -> list[tuple[str, int, int, int]]:
        """Give what the best schedule of a part does, in order."""
        best = self.best[first, last][room]
        cuts = np.flatnonzero(self._cut(first, last, room) == best)
        if room >= self._need_forward(first, last) and len(cuts):
            cut = first + 1 + int(cuts[0])
            runs = [(FORWARD, stage, stage, 0) for stage in range(first, cut)]
            after = ("part", cut, last, room - self.sizes.output[cut])
            return [*runs, after, ("part", first, cut - 1, room)]
        rest_times = self.best[first + 1, last]
        times = [
            extra + rest_times[room - size] if size <= room else np.inf
            for size, extra in self.records[first]
        ]
        record = int(np.argmin(times))
        rest = ("part", first + 1, last, room - self.records[first][record][0])
        again = [(AGAIN[record - 1], first, first, 0)] if record else []
        return [(FORWARD_ALL, first, first, 0), rest, *again, (BACKWARD, first, first, 0)]


def _less(times: NDArray[Any], size: int) -> NDArray[Any]:
    """Give times by memory where some of it is taken."""
    shifted = np.full(len(times), np.inf)
    if size < len(times):
        shifted[size:] = times[: len(times) - size]
    return shifted
