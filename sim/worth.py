"""What a little more memory would buy: the storages whose evictions cost most, and the proof.

The measure looks at the run as it was; whether it holds, replays with a larger budget tell, as one
storage more in memory changes every later choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .causes import Causes
from .heuristics.registry import Heuristic
from .opcodes import STATUSES
from .pool import HOLE
from .result import slowdown
from .runner import Chooser, Run
from .scores import choose_as, options_of
from .simulation import Options, asking, chooser_for, settings_for
from .story import NONE, Story
from .workload import Workload

if TYPE_CHECKING:
    from .program import Program
    from .state import State


@dataclass(frozen=True)
class Worth:
    """What it cost that one storage was evicted for lack of memory.

    Attributes
    ----------
    storage : int
    name, module, operator : str
    bytes : int
    evictions : int
        How often it was evicted, and brought back later.
    cost_ns : int
        What bringing it back took: its own call, and all that had to be computed first, and for it
        only (`causes.Causes.in_all_ns`). Storages share such costs: they are not to be added.
    """

    storage: int
    name: str
    module: str
    operator: str
    bytes: int
    evictions: int
    cost_ns: int

    @property
    def ns_per_byte(self) -> float:
        """What a byte would save if the storage had stayed, and nothing else had changed."""
        return self.cost_ns / self.bytes


@dataclass(frozen=True)
class Larger:
    """The run with a larger budget.

    Attributes
    ----------
    storages : int
        The first so many of the list are what the budget has room for in addition.
    budget_bytes : int
    status, slowdown, rematerializations
        As columns of a run with that budget, in which the heuristic does what it likes.
    status_keeping, slowdown_keeping, rematerializations_keeping
        The same where it may not evict these storages.
    """

    storages: int
    budget_bytes: int
    status: str
    slowdown: float | None
    rematerializations: int
    status_keeping: str
    slowdown_keeping: float | None
    rematerializations_keeping: int


def worths(story: Story, causes: Causes) -> list[Worth]:
    """Rank storages by what their evictions cost, per byte; the dearest first."""
    found = []
    for storage, returns in causes.returns.items():
        size = int(story.storages["bytes"][storage])
        evicted = [step for step, row in returns if row != NONE]
        if evicted and size:
            texts = (str(story.storages[k][storage]) for k in ("name", "module", "operator"))
            cost = sum(causes.in_all_ns[step] for step in evicted)
            found.append(Worth(storage, *texts, size, len(evicted), cost))
    return sorted(found, key=lambda w: (-w.ns_per_byte, -w.cost_ns, w.storage))


def with_more(
    story: Story, work: Workload, heuristic: Heuristic, worth: Sequence[Worth]
) -> list[Larger]:
    """Run again with room for the first storage more, the first two, four, ... and all of them."""
    budget = story.result.budget_bytes
    if budget is None:
        return []
    counts = [2**k for k in range(len(worth).bit_length()) if 2**k < len(worth)]
    found = []
    for count in [*counts, *[len(worth)] * bool(worth)]:
        larger = budget + sum(w.bytes for w in worth[:count])
        again = _Again(work, heuristic, larger, options_of(story.result))
        kept = tuple(w.storage for w in worth[:count])
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
            chooser = Chooser(asking(), _Keeping(chooser, kept), place=chooser.place)
        run = Run(work.program, settings)
        status = STATUSES[run.finish(chooser)]
        facts = run.facts()
        run.close()
        speed = slowdown(facts["model_ns"], facts["remat_ns"]) if status == "ok" else None
        return status, speed, facts["rematerializations"]


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
