"""What an audit derives of addresses: where everything lies, and where the model would put it.

Slow and obvious: what is in use is a list in order of address, and holes are what lies between. So
a byte that the engine lost, or neighbors that it did not merge, show as a place that is not the one
derived here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .audit_caching import PlainCaching
from .audit_extents import Extents
from .heuristics.methods import get
from .heuristics.registry import names
from .memory_models import CACHING, COUNTER, find_memory, settings_of
from .partition import BY_CLASS, NO_PARTITION, is_expensive_operator

if TYPE_CHECKING:
    from collections.abc import Collection

    from .audit_facts import Call, Storage, Tensor
    from .heuristics.registry import Heuristic
    from .traces.trace import Trace

UNIT, SMALL_OBJECT, MOST = 512, 10 * 1024, 2**62  # bytes


class PlainArena:
    """The memory model ``arena``, by its rules alone (docs/semantics.md, 7).

    Parameters
    ----------
    budget_bytes : int or None
    small_area_bytes : int
    """

    def __init__(self, budget_bytes: int | None, small_area_bytes: int = 0) -> None:
        self.size = min(MOST if budget_bytes is None else budget_bytes, MOST) // UNIT * UNIT
        small = -(-small_area_bytes // UNIT) * UNIT
        small = 0 if 2 * small > self.size else small
        self.main = Extents(0, self.size - small)
        self.small = Extents(self.size - small, self.size)

    def place(self, size_bytes: int, is_high: bool = False) -> int | None:
        """Give the address of a new place of so many bytes; None if there is none."""
        size = -(-size_bytes // UNIT) * UNIT
        is_small = size_bytes <= SMALL_OBJECT
        for area in (self.small, self.main) if is_small else (self.main,):
            holes = [hole for hole in area.holes() if hole[0] >= size]
            if holes:
                hole_size, begin = min(holes)
                if is_high and area is self.main:
                    begin += hole_size - size
                area.add(begin, begin + size)
                return begin
        return None

    def stretches(self, size_bytes: int) -> tuple[int, list[Extents]]:
        """Give how much a request takes, and a copy of each stretch that may have it."""
        small = [self.small.copy()] if size_bytes <= SMALL_OBJECT else []
        return size_bytes, [*small, self.main.copy()]

    def free(self, address: int) -> None:
        """Free what lies there."""
        (self.main if address < self.main.end else self.small).remove(address)

    def touch(self) -> None:
        """Note that all that is in use now has been in use."""
        self.main.touch()
        self.small.touch()

    @property
    def reserved_bytes(self) -> int:
        """All that has ever been in use."""
        return self.main.touched_bytes + self.small.touched_bytes

    reserved_peak_bytes = reserved_bytes  # none of it is ever given back
    retries = 0  # nor tried again on its own
    keeps_failures = False  # what finds no place leaves no trace
    goes_by_windows_alone = True  # nothing makes room but neighbors that go

    @property
    def free_bytes(self) -> int:
        """All that is free."""
        return sum(size for size, _ in self.main.holes() + self.small.holes())

    @property
    def largest_hole(self) -> int:
        """The size of the largest hole."""
        return max((size for size, _ in self.main.holes() + self.small.holes()), default=0)


class Sides:
    """The end of a hole at which each call's results are placed, by the heuristic's partition.

    Calls are asked for in the order of the trace, as they run; what runs again was asked for.

    Parameters
    ----------
    trace : Trace
    partition : {"class", "density"}
    """

    def __init__(self, trace: Trace, partition: str) -> None:
        self.trace, self.partition = trace, partition
        self.cost = self.size = 0  # of the calls so far
        self.high: dict[Call, bool] = {}

    def is_high(self, call: Call) -> bool:
        """Say whether a call is a cheap one."""
        if call not in self.high:
            self.high[call] = not call.is_constant and not self._is_expensive(call)
        return self.high[call]

    def _is_expensive(self, call: Call) -> bool:
        if self.partition == BY_CLASS:
            operator = self.trace.operators[int(self.trace.call_operator[call.number])]
            return is_expensive_operator(operator)
        size = sum(tensor.size for tensor in call.results)
        self.cost, self.size = self.cost + call.cost, self.size + size
        return call.cost * self.size >= size * self.cost


class Layout:
    """Where storages lie in an arena, compared row by row with an event log.

    Parameters
    ----------
    arena : PlainArena or PlainCaching
    sides : Sides, optional
        Which calls' results are placed at the high end of a hole; without, none are.
    goes_by_windows : bool
        Whether several storages go at once.
    """

    def __init__(
        self,
        arena: PlainArena | PlainCaching,
        sides: Sides | None = None,
        goes_by_windows: bool = False,
    ) -> None:
        self.arena, self.sides, self.goes_by_windows = arena, sides, goes_by_windows
        self.address: dict[Storage, int] = {}
        self.placed: dict[Tensor | None, int] = {}  # of the call that fits; None: its workspace
        self.fits_now = True
        self.wanted_bytes = 0  # what found no place, and where it may be
        self.crowd: list[Extents] = []
        self.retries = 0
        self.free_parts: list[int] = []  # free bytes before each call that evicted was placed

    def fit(self, call: Call, taken: dict[Tensor, Storage]) -> bool:
        """Place a call's results and its workspace, or nothing."""
        arena, self.placed, free = self.arena, {}, self.arena.free_bytes
        self.retries += not self.fits_now
        is_high = self.sides is not None and self.sides.is_high(call)
        asked: list[tuple[Tensor | None, int]] = [
            (t, t.size) for t in call.results if t not in taken
        ]
        for tensor, size in [*asked, (None, call.workspace)]:
            if size == 0:
                continue
            address = arena.place(size, is_high)
            if address is None:
                self._give_up(size)
                return False
            self.placed[tensor] = address
        arena.touch()
        if not self.fits_now:
            self.free_parts.append(free)
        self.fits_now = True
        return True

    def _give_up(self, size: int) -> None:
        """Free what a call had got; no window of an arena may be made of that."""
        if self.arena.goes_by_windows_alone:
            self.wanted_bytes, self.crowd = self.arena.stretches(size)
        for address in self.placed.values():
            self.arena.free(address)
        if not self.arena.goes_by_windows_alone:
            self.wanted_bytes, self.crowd = self.arena.stretches(size)
        self.fits_now = False

    def settle(self, call: Call, taken: dict[Tensor, Storage]) -> None:
        """Let a call have run: its results stay, second copies and the workspace go."""
        for tensor, address in self.placed.items():
            if tensor is None or tensor.defined:
                self.arena.free(address)
            else:
                self.address[tensor.storage] = address
        for tensor, old in taken.items():
            if old in self.address:
                self.address[tensor.storage] = self.placed[tensor] = self.address.pop(old)

    def drop(self, storage: Storage) -> None:
        """Free what a storage has."""
        if storage in self.address:
            address = self.address.pop(storage)
            self.arena.free(address)
            for area in self.crowd:
                area.remove(address)

    def has_window(self, evictable: Collection[Storage] = ()) -> bool:
        """Say whether neighbors that are free or may go have the bytes that found no place."""
        begins = {self.address[storage] for storage in evictable if storage in self.address}
        for area in self.crowd:
            emptied = Extents(area.begin, area.end)
            emptied.used = [part for part in area.used if part[0] not in begins]
            if any(size >= self.wanted_bytes for size, _ in emptied.holes()):
                return True
        return False

    def can_make_room(self, evictable: Collection[Storage]) -> bool:
        """Say whether something may go for what found no place."""
        if self.goes_by_windows and self.arena.goes_by_windows_alone:
            return self.has_window(evictable)
        return bool(evictable)

    def figures(self, status: str, budget_bytes: int | None, knows_failure: bool) -> dict[str, Any]:
        """Give the row's figures as derived, without those that an unknown failure changed."""
        parts, budget = self.free_parts, budget_bytes or 1
        if self.arena.keeps_failures and not knows_failure:
            return {"fragmentation": sum(parts) / len(parts) / budget if parts else None}
        return {
            "retries": self.retries + self.arena.retries,
            "reserved_peak_bytes": self.arena.reserved_peak_bytes,
            "fragmentation": sum(parts) / len(parts) / budget if parts else None,
            "largest_hole_bytes": self.arena.largest_hole if status == "oom" else None,
        }


def layout_of(trace: Trace, row: dict[str, Any]) -> Layout | None:
    """Make what follows a memory model's addresses; None if it has none that can be derived."""
    model = find_memory(row["memory"])
    if model.model == COUNTER:
        return None
    heuristic = declared(row["method"])
    goes_by_windows = heuristic is not None and heuristic.kind == "window"
    plain = plain_model(model.name, row["budget_bytes"])
    has_sides = heuristic is not None and heuristic.partition != NO_PARTITION
    if isinstance(plain, PlainCaching) or heuristic is None or not has_sides:
        return Layout(plain, goes_by_windows=goes_by_windows)
    return Layout(plain, Sides(trace, heuristic.partition), goes_by_windows)


def plain_model(memory: str, budget_bytes: int) -> PlainArena | PlainCaching:
    """Make the slow obvious one of a memory model with addresses."""
    model = find_memory(memory)
    if model.model == CACHING:
        return PlainCaching(budget_bytes, settings_of(model.name))
    return PlainArena(budget_bytes, *model.settings)


def declared(method: str) -> Heuristic | None:
    """Find what a built-in heuristic says of itself; None of others."""
    return get(method) if method.partition("(")[0] in names() else None
