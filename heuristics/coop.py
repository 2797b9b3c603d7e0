"""Coop: eviction that knows addresses (Zhang et al., "Coop: Memory is not a Commodity").

A window of neighbors is evicted, cheap results lie apart from expensive ones, and updates are done
in place (that is the lowering, ``mutation="inplace"``). Here is the score; the window is in
``sim/windows.py``, the placement in ``sim/partition.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..jit import inlineable
from ..partition import BY_CLASS, PARTITIONS
from ..state import State
from .parameters import OneOf, Truth
from .registry import family
from .terms import call_cost, own_cost, ratio, size, staleness


def _traits(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "window" if values["window"] else "score",
        "partition": values["partition"],
        "drops_intermediates": values["drop"],
    }


@inlineable
def _in_window(state: State, s: int) -> float:
    return ratio(own_cost(state, s) + call_cost(state, s), staleness(state, s))


@inlineable
def _alone(state: State, s: int) -> float:
    return ratio(_in_window(state, s), size(state, s))


@family(
    "Coop",
    needs=("classes", "call"),
    reference="Zhang et al., NeurIPS 2023, and its code in OneFlow",
    allowed={"window": Truth(), "partition": OneOf(PARTITIONS), "drop": Truth()},
    traits=_traits,
)
def coop(
    window: bool = True, partition: str = BY_CLASS, drop: bool = False
) -> Callable[[State, int], float]:
    """(c + ẽ of its call) / s, summed over neighbors by address: the cheapest window goes.

    ẽ of its call: the classes of the evicted among what its call reads and makes. With
    ``window=false`` one storage goes at a time, the score divided by m; with ``drop=true`` what is
    recomputed only to recompute something else goes at once.
    """
    return _in_window if window else _alone
