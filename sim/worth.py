"""What a little more memory would buy: the storages whose evictions cost most, and the proof.

The measure looks at the run as it was; whether it holds, replays with a larger budget tell, as one
storage more in memory changes every later choice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import compiled
from .causes import Causes
from .heuristics.registry import Heuristic
from .opcodes import OOM, STATUSES
from .pool import HOLE
from .report import columns_of_run
from .result import slowdown
from .runner import Chooser, Run
from .scores import NoRoomError, choose_as, options_of
from .simulation import Options, chooser_for, settings_for
from .story import NONE, Story
from .workload import Workload

if TYPE_CHECKING:
    from .program import Program
    from .state import State


@dataclass(frozen=True)
class Worth:
    """What it cost that storages were evicted for lack of memory.

    Attributes
    ----------
    storages : tuple of int
        One; several where one call makes them, and would have had to run for each of them.
    names : tuple of str
    module, operator : str
        Of the largest.
    bytes : int
        Of all.
    returns : int
        How often calls ran again to bring them back.
    cost_ns : int
        Their time, and that of all other recomputations that nothing else needed
        (`causes.Causes.in_all_ns`). One may be part of another: they are not to be added.
    """

    storages: tuple[int, ...]
    names: tuple[str, ...]
    module: str
    operator: str
    bytes: int
    returns: int
    cost_ns: int

    @property
    def ns_per_byte(self) -> float:
        """What a byte would save if they had stayed, and all else had been as it was."""
        return self.cost_ns / self.bytes


@dataclass(frozen=True)
class Larger:
    """The run with a larger budget.

    Attributes
    ----------
    first : int
        The first so many rows of the list are what the budget has room for in addition.
    budget_bytes : int
    status, slowdown, rematerializations
        As columns of a run with that budget, in which the heuristic does what it likes.
    status_keeping, slowdown_keeping, rematerializations_keeping
        The same where it may not evict these storages.
    """

    first: int
    budget_bytes: int
    status: str
    slowdown: float | None
    rematerializations: int
    status_keeping: str
    slowdown_keeping: float | None
    rematerializations_keeping: int


def worths(story: Story, causes: Causes) -> list[Worth]:
    """Rank storages by what their evictions cost, per byte; the dearest first."""
    steps_of: dict[frozenset[int], list[int]] = defaultdict(list)
    for number, storages in causes.forced.items():
        steps_of[storages].append(number)
    near: dict[int, list[frozenset[int]]] = defaultdict(list)
    for storages in steps_of:
        for storage in storages:
            near[storage].append(storages)
    found = []
    for storages in steps_of:
        parts = {part for s in storages for part in near[s] if part <= storages}
        numbers = {number for part in parts for number in steps_of[part]}
        worth = _worth(story, causes, storages, numbers)
        if worth.bytes:
            found.append(worth)
    return sorted(found, key=lambda w: (-w.ns_per_byte, -w.cost_ns, w.storages))


def _worth(story: Story, causes: Causes, storages: frozenset[int], numbers: set[int]) -> Worth:
    table = story.storages
    ranked = sorted(storages, key=lambda s: (-int(table["bytes"][s]), s))
    return Worth(
        storages=tuple(ranked),
        names=tuple(str(table["name"][s]) for s in ranked),
        module=str(table["module"][ranked[0]]),
        operator=str(table["operator"][ranked[0]]),
        bytes=sum(int(table["bytes"][s]) for s in ranked),
        returns=len(numbers),
        cost_ns=sum(causes.in_all_ns[n] for n in numbers if not _is_within(causes, n, numbers)),
    )


def _is_within(causes: Causes, number: int, numbers: set[int]) -> bool:
    """Say whether a step is needed for another of these only, and so counts with that one."""
    if causes.story.program is None:
        return False
    above = causes.needed_for[number]
    while above not in numbers and above != NONE:
        above = causes.needed_for[above]
    return above != NONE


def with_more(
    story: Story, work: Workload, heuristic: Heuristic, worth: Sequence[Worth]
) -> list[Larger]:
    """Run again with room for the first of a list more, the first two, four, ... and all."""
    budget = story.result.budget_bytes
    if budget is None:
        return []
    counts = [2**k for k in range(len(worth).bit_length()) if 2**k < len(worth)]
    found = []
    for count in [*counts, *[len(worth)] * bool(worth)]:
        kept = tuple({s for w in worth[:count] for s in w.storages})
        larger = budget + sum(int(story.storages["bytes"][s]) for s in kept)
        again = _Again(work, heuristic, larger, options_of(story.result))
        found.append(Larger(count, larger, *again.run(()), *again.run(kept)))
    return found


@dataclass(frozen=True)
class _Again:
    """A run to be done again."""

    work: Workload
    heuristic: Heuristic
    budget_bytes: int
    options: Options

    def run(self, kept: tuple[int, ...]) -> tuple[str, float | None, int]:
        """Run with storages that may not be evicted; give status, slowdown, rematerializations."""
        work = self.work
        settings = settings_for(work, self.heuristic, self.budget_bytes, self.options)
        chooser = chooser_for(work, self.heuristic, self.options)
        if kept:
            keeping = _Keeping(chooser, kept)
            chooser = Chooser(compiled.choose_in_python(), keeping, place=chooser.place)
        run = Run(work.program, settings)
        try:
            status = STATUSES[run.finish(chooser)]
        except NoRoomError:
            status = STATUSES[OOM]
        ran = columns_of_run(run)
        run.close()
        times = (ran["model_ns"], ran["remat_ns"], ran["stall_ns"])
        return status, slowdown(*times) if status == "ok" else None, ran["rematerializations"]


class _Keeping:
    """Chooses as a heuristic does, but never some storages while there are others.

    They get a lock of their own when a choice finds them in the pool, and so leave it for good.
    """

    def __init__(self, chooser: Chooser, kept: tuple[int, ...]) -> None:
        self.chooser, self.kept = chooser, kept

    def __call__(self, program: Program, state: State) -> tuple[int, float]:
        """Make one choice."""
        run = state.run[0]
        for s in self.kept:
            row = state.storages[s]
            if row.pool_slot >= 0 and run.pool_count > 1:
                state.holds[s].locks += 1
                state.pool[row.pool_slot] = HOLE
                row.pool_slot = -1
                run.pool_count -= 1
        return choose_as(self.chooser, program, state)
