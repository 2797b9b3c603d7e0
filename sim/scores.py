"""Why a storage was evicted: all that could have been, with the terms of their scores.

The run is done once more, and stops in Python at each choice; those that are asked for are looked
at before they are made. What is read then is what the score read: terms are caught as the score
calls them, so that any formula can be told, a user's own too.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from . import compiled
from .engine import NO_WINDOW
from .errors import InputError
from .heuristics import terms
from .heuristics.registry import Heuristic
from .opcodes import EVICT, OFFLOAD
from .pool import HOLE
from .randomness import draw_below
from .runner import Chooser, Run
from .simulation import Options, chooser_for, settings_for
from .workload import Workload

if TYPE_CHECKING:
    from .program import Program
    from .result import RunResult
    from .state import State

# What a score reads of a storage; `ratio` is no quantity of one.
TERMS = {
    function.__code__: name
    for name, function in vars(terms).items()
    if isfunction(function) and function.__module__ == terms.__name__ and name != "ratio"
}
# The same numbers in Python, whether kernels are compiled or not.
draw: Any = getattr(draw_below, "function", draw_below)


FORCED = (EVICT, OFFLOAD)  # what a heuristic has chosen


@dataclass(frozen=True)
class Candidate:
    """A storage that could have been evicted.

    Attributes
    ----------
    storage, bytes : int
    score : float or None
        The lowest goes; None where the choice is random.
    terms : dict of str to float
        What the score was computed from, by the names of `rematsim.heuristics.terms`.
    was_considered : bool
        Whether the heuristic looked at it; `sample` and `ignore_small` pass over some.
    """

    storage: int
    bytes: int
    score: float | None
    terms: dict[str, float] = field(default_factory=dict)
    was_considered: bool = True


@dataclass(frozen=True)
class Decision:
    """One eviction for lack of memory, as it was chosen.

    Attributes
    ----------
    row : int
        Of the event log.
    storage : int
        The victim.
    candidates : list of Candidate
        All of the pool, the lowest score first; of equal ones the one that goes first. Of a window
        its storages come first.
    together : tuple of int
        What went in one choice: the victim alone, or a window of neighbors, by address; the score
        in the event log is then the sum of theirs.
    """

    row: int
    storage: int
    candidates: list[Candidate]
    together: tuple[int, ...]


def options_of(result: RunResult) -> Options:
    """Give the options that a run had, as far as its row says."""
    known = {name: getattr(result, name, None) for name in Options.__dataclass_fields__}
    known |= {"seed": result.seed or 0, "slowdown_limit": result.slowdown_limit}
    unsaid = ("count_accesses", "event_log", "live_sets", "cached")
    return Options(**{k: v for k, v in known.items() if k not in unsaid})  # type: ignore[arg-type]


def decisions(
    work: Workload, heuristic: Heuristic, result: RunResult, rows: Collection[int]
) -> dict[int, Decision]:
    """Do a run again and look at some of its evictions.

    Parameters
    ----------
    work : Workload
        What was run.
    heuristic : Heuristic
        What chose.
    result : RunResult
        With the event log.
    rows : collection of int
        Rows of the event log that are evictions for lack of memory.

    Returns
    -------
    dict of int to Decision
        By row.

    Raises
    ------
    InputError
        If the heuristic does not decide as it did in that run.
    """
    assert result.events is not None
    evictions = np.flatnonzero(np.isin(result.events["action"], FORCED)).tolist()
    wanted = {place: row for place, row in enumerate(evictions) if row in set(rows)}
    options = options_of(result)
    settings = settings_for(work, heuristic, result.budget_bytes, options)
    watching = _Watching(heuristic, chooser_for(work, heuristic, options), wanted)
    run = Run(work.program, settings)
    with suppress(NoRoomError):
        run.finish(Chooser(compiled.choose_in_python(), watching, place=watching.chooser.place))
    if run.evict_sha != result.evict_sha:
        raise InputError(
            f"run of {result.method!r}: {heuristic.name!r} does not choose as that run did: "
            "its function, its parameters or rematsim's version have changed"
        )
    return watching.found


class NoRoomError(Exception):
    """There is no window that could be evicted: the run is out of memory."""


def choose_as(chooser: Chooser, program: Program, state: State) -> tuple[int, float]:
    """Make a choice in Python as the engine would have made it; give victim and score.

    Where a window goes, its storages are in ``State.victims``, and their number in ``run.victims``.

    Raises
    ------
    NoRoomError
        If no window could go.
    """
    if chooser.in_python is not None:
        return chooser.in_python(program, state)
    run = state.run[0]
    call = int(program.tensors[state.frames[run.depth - 1].tensor].call)
    count = chooser.choice.function(program, state, call)
    if count == NO_WINDOW:
        raise NoRoomError
    if count < 0:
        assert chooser.explain is not None
        return chooser.explain(program, state)
    run.victims = count
    return int(state.victims[0]), float(run.score)


class _Watching:
    """Makes the choices of a run, and notes what some of them were between."""

    def __init__(self, heuristic: Heuristic, chooser: Chooser, wanted: dict[int, int]) -> None:
        self.heuristic, self.chooser, self.wanted = heuristic, chooser, wanted
        self.count = 0
        self.found: dict[int, Decision] = {}

    def __call__(self, program: Program, state: State) -> tuple[int, float]:
        """Choose as the run would have done."""
        is_looked_at = any(self.count + place in self.wanted for place in range(self.reach))
        candidates = self._candidates(program, state) if is_looked_at else []
        victim, score = choose_as(self.chooser, program, state)
        together = tuple(state.victims[: max(1, int(state.run[0].victims))].tolist())
        if len(together) == 1:
            together = (victim,)
        for place, storage in enumerate(together):
            row = self.wanted.get(self.count + place)
            if row is not None:
                self.found[row] = Decision(row, storage, _first(candidates, together), together)
        self.count += len(together)
        return victim, score

    @property
    def reach(self) -> int:
        """So many evictions one choice may be, at most."""
        return (
            max(self.wanted, default=0) - self.count + 1 if self.heuristic.kind == "window" else 1
        )

    def _candidates(self, program: Program, state: State) -> list[Candidate]:
        """Score the whole pool, the first to go first."""
        pool = [s for s in state.pool[: int(state.run[0].pool_end)].tolist() if s != HOLE]
        sizes = {s: int(state.storages[s].size_bytes) for s in pool}
        if self.heuristic.kind == "random":
            return [Candidate(s, sizes[s], None) for s in pool]
        looked_at = set(_looked_at(self.heuristic, state, pool))
        found = [
            Candidate(s, sizes[s], *self._score(program, state, s), s in looked_at)
            for s in reversed(pool)
        ]
        found.sort(key=lambda c: (not c.was_considered, c.score))
        zeros = [c for c in found if c.score == 0.0 and c.was_considered]
        rest = [c for c in found if c.score != 0.0 or not c.was_considered]
        return zeros[::-1] + rest  # of these the one that came into the pool first goes

    def _score(self, program: Program, state: State, s: int) -> tuple[float, dict[str, float]]:
        """Score one storage, and catch the terms that its score calls."""
        if not state.run[0].upkeep:  # nothing that was walked before still holds
            state.storages[s].ancestors_at = state.storages[s].descendants_at = -1
        compiled.refresh().function(program, state, s)
        with np.errstate(all="ignore"), _Listening(s) as heard:
            score = float(self.heuristic.function(state, s))
        return score, heard.terms


def _first(candidates: list[Candidate], together: tuple[int, ...]) -> list[Candidate]:
    """Put what goes together before all else, in its order; one that goes alone is the first."""
    if len(together) == 1 and candidates and candidates[0].storage == together[0]:
        return candidates
    by_number = {candidate.storage: candidate for candidate in candidates}
    rest = [candidate for candidate in candidates if candidate.storage not in together]
    return [by_number[storage] for storage in together if storage in by_number] + rest


class _Listening:
    """Catches what terms give of a storage, while a score calls them in Python."""

    def __init__(self, storage: int) -> None:
        self.storage = storage
        self.terms: dict[str, float] = {}
        self.depth = 0

    def __enter__(self) -> _Listening:
        """Listen."""
        self.before = sys.getprofile()
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        sys.setprofile(self.before)

    def _hear(self, frame: Any, event: str, value: Any) -> None:
        """Note what a term returns; one that another calls is part of that one."""
        name = TERMS.get(frame.f_code)
        if name is None:
            return
        if event == "call":
            self.depth += 1
        elif event == "return":
            self.depth -= 1
            of = int(frame.f_locals["s"])
            if self.depth == 0:
                self.terms[name if of == self.storage else f"{name}({of})"] = float(value)


def _looked_at(heuristic: Heuristic, state: State, pool: list[int]) -> list[int]:
    """List what a heuristic looks at of a pool: all, but for its shortcuts (`choosing`)."""
    run = state.run[0]
    floor = heuristic.least_size * run.created_bytes / max(int(run.created_storages), 1)
    random = int(run.random)
    found: list[int] = []
    for is_second in (False, True):
        stride = int(float(len(pool)) ** 0.5)
        skip = draw(state, stride) if heuristic.samples else 0
        for s in pool:
            size = state.storages[s].size_bytes
            if heuristic.least_size > 0 and not is_second and (size < floor or size == 0):
                continue
            if skip > 0:
                skip -= 1
                continue
            skip = draw(state, stride) if heuristic.samples else 0
            found.append(s)
        if found:
            break
    run.random = random
    return found
