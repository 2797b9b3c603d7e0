"""What a little more memory would buy: the storages whose evictions cost most, and the proof.

The measure looks at the run as it was; whether it holds, replays with a larger budget tell, as one
storage more in memory changes every later choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from .budgets import Budget
from .causes import Causes
from .heuristics.registry import Heuristic
from .scores import options_of
from .simulation import replay
from .story import NONE, Story
from .workload import Workload


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
    status : str
    slowdown : float or None
    remat_ns, rematerializations : int
    still_evicted : int
        How many of these storages are evicted and brought back even so.
    """

    storages: int
    budget_bytes: int
    status: str
    slowdown: float | None
    remat_ns: int
    rematerializations: int
    still_evicted: int


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
    options = dataclasses.replace(options_of(story.result), event_log=True)
    counts = [2**k for k in range(len(worth).bit_length()) if 2**k < len(worth)]
    found = []
    for count in [*counts, *[len(worth)] * bool(worth)]:
        chosen = {w.storage for w in worth[:count]}
        larger = budget + sum(w.bytes for w in worth[:count])
        run = replay(work, heuristic, Budget("bytes", larger), options)
        returns = Causes(Story(run)).returns
        back = {s for s in chosen if any(row != NONE for _, row in returns.get(s, ()))}
        found.append(
            Larger(
                storages=count,
                budget_bytes=larger,
                status=run.status,
                slowdown=run.slowdown,
                remat_ns=run.remat_ns,
                rematerializations=run.rematerializations,
                still_evicted=len(back),
            )
        )
    return found
