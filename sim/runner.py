"""Drives the engine through one run: buffers, choices made in Python, failures of heuristics.

It turns codes of `engine.run` into actions and knows neither traces nor tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from . import compiled
from .compiled import Addressed
from .engine import CHOOSE, EMPTY_BUFFERS, NOT_A_NUMBER
from .errors import HeuristicError
from .opcodes import BANISH
from .program import Program, base_compute_ns, has_irreplaceable
from .randomness import seed_generator
from .state import NO_LIMIT, State, allocate, reset

if TYPE_CHECKING:
    from numpy.typing import NDArray

PythonChoose = Callable[[Program, State], tuple[int, float]]


@dataclass(frozen=True)
class Settings:
    """What a run is asked for, in the engine's terms."""

    budget_bytes: int | None = None
    policy: int = BANISH
    remat_limit_ns: int | None = None
    needs: int = 0
    upkeep: int = 0
    seed: int = 0
    in_place: bool = False
    logs_events: bool = False
    pause_at_bytes: int | None = None


@dataclass(frozen=True)
class Chooser:
    """How victims are found: a compiled `choose`, or Python where that one asks.

    ``explain`` makes the same choice in Python after the compiled one has failed, and so raises
    an error that names the user's line.
    """

    choice: Addressed
    in_python: PythonChoose | None = None
    explain: PythonChoose | None = None


_spare: WeakKeyDictionary[Program, State] = WeakKeyDictionary()


def _borrow(program: Program, logs_events: bool) -> State:
    """Get a State: one that an earlier run of the Program has left, or a new one."""
    state = None if logs_events else _spare.pop(program, None)
    if state is None:
        return allocate(program, logs_events)
    reset(program, state)
    return state


class Run:
    """One run of a Program.

    Attributes
    ----------
    state : State
        As the engine left it.
    code : int
        How the engine answered last.
    """

    def __init__(self, program: Program, settings: Settings) -> None:
        self.program = program
        self.state = _borrow(program, settings.logs_events)
        self._facts = self.state.run.view(np.ndarray)[0]
        self.code = EMPTY_BUFFERS
        self._chunks: list[NDArray[Any]] = []
        self._sha = hashlib.sha256()
        self._is_first = True
        self._set_up(settings)

    def _set_up(self, settings: Settings) -> None:
        facts, memory = self._facts, self.state.memory.view(np.ndarray)
        facts["policy"] = settings.policy
        facts["remat_limit_ns"] = _or_no_limit(settings.remat_limit_ns)
        facts["needs"], facts["upkeep"] = settings.needs, settings.upkeep
        facts["refresh"] = compiled.refresh().address if settings.needs else 0
        facts["in_place"], facts["logs_events"] = settings.in_place, settings.logs_events
        facts["tracks_waiting"] = settings.policy == BANISH or has_irreplaceable(self.program)
        facts["pause_at_bytes"] = _or_no_limit(settings.pause_at_bytes)
        memory["budget_bytes"] = _or_no_limit(settings.budget_bytes)
        seed_generator(self.state, settings.seed)

    def close(self) -> None:
        """Hand the State on to the next run of the Program; it must not be read any more."""
        _spare[self.program] = self.state

    def finish(self, chooser: Chooser) -> int:
        """Run to the end, or to a reason that Python cannot help with; give the engine's code.

        Raises
        ------
        HeuristicError
            If the heuristic fails or gives no number.
        """
        engine = compiled.run()
        while True:
            try:
                self.code = engine(self.program, self.state, chooser.choice.address)
            except Exception:
                if chooser.explain is not None:
                    chooser.explain(self.program, self.state)
                raise
            self._empty_buffers()
            if self.code == NOT_A_NUMBER:
                assert chooser.explain is not None
                chooser.explain(self.program, self.state)
                raise HeuristicError("a score was not a number when compiled, but is one in Python")
            if self.code == CHOOSE:
                assert chooser.in_python is not None
                victim, score = chooser.in_python(self.program, self.state)
                self.state.victims[0] = victim
                self._facts["victims"], self._facts["score"] = 1, score
            elif self.code != EMPTY_BUFFERS:
                return self.code

    def _empty_buffers(self) -> None:
        count = int(self._facts["recorded"])
        if count:
            text = np.empty(12 * count, np.uint8)
            end = compiled.render()(self.state.recorded, count, text)
            self._sha.update(text[int(self._is_first) : end].tobytes())
            self._is_first = False
            self._facts["recorded"] = 0
        count = int(self._facts["events"])
        if count:
            self._chunks.append(np.array(self.state.events[:count]))
            self._facts["events"] = 0

    @property
    def evict_sha(self) -> str:
        """First 16 hex digits of the digest of the evictions so far."""
        return self._sha.hexdigest()[:16]

    def fact(self, name: str) -> int:
        """Read one of the run's accounts."""
        return int(self._facts[name])

    def events(self) -> NDArray[Any]:
        """Give the rows of the event log so far."""
        if not self._chunks:
            return np.array(self.state.events[:0])
        return np.concatenate(self._chunks)


def _or_no_limit(value: int | None) -> int:
    return NO_LIMIT if value is None else min(value, NO_LIMIT)


def remat_limit_ns(program: Program, slowdown_limit: float | None) -> int | None:
    """Give the most rematerialization that a slowdown limit allows, ns."""
    if slowdown_limit is None:
        return None
    limit = (slowdown_limit - 1.0) * base_compute_ns(program)
    return None if limit >= NO_LIMIT else int(limit)
