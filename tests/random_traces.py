"""Random traces from a seed, small and full of what is rare: for the property tests.

Views of views and of results, repeated operands, calls without cost, empty storages, names
bound anew, mutations, constants in the middle, outputs that had to go. They resemble no model.
"""

from __future__ import annotations

import dataclasses
import random

from rematsim.opcodes import TAG_COLLECTIVE, TAG_DATA_DEPENDENT, TAG_RANDOM
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace

SIZES = (0, 1, 2, 3, 5, 8, 8, 13, 16, 16, 32)
TIMES = (0, 1, 1, 2, 3, 5, 8, 13)


class Author:
    """Writes one trace, an event at a time."""

    def __init__(self, seed: int, rebinding: str, tags: bool, returns: bool) -> None:
        self.random = random.Random(seed)
        self.builder = TraceBuilder(f"random-{seed}", rebinding=rebinding)
        self.tags, self.returns = tags, returns
        self.live: list[str] = []
        self.count = 0

    def name(self) -> str:
        """Give a new name."""
        self.count += 1
        return f"x{self.count}"

    def pick(self) -> str:
        """Give a live name, a recent one more often."""
        recent = self.live[-6:]
        return self.random.choice(recent if self.random.random() < 0.6 else self.live)

    def constant(self) -> None:
        """Add a constant."""
        name = self.name()
        self.builder.constant(name, self.random.choice(SIZES))
        self.live.append(name)

    def call(self) -> None:
        """Add a call with one to three results, views among them."""
        args = [self.pick() for _ in range(self.random.choice((0, 1, 1, 2, 2, 2, 3, 4)))]
        results = []
        for k in range(self.random.choice((1, 1, 1, 2, 3))):
            alias = -1
            if args and self.random.random() < 0.2:
                alias = self.random.randrange(len(args))
            elif k and self.random.random() < 0.2:
                alias = -(self.random.randrange(k) + 2)
            results.append((self.name(), self.random.choice(SIZES) if alias == -1 else 0, alias))
        workspace = self.random.choice(SIZES) if self.random.random() < 0.1 else 0
        tags = 0
        if self.tags and self.random.random() < 0.15:
            tags = self.random.choice((TAG_RANDOM, TAG_COLLECTIVE, TAG_DATA_DEPENDENT))
        time = self.random.choice(TIMES)
        self.builder.call("op", args, results, time, workspace_bytes=workspace, tags=tags)
        self.live += [name for name, _, _ in results]

    def mutate(self) -> None:
        """Add a call that mutates some of its operands; it may have a result as well."""
        args = [self.pick() for _ in range(self.random.choice((1, 2, 2, 3)))]
        mutated = self.random.sample(range(len(args)), self.random.choice((1, 1, len(args))))
        tags = TAG_COLLECTIVE if self.tags and self.random.random() < 0.1 else 0
        results = []
        if self.returns and self.random.random() < 0.5:
            results.append((self.name(), self.random.choice(SIZES), -1))
        self.builder.call(
            "op_", args, results, self.random.choice(TIMES), mutates=sorted(mutated), tags=tags
        )
        self.live += [name for name, _, _ in results]

    def copy(self) -> None:
        """Give a tensor another name, new or old."""
        if len(self.live) > 1 and self.random.random() < 0.4:
            target, source = self.random.sample(self.live, 2)
            self.builder.copy_from(target, source)
        else:
            name = self.name()
            self.builder.copy(name, self.pick())
            self.live.append(name)

    def release(self) -> None:
        """Drop a name."""
        if len(self.live) > 1:
            name = self.pick()
            self.live.remove(name)
            self.builder.release(name)


def random_trace(
    seed: int,
    events: int = 60,
    mutations: bool = True,
    rebinding: str = "listed",
    tags: bool = False,
    returns: bool = False,
    cut: int | None = None,
) -> Trace:
    """Make the random trace of a seed.

    Parameters
    ----------
    seed : int
        The same seed gives the same trace.
    events : int
        Events between the first constants and the last releases.
    cut : int, optional
        End after so many events, the last releases left out: what has happened is the same.
    mutations, tags : bool
        Whether calls mutate operands, and whether some cannot be repeated.
    returns : bool
        Whether some of the calls that mutate operands have a result as well.
    rebinding : str
        As in ``Trace``.
    """
    author = Author(seed, rebinding, tags, returns)
    for _ in range(author.random.randint(1, 4)):
        author.constant()
    steps = [author.call] * 10 + [author.release] * 7 + [author.copy] * 2 + [author.constant]
    steps += [author.mutate] * 2 * mutations
    for position in range(events if cut is None else cut):
        if position == events // 2:
            author.builder.backward()
        author.random.choice(steps)()
    if cut is None:
        for name in author.random.sample(author.live, len(author.live) * 2 // 3):
            author.builder.release(name)
    return author.builder.build()


def scaled(trace: Trace, factor: int) -> Trace:
    """The same trace with all sizes multiplied."""
    names = ("result_bytes", "constant_bytes", "call_workspace_bytes")
    return dataclasses.replace(trace, **{name: getattr(trace, name) * factor for name in names})
