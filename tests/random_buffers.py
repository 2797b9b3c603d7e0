"""Small random sets of buffers, and the lowest height of any plan by trying all orders."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from rematsim.buffer_files import load_buffers
from rematsim.buffers import Buffers

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "buffers"


def random_buffers(seed: int, count: int, *, time: int = 8, aligns: bool = False) -> Buffers:
    """Make a set whose sizes are small enough to fit exactly now and then."""
    draw = random.Random(seed)
    lower = [draw.randrange(time) for _ in range(count)]
    upper = [at + 1 + draw.randrange(time - at) for at in lower]
    size = [draw.randrange(6) for _ in range(count)]
    units = [draw.choice([1, 2, 3]) if aligns else 1 for _ in range(count)]
    return Buffers.of(lower, upper, size, alignment=units)


def least_height(buffers: Buffers) -> int:
    """Place the buffers in every order, each as low as those placed allow.

    Each lowest plan is one of these: in the order of its addresses, nothing is put higher.
    """
    rows = list(zip(buffers.lower.tolist(), buffers.upper.tolist(), buffers.size.tolist(),
                    buffers.alignment.tolist(), strict=True))  # fmt: skip
    best = 10**9
    for order in itertools.permutations(rows):
        placed: list[tuple[int, int, int, int]] = []
        for lower, upper, size, unit in order:
            at = 0
            tops = [end for a, b, _, end in placed if a < upper and lower < b]
            if tops:
                at = -(-max(tops) // unit) * unit
            placed.append((lower, upper, at, at + size))
        best = min(best, max((end for *_, end in placed), default=0))
    return best


def reference_buffers(name: str) -> Buffers:
    """Give a set of the literature, or skip the test: they are not part of the repository."""
    path = REFERENCE / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"needs ../shared/reference/buffers/{path.name}")
    return load_buffers(path)
