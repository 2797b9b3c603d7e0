"""Random traces from a seed: small, and full of everything that a trace may legally do.

They resemble no model. Property tests replay them; what is rare in real logs is frequent here.
"""

from __future__ import annotations

import random

from ..opcodes import PHASES, TAGS
from .builder import TraceBuilder
from .trace import Trace

SIZES = (0, 0, 1, 2, 3, 4, 8, 8, 16, 16, 64)
TIMES_NS = (0, 1, 1, 2, 3, 5, 10, 20)


def random_dag(seed: int, n_calls: int = 60, *, is_plain: bool = False) -> Trace:
    """Make a random trace.

    Parameters
    ----------
    seed : int
    n_calls : int, optional
    is_plain : bool, optional
        Whether to leave out what a DTR log cannot say.

    Returns
    -------
    Trace
    """
    return _Author(seed, is_plain).write(n_calls)


class _Author:
    """Writes one trace, an event at a time."""

    def __init__(self, seed: int, is_plain: bool) -> None:
        self._random = random.Random(seed)
        self._is_plain = is_plain
        rebinding = "listed" if is_plain else self._random.choice(("listed", "storage"))
        self._builder = TraceBuilder(f"random:{seed}", rebinding=rebinding)
        self._live: list[str] = []
        self._n_names = self._n_calls = 0

    def write(self, n_calls: int) -> Trace:
        """Write a trace of so many calls."""
        for _ in range(self._random.randint(1, 4)):
            self._constant()
        events = [self._call] * 10 + [self._mutate] * 2 + [self._copy, self._copy_from]
        events += [self._release] * 9 + [self._constant, self._builder.backward]
        while self._n_calls < n_calls:
            self._random.choice(events if self._live else [self._constant])()
        return self._builder.build()

    def _name(self) -> str:
        """Give a new name, and take it for live."""
        self._n_names += 1
        self._live.append(f"x{self._n_names}")
        return self._live[-1]

    def _pick(self) -> str:
        """Give a live name, most often a recent one."""
        recent = self._live[-5:]
        return self._random.choice(recent if self._random.random() < 0.7 else self._live)

    def _constant(self) -> None:
        self._builder.constant(self._name(), self._random.choice(SIZES))

    def _call(self) -> None:
        args = [self._pick() for _ in range(self._random.choice((0, 1, 1, 2, 2, 3)))]
        results = []
        for position in range(self._random.choice((1, 1, 1, 2, 3))):
            alias = -1
            if args and self._random.random() < 0.25:
                alias = self._random.randrange(len(args))
            elif position and not self._is_plain and self._random.random() < 0.25:
                alias = -self._random.randrange(position) - 2
            results.append((self._name(), self._random.choice(SIZES), alias))
        positions = range(len(args))
        if self._is_plain or self._random.random() < 0.9:
            positions = range(0)
        self._add("call", args, results, self._some(positions))

    def _mutate(self) -> None:
        args = [self._pick() for _ in range(self._random.randint(1, 3))]
        self._add("mutate", args, [], self._some(range(len(args))) or [0])

    def _some(self, positions: range) -> list[int]:
        """Pick some positions, in any order."""
        return self._random.sample(positions, self._random.randint(0, len(positions)))

    def _add(
        self,
        operator: str,
        args: list[str],
        results: list[tuple[str, int, int]],
        mutates: list[int],
    ) -> None:
        """Make a call, at times with what only some sources know."""
        known = self._random.random() < 0.3
        self._n_calls += 1
        self._builder.call(
            f"{operator}{len(args)}",
            args,
            results,
            self._random.choice(TIMES_NS),
            mutates=mutates,
            workspace_bytes=self._random.choice(SIZES) if known else 0,
            phase=self._random.randrange(len(PHASES)) if known else 0,
            module=self._random.choice(("", "a", "a.b")) if known else "",
            forward=self._random.randrange(self._n_calls) - 1 if known else -1,
            tags=self._random.randrange(2 ** len(TAGS)) if known else 0,
        )

    def _copy(self) -> None:
        source = self._pick()
        self._builder.copy(self._name(), source)

    def _copy_from(self) -> None:
        self._builder.copy_from(self._pick(), self._pick())

    def _release(self) -> None:
        name = self._pick()
        self._live.remove(name)
        self._builder.release(name)
