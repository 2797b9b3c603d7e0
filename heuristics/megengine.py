"""The formula that MegEngine runs in production, with its parameters."""

from __future__ import annotations

from collections.abc import Callable

from ..state import State
from .parameters import Number
from .registry import family
from .terms import (
    class_cost,
    free_neighbor_bytes,
    own_cost,
    ratio,
    remat_count,
    size,
    staleness,
)

NS_PER_MS = 1e6
MEBIBYTE = 1048576.0
POWER = Number(0, 8)  # of larger ones, products are no float64


@family(
    "h_MegEngine",
    allowed={
        "cost_power": POWER,
        "size_power": POWER,
        "time_power": POWER,
        "remat_penalty": Number(0, 1000, is_open=True),
    },
    needs=("classes",),
    reference="MegEngine's tensor eviction (after DTE)",
)
def megengine(
    cost_power: float = 1.0,
    size_power: float = 1.0,
    time_power: float = 1.0,
    remat_penalty: float = 1.5,
) -> Callable[[State, int], float]:
    """(c + ẽ* + 0.001)^p_c rho^(rematerializations) / (((m + free) / 1 MiB)^p_m (s + 0.001)^p_t).

    Times in milliseconds; ``free`` are the free bytes beside the storage, 0 without addresses. The
    parameters are p_c, p_m, p_t and rho.
    """

    def score(state: State, s: int) -> float:
        cost = (own_cost(state, s) + class_cost(state, s)) / NS_PER_MS + 1e-3
        penalty = remat_penalty ** remat_count(state, s)
        mebibytes = (size(state, s) + free_neighbor_bytes(state, s)) / MEBIBYTE
        stale = staleness(state, s) / NS_PER_MS + 1e-3
        return ratio(cost**cost_power * penalty, mebibytes**size_power * stale**time_power)

    return score
