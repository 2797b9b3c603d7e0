"""Traces small enough for a pencil, and one face over both simulators that replay them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import oracle
import pytest
from rematsim.opcodes import ACTIONS, CALL, CONSTANT
from rematsim.simulation import simulate
from rematsim.traces.builder import TraceBuilder
from rematsim.traces.trace import Trace


@dataclass(frozen=True)
class Played:
    """A run: the figures of its row, and its evictions, recomputations and pins in words."""

    row: dict[str, Any]
    story: list[str]
    scores: list[float]

    def __getitem__(self, column: str) -> Any:
        return self.row[column]


Play = Callable[..., Played]


def storage_names(trace: Trace) -> list[str]:
    """Name each storage after its first tensor; one that replaces another gets a prime."""
    names: list[str] = []
    for code, a, _ in trace.instructions.tolist():
        if code == CONSTANT:
            names.append(trace.names[a])
        elif code == CALL:
            results = slice(trace.result_offsets[a], trace.result_offsets[a + 1])
            for name, alias in zip(
                trace.result_names[results].tolist(),
                trace.result_alias[results].tolist(),
                strict=True,
            ):
                if alias == -1:
                    names.append(trace.names[name])
            operands = trace.arg_names[trace.arg_offsets[a] : trace.arg_offsets[a + 1]].tolist()
            for m in trace.mutate_args[trace.mutate_offsets[a] : trace.mutate_offsets[a + 1]]:
                name = trace.names[operands[m]]
                names.append(name + "'" * sum(n.rstrip("'") == name for n in names))
    return names


def play_oracle(trace: Trace, heuristic: str, budget: int | None, **options: Any) -> Played:
    """Replay with the reference simulator."""
    row = oracle.replay(trace, heuristic, budget, **options)
    events = [(e["action"], e["storage"], e["score"]) for e in row["events"]]
    return tell(trace, row, events)


def play_engine(trace: Trace, heuristic: str, budget: int | None, **options: Any) -> Played:
    """Replay with the engine."""
    result = simulate(
        trace,
        heuristic,
        "unlimited" if budget is None else budget,
        event_log=True,
        count_accesses=True,
        **options,
    )
    log: Any = result.events
    codes, storages, scores = (log[name].tolist() for name in ("action", "storage", "score"))
    events = [(ACTIONS[c], s, x) for c, s, x in zip(codes, storages, scores, strict=True)]
    return tell(trace, result.row, events)


def tell(trace: Trace, row: dict[str, Any], events: list[tuple[str, int, float]]) -> Played:
    """Put events into words; plain computations are left out."""
    names = storage_names(trace)
    story = [f"{action} {names[s]}" for action, s, _ in events if action != "compute"]
    scores = [score for _, _, score in events if not math.isnan(score)]
    return Played(row, story, scores)


@pytest.fixture(params=[play_oracle, play_engine], ids=["oracle", "engine"])
def play(request: pytest.FixtureRequest) -> Play:
    """Give each simulator in turn."""
    chosen: Play = request.param
    return chosen


class Pencil:
    """Writes a trace tersely: every storage has 10 bytes unless said."""

    def __init__(self, *constants: str, size: int = 10) -> None:
        self.builder = TraceBuilder("pencil")
        for name in constants:
            self.builder.constant(name, size)

    def call(self, name: str, args: Sequence[str], ns: int, size: int = 10) -> Pencil:
        """Compute a tensor from others."""
        self.builder.call("op", list(args), [(name, size, -1)], ns)
        return self

    def view(self, name: str, of: str, ns: int) -> Pencil:
        """Look at a tensor another way."""
        self.builder.call("view", [of], [(name, 0, 0)], ns)
        return self

    def pair(self, names: Sequence[str], args: Sequence[str], ns: int) -> Pencil:
        """Compute several tensors at once."""
        self.builder.call("op", list(args), [(name, 10, -1) for name in names], ns)
        return self

    def mutate(self, args: Sequence[str], positions: Sequence[int], ns: int) -> Pencil:
        """Write into operands."""
        self.builder.call("op_", list(args), [], ns, mutates=list(positions))
        return self

    def release(self, *names: str) -> Pencil:
        """Drop names."""
        for name in names:
            self.builder.release(name)
        return self

    def copy(self, name: str, of: str) -> Pencil:
        """Give a tensor another name."""
        self.builder.copy(name, of)
        return self

    def trace(self) -> Trace:
        """Build it."""
        return self.builder.build()


@pytest.fixture
def pencil() -> type[Pencil]:
    """Give what writes traces."""
    return Pencil
