"""Kernels: seeded random numbers from a linear congruential generator, the same compiled or not.

The multiplicative generator of Park and Miller in 64-bit arithmetic; a draw mixes two steps of it.
Good enough to pick storages, not for statistics.
"""

from __future__ import annotations

from .jit import kernel
from .state import State

MODULUS = (1 << 31) - 1
MULTIPLIER = 48271


@kernel
def draw_below(state: State, bound: int) -> int:
    """Draw an integer from 0 to ``bound - 1``, two steps of the generator each."""
    run = state.run[0]
    high = run.random * MULTIPLIER % MODULUS
    low = high * MULTIPLIER % MODULUS
    run.random = low
    return (high << 20 ^ low >> 5) % bound


def seeded(seed: int) -> int:
    """Give the generator's first state for a seed, which may be any integer."""
    value = (seed * 2654435761 + 12345) % (MODULUS - 1) + 1
    for _ in range(4):
        value = value * MULTIPLIER % MODULUS
    return value
