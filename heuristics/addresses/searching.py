"""What the methods share: the best plan so far, what is proven, the time that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...buffers import AddressPlan, Buffers, max_load
from ..static.clock import Clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]


class Search:
    """The best plan so far, and what has been proven.

    Parameters
    ----------
    buffers : Buffers
    capacity : int or None
        A plan that is no higher is good enough; None: none but the lowest is.
    clock : Clock
        What may be taken.
    seed : int
        For what is drawn.

    Attributes
    ----------
    best : AddressPlan or None
    bound : int
        No plan is lower.
    """

    def __init__(
        self, buffers: Buffers, capacity: int | None = None, *, clock: Clock, seed: int = 0
    ) -> None:
        self.buffers, self.capacity, self.clock, self.seed = buffers, capacity, clock, seed
        self.best: AddressPlan | None = None
        self.bound = max_load(buffers)
        self.message = ""

    @property
    def height(self) -> int | None:
        """The height of the best plan."""
        return None if self.best is None else self.best.height

    @property
    def target(self) -> int:
        """The height at which there is nothing left to look for."""
        return max(self.bound, self.capacity or 0)

    @property
    def is_done(self) -> bool:
        """Whether the best plan cannot be better, or need not."""
        return self.height is not None and self.height <= self.target

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to look for, or no time."""
        if self.capacity is not None and self.bound > self.capacity and self.best is not None:
            return True
        return self.is_done or self.clock.is_over

    def offer(self, address: Int64) -> None:
        """Take a plan if it is lower than the best; who made it answers for its rules."""
        plan = AddressPlan(self.buffers, address)
        if self.height is None or plan.height < self.height:
            self.best = plan

    def raise_bound(self, height: int) -> None:
        """Take a proof that no plan is lower."""
        if self.height is not None:
            height = min(height, self.height)
        self.bound = max(self.bound, height)
