"""POFO's dynamic program: the fastest schedule of a chain that keeps, recomputes or offloads.

What stages start from is kept in memory, or goes to the host in the forward pass and comes back in
the backward pass, each way over a link that is busy beside compute. Stages in between keep all, or
nothing: then they run again as rotor has them. The kernels are in ``sim/offloaded_chains.py``.

References
----------
Beaumont, Eyraud-Dubois, Shilova: NeurIPS 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...offloaded_chains import ALL, OUTPUT, RECORD, choose_entry, fill_entry
from ...offloaded_states import CHAIN_FIELDS, CHOICE_FIELDS, HERE_FIELDS, OffloadedChain, Times
from .clock import NO_LIMIT, Clock
from .rotor_chain import BACKWARD, FORWARD, FORWARD_ALL, Chain, RotorTable, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]
    Float = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """How long one unit of size takes each way; infinite: there is no way."""

    to_host: float
    from_host: float

    @property
    def move_data(self) -> bool:
        """Whether data can go and come back."""
        return math.isfinite(self.to_host) and math.isfinite(self.from_host)


class Plan(NamedTuple):
    """What to do with a chain.

    Attributes
    ----------
    steps : list of Step
        What runs.
    away : list of (int, bool)
        Stages of which something goes to the host, from its last use in the forward pass to its
        first in the backward pass: the whole record, or the output alone.
    """

    steps: list[Step]
    away: list[tuple[int, bool]]


class PofoTable:
    """The least times of the rests of a chain, by what is in memory and on its way.

    Parameters
    ----------
    chain : Chain
    memory : int
        The most memory that will be asked for, all included.
    slots : int
        Into how many equal parts memory is cut; sizes are rounded up to whole parts.
    rates : Rates
        Of the link.
    clock : Clock
        When it is over, the chain has no time and no schedule.

    Notes
    -----
    Time O(L^2 slots^3) at worst, space O(L slots^3). Transfers take their bytes over the rate, in
    which a share of the latency may be. What is offloaded is on its way from when it is read last.
    A segment that runs again leaves room for what has to come back meanwhile, or waits for it
    afterwards.
    """

    def __init__(
        self, chain: Chain, memory: int, slots: int, rates: Rates, clock: Clock = NO_LIMIT
    ) -> None:
        self.n = len(chain.forward)
        self.rotor = RotorTable(chain, memory, slots, clock)
        self.slots, self.unit = self.rotor.slots, self.rotor.unit
        self.is_whole = (0, self.n - 1) in self.rotor.best
        if not self.is_whole:
            return
        self.arrays = self._arrays(replace(chain, lighter=()), rates)
        self.times = self._times()
        for stage in range(self.n, -1, -1):
            if clock.is_over:
                self.is_whole = False
                return
            fill_entry().function(self.arrays, self.times, stage)

    def _times(self) -> Times:
        widths = np.arange(self.slots + 1, 0, -1, dtype=np.int64) ** 2
        start = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        states = 2 * (self.n + 1) * int(start[-1])
        here, choice = (
            np.zeros(1, fields).view(np.recarray) for fields in (HERE_FIELDS, CHOICE_FIELDS)
        )
        least = np.empty((self.n + 1) * (self.slots + 1) ** 2)
        return Times(time=np.empty(states), least=least, start=start, here=here, choice=choice)

    def _arrays(self, chain: Chain, rates: Rates) -> OffloadedChain:
        sizes, n, slots = self.rotor.sizes, self.n, self.slots
        output, record, gradient, extra, back_extra = map(np.array, sizes)
        forward, backward = np.array(chain.forward, float), np.array(chain.backward, float)
        begins, ends = _summed(forward), _summed(backward)
        out, back = rates.to_host * self.unit, rates.from_host * self.unit
        facts = np.zeros(1, CHAIN_FIELDS)
        facts["stages"], facts["slots"], facts["moves"] = n, slots, rates.move_data
        facts["to_host_time"], facts["from_host_time"] = out, back
        facts["record"] = record[-1]
        sent = self._moved(begins, out, rates)
        need, need_sent = self._needs(output, extra, int(gradient[n]), sent)
        whole, part = np.zeros(2 * n, np.int64), np.zeros(2 * n, np.int64)
        whole[OUTPUT::2], part[OUTPUT::2], part[RECORD::2] = output[:n], output[:n], output[:n]
        whole[RECORD + 2 :: 2] = record[:-1]
        both, again = forward + backward, self._again()
        return OffloadedChain(
            facts=facts.view(np.recarray),
            whole=whole,
            part=part,
            forward=begins,
            both=both,
            least=np.append(np.cumsum(both[::-1])[::-1], 0.0),
            need_forward=(gradient[n] + record + extra).astype(np.int64),
            need_backward=(gradient[1:] + gradient[:-1] + record + back_extra).astype(np.int64),
            sent=sent,
            fetched=self._moved(ends, back, rates),
            need=need,
            need_sent=need_sent,
            again=again,
            moved=self._moved_again(again, back, rates),
        )

    def _moved(self, times: Float, slot_time: float, rates: Rates) -> Int64:
        """Give how many slots the link moves up to some times; rounding errors do not add up."""
        if not rates.move_data:
            return np.zeros(len(times), np.int64)
        if slot_time == 0:
            return np.arange(len(times), dtype=np.int64) * (2 * self.slots)
        most = 2.0 * self.slots * (1 + np.arange(len(times)))
        moved: Int64 = np.round(np.minimum(times / slot_time, most)).astype(np.int64)
        return moved

    def _needs(self, output: Any, extra: Any, gradient: int, sent: Int64) -> tuple[Int64, Int64]:
        """Give the slots that segments need to be run forward, and less what is sent meanwhile."""
        n = self.n
        need, less = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
        first = gradient + output[1:] + extra
        inner = first + output[:-1]
        for i in range(n):
            needs = np.append(first[i], inner[i + 1 :])
            need[i, i:] = np.maximum.accumulate(needs)
            less[i, i:] = np.maximum.accumulate(needs - (sent[i:n] - sent[i]))
        return need.ravel(), less.ravel()

    def _again(self) -> Float:
        again = np.full((self.n, self.n, self.slots + 1), np.inf)
        for (first, last), times in self.rotor.best.items():
            again[first, last] = times
        return again.ravel()

    def _moved_again(self, again: Float, slot_time: float, rates: Rates) -> Any:
        """Give how many slots the link moves while segments run again, at most all."""
        moved = np.full(len(again), self.slots, np.int32)
        if rates.move_data and slot_time > 0:
            is_short = again < slot_time * self.slots
            moved[is_short] = again[is_short] / slot_time
        return moved

    def time(self, memory: int) -> float:
        """Give the least time within a memory; infinite if there is none."""
        pinned = self.slots - self._slots(memory)
        if not self.is_whole or pinned > self.slots:
            return math.inf
        return float(self.times.time[int(self.times.start[pinned])])

    def _slots(self, memory: int) -> int:
        return min(math.floor(memory / self.unit + 1e-9), self.slots)

    def plan(self, memory: int) -> Plan | None:
        """Give a fastest schedule within a memory; None if there is none."""
        if math.isinf(self.time(memory)):
            return None
        here: Any = self.times.here
        choice: Any = self.times.choice
        here["pinned"] = self.slots - self._slots(memory)
        for name in ("stage", "form", "leaving"):
            here[name] = 0
        coming = 0
        forward: list[Step] = []
        backward: list[list[Step]] = []
        away: list[tuple[int, bool]] = []
        while (stage := int(here["stage"][0])) < self.n:
            form = int(here["form"][0])
            choose_entry().function(self.arrays, self.times, coming)
            coming = int(choice["coming"][0])
            end, rerun = int(choice["end"][0]), int(choice["rerun"][0])
            if choice["offloads"][0]:
                away.append((stage - 1, form == RECORD))
            if end == ALL:
                forward.append((FORWARD_ALL, stage))
                backward.append([(BACKWARD, stage)])
            else:
                forward += [(FORWARD, inner) for inner in range(stage, end + 1)]
                backward.append(self.rotor.steps_of_part(stage, end, rerun))
        return Plan(forward + [step for steps in reversed(backward) for step in steps], away)


def _summed(times: Float) -> Float:
    return np.concatenate([[0.0], np.cumsum(times)])
