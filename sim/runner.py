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
from .engine import CHOOSE, EMPTY_BUFFERS, NOT_A_NUMBER
from .errors import HeuristicError
from .jit import INDEX_RULE, Entry
from .memory import BEGIN, REQUESTS
from .opcodes import BANISH, IDLE_REMATS_PER_CALL
from .program import Program
from .randomness import seeded
from .space import LOW
from .state import FACT, MAX_CLOCK, NO_LIMIT, State, allocate
from .traffic import NO_TRANSFER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .links import Link

    Durations = tuple[NDArray[np.int64], NDArray[np.int64]]

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
    memory: str = "counter"  # or a model with addresses
    memory_settings: tuple[int, ...] = ()
    link: Link | None = None  # over which data moves
    transfers: int = 0  # of a plan, at most so many; 0: a heuristic moves data
    prefetches: bool = False  # ahead of what the trace uses next
    sides: NDArray[np.uint8] | None = None  # by call: where in a hole its results go; None: LOW
    drops_intermediates: bool = False


@dataclass(frozen=True)
class Chooser:
    """How victims are found: a compiled `choose`, or Python where that one asks.

    ``explain`` makes the same choice in Python after the compiled one has failed, and so raises
    an error that names the user's line; where it does not, ``place`` names the function.
    """

    choice: Entry
    in_python: PythonChoose | None = None
    explain: PythonChoose | None = None
    place: str = ""


_spare: WeakKeyDictionary[Program, State] = WeakKeyDictionary()


def _borrow(program: Program, logs_events: bool, has_addresses: bool, moves: bool) -> State:
    """Get a State for a run of no plan: what an earlier one of the Program left, or a new one."""
    state = None if logs_events else _spare.pop(program, None)
    if (
        state is None
        or (has_addresses and not state.has_addresses)
        or (moves and not state.can_move)
    ):
        return allocate(program, logs_events, has_addresses, 0 if moves else -1)
    state.put_back()
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
        self.has_addresses = settings.memory != "counter"
        self.has_transfers = settings.link is not None
        self.is_online = settings.transfers == 0
        kept = (program, settings.logs_events, self.has_addresses)
        if self.is_online:
            self.state = _borrow(*kept, self.has_transfers)
        else:
            self.state = allocate(*kept, settings.transfers)
        self.code = EMPTY_BUFFERS
        self._chunks: list[NDArray[Any]] = []
        self._sha = hashlib.sha256()
        self._is_first = True
        self._set_up(settings)

    def _set_up(self, settings: Settings) -> None:
        self.state.asked[:] = (  # ASKED_FIELDS
            _or_no_limit(settings.remat_limit_ns),
            IDLE_REMATS_PER_CALL * (int(self.program.calls["origin"].max(initial=-1)) + 1),
            settings.policy,
            settings.needs,
            settings.upkeep,
            compiled.refresh().address if settings.needs else 0,
            settings.policy == BANISH or self.program.has_irreplaceable,
            settings.logs_events,
            settings.in_place,
            settings.drops_intermediates,
            _or_no_limit(settings.pause_at_bytes),
            seeded(settings.seed),
        )
        self.state.room["budget_bytes"] = _or_no_limit(settings.budget_bytes)
        if self.has_addresses:
            self._set_up_addresses(settings)
        if self.has_transfers:
            assert settings.link is not None
            self._set_up_transfers(settings.link)
            self.state.link["is_online"] = self.is_online
            self.state.link["is_planned"] = not self.is_online
            self.state.link["prefetches"] = settings.prefetches

    def _set_up_addresses(self, settings: Settings) -> None:
        """Let memory have addresses, which are handed out as a model and its settings say."""
        self.serve = compiled.serve(settings.memory)
        self.state.room["serve"] = self.serve.address
        self.state.settings[:] = 0
        self.state.settings[: len(settings.memory_settings)] = settings.memory_settings
        self.state.sides[:] = LOW if settings.sides is None else settings.sides
        self.ask_memory(BEGIN)

    def _set_up_transfers(self, link: Link) -> None:
        """Let data move: how long each storage takes, and how much the host holds."""
        state = self.state
        state.link["host_limit_bytes"] = _or_no_limit(link.host_bytes)
        state.link["is_half_duplex"] = link.duplex == "half"
        state.link["now_ns"] = state.next_free[0]
        state.moves["arrival"] = state.moves["departure"] = NO_TRANSFER
        out, back = _durations(self.program, link)
        if self.is_online:  # what could not come back does not go
            out = np.where(back > MAX_CLOCK, NO_LIMIT, out)
        state.moves["to_host_ns"], state.moves["from_host_ns"] = out, back

    def ask_memory(self, request: int, subject: int = 0) -> int:
        """Ask the memory model, one with addresses, for something (`serving.py`)."""
        return int(self.serve.function(self.program, self.state, REQUESTS * subject + request))

    def close(self) -> None:
        """Hand the State on to the next run of the Program; it must not be read any more."""
        _spare[self.program] = self.state

    def finish(self, chooser: Chooser, engine: Entry | None = None) -> int:
        """Run to the end, or to a reason that Python cannot help with; give the engine's code.

        Parameters
        ----------
        chooser : Chooser
        engine : Entry, optional
            What runs the Program, if it is not `engine.run`.

        Raises
        ------
        HeuristicError
            If the heuristic fails or gives no number.
        """
        run = (engine or compiled.run()).function
        while True:
            try:
                self.code = run(self.program, self.state, chooser.choice.address)
            except HeuristicError as error:
                if chooser.explain is not None:
                    chooser.explain(self.program, self.state)
                raise HeuristicError(f"{chooser.place}: {error}") from None
            self._empty_buffers()
            if self.code == NOT_A_NUMBER:
                assert chooser.explain is not None
                chooser.explain(self.program, self.state)
                raise HeuristicError(
                    f"{chooser.place}: a score is no number when compiled, and one in Python; "
                    + INDEX_RULE
                )
            if self.code == CHOOSE:
                assert chooser.in_python is not None
                victim, score = chooser.in_python(self.program, self.state)
                self.state.victims[0] = victim
                here = self.state.run[0]
                here.victims, here.score = max(1, here.victims), score  # it may have named more
                here.search_steps += here.pool_count
            elif self.code != EMPTY_BUFFERS:
                return self.code

    def _empty_buffers(self) -> None:
        facts = self.state.facts
        count = int(facts[FACT["recorded"]])
        if count:
            end = compiled.render().function(self.program, self.state, 0)
            self._sha.update(self.state.text[int(self._is_first) : end].data)
            self._is_first = False
            facts[FACT["recorded"]] = 0
        count = int(facts[FACT["events"]])
        if count:
            self._chunks.append(np.array(self.state.events[:count]))
            facts[FACT["events"]] = 0

    @property
    def evict_sha(self) -> str:
        """First 16 hex digits of the digest of the evictions so far."""
        return self._sha.hexdigest()[:16]

    def fact(self, name: str) -> int:
        """Read one of the run's accounts."""
        return int(self.state.facts[FACT[name]])

    def facts(self) -> dict[str, int]:
        """Read all of them at once."""
        return dict(zip(FACT, self.state.facts.tolist(), strict=True))

    def events(self) -> NDArray[Any]:
        """Give the rows of the event log so far."""
        if not self._chunks:
            return np.array(self.state.events[:0])
        return np.concatenate(self._chunks)


MANY_LINKS = 16
_known_durations: WeakKeyDictionary[Program, dict[Link, Durations]] = WeakKeyDictionary()


def _durations(program: Program, link: Link) -> Durations:
    """Give how long each storage takes to the host and back, ns; the last answers are kept.

    Working them out takes longer than a short run.
    """
    known = _known_durations.setdefault(program, {})
    if link not in known:
        if len(known) == MANY_LINKS:
            known.clear()
        sizes, place = np.unique(program.storages["size_bytes"][:-1], return_inverse=True)
        out, back = (
            np.array([_or_no_limit(way(size)) for size in sizes.tolist()], np.int64)[place]
            for way in (link.to_host_ns, link.from_host_ns)
        )
        known[link] = out, back
    return known[link]


def _or_no_limit(value: int | None) -> int:
    return NO_LIMIT if value is None else min(value, NO_LIMIT)


def remat_limit_ns(program: Program, slowdown_limit: float | None) -> int:
    """Give the most rematerialization that a slowdown limit, and the clock's range, allow, ns."""
    most = MAX_CLOCK - program.base_compute_ns
    if slowdown_limit is None:
        return most
    return int(min((slowdown_limit - 1.0) * program.base_compute_ns, most))
