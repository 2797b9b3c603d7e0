"""Lower bounds: what every run of a Program within a budget has to pay, whoever decides.

One moment of the run at a time, the bytes that are too many for it are dropped at the least cost;
at the worst moments, what they would be made from is counted too (``moment_bounds.py``).
Nothing here plans; planners with better bounds of their own keep them (``planning.py``).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .errors import InputError
from .jit import Bundle, Entry, entry
from .links import NO_LINK
from .moment_bounds import StorageUses, least_remat_ns
from .program import Program
from .result import RunResult, gap
from .traces.trace import Trace
from .workload import workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

NOT_POSSIBLE = -1.0
# So many moments are looked at more closely, and so far from each other (a part of all calls).
MOMENTS, APART = 3, 0.02


class Spans(Bundle):
    """What lives across each call of a Program, whatever the budget.

    A call whose results span time is an item; each time that its bytes or its cost change it takes
    another slot. Slots are sorted by cost per byte.
    """

    demand: Any  # bytes at each call if nothing is dropped that is read later
    size: Any
    cost: Any
    time: Any  # of each change, ascending
    slot: Any  # that is switched on, or off: then it is negative, less 1

    LAYOUT: ClassVar[dict[str, Any]] = {
        "demand": np.int64,
        "size": np.int64,
        "cost": np.int64,
        "time": np.int64,
        "slot": np.int64,
    }


class Sums(Bundle):
    """Fenwick trees over the slots that are on, and the answer for each call."""

    size: Any
    cost: Any
    dropped_cost: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "size": np.int64,
        "cost": np.int64,
        "dropped_cost": np.float64,
    }


def scan(spans: Spans, sums: Sums, budget: int) -> int:
    """Fill in the least cost of dropping what is too much at each call; the cheapest first."""
    n_slots, change = len(spans.size), 0
    step = 1
    while 2 * step <= n_slots:
        step *= 2
    for call in range(len(spans.demand)):
        while change < len(spans.time) and spans.time[change] <= call:
            slot, sign = spans.slot[change], 1
            if slot < 0:
                slot, sign = -slot - 1, -1
            at = slot + 1
            while at <= n_slots:
                sums.size[at] += sign * spans.size[slot]
                sums.cost[at] += sign * spans.cost[slot]
                at += at & -at
            change += 1
        excess, cost, at, width = spans.demand[call] - budget, 0, 0, step
        if excess <= 0:
            continue
        while width > 0:
            if at + width <= n_slots and sums.size[at + width] <= excess:
                at += width
                excess -= sums.size[at]
                cost += sums.cost[at]
            width //= 2
        if excess > 0 and at == n_slots:
            sums.dropped_cost[call] = NOT_POSSIBLE
            return call
        part = excess * (spans.cost[at] / spans.size[at]) if excess > 0 else 0.0
        sums.dropped_cost[call] = cost + part
    return -1


@functools.cache
def _scan() -> Entry:
    return entry(scan, (Spans, Sums))


def lower_bound(program: Program, budget: int | None) -> float:
    """Give a cost that no run of a Program within a budget can be below.

    Parameters
    ----------
    program : Program
        A trace lowered with ``mutation="copy"``.
    budget : int or None
        Bytes at once, constants and outputs included; None: no limit.

    Returns
    -------
    float
        In ns, all of the model's own compute included; infinite if no run fits.

    Notes
    -----
    It holds for every run without transfers, online or planned, under any deallocation policy.
    Proof. Take the moment at which call c runs for the first time. What is in memory then: the
    storages that c reads, its results and workspace, the constants made before that c or a later
    call reads, and some of the storages that *span* c: made first before c, not read by it, and
    read after it (or outputs). A storage that spans c and is not in memory is needed by the first
    run of a later call, or at the end; so after c the call that made it runs again, which is not
    that call's first run. Hence the run costs, beyond the model's own compute, at least the cost of
    each call that has made a storage that spans c and is missing, once however many of its results
    are missing. Where a view of a missing storage, first made before c, is read after c, the view
    went with the storage, and the call that makes it runs again too; it is counted only if it makes
    views of that storage alone, so that nothing is counted twice, and if the storage is its call's
    only one, so that the call's cost does not hang on which of its results are missing.

    So dropping at the moment c, with all of c's missing bytes = what is too much for the budget, is
    a knapsack whose items are calls: the sizes of their spanning results together, and their cost.
    Its fractional relaxation is a lower bound of it. Each moment gives a bound; the answer is the
    largest. Calls that cannot run twice cannot be dropped: their results count as held. At the end
    all outputs are in memory, so that no run fits into less. QED.

    At the moments with the largest bounds what a call reads is looked at too. A call that runs
    again after c reads storages that were made before c, each of which is in memory at c (whether
    it is read again in the model's own order or not), or is made again after c by a call that so
    runs again too. With views not counted, the relaxation of that is a linear program
    (``moment_bounds.py``).

    References
    ----------
    The relaxation: Dantzig, Operations Research 5 (1957), 266.
    """
    base = program.base_compute_ns
    if budget is None:
        return float(base)
    known = _knowledge(program)
    if known.output_bytes > budget:
        return math.inf
    if budget not in known.bounds:
        known.bounds[budget] = base + _least_remat_ns(program, known, budget)
    return float(known.bounds[budget])


def _least_remat_ns(program: Program, known: _Knowledge, budget: int) -> float:
    """Bound rematerialization: by the knapsack everywhere, more closely where that is most."""
    spans = known.spans
    dropped = np.zeros(len(spans.demand))
    trees = (np.zeros(len(spans.size) + 1, np.int64) for _ in range(2))
    sums = Sums(**dict(zip(("size", "cost"), trees, strict=True)), dropped_cost=dropped)
    if _scan().function(spans, sums, budget) >= 0:
        return math.inf
    most, left = float(dropped.max(initial=0.0)), dropped.copy()
    for _ in range(MOMENTS):
        if left.max(initial=0.0) <= 0:
            break
        call = int(left.argmax())
        most = max(most, least_remat_ns(program, known.lives, call, budget))
        reach = 1 + int(APART * len(left))
        left[max(0, call - reach) : call + reach + 1] = 0
    # Costs are whole, so the cost of a run is; the tolerance is far above the error of a sum.
    return math.ceil(most * (1 - 1e-10) - 1e-6)


class _Knowledge(NamedTuple):
    """What has been worked out for a Program, and its bounds by budget."""

    spans: Spans
    lives: StorageUses
    output_bytes: int
    bounds: dict[int, float]


_known: WeakKeyDictionary[Program, _Knowledge] = WeakKeyDictionary()


def _knowledge(program: Program) -> _Knowledge:
    """Work out what lives across each call, once for all budgets."""
    if program not in _known:
        if (program.tensors["takes_over"] >= 0).any():
            raise InputError("lower bound: mutation 'inplace': bounds are for 'copy'")
        spanning = _Spanning(program)
        outputs = np.unique(program.tensors["storage"][program.outputs])
        output_bytes = int(program.storages["size_bytes"][outputs].sum())
        _known[program] = _Knowledge(spanning.spans(), spanning.lives(), output_bytes, {})
    return _known[program]


class _Spanning:
    """Goes through a Program's storages and notes, call by call, what begins and ends to span."""

    def __init__(self, program: Program) -> None:
        calls, tensors, storages = program.calls, program.tensors, program.storages
        self.program = program
        self.end = len(calls)
        self.size = storages["size_bytes"][:-1].astype(np.int64)
        self.maker = tensors["call"][storages["root"][:-1]].astype(np.int64)
        self.is_constant = storages["is_constant"][:-1] == 1
        self.read_storage, self.read_call = self._reads()
        self.last = self.maker.copy()
        np.maximum.at(self.last, self.read_storage, self.read_call)
        repeatable = calls["is_recomputable"] == 1
        self.may_go = repeatable[self.maker] & ~self.is_constant

    def lives(self) -> StorageUses:
        """Give when storages are made and read."""
        return StorageUses(
            self.size, self.maker, self.last, self.is_constant, self.may_go, self.read_storage,
            self.read_call, self._demand(),
        )  # fmt: skip

    def _reads(self) -> tuple[Int64, Int64]:
        """Give each pair of a storage and a call that reads it, outputs as read at the end."""
        program = self.program
        counts = program.calls["end_source"] - program.calls["first_source"]
        call = np.repeat(np.arange(self.end), counts)
        outputs = np.unique(program.tensors["storage"][program.outputs])
        storage = np.concatenate([program.sources, outputs]).astype(np.int64)
        return storage, np.concatenate([call, np.full(len(outputs), self.end)])

    def spans(self) -> Spans:
        """Put demands, slots and their changes together."""
        time, item, size, cost = self._changes()
        order = np.lexsort((time, item))
        time, item = time[order], item[order]
        size, cost = np.cumsum(size[order]), np.cumsum(cost[order])  # each item's add up to 0
        # The last of the changes of an item at one time holds until the next one.
        holds = np.append((item[1:] != item[:-1]) | (time[1:] != time[:-1]), True)[: len(item)]
        time, size, cost = time[holds], size[holds], cost[holds]
        following = np.append(time[1:], self.end)
        is_slot = size > 0
        start, stop = time[is_slot], following[is_slot]
        size, cost = size[is_slot], cost[is_slot]
        rank = np.argsort(cost / size, kind="stable")
        slot = np.empty(len(rank), np.int64)
        slot[rank] = np.arange(len(rank))
        when = np.concatenate([stop, start])
        which = np.concatenate([-slot - 1, slot])
        order = np.argsort(when, kind="stable")
        return Spans(
            demand=self._demand(),
            size=size[rank].astype(np.int64),
            cost=cost[rank].astype(np.int64),
            time=when[order].astype(np.int64),
            slot=which[order],
        )

    def _changes(self) -> tuple[Int64, Int64, Int64, Int64]:
        """Give time, item, and by how much its bytes and its cost change from then on."""
        spanning = np.flatnonzero(self.may_go & (self.last > self.maker + 1))
        is_read = np.isin(self.read_storage, spanning) & (
            self.read_call < self.last[self.read_storage]
        )
        away, at = self.read_storage[is_read], self.read_call[is_read]
        views = self._views()
        time = [self.maker[spanning] + 1, self.last[spanning], at, at + 1]
        item = [self.maker[spanning]] * 2 + [self.maker[away]] * 2
        size = [self.size[spanning], -self.size[spanning], -self.size[away], self.size[away]]
        makers = np.unique(self.maker[spanning])
        own = self.program.calls["cost_ns"][makers].astype(np.int64)
        time += [np.zeros(len(makers)), np.full(len(makers), self.end), *views[:2]]
        item += [makers, makers, *[views[2]] * 2]
        cost = [np.zeros(len(part)) for part in size] + [own, -own, views[3], -views[3]]
        size += [np.zeros(len(part)) for part in cost[len(size) :]]
        return tuple(  # type: ignore[return-value]
            np.concatenate(parts).astype(np.int64) for parts in (time, item, size, cost)
        )

    def _views(self) -> tuple[Int64, Int64, Int64, Int64]:
        """Give when the calls begin and end to count that only make views of one storage.

        And the call that makes that storage, if it makes no other, and the view's own cost.
        """
        calls, tensors = self.program.calls, self.program.tensors
        storage, call = tensors["storage"].astype(np.int64), tensors["call"]
        lowest, highest = np.full(self.end, len(self.size)), np.full(self.end, -1)
        np.minimum.at(lowest, call, storage)
        np.maximum.at(highest, call, storage)
        shown = np.where(lowest == highest, lowest, 0)
        makes = np.bincount(self.maker, minlength=self.end)
        is_view = (
            (lowest == highest)
            & (self.maker[shown] != np.arange(self.end))
            & self.may_go[shown]
            & (makes[self.maker[shown]] == 1)
        )
        parents = calls["end_parent"] - calls["first_parent"]
        read_until = np.full(len(tensors), -1)
        np.maximum.at(read_until, self.program.parents, np.repeat(np.arange(self.end), parents))
        read_until[self.program.outputs] = self.end
        until = np.full(self.end, -1)
        np.maximum.at(until, call, read_until)
        view = np.flatnonzero(is_view & (until > np.arange(self.end)))
        cost = calls["cost_ns"][view].astype(np.int64)
        return view + 1, until[view], self.maker[shown[view]], cost

    def _demand(self) -> Int64:
        """Add up what is there at each call if all is kept that is read then or later."""
        calls = self.program.calls
        change = np.zeros(self.end + 2, np.int64)
        np.add.at(change, self.maker, self.size)
        np.add.at(change, self.last + 1, -self.size)
        kept = np.cumsum(change)[: self.end]
        return np.asarray(kept + calls["workspace_bytes"], np.int64)


def with_bound(trace: Trace, run: RunResult, *, cached: bool = True) -> RunResult:
    """Add to a run the bound, and how far the run is above it: ``bound_slowdown`` and ``gap``.

    Parameters
    ----------
    trace : Trace
    run : RunResult
        Of the trace. It is left as it is where updates are in place, or there is a link to the
        host: bounds are for copies, and for what can only be computed again.
    cached : bool
        As in `simulation.Options`.

    Examples
    --------
    >>> from rematsim.simulation import simulate
    >>> from rematsim.traces.synthetic import chain
    >>> trace = chain(6)
    >>> run = with_bound(trace, simulate(trace, "h_LRU", 5))
    >>> round(run.bound_slowdown, 3), round(run.gap, 3)
    (1.167, 0.0)
    """
    if run.mutation != "copy" or run.link not in (None, NO_LINK):
        return run
    program = workload(trace, cached=cached).program
    bound, base = lower_bound(program, run.budget_bytes), program.base_compute_ns
    if math.isinf(bound):
        return run
    bound_slowdown = bound / base if base else 1.0
    return dataclasses.replace(
        run, bound_slowdown=bound_slowdown, gap=gap(run.slowdown, bound_slowdown)
    )
