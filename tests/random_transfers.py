"""Random plans that move data, legal in what they say, on random links, for property tests."""

from __future__ import annotations

import random

from rematsim.plan import COMPUTE, DISCARD, FREE, OFFLOAD, PREFETCH, Action
from rematsim.program import Program


def random_link(seed: int) -> str:
    """Write a random link: slow or fast against the random traces, now and then at a limit."""
    draw = random.Random(seed)
    rates = [draw.choice(["1GB/s", "3GB/s", "100MB/s", "40GB/s", "inf"]) for _ in range(2)]
    latency = draw.choice(["0", "1ns", "7ns", "50ns"])
    duplex = draw.choice(["full", "half"])
    return f"link(d2h={rates[0]},h2d={rates[1]},latency={latency},duplex={duplex})"


class RandomPlan:
    """Makes a random plan: computes in order, frees, moves, and brings back what is read.

    Parameters
    ----------
    program : Program
    seed : int
    moves : float
        How likely something is done to a storage between two calls.
    """

    def __init__(self, program: Program, seed: int, moves: float = 0.5) -> None:
        self.program, self.draw, self.moves = program, random.Random(seed), moves
        roots = program.storages["root"][:-1]
        self.maker = program.tensors["call"][roots].tolist()
        self.views = [
            program.views[a:b].tolist()
            for a, b in zip(
                program.storages["first_tensor"][:-1].tolist(),
                program.storages["first_tensor"][1:].tolist(),
                strict=True,
            )
        ]
        self.made: set[int] = set()
        self.defined: set[int] = set()
        self.here: set[int] = set()
        self.on_host: set[int] = set()
        self.actions: list[Action] = []

    def plan(self) -> list[Action]:
        """Give the actions."""
        for call in range(len(self.program.calls)):
            self._compute(call)
            while self.draw.random() < self.moves:
                self._do_something()
        for t in self.program.outputs.tolist():
            self._bring(t)
        return self.actions

    def _storage(self, t: int) -> int:
        return int(self.program.tensors["storage"][t])

    def _parents(self, call: int) -> list[int]:
        row = self.program.calls[call]
        found: list[int] = self.program.parents[row["first_parent"] : row["end_parent"]].tolist()
        return found

    def _compute(self, call: int) -> None:
        """Compute a call, after all that it reads has been made or brought back."""
        for t in self._parents(call):
            self._bring(t)
        for t in self._parents(call):  # nothing has gone meanwhile
            assert t in self.defined and self._storage(t) in self.here
        self.actions.append((COMPUTE, call))
        self.made.add(call)
        row = self.program.calls[call]
        for t in range(row["first_result"], row["end_result"]):
            if t not in self.defined and self.program.storages["root"][self._storage(t)] == t:
                self.here.add(self._storage(t))
            self.defined.add(t)

    def _bring(self, t: int) -> None:
        s = self._storage(t)
        if t not in self.defined:
            self._compute(int(self.program.tensors["call"][t]))
        if s not in self.here:
            self._do(PREFETCH, s)

    def _do(self, action: int, s: int) -> None:
        self.actions.append((action, s))
        if action == OFFLOAD:
            self.on_host.add(s)
        if action == PREFETCH:
            self.here.add(s)
        if action in (OFFLOAD, FREE):
            self.here.discard(s)
        if action == DISCARD:
            self.on_host.discard(s)
        if s not in self.here | self.on_host:
            self.defined.difference_update(self.views[s])

    def _can_be_lost(self, s: int) -> bool:
        """Say whether a storage can be made again whenever it is wanted."""
        calls = [int(self.program.tensors["call"][t]) for t in self.views[s]]
        is_constant = bool(self.program.storages["is_constant"][s])
        return not is_constant and bool(self.program.calls["is_recomputable"][calls].all())

    def _do_something(self) -> None:
        """Move or drop a random storage that has been made."""
        s = self.draw.choice([s for s, call in enumerate(self.maker) if call in self.made])
        possible: list[int] = []
        if s in self.here and s not in self.on_host:
            possible += [OFFLOAD, OFFLOAD] + [FREE] * self._can_be_lost(s)
        if s in self.here and s in self.on_host:
            possible += [FREE, DISCARD]
        if s not in self.here and s in self.on_host:
            possible += [PREFETCH, PREFETCH] + [DISCARD] * self._can_be_lost(s)
        if possible:
            self._do(self.draw.choice(possible), s)
